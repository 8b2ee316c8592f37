/*
 * A row as it is stored: read whole, changed in memory, written back whole, with the
 * counters shifted by what changed. All inside one writing transaction, so that nothing
 * comes between. Internal to the registry.
 */
#ifndef REPLICABLE_REGISTRY_ROW_H
#define REPLICABLE_REGISTRY_ROW_H

#include "replicable/registry_types.h"
#include "store/store.h"

/* The column `wishes` remembers more than what users see of it. While a row is started
 * its worker knows the wishes of before: what was asked later must outlive the end of
 * that work. */
#define WISHES_ALL 7u
#define WISH_AGAIN 8u      /* whatever is being brought, it must be looked at again */
#define WISH_MEANWHILE 16u /* something was asked while it was started */
#define WISHES_LATER_SHIFT 5

/* What is counted of a row. */
struct registry_tally {
	int64_t all, held, gone, bytes, bytes_to_come;
	int64_t proved; /* of those that are synced */
	int64_t states[REGISTRY_STATES], verification[VERIFICATION_STATES];
};

struct stored_row {
	struct registry_row row; /* row.wishes: those of now and later ones */
	int64_t asked_at;        /* of the latest change asked for; 0: unknown */
	unsigned wishes;         /* as stored */
	const char *claim_node;  /* of a claim that is being made; borrowed */
	struct registry_tally before;
};

/* By how much the counters of a kind are to change: gathered over many rows, because
 * each counter is a row too. Begins as zeroes. */
struct registry_shift {
	char *kind; /* owned; NULL: nothing yet */
	struct registry_tally tally;
};

#define AUTO_REGISTRY_SHIFT __attribute__((cleanup(registry_shift_clear)))
void registry_shift_clear(struct registry_shift *shift);

/* Writes the counters. In the same work as the rows, as its last act. */
int registry_shift_apply(struct store_tx *tx, struct registry_shift *shift,
			 struct err *err);

#define AUTO_STORED_ROW __attribute__((cleanup(stored_row_clear)))
void stored_row_clear(struct stored_row *stored);

/* What stored_row_read() wants to be selected, in this order. */
#define STORED_ROW_COLUMNS                                                               \
	"id, kind, name, state, verification_state, timeline, generation_wanted,"        \
	" generation, checksum, primary_checksum, retry_count, retry_at, due_at,"        \
	" verification_retry_count, verification_due_at, last_attempt_at,"               \
	" last_success_at, verified_at, behind_since, asked_at, gone, wishes,"           \
	" held_reason, failure_class, failure, remedy, size, failure_reason, proved,"    \
	" claim_token"

/* The present row of a query. */
void stored_row_read(struct query *query, struct stored_row *stored);

/* 1: it is there; 0: not; -1: *err. The caller clears. */
int stored_row_load(struct store_tx *tx, uint64_t id, struct stored_row *stored,
		    struct err *err);

/* Of the functions below each adds to *shift what it does to the counters, and applies
 * first what is in there of another kind. */

/* Writes it back. With the end of the work ends the claim. */
int stored_row_save(struct store_tx *tx, const struct stored_row *stored,
		    struct registry_shift *shift, struct err *err);

/* Writes back a row that was claimed, of which only state (or verification), due time,
 * last_attempt_at, wishes and the claim changed: for very many rows each index counts. */
int stored_row_save_begun(struct store_tx *tx, const struct stored_row *stored,
			  struct registry_shift *shift, struct err *err);

/* Adds a pending row. 1: there is one of that name already. */
int stored_row_add(struct store_tx *tx, const char *kind, const char *name,
		   uint64_t generation_wanted, struct registry_shift *shift,
		   struct err *err);

/* Removes it. */
int stored_row_remove(struct store_tx *tx, const struct stored_row *stored,
		      struct registry_shift *shift, struct err *err);

/* Replaces an owned text; value may be NULL. */
void registry_set_text(char **text, const char *value);

/* What registry_claim.c asks: new, changed, failed, to be verified. The parameters are
 * kind, now and limit. Here for the test of their plans. */
#define REGISTRY_QUEUES 4
extern const char *const registry_queue_sql[REGISTRY_QUEUES];

/* What registry_next_due() asks of each. The parameter is kind. */
extern const char *const registry_next_sql[REGISTRY_QUEUES];

/* Both kinds of wishes together. */
unsigned stored_row_wishes(const struct stored_row *stored);

#endif
