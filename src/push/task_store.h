/*
 * The task store: a directory that any number of nodes share, on one host or by NFS, and
 * that Gerrit's replication plugin may have left.
 *
 *	ref-updates/building/<key><random>.tmp	being written
 *	ref-updates/waiting/<key>		to be pushed; its mtime: since when
 *	ref-updates/running/<uri key>/<key>	being pushed by who holds the URI's lease
 *	refrelay/<uri key>			what else is known of a URI (uri_state.h)
 *	refrelay/requests/<uri key>.<word>	HEAD or deletion asked for (uri_state.h)
 *	refrelay/.id				which store it is
 *	refrelay/failed/<key>, <key>.why	given up, with the reason (dead letters)
 *	refrelay/unreadable/<name>		set aside: no task
 *	refrelay/seen/<sha1 of project>		refs of which tasks were made last
 *	refrelay/nodes/				who shares the store (nodes.h)
 *	leases/					who works on which URI (lease/directory.h)
 *
 * Names that end in ".json" are taken for what stands before. What an old layout left in
 * sub-directories of waiting/, and what Gerrit left flat in running/, is moved to
 * waiting/. All times are the file server's, in wall ms; no clock of a host counts.
 *
 * add makes durable; the other moves need not: what a crash of the machine undoes is
 * pushed again. Any thread.
 *
 * Source: Gerrit's design "Distribute Replication Tasks via a Shared Filesystem".
 */
#ifndef PUSH_TASK_STORE_H
#define PUSH_TASK_STORE_H

#include "base/base.h"
#include "push/destination.h"
#include "push/task.h"

struct task_store;

/* Makes what is missing (mode 0700, files 0600), and removes temporary files that are
 * older than ten minutes. ERR_CONFIG: parts of it are on different file systems. */
int task_store_open(const char *directory, struct task_store **store, struct err *err);
/* Removes temporary files of that age that were left since, ours and Gerrit's: of
 * somebody who still writes one, the link or rename fails, and it is written again. */
int task_store_sweep(struct task_store *store, struct err *err);
/* For looking at it only: nothing is made or moved, and where no store was ever made it
 * is empty. ERR_DISK as of task_store_recognize(). */
int task_store_open_to_read(const char *directory, const char *data,
			    struct task_store **store, struct err *err);
void task_store_close(struct task_store *store); /* NULL is allowed */

/* ERR_DISK: the directory is not the store that the site with that site.data had last. To
 * be asked before it is opened, which makes what is missing. */
int task_store_recognize(const char *directory, const char *data, struct err *err);
int task_store_remember(const struct task_store *store, const char *data,
			struct err *err);

/* The file server's clock, now. */
int task_store_now(struct task_store *store, int64_t *now_ms, struct err *err);

/* Durable when it returns 0. A waiting one of the same name stays as it is, with its
 * time (*is_new false). The refs are put in order first. `since_ms` 0: now; else the
 * file's time, also of one that is there already if that is later (`start --now`). */
int task_store_add(struct task_store *store, struct task *task, int64_t since_ms,
		   bool *is_new, struct err *err);

/* Likewise for many, which share what making them durable costs. The tasks stay the
 * caller's; after a failure some may be there. */
struct new_task {
	struct task task;
	int64_t since_ms;
};
typedef VEC(struct new_task) new_tasks;
#define AUTO_NEW_TASKS __attribute__((cleanup(new_tasks_clear)))
void new_tasks_clear(new_tasks *tasks);
int task_store_add_all(struct task_store *store, struct new_task *tasks, size_t count,
		       struct err *err);

/* What waits for one URI, as far as this process has read the directory. */
struct waiting_uri {
	char *uri; /* all borrowed for the call */
	char uri_key[URI_KEY_SIZE];
	char *remote, *project; /* of the oldest task */
	size_t tasks;           /* 0: nothing waits any more */
	int64_t since;          /* the oldest's */
};
typedef void (*waiting_uri_seen)(void *arg, const struct waiting_uri *waiting);

/* Reads the whole directory and calls `seen` for each URI for which something changed
 * since. Sets aside what is unreadable, and brings what Gerrit and old layouts left.
 * `running` gets each uri key that has files in running/ (may be NULL). */
typedef void (*running_uri_seen)(void *arg, const char *uri_key);
int task_store_refresh(struct task_store *store, waiting_uri_seen seen,
		       running_uri_seen running, void *arg, struct err *err);

/* For a caller that knows nothing yet: the next refresh reports all URIs. */
void task_store_report_all(struct task_store *store);

/* Only running/; moves what Gerrit left flat there to waiting/. */
int task_store_list_running(struct task_store *store, running_uri_seen running, void *arg,
			    struct err *err);

/* An inotify descriptor, readable when something came to or went from waiting/; -1: there
 * is none. task_store_hear reads it and looks; true: all must be read again. */
int task_store_watch_fd(const struct task_store *store);
bool task_store_hear(struct task_store *store, waiting_uri_seen seen, void *arg);

/* Only what this process knows already. */
void task_store_report(struct task_store *store, waiting_uri_seen seen, void *arg);

/* A task that is in running/. */
struct claimed_task {
	char *name; /* of its file; owned */
	int64_t since;
	struct task task;
};
typedef VEC(struct claimed_task) claimed_tasks;
#define AUTO_CLAIMED __attribute__((cleanup(claimed_tasks_clear)))
void claimed_tasks_clear(claimed_tasks *tasks);

/* These require the URI's lease. */

/* Moves what a dead holder left in running/<uri key>/ to waiting/. */
int task_store_recover(struct task_store *store, const char *uri_key, size_t *recovered,
		       struct err *err);

/* Moves every waiting task of the URI to running/<uri key>/, also those that came since
 * the directory was read. May be none: others have done them. Read refs after this. */
int task_store_claim(struct task_store *store, const char *uri, claimed_tasks *tasks,
		     struct err *err);

/* It was done: the file goes, and a dead letter of the same name. */
int task_store_done(struct task_store *store, const struct claimed_task *task,
		    struct err *err);

/* It is to be tried again: back to waiting/, with its time. */
int task_store_give_back(struct task_store *store, const struct claimed_task *task,
			 struct err *err);

/* Only these refs of it are left to do: another task, with its time, takes its place. */
int task_store_shrink(struct task_store *store, const struct claimed_task *task,
		      const text_list *left, struct err *err);

/* running/<uri key>/, if empty. */
void task_store_tidy(struct task_store *store, const char *uri_key);

/* The digest of refs and configuration for which tasks of this project were made last, by
 * any node: who finds the same later has nothing to add. Not synced. */
bool task_store_was_seen(struct task_store *store, const char *project,
			 const char *digest);
void task_store_note_seen(struct task_store *store, const char *project,
			  const char *digest);

#endif
