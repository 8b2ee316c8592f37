/*
 * Shared by verify_origin.c and its helpers. Private to verify/.
 */
#ifndef VERIFY_VERIFY_ORIGIN_PARTS_H
#define VERIFY_VERIFY_ORIGIN_PARTS_H

#include "base/map.h"
#include "base/thread.h"
#include "base/vec.h"
#include "git/repo.h"
#include "job/pool.h"
#include "verify/verify_origin.h"

/* A claimed row; it stays due until its result is written. */
struct verify_due {
	uint64_t id;
	char *name; /* owned */
	bool is_new;
};
typedef VEC(struct verify_due) verify_dues;

/* The due rows of one kind. Dispatcher only, except members guarded by the mutex. */
struct verify_lane {
	struct origin_kind kind;
	const struct verify_kind_ops *ops; /* its part */
	verify_dues dues;                  /* with this claim: */
	char claim_token[CLAIM_TOKEN_SIZE];
	size_t at;            /* index in them: all before are submitted */
	int64_t next_at;      /* boot ms; no row is due before */
	int64_t paused_until; /* boot ms; guarded by the mutex */
	bool is_stale;        /* guarded by the mutex; next_at is no longer valid */
};

struct task;

/* A reported doubt, until its verification begins. */
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
		options;               /* capacity, the numbers: guarded by mutex */
	struct pool *pool;             /* dispatcher only */
	int64_t clock_lead_ms;         /* clock_was_set_back(); dispatcher only */
	struct proofs_ageing proofs;   /* dispatcher only */
	VEC(struct verify_lane) lanes; /* fixed; the first is of repositories */
	size_t turn;                   /* lane; dispatcher only */
	size_t claimed;                /* guarded by mutex; rows, here or at work */
	VEC(struct task *) unended;    /* guarded by mutex; owned; their claims stand */
	bool is_begun;                 /* dispatcher only, as the next */
	int64_t renew_at;              /* boot ms: the claims */
	size_t threads, slow;          /* guarded by mutex; at work or resting */
	bool is_woken;                 /* guarded by mutex, as the next */
	bool is_more_often;            /* than what is due was told */
	verify_doubteds doubted;       /* guarded by mutex; each name once */
	bool is_doubt_at_work;         /* guarded by mutex; one at a time */
	struct map alarms;             /* guarded by mutex; name to struct alarm */
	struct map places;             /* guarded by mutex; directory to struct place
					  (verify_places.c) */
	struct stop stop;
	pthread_t dispatcher;
};

/* Claims due rows of a kind, unless some are left in memory. Returns in how many
 * milliseconds more may be due; 0: there are some; INT64_MAX: never. */
int64_t verify_lane_fill(struct verify_origin *verify, struct verify_lane *lane);
void verify_lane_clear(struct verify_lane *lane);

/* At the start, and after the clock was set back: limits the waits of rows to the
 * intended ones. */
void verify_origin_heal(struct verify_origin *verify);

/* Marks the row of a repository as damaged. */
int verify_doubt_fail(struct store *store, const char *name, const struct err *why,
		      struct err *err);

void verify_doubts_clear(struct verify_origin *verify);

/* Examines it now, and doubts it if that finds something. */
void verify_origin_look_now(struct verify_origin *verify, const char *name);

/* It was proved damaged. */
void verify_doubt_proved(struct verify_origin *verify, const char *name);

/*
 * The places from which a repository borrows objects, and that are no repository of the
 * site: each object there is read, too. Of many that borrow from one, one reads it at a
 * time, and the others get what it found.
 */

/* Reads those that were not read lately, each within sync.timeout. *unjudged: why
 * nothing is known of one; ERR_NONE: all are known. ERR_BUSY: another reads a place. */
int verify_places_read(const struct verify_batch *batch, const struct origin_row *row,
		       const struct repo *repo, struct err *unjudged, struct err *err);
void verify_places_clear(struct verify_origin *verify);

int64_t verify_origin_timeout_ms(struct verify_origin *verify);
/* What took longer is read again after that time so many times. */
#define VERIFY_OVERRUN_FACTOR 10

/* After an error of the database. */
#define VERIFY_PATIENCE_MS 10000

#endif
