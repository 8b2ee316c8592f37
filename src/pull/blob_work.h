/*
 * Some rows of one kind of blobs, while a worker brings or verifies them. Shared by the
 * files blob_*.c; one thread per job.
 *
 *	blob_job.c	the kind's operations for the engine, and the order of work;
 *			blobs that are here already, obstacles, possible damage
 *	blob_fetch.c	small ones, many in one request; a large one, in ranges, resumed;
 *			puts arrived ones in place, durably; logs
 *	blob_verify.c	compares blobs here with the primary's data
 */
#ifndef PULL_BLOB_WORK_H
#define PULL_BLOB_WORK_H

#include "blob/incoming.h"
#include "pull/copy_kind.h"
#include "pull/pull_parts.h"

#define BLOB_STALL_MS 60000
/* The most retries of a broken connection, if any bytes came over it. */
#define BLOB_BREAKS_MOST 5

/* The blob-specific part of an item. */
struct blob_item {
	bool is_large;                  /* requested alone */
	bool was_read;                  /* what was here, before it is brought */
	bool is_doubtful;               /* once more it differed from what the primary
					   says */
	struct lease *lease;            /* owned; NULL with an immutable kind */
	struct blob_incoming *incoming; /* owned */
	char digest[BLOB_DIGEST_SIZE];  /* computed on the way */
	struct blob_fingerprint
		fingerprint; /* of the file in place, when it was proved or put there */
};

/* The blob-specific part of a job. */
struct blob_work {
	struct pull_job *job;
	const struct blob_kind *kind;
	int root;                /* of the kind, open; -1: not there */
	struct blob_item *items; /* the items' own */
};

static inline struct blob_item *blob_of(const struct pull_item *item)
{
	return item->own;
}

/* How long a request may still take. ERR_TIMEOUT: the job's time has run out. */
int blob_work_time(const struct blob_work *work, int64_t *left_ms, struct err *err);

/* Reads the item's file, as blob_digest_until() within the job's time, and keeps its
 * fingerprint. */
int blob_work_digest(const struct blob_work *work, const struct pull_item *item, int fd,
		     char digest[BLOB_DIGEST_SIZE], struct err *err);

/* Counts bytes that arrived. */
void blob_work_count(const struct blob_work *work, uint64_t bytes);

/* Whether arrived content is compared with what the source says of it. A directory says
 * nothing: the content read there is the truth. */
static inline bool blob_work_can_check(const struct blob_work *work)
{
	return work->job->pull->source->ops->tells_checksums;
}

/* The digest that its content must have by the id or by the row; "": not known. */
void blob_item_expect(const struct blob_work *work, const struct pull_item *item,
		      char digest[BLOB_DIGEST_SIZE]);

/* The response claims to be the version that the row wants, whose size is recorded: a
 * response of another size makes no sense and is not written. */
int blob_item_check_size(const struct pull_item *item, struct err *err);

/* After all of it was written: checks it against what the primary says and against the
 * id. Sets PULL_ARRIVED or PULL_FAILED. */
void blob_item_judge(struct blob_work *work, struct pull_item *item);

void blob_fetch_small(struct blob_work *work);
void blob_fetch_large(struct blob_work *work, struct pull_item *item);
void blob_settle(struct blob_work *work);

/* After the outcome is in the registry: logs it. */
void blob_report_ended(const struct blob_work *work);

/* Called through the kind's interface; and after the outcome is in the registry. */
void blob_verify_job(struct pull_job *job);
void blob_verify_look_again(const struct blob_work *work);

/* Called after a row was written: its times say nothing about earlier changes of the file
 * by others. So if the file no longer matches this fingerprint, the row is doubted. */
void blob_look_again(struct pull *pull, const struct blob_kind *kind, int root,
		     const char *id, const struct blob_fingerprint *fingerprint);

/* Copy and primary disagree about a generation: asks the primary to read its file again,
 * at most once an hour per blob. */
void blob_doubt(const struct blob_work *work, const char *id);

#endif
