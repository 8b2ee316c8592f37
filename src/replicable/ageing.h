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

/* A table that has such rows. */
struct ageing_table {
	const char *counters; /* what the names of its counters begin with */
	bool counts_proved;
	const char *any_sql, *end_sql, *age_sql;
};

/* rows: " FROM TABLE WHERE ..." of kind ?1, due from ?2 to before ?3; undo: what they
 * lose, besides being due in the order in which they were. */
#define AGEING_SQL(table, rows, undo)                                                    \
	.any_sql = "SELECT 1" rows " LIMIT 1",                                           \
	.end_sql = "SELECT verification_due_at" rows                                     \
		   " ORDER BY verification_due_at LIMIT 1 OFFSET 5000",                  \
	.age_sql = "UPDATE " table " SET " undo                                          \
		   ", verification_due_at = verification_due_at - ?4"                    \
		   " WHERE id IN (SELECT id" rows ")"

/* In batches, so that others can write in between. *aged: how many. */
int proofs_age(struct store *store, const struct ageing_table *table, const char *kind,
	       const struct proofs_ageing *proofs, int64_t *aged, struct err *err);

#endif
