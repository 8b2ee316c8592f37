/*
 * The names of pushes that were passed on and are not over, in the database: so a node
 * that is killed knows of them at its next start. For freshness.c. Any thread.
 */
#ifndef PULL_PASSED_PUSHES_H
#define PULL_PASSED_PUSHES_H

#include "store/store.h"

/* Durable when it returns; there may be a row of that name. */
MUST_CHECK int passed_pushes_add(struct store *store, const char *name, struct err *err);

/* *count is how many `each` was told of. */
int passed_pushes_read(struct store *store, void (*each)(void *arg, const char *name),
		       void *arg, size_t *count, struct err *err);

/* Removes the rows that are not needed; *left is how many are. It is asked inside a
 * store_write(): a name that is added after it was asked for stays. */
int passed_pushes_tidy(struct store *store,
		       bool (*is_needed)(void *arg, const char *name), void *arg,
		       size_t *left, struct err *err);

#endif
