/*
 * What verify_origin.c and its helpers share. Private to verify/.
 */
#ifndef VERIFY_VERIFY_ORIGIN_PARTS_H
#define VERIFY_VERIFY_ORIGIN_PARTS_H

#include "base/map.h"
#include "base/thread.h"
#include "base/vec.h"
#include "job/pool.h"
#include "verify/verify_blobs.h"
#include "verify/verify_origin.h"

/* A row that is due, in memory; the row stays due until its result is written. */
struct verify_due {
	uint64_t id;
	char *name; /* owned */
	bool is_new;
};
typedef VEC(struct verify_due) verify_dues;

/* What is due of one kind. Dispatcher only, but for what the mutex guards. */
struct verify_lane {
	const char *kind;
	const struct blob_kind *blob; /* NULL: repositories */
	verify_dues dues;
	size_t at;            /* in them: all before are submitted */
	int64_t next_at;      /* boot ms; nothing is due before */
	int64_t paused_until; /* boot ms; guarded by the mutex */
	bool is_stale;        /* guarded by the mutex; next_at says nothing any more */
};

/* What somebody met, until its verification begins. */
struct verify_doubted {
	uint64_t id;
	char *name; /* owned */
	bool is_look;
};
typedef VEC(struct verify_doubted) verify_doubteds;

struct verify_origin {
	pthread_mutex_t mutex;
	pthread_cond_t changed; /* capacity, a wake, work ended, stop */
	struct verify_origin_options
		options;               /* capacity, reverify_ms: guarded by mutex */
	char *root;                    /* owned */
	struct pool *pool;             /* dispatcher only */
	int64_t clock_lead_ms;         /* clock_was_set_back(); dispatcher only */
	VEC(struct verify_lane) lanes; /* fixed; the first is of repositories */
	size_t turn;                   /* lane; dispatcher only */
	VEC(uint64_t) busy;            /* guarded by mutex; ids at work */
	size_t threads, slow;          /* guarded by mutex; at work or resting */
	bool is_woken;                 /* guarded by mutex */
	verify_doubteds doubted;       /* guarded by mutex; each name once */
	bool is_doubt_at_work;         /* guarded by mutex; one at a time */
	struct map alarms;             /* guarded by mutex; name to struct alarm */
	struct stop stop;
	pthread_t dispatcher;
};

/* False: the row is as due as before. One that is no more has no row, and needs none. */
bool verify_origin_repository(struct verify_origin *verify, const char *name);

/* Reads what is due of a kind, if nothing of it is left in memory that was never
 * verified. Returns in how many milliseconds more may be due; 0: there is something;
 * INT64_MAX: never. */
int64_t verify_lane_fill(struct verify_origin *verify, struct verify_lane *lane);
void verify_lane_clear(struct verify_lane *lane);

/* At the start, and when the clock was set back: nothing waits longer than it was told
 * to. */
void verify_origin_heal(struct verify_origin *verify);

/* The row of a repository says from now on that it is damaged. */
int verify_doubt_fail(struct store *store, const char *name, const struct err *why,
		      struct err *err);

/* The next one that nobody works at, taken out. False: there is none. */
bool verify_doubt_take_locked(struct verify_origin *verify,
			      struct verify_doubted *doubted);
void verify_doubts_clear(struct verify_origin *verify);

/* Whether it was doubted since its verification began. */
bool verify_is_doubted(struct verify_origin *verify, const char *name);

/* Doubts it, if a look finds something. */
void verify_origin_look_now(struct verify_origin *verify, const char *name);

/* It is damaged. */
void verify_doubt_proved(struct verify_origin *verify, const char *name);

bool verify_is_busy_locked(const struct verify_origin *verify, uint64_t id);

/* After an error of the database. */
#define VERIFY_PATIENCE_MS 10000

#endif
