/*
 * The inside of push, shared by its threads.
 *
 * Lock order: push->mutex is the last; do not call other modules under it.
 */
#ifndef PUSH_PUSH_PARTS_H
#define PUSH_PUSH_PARTS_H

#include <pthread.h>
#include <sys/queue.h>

#include "base/thread.h"
#include "job/pool.h"
#include "push/push.h"

struct push_run;
TAILQ_HEAD(push_runs, push_run);

struct push {
	struct push_options options; /* its settings: see below */
	char *directory;             /* for temporary files; owned */
	struct pool *pool;
	pthread_t distributor, startup;
	struct stop ending; /* begin only work that is drained */
	struct stop kill;   /* children end, tasks wait again */
	int wake_fd;        /* an eventfd: something below has changed */

	pthread_mutex_t mutex;
	struct push_settings *settings; /* guarded by mutex; a reference */
	bool has_new_settings;          /* guarded by mutex */
	bool is_woken;                  /* guarded by mutex: list everything now */
	int64_t grace_ms;               /* guarded by mutex */
	struct push_runs finished;      /* guarded by mutex */
	struct push_look look;          /* guarded by mutex */
	struct lease *presence;         /* guarded by mutex */
	bool is_present;                /* guarded by mutex: startup has ended */
	size_t repositories;            /* guarded by mutex: of the site, */
	int64_t counted_at;             /* guarded by mutex: as counted then; boot ms */
};

/* Wakes the distributor. */
void push_poke(struct push *push);

void *distributor_run(void *push);

/* The path of a repository whose name has passed name_check. 1: *path is set (the caller
 * frees); 0: it does not exist; -1: that cannot be determined. */
int local_repository(const struct push *push, const char *project, char **path,
		     struct err *err);

/* Why its tasks are done without a push; NULL: they are not. Since its history is cut
 * short, which is nobody's wish; or since the remote is set to leave it out. */
const char *push_cut_reason(const char *repository);
const char *push_left_out_reason(const char *repository,
				 const struct push_remote *remote);

/* Thread: replicateOnStartup, then the lease push:node:<node>. */
void *startup_run(void *push);
/* Takes the presence again if it was lost. */
void presence_keep(struct push *push);

#endif
