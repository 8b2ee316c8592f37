/*
 * Evidence ages: what was to be verified again an interval ago, and was not, counts as
 * verified no longer. Once a minute the rows are looked at that have become so old since
 * the last look, once an hour all: so a site whose verification is off pays nothing for
 * its many old rows. What ages goes before what is due later, in the order in which it
 * was due.
 */
#ifndef REPLICABLE_AGEING_H
#define REPLICABLE_AGEING_H

#include "store/store.h"

/* Of one who looks, all zero at first. */
struct proofs_ageing {
	int64_t interval_ms;       /* at least a minute */
	int64_t from, before;      /* wall ms: rows due in between are looked at */
	int64_t next_at, whole_at; /* boot ms: the next look, and the next at all rows */
};

/* Whether it is time for a look. */
bool proofs_are_to_age(int64_t reverify_ms, struct proofs_ageing *proofs);
/* It failed: the next one is at all rows. */
void proofs_age_again(struct proofs_ageing *proofs);

/*
 * For the tables that have such rows.
 */

struct ageing {
	const char *kind;
	const struct proofs_ageing *proofs;
	const char *any_sql; /* whether there is any, in the same words as `age` */
	int (*age)(struct store_tx *tx, void *arg, struct err *err); /* a batch */
	int64_t from, end; /* of the batch: rows due in between */
	int64_t aged;      /* by it */
};

#define AGED_IN_ORDER " ORDER BY verification_due_at LIMIT 1 OFFSET 5000"

/* Where the batch ends; the statement ends with AGED_IN_ORDER, and takes kind, from and
 * end. */
int ageing_find_end(struct store_tx *tx, struct ageing *ageing, const char *sql,
		    struct err *err);

/* In batches, so that others can write in between. *aged: how many. */
int proofs_age(struct store *store, struct ageing *ageing, int64_t *aged,
	       struct err *err);

#endif
