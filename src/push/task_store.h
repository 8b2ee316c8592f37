/*
 * The task store: a directory that any number of nodes share, on one host or by NFS, and
 * that Gerrit's replication plugin may have left.
 *
 *	ref-updates/building/<key><random>.tmp	being written
 *	ref-updates/waiting/<key>		to be pushed; its mtime: since when
 *	ref-updates/running/<uri key>/<key>	being pushed by who has the URI's lease
 *	refrelay/<uri key>			other state of a URI (uri_state.h)
 *	refrelay/requests/<uri key>.<word>	requested HEAD or deletion (uri_state.h)
 *	refrelay/requests/<uri key>.<word>-now	likewise, being served
 *	refrelay/.id				the identity of the store
 *	refrelay/failed/<key>, <key>.why	given up, with the reason (dead letters)
 *	refrelay/unreadable/<name>		set aside: not a task
 *	refrelay/discarded/<key>		discarded in the last minutes
 *	refrelay/seen/<sha1 of project>		refs with the last tasks
 *	refrelay/nodes/				the nodes that share the store (nodes.h)
 *	leases/					the holders of URIs (lease/directory.h)
 *
 * For names that end in ".json" that ending is ignored. Tasks that an old layout left in
 * sub-directories of waiting/, or Gerrit directly in running/, are moved to waiting/. All
 * times are the file server's, in wall ms; the hosts' clocks do not matter.
 *
 * Adding is durable; the other moves need not be: after a crash of the machine undoes
 * one, the task is pushed again. But each stays in one place or the other: where no log
 * keeps the order of names (base/flush.h), that to which tasks were moved is synced.
 * Any thread.
 *
 * Source: Gerrit's design "Distribute Replication Tasks via a Shared Filesystem".
 */
#ifndef PUSH_TASK_STORE_H
#define PUSH_TASK_STORE_H

#include "base/base.h"
#include "push/destination.h"
#include "push/task.h"

struct task_store;

/* Creates missing parts (mode 0700, files 0600), and removes temporary files older than
 * ten minutes. ERR_CONFIG: parts of it are on different file systems. */
int task_store_open(const char *directory, struct task_store **store, struct err *err);
/* Removes later temporary files of that age, and what was discarded before that; also
 * Gerrit's: if one is still being
 * written, its link or rename fails, and it is written again. */
int task_store_sweep(struct task_store *store, struct err *err);
/* To read only: creates and moves nothing; a store that was never made is empty. ERR_DISK
 * as of task_store_recognize(). */
int task_store_open_to_read(const char *directory, const char *data,
			    struct task_store **store, struct err *err);
/* Whether a node could write there, or make what is missing. ERR_DISK and others. */
int task_store_check_writable(const struct task_store *store, struct err *err);
void task_store_close(struct task_store *store); /* NULL is allowed */

/* ERR_DISK: the directory is not the store that the site with that site.data had last.
 * Call it before opening, which creates missing parts. */
int task_store_recognize(const char *directory, const char *data, struct err *err);
int task_store_remember(const struct task_store *store, const char *data,
			struct err *err);

/* The file server's clock, now. */
int task_store_now(struct task_store *store, int64_t *now_ms, struct err *err);

/* Durable when it returns 0. A waiting one of the same name stays as it is, with its time
 * (*is_new false). The refs are put in order first. `since_ms` 0: now; else the file's
 * time, also for an existing one whose time is later (`start --now`). */
int task_store_add(struct task_store *store, struct task *task, int64_t since_ms,
		   bool *is_new, struct err *err);

/* Gives one that waits that time, if it has a later one. One that does not is not made:
 * another has it, or has done it. */
int task_store_hurry(struct task_store *store, struct task *task, int64_t since_ms,
		     struct err *err);

/* As task_store_add(), for many, which share the cost of durability. The caller keeps the
 * tasks; after a failure some may be stored. */
struct new_task {
	struct task task;
	int64_t since_ms;
};
typedef VEC(struct new_task) new_tasks;
#define AUTO_NEW_TASKS __attribute__((cleanup(new_tasks_clear)))
void new_tasks_clear(new_tasks *tasks);
int task_store_add_all(struct task_store *store, struct new_task *tasks, size_t count,
		       struct err *err);

/* The tasks that wait for one URI, as far as this process has read the directory. */
struct waiting_uri {
	char *uri; /* all borrowed for the call */
	char uri_key[URI_KEY_SIZE];
	char *remote, *project; /* of the oldest task */
	size_t tasks;           /* 0: nothing waits any longer */
	int64_t since;          /* the oldest's */
};
typedef void (*waiting_uri_seen)(void *arg, const struct waiting_uri *waiting);

/* Reads the whole directory and calls `seen` for each URI that changed since the last
 * time. Sets aside unreadable files, and moves those that Gerrit and old layouts left.
 * `running` gets each uri key that has files in running/ (may be NULL). */
typedef void (*running_uri_seen)(void *arg, const char *uri_key);
int task_store_refresh(struct task_store *store, waiting_uri_seen seen,
		       running_uri_seen running, void *arg, struct err *err);

/* For a caller without any state: the next refresh reports all URIs. */
void task_store_report_all(struct task_store *store);

/* Lists only running/; moves tasks that Gerrit left directly there to waiting/. */
int task_store_list_running(struct task_store *store, running_uri_seen running, void *arg,
			    struct err *err);

/* Whether inotify tells of changes in waiting/ and of requests. If not, only listing
 * finds them; each task_store_refresh() tries to have them watched again. */
bool task_store_is_watched(const struct task_store *store);

/* How many files could not be read or moved since the last task_store_refresh() began:
 * only the next one tries them again. */
size_t task_store_troubled(struct task_store *store);

/* An inotify descriptor, readable after changes of waiting/; -1: not available.
 * task_store_hear() reads it and handles the changes; true: read everything again. */
int task_store_watch_fd(const struct task_store *store);
bool task_store_hear(struct task_store *store, waiting_uri_seen seen, void *arg);

/* Reports from memory only, without reading the directory. */
void task_store_report(struct task_store *store, waiting_uri_seen seen, void *arg);

/* A task in running/. */
struct claimed_task {
	char *name; /* of its file; owned */
	int64_t since;
	struct task task;
};
typedef VEC(struct claimed_task) claimed_tasks;
#define AUTO_CLAIMED __attribute__((cleanup(claimed_tasks_clear)))
void claimed_tasks_clear(claimed_tasks *tasks);

/* The following require the URI's lease. */

/* Moves tasks that a dead holder left in running/<uri key>/ to waiting/. */
int task_store_recover(struct task_store *store, const char *uri_key, size_t *recovered,
		       struct err *err);

/* Moves every waiting task of the URI to running/<uri key>/, also those added since the
 * directory was read. There may be none: others have done them. Read refs after this. */
int task_store_claim(struct task_store *store, const char *uri, claimed_tasks *tasks,
		     struct err *err);

/* Only that one, as it was added. It may be gone, or be another file. */
int task_store_claim_one(struct task_store *store, const struct task *task,
			 claimed_tasks *tasks, struct err *err);

/* It was done: removes a dead letter of the same name, then the file, as nothing else may
 * tell later that the letter was done. */
int task_store_done(struct task_store *store, const struct claimed_task *task,
		    struct err *err);

/* It must be tried again: moves it back to waiting/, with its time. */
int task_store_give_back(struct task_store *store, const struct claimed_task *task,
			 struct err *err);

/* After the last of those, and before task_store_tidy(): no power failure loses them. */
int task_store_sync_waiting(struct task_store *store, struct err *err);

/* Only these refs of it remain: a new task, with its time, replaces it. */
int task_store_shrink(struct task_store *store, const struct claimed_task *task,
		      const text_list *left, struct err *err);

/* Removes running/<uri key>/ if it is empty. */
void task_store_tidy(struct task_store *store, const char *uri_key);

/* The digest of refs and configuration for which tasks of this project were made last, by
 * any node: a node that finds the same later need not add tasks. Not synced. */
bool task_store_was_seen(struct task_store *store, const char *project,
			 const char *digest);
void task_store_note_seen(struct task_store *store, const char *project,
			  const char *digest);

#endif
