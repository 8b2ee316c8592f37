/*
 * The parts of the backend of leases between the processes of one kernel (local.c).
 *
 * The line between processes: a ticket for each process that waits for a key (its first
 * waiter's), served in the order of their numbers. Who is dead leaves no gap, and who is
 * merely stopped holds nobody up: a ticket whose owner has not asked for a while is
 * passed over until it asks again.
 *
 * Only the first one watches the holder, and is woken by its end. Whoever takes, releases
 * or leaves wakes the first of those who wait then, by a touch of its alive file: else a
 * crowd would be woken at each release, to find that it is not its turn. In the stead of
 * a taker, who works already, whoever offered the lease does that.
 *
 * All calls are for one thread at a time within a transaction of the store.
 */
#ifndef LEASE_LOCAL_LINE_H
#define LEASE_LOCAL_LINE_H

#include <stdatomic.h>

#include "lease/lease_backend.h"
#include "lease/local_files.h"
#include "store/store.h"

struct local {
	struct lease_backend base;
	struct store *store; /* borrowed */
	struct local_files files;
	atomic_bool is_named; /* a row may name us for good: its release failed */
};

/* Those who wait ask about as often. */
#define SAY_EVERY_MS 1000

struct ticket {
	int64_t number;
	int64_t pid;
	int64_t seen;
	char boot_id[40];
	char alive_file[ALIVE_NAME_SIZE];
};

/* The first one of the key between the two, both excluded: 1 and *ticket, or 0. */
int local_line_find(struct store_tx *tx, const char *key, int64_t after, int64_t before,
		    struct ticket *ticket, struct err *err);

enum line_look { LINE_LEAVE_DEAD, LINE_REMOVE_DEAD };

/* Who stands in the line for the key before `place` (0: anybody) and still waits: 1 and
 * *front, or 0. */
int local_line_front(struct store_tx *tx, const struct local *local, const char *key,
		     int64_t place, enum line_look how, struct ticket *front,
		     struct err *err);

void local_line_describe(const struct local *local, const char *key,
			 const struct ticket *ticket, struct lease_holder *front);

/* The alive file of whoever is to be woken once this is committed; "": nobody waits. */
int local_line_next(struct store_tx *tx, const struct local *local, const char *key,
		    char next[ALIVE_NAME_SIZE], struct err *err);

/* Takes a place at the end, if *place is 0 or gone; says that we still wait. */
int local_line_stand(struct store_tx *tx, const struct local *local, const char *key,
		     int64_t *place, struct err *err);

int local_line_leave(struct store_tx *tx, int64_t place, struct err *err);

#endif
