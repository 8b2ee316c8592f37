/*
 * The answer to a request for many blobs, application/vnd.refrelay.blobs, read as it
 * comes: a line of JSON a blob, its bytes behind it, and a line that says that this was
 * all. Memory is bounded by the longest line that is taken.
 */
#ifndef PULL_BLOB_FRAMES_H
#define PULL_BLOB_FRAMES_H

#include "base/base.h"
#include "base/str.h"
#include "blob/kinds.h"
#include "replicable/origin_rows.h"

struct blob_frame {
	const char *name;
	const char *code, *message; /* why there are no bytes; NULL: there are */
	uint64_t size, generation;
	char timeline[TIMELINE_SIZE];
	char checksum[BLOB_DIGEST_SIZE]; /* "": the primary does not know it yet */
};

/* A return of -1 ends the reading with that error. */
struct blob_frame_sink {
	int (*begin)(void *arg, const struct blob_frame *frame, struct err *err);
	int (*bytes)(void *arg, const void *bytes, size_t len, struct err *err);
	int (*end)(void *arg, struct err *err); /* it came whole; not with a code */
	void *arg;
};

struct blob_frames {
	const struct blob_frame_sink *sink;
	struct str line;
	uint64_t left; /* bytes of the present blob that have not come */
	bool is_inside, is_ended;
};

void blob_frames_init(struct blob_frames *frames, const struct blob_frame_sink *sink);
void blob_frames_clear(struct blob_frames *frames);

/* ERR_CORRUPT: this is no such answer. */
int blob_frames_take(struct blob_frames *frames, const void *bytes, size_t len,
		     struct err *err);

/* The answer is over. ERR_NETWORK: it was cut. */
int blob_frames_finish(const struct blob_frames *frames, struct err *err);

#endif
