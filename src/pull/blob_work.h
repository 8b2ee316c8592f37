/*
 * Some rows of one kind of blobs, while a worker brings or verifies them. What the files
 * blob_*.c of a job share; one thread.
 *
 *	blob_job.c	the kind as the engine knows it, and the order of things; what is
 *			here already, what stands in the way, what may be wrong
 *	blob_fetch.c	small ones, many in one request; a large one, in ranges, resumed;
 *			what arrived gets its place, durably; what the log hears
 *	blob_verify.c	whether what is here is as the primary says
 */
#ifndef PULL_BLOB_WORK_H
#define PULL_BLOB_WORK_H

#include "blob/incoming.h"
#include "pull/copy_kind.h"
#include "pull/pull_parts.h"

#define BLOB_STALL_MS 60000
/* A broken connection is tried again so often, if something came over it. */
#define BLOB_BREAKS_MOST 5

/* What an item is besides. */
struct blob_item {
	bool is_large;                  /* it is asked for alone */
	bool is_doubtful;               /* again it was not what the primary says */
	struct lease *lease;            /* owned; NULL with an immutable kind */
	struct blob_incoming *incoming; /* owned */
	char digest[BLOB_DIGEST_SIZE];  /* computed on the way */
	struct blob_fingerprint
		fingerprint; /* of the file in place, as it was proved or put there */
};

/* The job's own. */
struct blob_work {
	struct pull_job *job;
	const struct blob_kind *kind;
	int root;                /* of the kind, open; -1: it is away */
	struct blob_item *items; /* the items' own */
};

static inline struct blob_item *blob_of(const struct pull_item *item)
{
	return item->own;
}

/* For how long a request may still take. ERR_TIMEOUT: the job's time is over. */
int blob_work_time(const struct blob_work *work, int64_t *left_ms, struct err *err);

/* So many bytes arrived. */
void blob_work_count(const struct blob_work *work, uint64_t bytes);

/* Whether what came is compared with what the source says of it. A directory says
 * nothing: what was read there is the truth. */
static inline bool blob_work_can_check(const struct blob_work *work)
{
	return work->job->pull->source->ops->tells_checksums;
}

/* What its content must be by the id or by the row; "" : not known. */
void blob_item_expect(const struct blob_work *work, const struct pull_item *item,
		      char digest[BLOB_DIGEST_SIZE]);

/* What comes is said to be the version that the row wants, which has a size: another one
 * makes no sense, and is not written. */
int blob_item_check_size(const struct pull_item *item, struct err *err);

/* All of it was written: judges it by what the primary says, and by the id. PULL_ARRIVED
 * or PULL_FAILED. */
void blob_item_judge(struct blob_work *work, struct pull_item *item);

void blob_fetch_small(struct blob_work *work);
void blob_fetch_large(struct blob_work *work, struct pull_item *item);
void blob_settle(struct blob_work *work);

/* The registry has heard of it. */
void blob_report_ended(const struct blob_work *work);

/* Of the kind's interface; and after the registry has heard of it. */
void blob_verify_job(struct pull_job *job);
void blob_verify_look_again(const struct blob_work *work);

/* After a row was written: its times say nothing of what others did to the file before.
 * So if that is not any more what this fingerprint is of, the row is doubted. */
void blob_look_again(struct pull *pull, const struct blob_kind *kind, int root,
		     const char *id, const struct blob_fingerprint *fingerprint);

/* Copy and primary disagree about a generation: the primary is asked to read its file
 * again, at most once an hour a blob. */
void blob_doubt(const struct blob_work *work, const char *id);

#endif
