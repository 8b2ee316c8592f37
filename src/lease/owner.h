/*
 * Who holds a lease, as one line of text, for backends that keep it as such:
 *	fence=43 ttl=30000 pid=12 at=1700000000000 boot=<id> node=a op=push job=<the rest>
 * A server's backend also has, in front of the job, by what others of the same kernel can
 * prove its death (lease/lease_server.h): alive=<path> guard=<name>.
 */
#ifndef LEASE_OWNER_H
#define LEASE_OWNER_H

#include "lease/lease.h"

/* XFS takes no longer text of a symbolic link. */
#define OWNER_TEXT_SIZE 1024
#define OWNER_PATH_SIZE 400
#define OWNER_GUARD_SIZE 40

struct owner {
	struct lease_holder holder; /* what the text tells of it, not the key */
	int64_t ttl_ms;
	bool forced; /* nobody holds it: an operator released the one before */
	char alive[OWNER_PATH_SIZE]; /* "": not told */
	char guard[OWNER_GUARD_SIZE];
};

/* The line without its fence, which stands in front. A path that has spaces, or is too
 * long, is left out. */
void owner_format(const struct owner *owner, char text[OWNER_TEXT_SIZE]);

/* Reads a whole line, which it cuts up. */
bool owner_parse(char *text, struct owner *owner);

#endif
