/*
 * Many small blobs in one answer: for each a line of JSON, then its bytes, and a last
 * line that marks the end. It is read as it arrives: memory is bounded by the longest
 * accepted line.
 */
#ifndef WIRE_WIRE_FRAMES_H
#define WIRE_WIRE_FRAMES_H

#include "wire/wire.h"

#define WIRE_FRAMES_TYPE "application/vnd.refrelay.blobs"
#define WIRE_FRAMES_MOST 1000 /* blobs of one answer */

/* The request's body: the blobs, in this order. */
void wire_frames_ask(const char *const *ids, size_t count, struct str *body);

/* A list of at most WIRE_FRAMES_MOST texts, which the caller owns. NULL: ERR_CONFIG. */
json_t *wire_frames_asked(const struct str *body, struct err *err);

struct wire_frame {
	const char *name;
	const char *code, *message; /* why the bytes are missing; NULL: they follow */
	uint64_t size, generation;
	char timeline[TIMELINE_SIZE];
	char checksum[BLOB_DIGEST_SIZE]; /* "": the primary does not know it yet */
};

/* A frame's code for an error of one blob (NULL: not an error of the blob), and back
 * (ERR_CONFLICT: unknown, from a later version). WIRE_TOO_LARGE: fetch it alone. */
#define WIRE_TOO_LARGE "TOO_LARGE"
const char *wire_frame_code(enum err_class class);
enum err_class wire_frame_class(const char *code);

/* Appends a frame's line, before its bytes; and the last line. */
void wire_frame_render(const struct wire_frame *frame, struct str *out);
void wire_frames_render_end(struct str *out);

/* A return of -1 ends the reading with that error. */
struct wire_frame_sink {
	int (*begin)(void *arg, const struct wire_frame *frame, struct err *err);
	int (*bytes)(void *arg, const void *bytes, size_t len, struct err *err);
	int (*end)(void *arg, struct err *err); /* it arrived whole; not called with a
						   code */
	void *arg;
};

struct wire_frames {
	const struct wire_frame_sink *sink;
	struct str line;
	uint64_t left; /* bytes of the present blob still missing */
	bool is_inside, is_ended;
};

void wire_frames_init(struct wire_frames *frames, const struct wire_frame_sink *sink);
void wire_frames_clear(struct wire_frames *frames);

/* ERR_CORRUPT: not a valid answer. */
int wire_frames_take(struct wire_frames *frames, const void *bytes, size_t len,
		     struct err *err);

/* The answer has ended. ERR_NETWORK: it was truncated. */
int wire_frames_finish(const struct wire_frames *frames, struct err *err);

#endif
