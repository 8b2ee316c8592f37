/*
 * Small files in the task store, each whole or absent. Private to push/.
 */
#ifndef PUSH_STORE_FILE_H
#define PUSH_STORE_FILE_H

#include "push/task_parts.h"
#include <pthread.h>

/* A file to be created. */
struct new_file {
	enum store_place place;
	const char *name; /* borrowed, as the content */
	const struct str *content;
	int64_t since_ms;    /* its mtime; 0: now */
	enum file_sync sync; /* the file; its name is synced by store_put, too */
};

/* A whole file in building/, mode 0600, that waits to be linked or renamed to its place;
 * removed at the end of the scope. */
struct built {
	int dir;
	char name[TASK_NAME_MAX + 32]; /* "": no file */
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

/* Creates place/name. 1: it is new; 0: one existed, which stays; -1: error. */
int built_link(const struct built *built, int dir, const char *name, struct err *err);

/* Replaces place/name. */
int built_rename(struct built *built, int dir, const char *name, struct err *err);

/* Builds a file and puts it in its place, replacing an existing one; store_put_new() only
 * if none exists. */
int store_put(const struct task_store *store, const struct new_file *file,
	      struct err *err);
int store_put_new(const struct task_store *store, const struct new_file *file,
		  struct err *err);

/* Gives place/from the name `to`, which is durable then; one of that name is replaced.
 * Absent: fine. */
int store_rename(const struct task_store *store, enum store_place place, const char *from,
		 const char *to, struct err *err);

/* Removes place/name; absent: fine. */
int store_remove(const struct task_store *store, enum store_place place, const char *name,
		 struct err *err);

/*
 * The identity of a store's directory. Private to push/, except for the functions in
 * task_store.h.
 */

struct place_identity {
	dev_t device;
	ino_t inode;
};

struct store_identity {
	pthread_mutex_t mutex;
	char *id;                                   /* owned */
	struct place_identity places[STORE_PLACES]; /* guarded by mutex */
	int watched; /* inotify's number of waiting/, or -1; guarded by mutex */
};

/* For a store whose directories exist; gives it an id if it lacks one. */
int store_identity_open(struct task_store *store, struct err *err);
void store_identity_close(struct task_store *store);

#endif
