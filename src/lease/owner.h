/*
 * A lease's holder as one line of text, for backends that keep it in that form:
 *	fence=43 ttl=30000 pid=12 at=1700000000000 boot=<id> node=a op=push job=<the rest>
 * A server's backend also names, in front of the job, the files by which others of the
 * same kernel can prove its death (lease/lease_server.h): alive=<path> guard=<name>; and
 * one that waits there, how they tell it: told=<number>.
 */
#ifndef LEASE_OWNER_H
#define LEASE_OWNER_H

#include "lease/lease.h"

/* XFS does not allow a longer text of a symbolic link. */
#define OWNER_TEXT_SIZE 1024
#define OWNER_PATH_SIZE 400
#define OWNER_GUARD_SIZE 40

struct owner {
	struct lease_holder holder; /* as in the text, without the key */
	int64_t ttl_ms;
	bool forced;                 /* not held: an operator released the previous one */
	char alive[OWNER_PATH_SIZE]; /* "": not given */
	char guard[OWNER_GUARD_SIZE];
	int64_t told; /* 0: not given */
};

/* The line without its fence, which comes first. A path that has spaces, or is too long,
 * is left out. */
void owner_format(const struct owner *owner, char text[OWNER_TEXT_SIZE]);

/* Parses a whole line, modifying it. */
bool owner_parse(char *text, struct owner *owner);

#endif
