/*
 * Due rows and their claims; see replicable/registry.h.
 */
#ifndef REPLICABLE_REGISTRY_CLAIM_H
#define REPLICABLE_REGISTRY_CLAIM_H

#include "replicable/ageing.h"
#include "replicable/registry_types.h"
#include "store/store.h"

/* Takes up to `limit` due rows and marks them started (BEGUN) in one transaction, with a
 * claim_token, required in all later moves of them, and the store's node. Rows never
 * attempted come first, but a quarter each is reserved for changed ones and for failed
 * ones, if there are any; oldest due first in each group. With a limit below 4 the
 * quarters are kept over several calls. The caller clears the rows. */
int registry_claim(struct store *store, const char *kind, size_t limit,
		   int64_t timeout_ms, registry_rows *rows, struct err *err);

/* The same for verification (CHECKING): synced rows whose verification is due. */
int registry_claim_verification(struct store *store, const char *kind, size_t limit,
				int64_t timeout_ms, registry_rows *rows, struct err *err);

/* When the next row of a kind is due, wall ms; INT64_MAX: never. Costs the same for any
 * number of rows of this or other kinds. */
int registry_next_due(struct store *store, const char *kind, int64_t *sync_at,
		      int64_t *verification_at, struct err *err);

/* Due times are wall times, so that they outlive the process; but a clock that was wrong
 * and then set back leaves some far in the future. Rows due later than the longest delay
 * from now become due now, or, if started, after that delay. *healed: how many. */
struct registry_delays {
	int64_t sync_ms, verification_ms; /* the longest */
};
int registry_heal_due(struct store *store, const struct registry_delays *longest,
		      int64_t *healed, struct err *err);

/* What was to be verified again an interval ago, and was not, counts as proved no longer
 * (replicable/ageing.h). *aged: how many of the kind. */
int registry_age_proofs(struct store *store, const char *kind,
			const struct proofs_ageing *proofs, int64_t *aged,
			struct err *err);

/* At a node's start: releases rows that it had started before. Rows of other nodes stay
 * theirs until they are due. A proof that is overdue for its next verification by more
 * than proof_ms counts no longer; 0: it does, as do those of mirrors. */
int registry_reset_started(struct store *store, int64_t proof_ms, struct err *err);

/* The primary is back: rows that failed with class network, timeout or auth, or config at
 * the primary, become due at once. Their retry count stays, so that they back off further
 * if they fail again. */
int registry_retry_unreached(struct store *store, struct err *err);

#endif
