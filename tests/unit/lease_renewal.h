/*
 * Renewals when the test wants them, instead of a third of the ttl later: so a lease that
 * is to be kept meanwhile may have a long ttl.
 */
#ifndef UNIT_LEASE_RENEWAL_H
#define UNIT_LEASE_RENEWAL_H

#include "base/clock.h"
#include "base/thread.h"
#include "lease/manager.h"

static inline void make_renewal_due(struct lease_manager *manager)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);

	manager->renew_at = clock_boot_ms();
	pthread_cond_signal(&manager->keeper_wake);
}

#endif
