/*
 * A stream on its way to the client: one of the server's workers reads it, at most a
 * block ahead of the sending thread, which never waits for it. The worker itself sends a
 * long one, so that other threads do not wait; the kernel sends a long file. Both leave
 * when they are done; the last one frees it.
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
	struct MHD_Connection *connection; /* suspended while there are no bytes */
	struct idle_conn *idle;
	const struct stop *cut;
	/* The worker may send it: the library would send it in chunks, unencrypted. */
	bool may_be_taken;
	struct bucket *bucket; /* NULL: unlimited */
};

/* Takes the response's stream; the objects in `path` are borrowed. */
struct flow *flow_new(struct web_response *response, const struct flow_path *path);

/* The worker's part: reads to the end, or until the sender has left; then leaves. */
void flow_pump(struct flow *flow);

/* The length to report to the library: MHD_SIZE_UNKNOWN if it is sent in chunks. */
uint64_t flow_size(const struct flow *flow);

/* Whether the library closes the connection after it; the head must say so. */
bool flow_ends_connection(const struct flow *flow);

/* The sender's part, as libmicrohttpd's callbacks. */
ssize_t flow_read(void *flow, uint64_t at, char *buffer, size_t size);
void flow_leave(void *flow);

/* How it ended, for the sender. */
enum flow_end { FLOW_OPEN, FLOW_WHOLE, FLOW_BROKEN };
enum flow_end flow_end(struct flow *flow);

#endif
