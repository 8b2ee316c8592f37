/*
 * Which rows are due, and whose they are; see replicable/registry.h.
 */
#ifndef REPLICABLE_REGISTRY_CLAIM_H
#define REPLICABLE_REGISTRY_CLAIM_H

#include "replicable/registry_types.h"
#include "store/store.h"

/* Takes up to `limit` due rows and marks them started (BEGUN) in one transaction, with a
 * claim_token that all words about them are to name, and the node of the store. Of
 * those due: never attempted first, but a quarter each is kept for changed ones and for
 * failed ones, as long as there are such; oldest due first in each. With a limit below
 * 4 the quarters are kept over several calls. The caller clears the rows. */
int registry_claim(struct store *store, const char *kind, size_t limit,
		   int64_t timeout_ms, registry_rows *rows, struct err *err);

/* The same for verification (CHECKING): synced rows whose verification is due. */
int registry_claim_verification(struct store *store, const char *kind, size_t limit,
				int64_t timeout_ms, registry_rows *rows, struct err *err);

/* When the next row of a kind is due, wall ms; INT64_MAX: none. Costs the same for any
 * number of rows of this or other kinds. */
int registry_next_due(struct store *store, const char *kind, int64_t *sync_at,
		      int64_t *verification_at, struct err *err);

/* Due times are wall times, so that they outlive the process; but a clock that was wrong
 * and set back leaves some that nobody lives to see. What is due later than any delay
 * that is ever given, this long from now, is due now; what is started, after so long.
 * *healed: how many. */
struct registry_delays {
	int64_t sync_ms, verification_ms; /* the longest */
};
int registry_heal_due(struct store *store, const struct registry_delays *longest,
		      int64_t *healed, struct err *err);

/* At a node's start: what its former life had started is nobody's. What other nodes have
 * is theirs until it is due. */
int registry_reset_started(struct store *store, struct err *err);

/* The primary is there again: what failed with class network, timeout or auth is due at
 * once. How often it failed stays, so that it backs off further if it fails again. */
int registry_retry_unreached(struct store *store, struct err *err);

#endif
