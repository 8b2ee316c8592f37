/*
 * What a kind of replicable offers to the half of the program that keeps copies: one
 * struct copy_kind_ops, in the table of kinds.c. The engine does the rest, for every kind
 * alike: it claims rows and shares them out among workers (scheduler.c); asks the
 * deletion limit, tells the registry how each row ended, gives rows back, counts and
 * measures (pull_job.c); and compares inventories and takes events over (consistency.c,
 * log_cursor.c). A job is one worker's, and so is all that is in it.
 */
#ifndef PULL_COPY_KIND_H
#define PULL_COPY_KIND_H

#include "git/checksum.h"
#include "job/job.h"
#include "job/pool.h"
#include "pull/glance.h"
#include "pull/history.h"
#include "pull/kinds.h"
#include "pull/leftovers.h"
#include "pull/pull.h"
#include "replicable/registry_move.h"

enum pull_end {
	PULL_OPEN,    /* it is to be brought, removed or verified */
	PULL_ARRIVED, /* all of it, and as the primary says; it has no place yet */
	PULL_CREATED, /* in place, durably, as the three below */
	PULL_UPDATED,
	PULL_UNCHANGED, /* it was here already, and right */
	PULL_REMOVED,   /* with its row */
	PULL_WAITS,     /* it is due again in wait_ms */
	PULL_HELD,      /* a person must decide: held_reason */
	PULL_LIMITED,   /* gone at the primary, and more than may go here by itself */
	PULL_FAILED,    /* why */
	PULL_ENDS
};

/* One row of a job, and how it ended. */
struct pull_item {
	struct registry_row *row; /* of the job */
	enum pull_end end;
	struct err why;  /* PULL_FAILED; of a verification: ERR_NONE, it is proved */
	int64_t wait_ms; /* PULL_WAITS; FAILED: not before; disproved: until it is brought
			    again */
	char *held_reason, *remedy; /* PULL_HELD; owned */
	/* What is here now; timeline and checksum "": not known. */
	char timeline[TIMELINE_SIZE], checksum[CHECKSUM_TEXT_SIZE];
	uint64_t generation, size;
	uint64_t bytes;      /* that arrived */
	size_t refs_changed; /* of a repository */
	bool is_proved;      /* brought, read again, and right */
	bool is_uncounted;   /* no sync, for the metrics */
	bool is_final;       /* FAILED: no further try would end otherwise */
	bool of_copy;     /* a verification ended where only the copy's files were read */
	unsigned wishes;  /* if it is disproved */
	int64_t lag_ms;   /* of what was brought; set when it is recorded */
	bool is_recorded; /* the registry heard of it: */
	enum registry_result result;
	void *own; /* the kind's, from open to end */
};

struct pull_job {
	struct pull *pull;
	struct kind kind; /* of the rows; no parts: upkeep */
	registry_rows rows;
	struct pull_item *items; /* as many; NULL until it runs */
	char id[LEASE_JOB_SIZE]; /* in logs, leases and the API: pull_job_take_id() */
	int64_t lease_wait_ms; /* how long it waits for the lease; 0: held means later */
	int64_t leased_at;     /* wall ms of the last grant; 0: none */
	bool is_verification;
	size_t *running;    /* guarded by pull->mutex */
	int64_t claimed_at; /* boot ms */
	int64_t until; /* boot ms: its time is over; what is claimed then is another's */
	int64_t took_ms;           /* of a bringing, when it has ended */
	uint64_t bytes;            /* that arrived */
	struct history_job *shown; /* while it runs; NULL: one run */
	bool rests;                /* a verification that nobody waits for */
	/* Of a repository: it is here as its source has it, and its lease is held still.
	 * May be NULL. */
	void (*brought)(struct pull_job *job, struct job *leased);
	void *own; /* the kind's, from open to end */
};

/* Maintenance of one copy (maintainer.h). */
struct maintain_call {
	struct pull *pull;
	const struct kind *kind;
	const char *name;
	const struct stop *stop; /* it gives way */
};

enum maintain_end {
	MAINTAIN_NOTHING,     /* was due */
	MAINTAIN_LATER,       /* another works on it */
	MAINTAIN_INTERRUPTED, /* another wanted to, and it gave way */
	MAINTAIN_DONE,
	MAINTAIN_FAILED,
};

struct copy_kind_ops {
	enum pull_workers workers; /* that bring it */
	bool is_needed; /* nothing starts without its directory; else it fails alone */
	size_t bring_most, verify_most; /* rows of a job */
	uint64_t small_most;     /* what is larger is brought alone; 0: all are alike */
	bool has_late_checksums; /* the primary knows them some time after a change */
	/* Each copy is the file of its name below the directory: inotify tells what
	 * others do to it (blob_copy_watch.c). */
	bool is_watched;

	/* At the start, when its directory was opened. May be NULL. */
	void (*begin)(const struct pull_options *options, const struct kind *kind);
	/* Whether a copy is as its row says, by stat() if that tells. -1: it is not, or
	 * cannot be looked at: *err. */
	int (*look)(const struct glance_look *look, const struct registry_row *row,
		    struct err *err);

	/* Before the others: what they need. -1: all items fail. May be NULL. */
	int (*open)(struct pull_job *job, struct err *err);
	/* Each ends what is open: remove, the copies of rows that are gone, by
	 * removal_run_batch(); bring, the others; verify sets why, and what it is of. */
	void (*remove)(struct pull_job *job);
	void (*bring)(struct pull_job *job);
	void (*verify)(struct pull_job *job);
	/* The registry has heard of it. The log is told, and what is own is freed. Also
	 * after an open() that failed. */
	void (*end)(struct pull_job *job);

	/* Puts one copy into the trash, by a person's word and under its lease. NULL: a
	 * person cannot have it removed. ERR_MISSING: nothing is there. */
	int (*discard)(const struct kind *kind, const char *name, struct err *err);

	/* Of one whose row is synced and nobody's: what is due now and then so that the
	 * copy stays fast and small, under its lease. May be NULL. */
	enum maintain_end (*maintain)(const struct maintain_call *call);

	/* What was left by crashes, once a day; the trash is emptied by itself. May be
	 * NULL. */
	void (*tidy)(const struct kind *kind);
	/* Copies that no row tells of: adds to *found. May be NULL. */
	int (*count_leftovers)(struct store *store, const struct kind *kind,
			       struct leftovers_found *found, struct err *err);
	/* The same, looked for once all was compared; `rows`: how many
	 * the registry has. May be NULL. */
	int (*take_leftovers)(struct pull *pull, const struct kind *kind, int64_t rows,
			      struct err *err);
};

extern const struct copy_kind_ops repository_copy_ops, blob_copy_ops;

/* What is done from now on is the job of that id, which somebody asked for; NULL: a new
 * one. Set when the job runs. */
void pull_job_take_id(struct pull_job *job, const char *id);

/* An item ends with that error. Returns -1. What this machine lacks is never taken for
 * missing at the primary. */
int pull_item_fail(struct pull_item *item, const struct err *why);
int pull_item_fail_here(struct pull_item *item, const struct err *why);

/* Those that have ended so by now, one after another: *at begins as 0; NULL: no more. */
struct pull_item *pull_job_next(const struct pull_job *job, size_t *at,
				enum pull_end end);
size_t pull_job_count(const struct pull_job *job, enum pull_end end);

/* ... all of them fail instead. */
void pull_job_fail_here(struct pull_job *job, enum pull_end end, const struct err *why);

/* Its copy and row went, or why not; as removal_run_batch() says. -1: they did not. */
int pull_item_end_removed(struct pull_item *item, const struct err *why);

/* How it ended, as metrics and logs call it. Static. */
const char *pull_item_word(const struct pull_item *item);

/* Whether it is in its place by this job. */
bool pull_item_is_placed(const struct pull_item *item);

/* Pool work, and what becomes of it without a worker; arg is the job. */
void pull_job_run(void *arg);
void pull_job_forget(void *arg);

/* So that the metrics of what is done to copies are there from the start. */
void pull_job_begin_metrics(const struct kinds_here *here);

/* A row is a worker's whose last word could not be written, as on a full disk: it is
 * given back as soon as that can be. By the scheduler; -1: that still cannot be
 * written. */
int pull_give_back_now(struct pull *pull, struct err *err);

#endif
