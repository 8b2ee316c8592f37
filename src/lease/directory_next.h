/*
 * A future generation of a lease in a directory (directory.h has its form): made under a
 * temporary name, complete with owner and locks, and then renamed to the next number.
 * Functions return -1 with errno set.
 */
#ifndef LEASE_DIRECTORY_NEXT_H
#define LEASE_DIRECTORY_NEXT_H

#include "lease/directory_key.h"

struct next {
	char name[ENTRY_NAME_SIZE]; /* current */
	int fd;                     /* owned; flock'ed, where that works */
	int guard_fd;               /* owned; -1: there are no locks, or it is forced */
	bool may_be_latest;         /* it has a number, which must stay then */
};

#define NO_NEXT ((struct next){ .fd = -1, .guard_fd = -1 })

/* Makes and locks it under a temporary name. */
int next_prepare(struct next *next, int key_fd, const struct owner *owner);

/* Makes it the latest generation, after that of the view: 0; 1: others were quicker. */
int next_publish(struct next *next, int key_fd, const struct key_view *view);

/* Removes it, or, once it may be the latest, marks it as released, and closes its
 * descriptors; errno is kept. */
void next_drop(struct next *next, int key_fd);

/* Whether this errno of a rename means that others were quicker. */
bool next_came_late(int code);

#endif
