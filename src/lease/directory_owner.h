/*
 * Who holds a generation: the text of a symbolic link to nowhere, which is written in
 * one call and never half there.
 *	fence=43 ttl=30000 pid=12 at=1700000000000 boot=<id> node=a op=push job=<the rest>
 */
#ifndef LEASE_DIRECTORY_OWNER_H
#define LEASE_DIRECTORY_OWNER_H

#include "lease/lease.h"

/* XFS takes no longer text of a symbolic link. */
#define OWNER_TEXT_SIZE 1024

struct owner {
	struct lease_holder holder; /* what the text tells of it, not the key */
	int64_t ttl_ms;
	bool forced; /* nobody holds it: an operator released the one before */
};

/* Makes `owner` in the directory; -1 with errno set. */
int owner_write(int generation_fd, const struct owner *owner);

/* -1 with errno set; EBADMSG: it is not of this form. */
int owner_read(int generation_fd, struct owner *owner);

#endif
