/*
 * The primary's blobs, read to compute their checksums. Any thread.
 */
#ifndef VERIFY_VERIFY_BLOBS_H
#define VERIFY_VERIFY_BLOBS_H

#include "base/base.h"
#include "base/thread.h"
#include "change/blob_notice.h"

#define VERIFY_BLOBS_MAX 10

struct blob_batch {
	struct blob_notice *notice;
	const struct blob_kind *kind;
	char *const *names;
	size_t count;            /* up to VERIFY_BLOBS_MAX */
	const char *claim_token; /* of their rows; others are left alone */
	const struct stop *stop;
};

/* Looks at them, reads them one after another, and records the results together, unless
 * reading takes long. False: none could be judged: the directory or the database is away,
 * or stop. */
bool verify_blobs(const struct blob_batch *batch);

#endif
