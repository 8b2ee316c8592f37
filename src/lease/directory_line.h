/*
 * The line of waiters for a lease in a directory. A ticket is a finished future
 * generation, under a name that sorts by the server's time:
 *
 *	path/<sha1 of key>/.new-w<time>-<id>/	its mtime: when it last asked
 *	path/<sha1 of key>/.new-w<time>-<id>/offer	there until it is accepted
 *
 * A releasing holder renames the first ticket to the next number: that waiter then has
 * the lease, and its kernel notifies it alone. It accepts by removing the offer. A
 * contender that finds an offer not accepted for KEY_OFFER_MS removes it instead: one of
 * the two succeeds. So a stopped waiter delays the others by that long, and only once,
 * since its ticket is gone then.
 *
 * A waiter that has not asked for DIRECTORY_LINE_SILENT_MS is passed over; one proved
 * dead is removed. A ticket is removed by a rename, too: either it leaves, or it is
 * passed the lease.
 *
 * Nodes without support for lines see future generations, and take a released lease
 * without a ticket.
 *
 * Functions return -1 with errno set.
 */
#ifndef LEASE_DIRECTORY_LINE_H
#define LEASE_DIRECTORY_LINE_H

#include "lease/directory_next.h"

#define DIRECTORY_LINE_SILENT_MS 3000

/* The lease that was passed to a ticket, as accepted. */
struct line_grant {
	uint64_t number, fence;
	int64_t stamp_ns; /* when, by the server: its first heartbeat */
	bool has_others;  /* others wait behind it */
};

/* Takes a place at the end; the owner's fence is above its request's floor. */
int directory_line_stand(int key_fd, const struct owner *owner, struct next *ticket);

/* Whether it is still there: shows others that it still waits (at_ns is the server's time
 * then), and hint_fd becomes readable when it is gone. 1, 0. */
int directory_line_ask(int key_fd, const struct next *ticket, int hint_fd,
		       int64_t *at_ns);

/* The waiter just ahead of the ticket (NULL: the last one): 1 and *before; 0: there is
 * none. hint_fd becomes readable when that one gives up its place, or the lease that was
 * passed to it meanwhile. */
int directory_line_before(int key_fd, const struct next *ticket, int64_t at_ns,
			  int hint_fd, struct owner *before);

/* Accepts the lease passed to the ticket: 1; 0: there was none, or it was too late. */
int directory_line_claim(int key_fd, const struct next *ticket, int64_t ttl_ms,
			 struct line_grant *grant);

/* Passes the lease from the generation of that number, the latest, to the first in the
 * line, with a fence above that: 1, also if others were quicker; 0: the line is empty. */
int directory_line_pass(int key_fd, uint64_t number, uint64_t fence);

/* Leaves; 1: the lease was passed to it just now, and is to be passed on. */
int directory_line_leave(int key_fd, const struct next *ticket);

#endif
