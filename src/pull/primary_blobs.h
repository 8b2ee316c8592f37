/*
 * What a secondary asks its primary about blobs: docs/protocol.md from the asking side.
 * Each over a line of its own thread.
 */
#ifndef PULL_PRIMARY_BLOBS_H
#define PULL_PRIMARY_BLOBS_H

#include "blob/kinds.h"
#include "pull/blob_frames.h"
#include "pull/primary.h"

/* As primary_inventory(), of one kind. */
int primary_blob_inventory(struct primary_line *line, const struct blob_kind *kind,
			   const struct page_question *question,
			   struct inventory_page *page, struct err *err);

/* What the primary says of the bytes that it sends. */
struct blob_head {
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
	uint64_t offset, size;           /* of the first byte, and of the whole blob */
	char checksum[BLOB_DIGEST_SIZE]; /* "": it does not know it yet */
};

struct blob_part {
	const struct blob_kind *kind;
	const char *id;
	uint64_t offset;     /* from here on */
	uint64_t length;     /* at most so much */
	const char *version; /* "TIMELINE-GENERATION": of this only; NULL: of any */
	int64_t stall_ms;    /* without a byte */
};

/* Bytes in their order; head is the same at each call. -1 ends the request. */
struct blob_part_sink {
	int (*take)(void *arg, const struct blob_head *head, const void *bytes,
		    size_t len, struct err *err);
	void *arg;
};

/* A part of one blob. ERR_MISSING: the primary has no such blob (by its own word);
 * ERR_CONFLICT: not of this version (any more); ERR_CORRUPT: the primary knows that its
 * content is wrong, or its answer makes no sense; ERR_NETWORK, ERR_TIMEOUT: what came is
 * good all the same. */
int primary_blob_read(struct primary_line *line, const struct blob_part *part,
		      const struct blob_part_sink *sink, struct err *err);

/* Many small ones in one answer, in this order: frames of it are given to `frames` as
 * they come. What came whole before an error is good. */
#define PRIMARY_BLOBS_MANY 1000
struct blob_many {
	const struct blob_kind *kind;
	const char *const *ids;
	size_t count; /* at most PRIMARY_BLOBS_MANY */
	int64_t stall_ms;
};
int primary_blob_read_many(struct primary_line *line, const struct blob_many *many,
			   const struct blob_frame_sink *frames, struct err *err);

/* Its kinds: types and layouts, without paths. The caller clears in any case. */
int primary_blob_kinds(struct primary_line *line, struct blob_kinds *kinds,
		       struct err *err);

/* Asks it to read a blob again and compute its checksum anew. ERR_BUSY: it did so a
 * moment ago, and does not now. */
int primary_blob_reverify(struct primary_line *line, const struct blob_kind *kind,
			  const char *id, struct err *err);

#endif
