/*
 * Takes a lease away from its holder on an operator's request.
 */
#ifndef REPLICABLE_TAKE_AWAY_H
#define REPLICABLE_TAKE_AWAY_H

#include "base/base.h"
#include "lease/lease.h"

struct take_away {
	const char *key;
	uint64_t fence;    /* that the operator saw */
	const char *actor; /* the requester and the reason, for the log */
	const char *reason;
	const char *repositories; /* the root of the copies */
};

/* Releases it, and raises the fence of the repository that it guards: the displaced
 * holder notices only at its next renewal; until then the repository's own fence keeps it
 * from publishing. 1; 0: it is released, but is not known to guard a repository. Errors
 * as lease_force_release(); ERR_MISSING also for a key that was never granted. */
int lease_take_away(struct lease_manager *leases, const struct take_away *what,
		    struct err *err);

#endif
