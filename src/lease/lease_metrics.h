/*
 * What the metrics page tells about leases. Safe from any thread.
 */
#ifndef LEASE_LEASE_METRICS_H
#define LEASE_LEASE_METRICS_H

#include "base/base.h"

/* An acquire that ended: ERR_NONE, or why it failed. */
void lease_count_acquire(enum err_class class, int64_t waited_ms);

void lease_count_held(int by);
void lease_count_lost(void);
void lease_count_takeover(void);

#endif
