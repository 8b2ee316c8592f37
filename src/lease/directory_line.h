/*
 * The line of those who wait for a lease in a directory. A ticket is a finished
 * generation to be, under a name that sorts by the server's time:
 *
 *	path/<sha1 of key>/.new-w<time>-<id>/	its mtime: when it asked the last time
 *	path/<sha1 of key>/.new-w<time>-<id>/offer	there until it is taken up
 *
 * Who releases the lease renames the first ticket to the next number: that one has the
 * lease then, and is told by its kernel, alone. It takes it up by removing the offer.
 * Whoever finds an offer that nobody has taken up for KEY_OFFER_MS removes it instead:
 * one of the two succeeds. So who is stopped holds the others up so long, and once, since
 * its ticket is gone then.
 *
 * Passed over is who has not asked for DIRECTORY_LINE_SILENT_MS; who is known to be dead
 * is removed. A ticket goes by a rename, too: either it leaves, or it is passed
 * the lease.
 *
 * Nodes that know nothing of lines see generations to be, and take what is released
 * without one.
 *
 * Functions return -1 with errno set.
 */
#ifndef LEASE_DIRECTORY_LINE_H
#define LEASE_DIRECTORY_LINE_H

#include "lease/directory_next.h"

#define DIRECTORY_LINE_SILENT_MS 3000

/* What was passed to a ticket, as it has taken it up. */
struct line_grant {
	uint64_t number, fence;
	int64_t stamp_ns; /* when, by the server: its first heartbeat */
	bool has_others;  /* wait behind it */
};

/* Takes a place at the end; the owner's fence is above what its request wants. */
int directory_line_stand(int key_fd, const struct owner *owner, struct next *ticket);

/* Whether it is still there: it says so to others (at_ns is the server's time then), and
 * hint_fd becomes readable when it no longer is. 1, 0. */
int directory_line_ask(int key_fd, const struct next *ticket, int hint_fd,
		       int64_t *at_ns);

/* Who waits next before the ticket (NULL: who is the last): 1 and *before; 0: nobody.
 * hint_fd becomes readable when that one gives up its place, or the lease that it was
 * passed meanwhile. */
int directory_line_before(int key_fd, const struct next *ticket, int64_t at_ns,
			  int hint_fd, struct owner *before);

/* Takes up what the ticket was passed: 1; 0: nothing, or it was too late. */
int directory_line_claim(int key_fd, const struct next *ticket, int64_t ttl_ms,
			 struct line_grant *grant);

/* Passes the lease from the generation of that number, the latest, to the first in the
 * line, with a fence above that: 1, also if others were quicker; 0: nobody waits. */
int directory_line_pass(int key_fd, uint64_t number, uint64_t fence);

/* Leaves; 1: the lease was passed to it just now, and is to be passed on. */
int directory_line_leave(int key_fd, const struct next *ticket);

#endif
