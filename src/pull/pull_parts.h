/*
 * State shared by the threads of pull; only for the files behind pull.h.
 */
#ifndef PULL_PULL_PARTS_H
#define PULL_PULL_PARTS_H

#include "base/map.h"
#include "job/pool.h"
#include "pull/freshness.h"
#include "pull/pull.h"

/* The thread that asks the primary. */
enum pull_part { PULL_PART_CURSOR = 1, PULL_PART_CONSISTENCY = 2 };

/* What could not be written of a row: that its worker has ended, or that it is doubted.
 */
struct given_back {
	uint64_t id;
	char claim_token[CLAIM_TOKEN_SIZE];
	unsigned event; /* enum registry_event */
};

/* The primary's last answers, as written to site_value. */
struct pull_heard {
	unsigned failing; /* enum pull_part, parts whose last request failed */
	int64_t since;    /* of the failure, wall ms */
	struct err err;
	int64_t written_at; /* boot ms; 0: never */
	int64_t skew_ms;    /* as written */
};

/*
 * Lock order: mutex is the last: do not take other locks while it is held. It is never
 * held during I/O.
 */
struct pull {
	pthread_mutex_t mutex;
	pthread_cond_t work; /* for the scheduler: woken; at the end: a job has ended */
	pthread_cond_t told; /* the news */
	pthread_cond_t changed; /* anything else that the mutex guards */

	/* Fixed from start to stop. */
	struct pull_options options; /* its settings are those of the start */
	struct source *source;       /* its requests end with `kill` */
	struct stop stop;            /* threads end, new work is not begun */
	struct stop kill;            /* running work must end now */
	struct pool *pools[PULL_WORKERS], *verify_pool; /* NULL: no work for it */
	pthread_t cursor_thread, consistency_thread, scheduler_thread;
	struct copy_watch *copy_watch;
	struct maintainer *maintainer;           /* NULL: one run */
	struct blob_copy_watch *blob_copy_watch; /* NULL: no kinds */
	struct history *history;                 /* NULL: one run */

	/* Guarded by mutex. */
	bool stopping;
	struct pull_settings settings;
	bool woken;         /* the scheduler must check */
	uint64_t hurries;   /* ever; each ends the pauses after failed requests */
	uint64_t finished;  /* jobs, ever */
	uint64_t asked;     /* full comparisons asked for, ever */
	uint64_t compared;  /* of these, how many a complete comparison has served */
	bool records_names; /* an inventory page is under way: */
	struct map touched; /* names in events since it was requested */
	struct pull_state state;
	struct pull_heard heard;
	struct pull_news news; /* its cursor is that of state */
	int64_t paces[1024];   /* boot ms, by a replicable's id: scheduler.c */
	struct map glanced;    /* names of copies that readers' checks found intact ... */
	int64_t glanced_at;    /* ... since then, boot ms: glance.c */
	struct map doubts, rebuilds; /* counts per replicable: glance.c */
	struct map unknown_kinds;    /* of events that were skipped */
	struct map reverified; /* blobs that the primary was asked to read again... */
	int64_t reverified_at; /* ... since then, boot ms: blob_job.c */
	int64_t waits_since;   /* boot ms, for the checksums of the log that is followed;
				* 0: never: blob_job.c */
	struct map too_large;  /* LFS objects that came with more than maxSize... */
	int64_t too_large_at;  /* ... since then, boot ms: mirror_lfs.c */
	VEC(struct given_back) given_back; /* pull_move_later() */

	/* Scheduler thread only. */
	int64_t upkeep_at; /* boot ms */
};

uint64_t pull_capacity(const struct pull_settings *settings, enum pull_workers workers);

/* Whether any worker brings something. */
bool pull_is_bringing_locked(const struct pull *pull);

/* Whether the directory of that kind is still the same (copies_root_check()). */
int pull_check_root(const struct pull *pull, const char *type, struct err *err);
/* ... and that copy's file system is mounted. */
int pull_check_copy(const struct pull *pull, const char *type, const char *name,
		    struct err *err);
/* ... if there are copies on it (copies_root_check_place()). */
int pull_check_place(const struct pull *pull, const char *type, const char *name,
		     struct err *err);

/* The directory of that kind, if it is that one and no file system with copies below it
 * is away; else -1. The caller closes it. */
int pull_open_copies(const struct pull *pull, const char *type);

/* Thread bodies; arg is the struct pull. */
void *log_cursor_run(void *arg);
void *consistency_run(void *arg);
void *scheduler_run(void *arg);

/* Makes the scheduler check the rows at once. */
void pull_signal(struct pull *pull);

/* For a part of pull that runs once per data directory: takes the lease
 * site:<name>:<node> into *lease, unless it is held already, waiting as long as
 * necessary. False: stop. */
bool site_lease_hold(struct pull *pull, const char *name, struct lease **lease);

/* Now, by the clock that stamps changes. */
int64_t pull_now_ms(struct pull *pull);

/* Requests a comparison of the whole inventory, begun after this call; returns its
 * number. */
uint64_t comparison_ask(struct pull *pull);

/* Waits for that comparison, at most `ms` or until stop; returns whether it was
 * completed. */
bool comparison_wait(struct pull *pull, uint64_t number, int64_t ms);

/* A page that is older than an event says nothing about that event's replicable. Between
 * names_record() and names_forget() names in events are kept; call names_touch() before
 * the event's commit, so that a thread that sees the changed row sees the name, too. */
void names_record(struct pull *pull);
void names_forget(struct pull *pull);
void names_touch(struct pull *pull, const char *kind, const char *name);
bool names_has(struct pull *pull, const char *kind, const char *name);

/* pace_take(): a sync begins. pace_delay_ms(): how long a change of this replicable waits
 * before the next sync. */
void pace_take(struct pull *pull, uint64_t id);
int64_t pace_delay_ms(struct pull *pull, uint64_t id);

void doubts_clear(struct pull *pull);

/* Counts one more doubt of this replicable; returns in how many ms it may be examined. */
int64_t doubt_take(struct pull *pull, uint64_t id);

/* In how many ms a copy that is damaged again may be rebuilt; 0: now. */
int64_t rebuild_wait_ms(struct pull *pull, uint64_t id);
void rebuild_take(struct pull *pull, uint64_t id);

/* Reports the outcome of a request to the primary, for the log and for site_value. */
void peer_good(struct pull *pull, enum pull_part part);
void peer_bad(struct pull *pull, enum pull_part part, const struct err *err);

#endif
