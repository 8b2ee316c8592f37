/*
 * What the files of the task store share. Private to push/.
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
	STORE_PLACES,
};

/* How the last listing of waiting/ went: guarded by the mutex of the index. Times are
 * boot ms. */
struct listing {
	int64_t began_at; /* 0: there was none */
	bool is_cheap;    /* it can be done for each claim */
	int64_t cost_ms;
	struct timespec modified; /* the directory's mtime */
	int64_t modified_since;   /* when it was first found to be that */
	bool is_settled;          /* nothing can have come with the same mtime */
};

struct task_store {
	char *directory; /* absolute, or as it was given; owned */
	bool is_reading; /* nothing is made or moved */
	char *paths[STORE_PLACES];
	bool is_local;
	int watch, request_watch; /* inotify descriptors, or -1 */
	struct task_index index;
	struct listing listing;
	struct store_identity *identity; /* owned; NULL while it is opened */
};

/* The directory, for the caller to close. It is never ERR_MISSING: a store that is gone
 * may come back (ERR_DISK). For who only reads, one that was never made is empty. */
int store_dir(const struct task_store *store, enum store_place place, struct err *err);

/* The file by which the file server's time is read, for the caller to close. */
int store_clock(const struct task_store *store, struct err *err);

int64_t stat_ms(const struct stat *st);

/* Whether a name in the store is a file of ours or Gerrit's at all: not "." and "..", not
 * what NFS or an editor hides. */
bool is_store_name(const char *name);
bool is_uri_key(const char *name);

/* Whether an entry of `dir` is a directory, also where its list does not say so. */
bool store_is_directory(int dir, const struct dirent *entry);

/* Names in a directory of the store, of files only or of directories only, in no order.
 */
int store_list_files(int dir, text_list *names, struct err *err);
int store_list_dirs(int dir, text_list *names, struct err *err);

/* A task's file. ERR_MISSING: it is gone. is_no_task(): it is none and never will be;
 * else the file could not be read. */
int store_read_task(int dir, const char *name, struct task *task, struct stat *st,
		    struct err *err);
bool is_no_task(const struct err *err);

struct unreadable;
void unreadable_add(struct unreadable *unreadable, const char *path, const char *name);

/* Moves a file that is no task to refrelay/unreadable/, and says so in the log. */
void store_set_aside(struct task_store *store, int dir, const char *name,
		     const struct err *why);

/* Says once that a file cannot be read; it stays. */
void store_note_trouble(struct task_store *store, const char *name,
			const struct err *why);

/* Puts one that was met in `dir`, which is waiting/, into the index. */
void store_note_task(struct task_store *store, int dir, const char *name,
		     const struct stat *st, const struct task *task);

/* Takes notice of one name in waiting/. `may_be_torn`: somebody may still be writing it;
 * if it is no task, it stays. */
void store_notice_name(struct task_store *store, int dir, const char *name,
		       bool may_be_torn);

/* Lists waiting/ and brings the index up to date. `*found_dirs`: it has directories. */
int store_list_waiting(struct task_store *store, bool *found_dirs, struct err *err);

/* Another directory may stand where waiting/ stood. */
void store_watch_again(struct task_store *store);

/* Whether claim should do so. */
bool store_listing_is_due(struct task_store *store);

/* Moves what old layouts left in directories of waiting/ to waiting/. */
int store_adopt_waiting(struct task_store *store, struct err *err);

/* The dead letter of a task that was done. */
int store_remove_letter(struct task_store *store, const struct claimed_task *task,
			struct err *err);

int store_is_waiting(struct task_store *store, const char *key, bool *is,
		     struct err *err);
int store_is_running(struct task_store *store, const char *key, bool *is,
		     struct err *err);

/* What an operator gives is joined to paths. ERR_MISSING. */
int store_check_key(const char *key, struct err *err);

#endif
