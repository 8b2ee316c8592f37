/*
 * The inside of the local backend (local.c), shared with one attempt
 * (local.c), the reading of rows (local.c) and the line of waiters
 * (local.c). All of rows and lines runs inside a store_write(), but row_list and
 * row_load also inside a store_read().
 */
#ifndef LEASE_LOCAL_H
#define LEASE_LOCAL_H

#include <stdatomic.h>

#include "lease/lease_backend.h"
#include "lease/local_files.h"
#include "store/store.h"

struct local {
	struct lease_backend base;
	struct store *store; /* borrowed */
	struct local_files files;
	int64_t start_time;   /* of this process, in ticks since boot; 0: unknown */
	atomic_bool is_named; /* a row may name us for good: its release failed */
};

/* A row of the table lease. */
struct lease_row {
	struct lease_holder holder; /* fence 0: there is no such row */
	char nonce[LEASE_NONCE_SIZE];
	char alive_file[ALIVE_NAME_SIZE];
	int64_t expires_at;
	int64_t ttl;
	bool forced;

	/* Judged by row_judge. */
	bool free; /* may be granted, but for orphans */
	enum lease_predecessor predecessor;
};

/* As store_write(), but never ERR_BUSY: the store's own contention is no answer about a
 * lease. Not inside one. */
int local_write(struct local *local, store_work work, void *arg, struct err *err);

/* The backend's try_acquire. Not inside a store_write(). */
int local_try_acquire(struct lease_backend *backend, struct lease_attempt *attempt,
		      struct err *err);

/* Releases a grant: 1 if it was still in force, else 0. */
int local_give_up(struct store_tx *tx, const struct local *local,
		  const struct lease_grant *grant, struct err *err);

/* Finds the key's row, or leaves it empty. */
int row_load(struct store_tx *tx, const char *key, struct lease_row *row,
	     struct err *err);

/* Whether, and on which proof, its holder still holds it. */
void row_judge(const struct local *local, struct lease_row *row);

/* All rows, judged. */
int row_list(struct store_tx *tx, const struct local *local, lease_holders *holders,
	     struct err *err);

/* Who stands in the line for the key before `place` (0: anybody) and still waits: 1 and
 * *front, or 0. Tickets of the dead are removed. */
int line_front(struct store_tx *tx, const struct local *local, const char *key,
	       int64_t place, struct lease_holder *front, struct err *err);

/* Takes a place at the end, if *place is 0 or gone; says that we still wait. */
int line_stand(struct store_tx *tx, const struct local *local, const char *key,
	       int64_t *place, struct err *err);

int line_leave(struct store_tx *tx, int64_t place, struct err *err);

#endif
