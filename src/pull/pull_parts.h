/*
 * What the threads of pull share; for the files of pull.h only.
 */
#ifndef PULL_PULL_PARTS_H
#define PULL_PULL_PARTS_H

#include "base/map.h"
#include "job/pool.h"
#include "pull/freshness.h"
#include "pull/pull.h"

/* The thread that asks the primary. */
enum pull_part { PULL_PART_CURSOR = 1, PULL_PART_CONSISTENCY = 2 };

/* A row whose worker has ended without a word. */
struct given_back {
	uint64_t id;
	char claim_token[CLAIM_TOKEN_SIZE];
	unsigned event; /* enum registry_event */
};

/* How the primary was last heard of, as written to site_value. */
struct pull_heard {
	unsigned failing; /* enum pull_part, those whose last request failed */
	int64_t since;    /* of the failure, wall ms */
	struct err err;
	int64_t written_at; /* boot ms; 0: never */
	int64_t skew_ms;    /* as written */
};

/*
 * Lock order: mutex is the last, nothing is taken while it is held. It is never held
 * during I/O.
 */
struct pull {
	pthread_mutex_t mutex;
	pthread_cond_t changed; /* any of what the mutex guards */

	/* Fixed from start to stop. */
	struct pull_options options; /* its settings are those of the start */
	struct source *source;       /* its requests end with `kill` */
	struct stop stop;            /* threads leave, nothing new is begun */
	struct stop kill;            /* what runs is to end now */
	struct pool *pools[PULL_WORKERS],
		*verify_pool; /* NULL: there is no work for it */
	pthread_t cursor_thread, consistency_thread, scheduler_thread;
	struct copy_watch *copy_watch;
	struct maintainer *maintainer;           /* NULL: one run */
	struct blob_copy_watch *blob_copy_watch; /* NULL: no kinds */
	struct history *history;                 /* NULL: one run */

	/* Guarded by mutex. */
	bool stopping;
	struct pull_settings settings;
	bool woken;         /* the scheduler is to look */
	uint64_t hurries;   /* ever; each ends the pauses after failed requests */
	uint64_t finished;  /* jobs, ever */
	uint64_t asked;     /* full comparisons asked for, ever */
	uint64_t compared;  /* of these, how many a whole comparison has answered */
	bool records_names; /* an inventory page is under way: */
	struct map touched; /* names that events told of since it was asked for */
	struct pull_state state;
	struct pull_heard heard;
	struct pull_news news; /* its cursor is that of state */
	int64_t paces[1024];   /* boot ms, by a replicable's id: scheduler.c */
	struct map glanced;    /* names of copies that readers' looks found well ... */
	int64_t glanced_at;    /* ... since then, boot ms: glance.c */
	struct map doubts, rebuilds; /* how often of one replicable: glance.c */
	struct map unknown_kinds;    /* of events that were skipped */
	struct map reverified; /* blobs that the primary was asked to read again... */
	int64_t reverified_at; /* ... since then, boot ms: blob_job.c */
	VEC(struct given_back) given_back; /* rows of ended jobs: pull_job.c */

	/* Scheduler thread only. */
	int64_t upkeep_at; /* boot ms */
};

uint64_t pull_capacity(const struct pull_settings *settings, enum pull_workers workers);

/* Whether any worker brings something. */
bool pull_is_bringing_locked(const struct pull *pull);

/* Whether the directory of that kind is the one that it was (copies_root_check()). */
int pull_check_root(const struct pull *pull, const char *type, struct err *err);

/* Thread bodies; arg is the struct pull. */
void *log_cursor_run(void *arg);
void *consistency_run(void *arg);
void *scheduler_run(void *arg);

/* The scheduler looks at the rows at once. */
void pull_signal(struct pull *pull);

/* What a part of pull does once for the rows of a data directory: takes the lease
 * site:<name>:<node> into *lease, unless it is held already, waiting for it as long as it
 * takes. False: stop. */
bool site_lease_hold(struct pull *pull, const char *name, struct lease **lease);

/* By the clock that changes were stamped with. */
int64_t pull_now_ms(struct pull *pull);

/* Any number. */
unsigned random_roll(void);

/* The whole inventory is to be compared from now on; the number stands for it. */
uint64_t comparison_ask(struct pull *pull);

/* Waits for that comparison, at most `ms` or until stop; whether it was done. */
bool comparison_wait(struct pull *pull, uint64_t number, int64_t ms);

/* A page that is older than an event says nothing of what the event was about. Between
 * these two names told by events are kept; names_touch before the event's commit, so
 * that who finds a row changed by it finds the name, too. */
void names_record(struct pull *pull);
void names_forget(struct pull *pull);
void names_touch(struct pull *pull, const char *kind, const char *name);
bool names_has(struct pull *pull, const char *kind, const char *name);

/* A sync begins; for how long a change of this replicable waits before the next does. */
void pace_take(struct pull *pull, uint64_t id);
int64_t pace_delay_ms(struct pull *pull, uint64_t id);

void doubts_clear(struct pull *pull);

/* One more doubt of this replicable: in how much time it may be looked through. */
int64_t doubt_take(struct pull *pull, uint64_t id);

/* In how much time a copy that is damaged again may be made anew; 0: now. */
int64_t rebuild_wait_ms(struct pull *pull, uint64_t id);
void rebuild_take(struct pull *pull, uint64_t id);

/* The outcome of a request to the primary, for the log and for site_value. */
void peer_good(struct pull *pull, enum pull_part part);
void peer_bad(struct pull *pull, enum pull_part part, const struct err *err);

#endif
