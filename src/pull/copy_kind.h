/*
 * What a kind of replicable offers to the half of the program that keeps copies: one
 * struct copy_kind_ops in the table of kinds.c. The engine does the rest, for every kind
 * alike: it claims rows and distributes them to workers (scheduler.c); checks the
 * deletion limit, records in the registry how each row ended, gives rows back, counts and
 * measures (pull_job.c); and compares inventories and takes over events (consistency.c,
 * log_cursor.c). A job, with everything in it, belongs to one worker.
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
	PULL_ARRIVED, /* complete, and as the primary says; not yet in place */
	PULL_CREATED, /* in place, durably, as the three below */
	PULL_UPDATED,
	PULL_UNCHANGED, /* it was here already and correct */
	PULL_REMOVED,   /* the copy and its row */
	PULL_WAITS,     /* it is due again in wait_ms */
	PULL_HELD,      /* needs a person's decision: held_reason */
	PULL_LIMITED,   /* gone at the primary, but more than may be removed here
			   automatically */
	PULL_FAILED,    /* why */
	PULL_ENDS
};

/* One row of a job, and how it ended. */
struct pull_item {
	struct registry_row *row; /* of the job */
	enum pull_end end;
	struct err why;  /* PULL_FAILED; of a verification: ERR_NONE: proved */
	int64_t wait_ms; /* PULL_WAITS; FAILED: the least wait; disproved: until it is
			    brought again */
	char *held_reason, *remedy; /* PULL_HELD; owned */
	/* The state here now; timeline and checksum "": not known. */
	char timeline[TIMELINE_SIZE], checksum[CHECKSUM_TEXT_SIZE];
	uint64_t generation, size;
	uint64_t bytes;      /* that arrived */
	size_t refs_changed; /* of a repository */
	bool is_proved;      /* brought, read again and found correct */
	bool is_uncounted;   /* the metrics do not count it as a sync */
	bool is_final;       /* FAILED: a retry cannot succeed */
	bool of_copy;     /* a verification ended where only the copy's files were read */
	unsigned wishes;  /* if it is disproved */
	int64_t lag_ms;   /* of what was brought; set when it is recorded */
	bool is_recorded; /* it is in the registry, as: */
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
	int64_t until;      /* boot ms: its deadline; later its rows may be another's */
	int64_t took_ms;    /* of bringing, once that has ended */
	uint64_t bytes;     /* that arrived */
	struct history_job *shown; /* while it runs; NULL: one run */
	bool rests;                /* a background verification: it rests in between */
	/* Of a repository: called when it is here as its source has it, while its lease
	 * is still held. May be NULL. */
	void (*brought)(struct pull_job *job, struct job *leased);
	void *own; /* the kind's, from open to end */
};

/* Maintenance of one copy (maintainer.h). */
struct maintain_call {
	struct pull *pull;
	const struct kind *kind;
	const char *name;
	const struct stop *stop; /* when set, it gives way */
	bool is_walk;            /* of all copies: left-overs are looked for as well */
};

enum maintain_end {
	MAINTAIN_NOTHING,     /* nothing was due */
	MAINTAIN_LATER,       /* somebody else is working on it */
	MAINTAIN_INTERRUPTED, /* somebody else had work on it, so it gave way */
	MAINTAIN_DONE,
	MAINTAIN_FAILED,
};

struct copy_kind_ops {
	enum pull_workers workers; /* which bring it */
	bool is_needed; /* pull does not start without its directory; else only this kind
			   fails */
	size_t bring_most, verify_most; /* rows of a job */
	uint64_t small_most;            /* larger ones are brought alone; 0: size does not
					   matter */
	bool has_late_checksums; /* the primary computes them some time after a change */
	/* Each copy is the file of its name below the directory: inotify reports what
	 * others do to it (blob_copy_watch.c). */
	bool is_watched;

	/* Called at the start, after its directory was opened. May be NULL. */
	void (*begin)(const struct pull_options *options, const struct kind *kind);
	/* Whether a copy is as its row says, by stat() where that suffices. -1: it is
	 * not, or cannot be examined: *err. */
	int (*look)(const struct glance_look *look, const struct registry_row *row,
		    struct err *err);

	/* Called before the others: prepares what they need. -1: all items fail. May be
	 * NULL. */
	int (*open)(struct pull_job *job, struct err *err);
	/* Each ends the items that are open: remove(), the copies of rows that are gone,
	 * by removal_run_batch(); bring(), the others; verify() sets why and of_copy. */
	void (*remove)(struct pull_job *job);
	void (*bring)(struct pull_job *job);
	void (*verify)(struct pull_job *job);
	/* Called when the outcome is in the registry: logs it and frees `own`. Also
	 * called after open() failed. */
	void (*end)(struct pull_job *job);

	/* Puts one copy into the trash, on a person's request and under its lease. NULL:
	 * a person cannot request that. ERR_MISSING: nothing is there. */
	int (*discard)(const struct kind *kind, const char *name, struct err *err);

	/* Of a copy whose row is synced and unclaimed: periodic work that keeps it fast
	 * and small, under its lease. May be NULL. */
	enum maintain_end (*maintain)(const struct maintain_call *call);

	/* Removes what crashes left, once a day; the trash is emptied separately. May be
	 * NULL. */
	void (*tidy)(const struct kind *kind);
	/* Copies without a row: adds to *found. May be NULL. */
	int (*count_leftovers)(struct store *store, const struct kind *kind,
			       struct leftovers_found *found, struct err *err);
	/* Handles them, after everything was compared. May be NULL. */
	int (*take_leftovers)(struct pull *pull, const struct leftovers_call *call,
			      struct err *err);
};

extern const struct copy_kind_ops repository_copy_ops, blob_copy_ops;

/* Sets the id for the job's further work, that of a request; NULL: a new one. Call it
 * when the job runs. */
void pull_job_take_id(struct pull_job *job, const char *id);

/* Ends an item with that error. Returns -1. _here(): a file missing on this machine is
 * never reported as missing at the primary. */
int pull_item_fail(struct pull_item *item, const struct err *why);
int pull_item_fail_here(struct pull_item *item, const struct err *why);

/* The items with that end so far, one after another: *at begins as 0; NULL: no more. */
struct pull_item *pull_job_next(const struct pull_job *job, size_t *at,
				enum pull_end end);
size_t pull_job_count(const struct pull_job *job, enum pull_end end);

/* ... all of them fail instead. */
void pull_job_fail_here(struct pull_job *job, enum pull_end end, const struct err *why);

/* Whether it is the job's own deadline that passed, and not that of a file server. */
bool pull_job_ran_out(const struct pull_job *job, const struct err *why);

/* Ends the item as removal_run_batch() says: copy and row were removed, or why not. -1:
 * they were not. */
int pull_item_end_removed(struct pull_item *item, const struct err *why);

/* How it ended, as metrics and logs call it. Static. */
const char *pull_item_word(const struct pull_item *item);

/* Whether it is in its place by this job. */
bool pull_item_is_placed(const struct pull_item *item);

/* Pool work, and its cleanup if it never gets a worker; arg is the job. */
void pull_job_run(void *arg);
void pull_job_forget(void *arg);

/* Registers the metrics of work on copies, so that they exist from the start. */
void pull_job_begin_metrics(const struct kinds_here *here);

/* Keeps a move that could not be written, e.g. on a full disk, in memory until it can:
 * its row, claim and event, and no more. */
void pull_move_later(struct pull *pull, const struct registry_move *move);

/* Writes those, as soon as that is possible. Called by the scheduler; -1: some still
 * cannot be written. */
int pull_give_back_now(struct pull *pull, struct err *err);

#endif
