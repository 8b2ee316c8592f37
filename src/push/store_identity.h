/*
 * Which store a directory is. Private to push/, but for what task_store.h has of it.
 */
#ifndef PUSH_STORE_IDENTITY_H
#define PUSH_STORE_IDENTITY_H

#include <pthread.h>

#include "push/task_parts.h"

struct place_identity {
	dev_t device;
	ino_t inode;
};

struct store_identity {
	pthread_mutex_t mutex;
	char *id;                                   /* owned */
	struct place_identity places[STORE_PLACES]; /* guarded by mutex */
	int watched; /* inotify's number of waiting/; guarded by mutex */
};

/* Of a store whose directories are there; gives it an id if it has none. */
int store_identity_open(struct task_store *store, struct err *err);
void store_identity_close(struct task_store *store);

#endif
