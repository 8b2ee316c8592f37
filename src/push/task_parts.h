/*
 * Shared by the files of the task store. Private to push/.
 *
 * Directories are opened anew for each use: that costs microseconds, never meets a stale
 * handle of NFS, and makes its client ask the server whether a directory changed.
 */
#ifndef PUSH_TASK_PARTS_H
#define PUSH_TASK_PARTS_H

#include <dirent.h>

#include "base/file.h"
#include "push/task_list.h"
#include "push/task_store.h"

#define TASK_NAME_MAX 71 /* of a file: `name` of listed_task */

enum store_place {
	BUILDING,
	WAITING,
	RUNNING,
	STATES,
	REQUESTS,
	FAILED,
	UNREADABLE,
	SEEN,
	NODES,
	DISCARDED,
	STORE_PLACES,
};

/* The last listing of waiting/; guarded by the mutex of the index. Times are boot ms. */
struct listing {
	int64_t began_at; /* 0: there was none */
	bool is_cheap;    /* cheap enough for each claim */
	int64_t cost_ms;
	struct timespec modified; /* the directory's mtime */
	int64_t modified_since;   /* when it was first seen to be that */
	bool is_settled;          /* later changes change the mtime */
};

struct task_store {
	char *directory; /* absolute, or as given; owned */
	bool is_reading; /* read only: creates and moves nothing */
	char *paths[STORE_PLACES];
	bool is_local;
	int watch, request_watch; /* inotify descriptors, or -1 */
	int requests_watched;     /* inotify's number of requests/, or -1 */
	struct task_index index;
	pthread_mutex_t listing_mutex; /* held by who lists waiting/ */
	struct listing listing;
	struct store_identity *identity; /* owned; NULL while it is opened */
};

/* The directory, for the caller to close. Never ERR_MISSING: a store that is gone may
 * come back (ERR_DISK). In a store opened to read, a directory that was never made is
 * empty. */
int store_dir(const struct task_store *store, enum store_place place, struct err *err);

/* Makes the names in `dir`, of that place or below it, durable, unless a log keeps the
 * order in which names were changed. */
int store_sync_names(const struct task_store *store, enum store_place place, int dir,
		     struct err *err);

/* The file that gives the file server's time, for the caller to close. */
int store_clock(const struct task_store *store, struct err *err);

/* Whether a name in the store can be a file of ours or Gerrit's: not "." and "..", nor
 * files that NFS or an editor hides. */
bool is_store_name(const char *name);
bool is_uri_key(const char *name);

/* Names in a directory of the store, of files only or of directories only, in no order.
 */
int store_list_files(int dir, text_list *names, struct err *err);
int store_list_dirs(int dir, text_list *names, struct err *err);

/* Reads a task's file. ERR_MISSING: it is gone. is_no_task(): it is not a task and will
 * never be one; other errors: the file could not be read. */
int store_read_task(int dir, const char *name, struct task *task, struct stat *st,
		    struct err *err);
bool is_no_task(const struct err *err);

struct unreadable;
void unreadable_add(struct unreadable *unreadable, const char *path, const char *name);

/* Moves a file that is not a task to refrelay/unreadable/, and logs that. */
void store_set_aside(struct task_store *store, int dir, const char *name,
		     const struct err *why);

/* Logs once that a file cannot be read; it stays. */
void store_note_trouble(struct task_store *store, const char *name,
			const struct err *why);

/* Puts a task found in `dir`, which is waiting/, into the index. */
void store_note_task(struct task_store *store, int dir, const char *name,
		     const struct stat *st, const struct task *task);

/* Handles one name in waiting/. `may_be_torn`: it may still be being written, so it stays
 * even if it is not a task. */
void store_notice_name(struct task_store *store, int dir, const char *name,
		       bool may_be_torn);

/* Renew the watches: waiting/ and requests/ may be other directories now; or only that of
 * requests/. */
void store_watch_again(struct task_store *store);
void store_watch_requests(struct task_store *store);

/* Before a claim: lists waiting/ and brings the index up to date, unless that is not due;
 * if another thread just does so, waits for that. */
int store_list_if_due(struct task_store *store, struct err *err);

/* Moves tasks that old layouts left in directories of waiting/ to waiting/. */
int store_adopt_waiting(struct task_store *store, struct err *err);

/* Removes the dead letter of a task that was done. */
int store_remove_letter(struct task_store *store, const struct claimed_task *task,
			struct err *err);

int store_is_waiting(struct task_store *store, const char *key, bool *is,
		     struct err *err);
int store_is_running(struct task_store *store, const char *key, bool *is,
		     struct err *err);

/* Checks a key from an operator, since keys become parts of paths. ERR_MISSING:
 * invalid. */
int store_check_key(const char *key, struct err *err);

#endif
