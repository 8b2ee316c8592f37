/*
 * A generation in the making (directory_take.c). Functions return -1 with errno set.
 */
#ifndef LEASE_DIRECTORY_TAKE_H
#define LEASE_DIRECTORY_TAKE_H

#include "lease/directory_key.h"

struct next {
	char name[ENTRY_NAME_SIZE]; /* its present one */
	int fd;                     /* owned; flock'ed, where that works */
	int guard_fd;               /* owned; -1: there are no locks, or it is forced */
	bool may_be_latest;         /* it has a number, which must stay then */
};

#define NO_NEXT ((struct next){ .fd = -1, .guard_fd = -1 })

/* Makes and locks it under a name of its own. */
int next_prepare(struct next *next, int key_fd, const struct owner *owner);

/* Makes it the latest generation: 0; 1: others were quicker. */
int next_publish(struct next *next, int key_fd, const struct key_view *view);

/* Removes it, or, once it may be the latest, marks it as released, and closes what is
 * open; errno is kept. */
void next_drop(struct next *next, int key_fd);

#endif
