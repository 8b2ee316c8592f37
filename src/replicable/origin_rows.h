/*
 * The primary's rows: one for each of its replicables, with the generation, the checksum
 * of that generation, and the fingerprint of the disk then. The inventory is these rows.
 * Functions that take a transaction are for works inside store_write() or store_read().
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
	char *checksum;    /* owned; NULL: it cannot be read, see failure; or, for kinds
			      other than repositories, not known yet */
	char *description; /* digest of the description file and of the
			      settings for readers; owned; NULL: neither */
	char *fingerprint; /* fingerprint at that moment, text; owned, may be NULL */
	char *identity;    /* of its directory; owned; NULL: unknown, or a blob */
	bool is_settled;   /* an equal fingerprint proves that nothing changed */
	int64_t changed_at;
	enum registry_verification verification;
	int64_t verified_at, verification_due_at;
	int64_t verification_retry_count;
	char claim_token[CLAIM_TOKEN_SIZE];     /* of its verifier; "": unclaimed */
	char *failure_class, *failure, *remedy; /* owned, may be NULL */
	enum err_reason failure_reason;
};

typedef VEC(struct origin_row) origin_rows;
#define AUTO_ORIGIN_ROW __attribute__((cleanup(origin_row_clear)))
#define AUTO_ORIGIN_ROWS __attribute__((cleanup(origin_rows_clear)))

void origin_row_clear(struct origin_row *row);

/* Puts its verification off, which said nothing of it: each time for longer. Whoever was
 * last verified more than twice reverify_ms ago is pending: nobody knows any more. Of one
 * that has failed, verification_retry_count stays: who waits sees by it whether it has
 * failed again. */
void origin_row_defer(struct origin_row *row, int64_t least_ms, int64_t reverify_ms);

/* Takes class, reason, text and remedy from *why; NULL: no failure. */
void origin_row_set_failure(struct origin_row *row, const struct err *why);
void origin_rows_clear(origin_rows *rows);

/* 1: found; 0: not found. The caller clears. */
int origin_row_get(struct store_tx *tx, const char *kind, const char *name,
		   struct origin_row *row, struct err *err);

/* The same in a transaction of its own. */
int origin_row_read(struct store *store, const char *kind, const char *name,
		    struct origin_row *row, struct err *err);

/* The repository that had this directory when it was last checked, whatever its name is
 * now. 1: found; 0: not found. The caller clears. */
int origin_row_of_identity(struct store *store, const char *identity,
			   struct origin_row *row, struct err *err);

/* Up to `limit` rows with names above `after` (NULL: from the first), in byte order. */
struct origin_filter {
	const char *kind, *after;
	size_t limit;
	const char *search; /* names that contain it; NULL: all */
	bool is_failing_only;
};
int origin_rows_find(struct store_tx *tx, const struct origin_filter *filter,
		     origin_rows *rows, struct err *err);

/* All of a kind, in a transaction of its own; in place of the rows of before. */
int origin_rows_read_page(struct store *store, const char *kind, const char *after,
			  size_t limit, origin_rows *rows, struct err *err);

/* Claims unclaimed rows whose verification is due, in one transaction: up to `new_limit`
 * of those never verified (verified_at is 0) or, without any, up to `known_limit` of the
 * others; the longest waiting first. They share one claim_token, and belong to the
 * store's node for ORIGIN_CLAIM_MS, or as long as it renews its claims. The caller clears
 * the rows. */
#define ORIGIN_CLAIM_MS ((int64_t)10 * 60 * 1000)
int origin_rows_claim(struct store *store, const char *kind, size_t new_limit,
		      size_t known_limit, origin_rows *rows, struct err *err);

/* The same for one row, due or not. No row: it is claimed by another, or does not
 * exist. */
int origin_row_claim(struct store *store, const char *kind, const char *name,
		     origin_rows *rows, struct err *err);

/* Ends the claim in memory, to be written with the result. False: the row does not belong
 * to that worker (any more), and its result is void. */
bool origin_row_end_claim(struct origin_row *row, const char *token);

/* Gives back those of the rows that still have this claim. */
int origin_claims_end(struct store *store, const char *token, const uint64_t *ids,
		      size_t count, struct err *err);

/* Renews all claims of the store's node from now on; or ends them, at its start and its
 * end. */
int origin_claims_renew(struct store *store, struct err *err);
int origin_claims_give_back(struct store *store, struct err *err);

/* When the first unclaimed row of a kind is due, wall ms; INT64_MAX: never. */
struct origin_next {
	int64_t new_at, known_at;
	int64_t at; /* of both; and no later than the next end of a claim */
};
int origin_next_due(struct store_tx *tx, const char *kind, struct origin_next *next,
		    struct err *err);

/* Makes verifications that are due later than `latest` due now: delays are never that
 * long, but a clock may have been wrong and then set back (registry_heal_due()). *healed:
 * how many. */
int origin_rows_heal_due(struct store_tx *tx, int64_t now, int64_t latest,
			 int64_t *healed, struct err *err);

/* As registry_age_proofs(). */
int origin_rows_age_proofs(struct store *store, const char *kind,
			   const struct proofs_ageing *proofs, int64_t *aged,
			   struct err *err);

/* Where this site was a secondary: what was not proved then as a copy is pending, and due
 * now. */
int origin_rows_doubt_copies_in(struct store_tx *tx, struct err *err);

/* Inserts a new row (generation 1 or more); row->kind is not read. ERR_CONFLICT: it
 * exists already. */
int origin_row_add(struct store_tx *tx, const char *kind, const struct origin_row *row,
		   struct err *err);

/* Writes all columns of a row, if its generation is still `generation` and its timeline
 * row->timeline; else ERR_CONFLICT. Counters are kept. */
int origin_row_update(struct store_tx *tx, const struct origin_row *row,
		      uint64_t generation, struct err *err);

/* The same for a row that may have another timeline than `before`, as it was read. */
int origin_row_replace(struct store_tx *tx, const struct origin_row *before,
		       const struct origin_row *row, struct err *err);

/* ERR_CONFLICT likewise. */
int origin_row_remove(struct store_tx *tx, const struct origin_row *row, struct err *err);

/* Gives each row another timeline, of its own: after a restore none must be mistaken for
 * the former one, nor for another repository under a new name. */
int origin_rows_draw_timelines(struct store_tx *tx, struct err *err);

/* Counted on writing: all, bytes, and verification. */
int origin_count(struct store_tx *tx, const char *kind, struct registry_counts *counts,
		 struct err *err);

/* The kinds with rows. */
int origin_kinds(struct store_tx *tx, kind_names *kinds, struct err *err);

/* The queries of origin_rows_claim() for each kind; parameters: kind, now, due by and
 * limit. Here for the test of their plans. */
enum origin_queue { ORIGIN_NEW, ORIGIN_KNOWN, ORIGIN_QUEUES };
extern const char *const origin_queue_sql[ORIGIN_QUEUES];

#endif
