/*
 * Some rows of one kind of blobs, while a worker brings them. What the files blob_*.c of
 * a job share; one thread.
 *
 *	blob_job.c	the order of things
 *	blob_job.c	what is here already
 *	blob_fetch.c	small ones, many in one request
 *	blob_fetch.c	a large one, in ranges, resumed
 *	blob_job.c	what stands in the way of a file
 *	blob_fetch.c	what arrived gets its place, durably
 *	blob_fetch.c	what the registry, the log and the metrics hear
 *	blob_job.c	what was met that may be wrong, here or at the primary
 *	blob_verify.c	what the primary has no more
 */
#ifndef PULL_BLOB_WORK_H
#define PULL_BLOB_WORK_H

#include "blob/incoming.h"
#include "pull/pull_job.h"

#define BLOB_STALL_MS 60000
/* A broken connection is tried again so often, if something came over it. */
#define BLOB_BREAKS_MOST 5

enum blob_end {
	BLOB_OPEN,    /* it is to be brought */
	BLOB_ARRIVED, /* all of it, and as the primary says; `incoming` has it */
	BLOB_PLACED,  /* it is in place, durably */
	BLOB_ADOPTED, /* it was here already, and right */
	BLOB_REMOVED, /* with its row */
	BLOB_WAITS,   /* wait_ms: it may be here, and the primary is about to tell */
	BLOB_HELD,    /* it is gone, and a person must say whether it goes here, too */
	BLOB_FAILED,  /* why */
};

struct blob_item {
	struct registry_row *row; /* of the job */
	enum blob_end end;
	struct err why;
	int64_t wait_ms;
	bool is_large;       /* it is asked for alone */
	bool is_doubtful;    /* again it was not what the primary says */
	bool is_proved;      /* read from the disk after it was placed, and right */
	bool is_taken;       /* no other worker has it: pull.at_work */
	struct lease *lease; /* owned; NULL with an immutable kind */
	struct blob_incoming *incoming; /* owned */
	/* As the primary said with the bytes. */
	char timeline[TIMELINE_SIZE];
	uint64_t generation, size;
	char expected[BLOB_DIGEST_SIZE]; /* "": not known yet */
	char digest[BLOB_DIGEST_SIZE];   /* computed on the way */
	struct blob_fingerprint
		fingerprint; /* of the file in place, as it was proved or put there */
};

struct blob_work {
	struct pull *pull;
	const struct blob_kind *kind;
	int root;      /* of the kind, open */
	int64_t until; /* boot ms: the job's time is over */
	struct blob_item *items;
	size_t count;
	uint64_t bytes; /* that arrived */
};

/* It ends with that error, and keeps nothing open. Returns -1. What this machine lacks is
 * never taken for missing at the primary. */
int blob_item_fail(struct blob_item *item, const struct err *why);
int blob_item_fail_here(struct blob_item *item, const struct err *why);

/* The lease of a blob that may change; of others none is needed. */
int blob_item_lease(const struct blob_work *work, struct blob_item *item,
		    const char *operation);

/* For how long a request may still take. ERR_TIMEOUT: the job's time is over. */
int blob_work_time(const struct blob_work *work, int64_t *left_ms, struct err *err);

/* What its content must be by the id or by the row; "" : not known. */
void blob_item_expect(const struct blob_work *work, const struct blob_item *item,
		      char digest[BLOB_DIGEST_SIZE]);

/* What comes is said to be the version that the row wants, which has a size: another one
 * makes no sense, and is not written. */
int blob_item_check_size(const struct blob_item *item, struct err *err);

/* All of it was written: judges it by what the primary says, and by the id. BLOB_ARRIVED
 * or BLOB_FAILED. */
void blob_item_judge(struct blob_work *work, struct blob_item *item);

/* Makes room for what is brought: what stands in its way and is no blob, nor has blobs
 * below it, goes to the kind's trash. At a secondary nobody else puts anything there.
 * Whatever cannot be moved is found when the file is. */
void blob_clear_way(struct blob_work *work, const struct blob_item *item);

void blob_find_present(struct blob_work *work);
void blob_fetch_small(struct blob_work *work);
void blob_fetch_large(struct blob_work *work, struct blob_item *item);
void blob_settle(struct blob_work *work);
void blob_remove_gone(struct blob_work *work);
void blob_record(struct blob_work *work, int64_t took_ms);

/* After a row was written: its times say nothing of what others did to the file before.
 * So if that is not any more what this fingerprint is of, the row is doubted. */
void blob_look_again(struct pull *pull, const struct blob_kind *kind, int root,
		     const char *id, const struct blob_fingerprint *fingerprint);

/* Copy and primary disagree about a generation: the primary is asked to read its file
 * again, at most once an hour a blob. */
void blob_doubt(struct pull *pull, const struct blob_kind *kind, const char *id);

#endif
