/*
 * What the primary has: one row for each of its replicables, with the generation, the
 * checksum of that generation, and what the disk looked like then. The inventory is these
 * rows. Functions that take a transaction are for works inside store_write() or
 * store_read().
 */
#ifndef REPLICABLE_ORIGIN_ROWS_H
#define REPLICABLE_ORIGIN_ROWS_H

#include "base/base.h"
#include "base/vec.h"
#include "replicable/kind_names.h"
#include "replicable/registry.h"
#include "store/store.h"

#define TIMELINE_SIZE 17 /* 16 hex digits */

struct origin_row {
	uint64_t id;
	char *kind, *name, *path; /* owned; path below the kind's directory */
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
	uint64_t size;     /* bytes; 0 for repositories */
	char *checksum;    /* owned; NULL: it cannot be read, see failure; or, of other
			      kinds than repositories, not known yet */
	char *description; /* digest of the description file and of the
			      settings for readers; owned; NULL: neither */
	char *fingerprint; /* fingerprint of that moment, text; owned, may be NULL */
	char *identity;    /* of its directory; owned; NULL: not known, or a blob */
	bool is_settled;   /* an equal fingerprint proves that nothing changed */
	int64_t changed_at;
	enum registry_verification verification;
	int64_t verified_at, verification_due_at;
	int64_t verification_retry_count;
	char claim_token[CLAIM_TOKEN_SIZE];     /* of who verifies it; "": nobody */
	char *failure_class, *failure, *remedy; /* owned, may be NULL */
	enum err_reason failure_reason;
};

typedef VEC(struct origin_row) origin_rows;
#define AUTO_ORIGIN_ROW __attribute__((cleanup(origin_row_clear)))
#define AUTO_ORIGIN_ROWS __attribute__((cleanup(origin_rows_clear)))

void origin_row_clear(struct origin_row *row);

/* One of its owned texts; "" becomes NULL. */
void origin_row_set_text(char **at, const char *text);

/* Class, reason, text and remedy become those of *why; NULL: nothing failed. */
void origin_row_set_failure(struct origin_row *row, const struct err *why);
void origin_rows_clear(origin_rows *rows);

/* 1: found; 0: there is none. The caller clears. */
int origin_row_get(struct store_tx *tx, const char *kind, const char *name,
		   struct origin_row *row, struct err *err);

/* The repository whose directory this was when it was looked at last, whatever its name
 * is now. 1: found; 0: there is none. The caller clears. */
int origin_row_of_identity(struct store_tx *tx, const char *identity,
			   struct origin_row *row, struct err *err);

/* Up to `limit` rows with names above `after` (NULL: from the first), in byte order. */
int origin_rows_list(struct store_tx *tx, const char *kind, const char *after,
		     size_t limit, origin_rows *rows, struct err *err);

/* The same of those that are looked for. */
struct origin_filter {
	const char *kind, *after;
	size_t limit;
	const char *search; /* names that have it in them; NULL: all */
	bool is_failing_only;
};
int origin_rows_find(struct store_tx *tx, const struct origin_filter *filter,
		     origin_rows *rows, struct err *err);

/* Takes rows whose verification is due, and that nobody has, in one transaction: up to
 * `new_limit` of those that were never verified (verified_at is 0), or if there is none
 * up to `known_limit` of the others; those that waited longest first. They have one
 * claim_token, and are the store's node's for ORIGIN_CLAIM_MS, or as long as it renews
 * its claims. The caller clears the rows. */
#define ORIGIN_CLAIM_MS ((int64_t)10 * 60 * 1000)
int origin_rows_claim(struct store *store, const char *kind, size_t new_limit,
		      size_t known_limit, origin_rows *rows, struct err *err);

/* The same of one row, whenever it is due. No row: another has it, or there is none. */
int origin_row_claim(struct store *store, const char *kind, const char *name,
		     origin_rows *rows, struct err *err);

/* In memory, to be written with the result: the claim is over. False: it is not that
 * worker's row (any more), and its result is void. */
bool origin_row_end_claim(struct origin_row *row, const char *token);

/* Gives back those of the rows that still have this claim. */
int origin_claims_end(struct store *store, const char *token, const uint64_t *ids,
		      size_t count, struct err *err);

/* All claims of the store's node last anew from now on; or are over, at its start and
 * its end. */
int origin_claims_renew(struct store *store, struct err *err);
int origin_claims_give_back(struct store *store, struct err *err);

/* When the first row of a kind is due, of those that nobody has, wall ms; INT64_MAX:
 * none. */
struct origin_next {
	int64_t new_at, known_at;
	int64_t at; /* of both; and no later than a claim may end */
};
int origin_next_due(struct store_tx *tx, const char *kind, struct origin_next *next,
		    struct err *err);

/* Verifications that are due later than this become due now: no delay is that long, but a
 * clock may have been wrong and set back (registry_heal_due()). *healed: how many. */
int origin_rows_heal_due(struct store_tx *tx, int64_t now, int64_t latest,
			 int64_t *healed, struct err *err);

/* Puts the row in (generation 1 or more, new); row->kind is not read. ERR_CONFLICT: one
 * is there. */
int origin_row_add(struct store_tx *tx, const char *kind, const struct origin_row *row,
		   struct err *err);

/* Writes all columns of a row, if its generation is still `generation` and its timeline
 * row->timeline; else ERR_CONFLICT. Counters are kept. */
int origin_row_update(struct store_tx *tx, const struct origin_row *row,
		      uint64_t generation, struct err *err);

/* ERR_CONFLICT likewise. */
int origin_row_remove(struct store_tx *tx, const struct origin_row *row, struct err *err);

/* Of all rows: after a restore nobody shall take them for what they were. */
int origin_rows_set_timeline(struct store_tx *tx, const char *timeline, struct err *err);

/* Counted on write. */
struct origin_counts {
	int64_t all, bytes, verification[VERIFICATION_STATES];
};
int origin_count(struct store_tx *tx, const char *kind, struct origin_counts *counts,
		 struct err *err);

/* The kinds that have rows. */
int origin_kinds(struct store_tx *tx, kind_names *kinds, struct err *err);

/* What origin_rows_claim() asks of each kind: kind, now, due by and limit. Here for the
 * test of their plans. */
enum origin_queue { ORIGIN_NEW, ORIGIN_KNOWN, ORIGIN_QUEUES };
extern const char *const origin_queue_sql[ORIGIN_QUEUES];

#endif
