/*
 * A row as it is stored: read whole, changed in memory, written back whole, with the
 * counters adjusted by the changes. All inside one writing transaction, so that nothing
 * happens in between. Internal to the registry.
 */
#ifndef REPLICABLE_REGISTRY_ROW_H
#define REPLICABLE_REGISTRY_ROW_H

#include "replicable/registry_types.h"
#include "store/store.h"

/* The column `wishes` holds more than users see. While a row is started its worker knows
 * only the earlier wishes: later ones must survive the end of that work. What earlier
 * versions stored keeps its bits, so REPLACE lies above the later ones. */
#define WISHES_ALL (7u | REGISTRY_WISH_REPLACE)
#define WISH_AGAIN 8u      /* bring it again, whatever the present work brings */
#define WISH_MEANWHILE 16u /* something was requested while it was started */
#define WISHES_LATER_SHIFT 5

/* The counters that originals have are the first. */
#define ORIGIN_COUNTERS (2 + VERIFICATION_STATES)

void registry_counts_add(struct registry_counts *counts,
			 const struct registry_counts *other, int64_t by);

/* Adds them to those in the database, which stand there by this kind; or reads the first
 * `count` of those. */
int registry_counts_write(struct store_tx *tx, const char *kind,
			  const struct registry_counts *by, struct err *err);
int registry_counts_read(struct store_tx *tx, const char *kind, size_t count,
			 struct registry_counts *counts, struct err *err);

struct stored_row {
	struct registry_row row; /* row.wishes: present and later ones */
	int64_t asked_at;        /* of the latest requested change; 0: unknown */
	unsigned wishes;         /* as stored */
	const char *claim_node;  /* of a claim being made; borrowed */
	struct registry_counts before;
};

/* Pending changes of a kind's counters: gathered over many rows, because each counter is
 * a row, too. Begins as zeroes. */
struct registry_shift {
	char *kind; /* owned; NULL: nothing yet */
	struct registry_counts counts;
};

#define AUTO_REGISTRY_SHIFT __attribute__((cleanup(registry_shift_clear)))
void registry_shift_clear(struct registry_shift *shift);

/* Writes the counters. Call it in the same work as the rows, as the last step. */
int registry_shift_apply(struct store_tx *tx, struct registry_shift *shift,
			 struct err *err);

#define AUTO_STORED_ROW __attribute__((cleanup(stored_row_clear)))
void stored_row_clear(struct stored_row *stored);

/* The columns for stored_row_read(), in this order. */
#define STORED_ROW_COLUMNS                                                               \
	"id, kind, name, state, verification_state, timeline, generation_wanted,"        \
	" generation, checksum, primary_checksum, retry_count, retry_at, due_at,"        \
	" verification_retry_count, verification_due_at, last_attempt_at,"               \
	" last_success_at, verified_at, behind_since, asked_at, gone, wishes,"           \
	" held_reason, failure_class, failure, remedy, size, failure_reason, proved,"    \
	" claim_token, verification_was_due_at"

/* The present row of a query. */
void stored_row_read(struct query *query, void *stored); /* a query_take */

/* 1: found; 0: not found; -1: *err. The caller clears. */
int stored_row_load(struct store_tx *tx, uint64_t id, struct stored_row *stored,
		    struct err *err);

/* Each function below adds its changes of the counters to *shift, after applying those of
 * another kind in it. */

/* Writes it back. If the work has ended, so has the claim. */
int stored_row_save(struct store_tx *tx, const struct stored_row *stored,
		    struct registry_shift *shift, struct err *err);

/* Writes back a claimed row of which only state (or verification), due times,
 * last_attempt_at, wishes and the claim have changed: with very many rows each index
 * matters. */
int stored_row_save_begun(struct store_tx *tx, const struct stored_row *stored,
			  struct registry_shift *shift, struct err *err);

/* Adds a pending row. 1: that name exists already. */
int stored_row_add(struct store_tx *tx, const char *kind, const char *name,
		   uint64_t generation_wanted, struct registry_shift *shift,
		   struct err *err);

/* Removes it. */
int stored_row_remove(struct store_tx *tx, const struct stored_row *stored,
		      struct registry_shift *shift, struct err *err);

/* Replaces an owned text; value may be NULL. */
void registry_set_text(char **text, const char *value);

/* The queries of registry_claim.c: new, changed, failed, to be verified. The parameters
 * are kind, now and limit. Here for the test of their plans. */
#define REGISTRY_QUEUES 4
extern const char *const registry_queue_sql[REGISTRY_QUEUES];

/* The query of registry_next_due() for each. The parameter is kind. */
extern const char *const registry_next_sql[REGISTRY_QUEUES];

/* Whether a proof of a row at work is too old. The parameters are kind and time. */
extern const char registry_aged_at_work_sql[];

/* Both kinds of wishes together. */
unsigned stored_row_wishes(const struct stored_row *stored);

#endif
