/*
 * A lease of a server that passes to a process of the same kernel without the server.
 *
 * A holder that knows who waits behind it writes into its guard that it gives its grant,
 * with the nonce and the fence of the next one, drops the lock, and tells that one. That
 * one takes the lock, writes that it took it, and has the lease. It tells the server
 * afterwards (struct lease_backend_ops, pass), while it works already, and lets go of the
 * giver's guard then.
 *
 * Why at most one of them has it: until the server has heard, it says that the giver
 * holds the lease. From a giver that lives nobody takes it, unless its guard shows that
 * the taker is dead. The giver itself releases what was not taken in LEASE_GIVE_US, once
 * it has the lock again. If the giver is dead, its guard tells whether somebody has taken
 * the lease: a lock says so, and a taker that finds the giver dead when it has the lock
 * does not take it, since others may have found the guard without a lock by then. What
 * the server hears too late changes nothing: the former nonce is no longer there. And
 * whoever found the giver dead, but comes too late with that, gives up a nonce that is no
 * more.
 *
 * No child of the giver has the lock: else nothing is given.
 *
 * The guard says one of
 *	given <nonce> <next> <fence> <valid until, boot ms> <passes> <clock>
 *	taken <the taker's own guard, for its children>
 *	void
 *
 * All calls are safe from any thread.
 */
#ifndef LEASE_LEASE_GIVE_H
#define LEASE_LEASE_GIVE_H

#include "lease/lease_server.h"

/* So long the next one has time to take it. */
#define LEASE_GIVE_US 4000

/* What a holder does instead of releasing. */
struct lease_giving {
	bool was_told; /* the next one may say to the server that it was released */
	bool was_taken;
	int fd; /* owned: the guard that gives it, with its lock once nobody has
		   taken it; -1: nothing is given */
	char path[LEASE_GUARD_PATH_SIZE];
	char nonce[LEASE_NONCE_SIZE];
};

/* Gives the grant up for the one that was kept (lease_server_keep_next()), if there is
 * one, and waits a moment for it. True: it has the lease. Else the grant is still to be
 * released; if giving->was_told, it may be gone by then. lease_give_end() comes after
 * that, in both cases. */
bool lease_give(struct lease_server *server, const char *key, struct lease_grant *grant,
		struct lease_giving *giving);
void lease_give_end(struct lease_giving *giving);

/* Takes what was offered as it is, if its fence is above the request's floor and it is
 * valid for long enough: the attempt is granted, with the guard of its place. */
bool lease_give_take(struct lease_server *server, const char *key,
		     const struct lease_offer *offer, int64_t ttl_ms,
		     struct lease_attempt *attempt);

/* Whether the server has not heard of the grant with this nonce: it knows the former
 * one. */
bool lease_give_is_untold(struct lease_server *server, const char *nonce,
			  char former[LEASE_NONCE_SIZE]);

/* It has, or the grant is no more; else that is not certain, and the giver's guard stays,
 * without a lock. */
void lease_give_settle(struct lease_server *server, const char *nonce, bool is_known);

/* Whether a guard is in use: of a holder that is dead, by its children, or by who took
 * what it gave, or the children of that one. */
bool lease_give_is_guard_busy(const char *guard);

/* Of a holder that lives: what it gave was taken by somebody who is dead by now. */
bool lease_give_is_taker_dead(const char *guard);

#endif
