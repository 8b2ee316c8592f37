/*
 * Times of mirrors that a clock far ahead wrote; as registry_heal_due() for their rows.
 * Any thread.
 */
#ifndef MIRROR_HEAL_H
#define MIRROR_HEAL_H

#include "store/store.h"

/* Requests, LFS objects and working trees that are due later than the longest delay from
 * now, and requests that seem to have been made in the future, become due now. *healed:
 * how many. */
int mirror_heal_due(struct store *store, int64_t longest_ms, int64_t *healed,
		    struct err *err);

#endif
