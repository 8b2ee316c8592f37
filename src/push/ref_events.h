/*
 * Which events a push of a group makes; none where push_events are NULL.
 */
#ifndef PUSH_REF_EVENTS_H
#define PUSH_REF_EVENTS_H

#include "push/push_run.h"

/* After its tasks were moved on: one for each ref that was asked for, and one for each
 * that no destination of the repository waits for any more. `result` NULL: the whole
 * failed. */
void ref_events_add(const struct push_run *run, const struct push_group *group,
		    const struct transfer_result *result);

#endif
