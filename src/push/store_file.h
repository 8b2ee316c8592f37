/*
 * Small files in the task store, each whole or not there. Private to push/.
 */
#ifndef PUSH_STORE_FILE_H
#define PUSH_STORE_FILE_H

#include "push/task_parts.h"
#include <pthread.h>

/* A file to be made. */
struct new_file {
	enum store_place place;
	const char *name; /* borrowed, as the content */
	const struct str *content;
	int64_t since_ms;    /* its mtime; 0: now */
	enum file_sync sync; /* the file; its name is synced by store_put, too */
};

/* A whole file in building/, mode 0600, that waits to be linked or renamed to its place;
 * it goes with the scope. */
struct built {
	int dir;
	char name[TASK_NAME_MAX + 32]; /* "": none */
	struct stat st;
};
#define BUILT_INIT                                                                       \
	{                                                                                \
		.dir = -1                                                                \
	}
#define AUTO_BUILT __attribute__((cleanup(built_clear)))
void built_clear(struct built *built);

int store_build(const struct task_store *store, const struct new_file *file,
		struct built *built, struct err *err);

/* Makes place/name: 1: it is new; 0: there was one, which stays; -1. */
int built_link(const struct built *built, int dir, const char *name, struct err *err);

/* Replaces place/name. */
int built_rename(struct built *built, int dir, const char *name, struct err *err);

/* Builds a file and puts it to its place, instead of one that is there; or, by
 * store_put_new, only if there is none. */
int store_put(const struct task_store *store, const struct new_file *file,
	      struct err *err);
int store_put_new(const struct task_store *store, const struct new_file *file,
		  struct err *err);

/* Removes place/name; absent: fine. */
int store_remove(const struct task_store *store, enum store_place place, const char *name,
		 struct err *err);

/*
 * Which store a directory is. Private to push/, but for what task_store.h has of it.
 */

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
