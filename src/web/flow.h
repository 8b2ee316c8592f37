/*
 * A stream on its way to the client: one of the server's workers reads it, at most a
 * block ahead of the thread that sends, which never waits for it. A long one the worker
 * sends itself, so that nobody waits for it; a long file the kernel sends. Both leave
 * when they are done; the last frees.
 */
#ifndef WEB_FLOW_H
#define WEB_FLOW_H

#include <microhttpd.h>

#include "web/bucket.h"
#include "web/listen.h"
#include "web/web.h"

struct flow;

#define FLOW_BLOCK (256 << 10)

struct flow_path {
	struct MHD_Connection *connection; /* suspended while nothing is there */
	struct idle_conn *idle;
	const struct stop *cut;
	/* By the worker: the library sends it in chunks, and not encrypted. */
	bool may_be_taken;
	struct bucket *bucket; /* NULL: as fast as it can */
};

/* Takes the response's stream; what the path names is borrowed. */
struct flow *flow_new(struct web_response *response, const struct flow_path *path);

/* The worker's part: reads to the end, or until the sender has left; then leaves. */
void flow_pump(struct flow *flow);

/* What the library is told of its length: MHD_SIZE_UNKNOWN if it comes in chunks. */
uint64_t flow_size(const struct flow *flow);

/* The library closes the connection behind it, as the head must say. */
bool flow_ends_connection(const struct flow *flow);

/* The sender's part, as libmicrohttpd's callbacks. */
ssize_t flow_read(void *flow, uint64_t at, char *buffer, size_t size);
void flow_leave(void *flow);

/* How it ended, for the sender. */
enum flow_end { FLOW_OPEN, FLOW_WHOLE, FLOW_BROKEN };
enum flow_end flow_end(struct flow *flow);

#endif
