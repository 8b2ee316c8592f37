/*
 * The library sends from the few threads that serve all connections, a piece of a block
 * at a time. For a short answer that is good, and the connection stays. But some clones
 * together would keep these threads from what they are for. So the worker takes over the
 * socket of what has become long. It may: it does so only while the connection is
 * suspended, when the library has sent all it was given and does not touch the socket,
 * and it gives it back at the end of a chunk. There the library sends the last one, and
 * the connection stays; if the stream broke, it closes it. What must be encrypted only
 * the library can send.
 */
#include "web/flow.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/thread.h"

enum { LONG = 256 << 10 }; /* what has so many bytes is long */

struct flow {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct flow_path path; /* borrowed; the sender's, or the worker's if suspended */
	ssize_t (*read)(void *stream, void *buffer, size_t size);
	void (*close)(void *stream);
	void *stream;
	int64_t until; /* what the stream holds is given back then, whoever still reads */
	char *spare;   /* the worker's */
	char *block;   /* guarded by mutex, as those below */
	size_t len, at;
	uint64_t passed; /* bytes handed on */
	bool is_suspended, is_sender_gone;
	bool is_taken; /* the worker sends */
	enum flow_end end;
	unsigned holders;
};

struct flow *flow_new(struct web_response *response, const struct flow_path *path)
{
	struct flow *flow = xcalloc(1, sizeof(*flow));

	mutex_init(&flow->mutex);
	cond_init(&flow->changed);
	flow->path = *path;
	flow->read = response->read;
	flow->close = response->close;
	flow->stream = TAKE(response->stream);
	flow->until = response->until ? response->until : INT64_MAX;
	response->read = NULL;
	flow->spare = xmalloc(FLOW_BLOCK);
	flow->block = xmalloc(FLOW_BLOCK);
	flow->holders = 2;
	return flow;
}

static void release(struct flow *flow)
{
	lock(&flow->mutex);
	bool is_last = --flow->holders == 0;
	unlock(&flow->mutex);
	if (!is_last)
		return;
	pthread_cond_destroy(&flow->changed);
	pthread_mutex_destroy(&flow->mutex);
	free(flow->spare);
	free(flow->block);
	free(flow);
}

static void resume_locked(struct flow *flow)
{
	if (!flow->is_suspended)
		return;
	flow->is_suspended = false;
	MHD_resume_connection(flow->path.connection);
}

static void end(struct flow *flow, enum flow_end how)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flow->mutex);

	flow->end = how;
	resume_locked(flow);
}

enum passed { PASSED, PASSED_NOBODY, PASSED_NOT, PASSED_LATE };

/* Hands on what is in the spare block, unless it shall be sent from here. */
static enum passed pass(struct flow *flow, size_t count)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flow->mutex);

	while (flow->len > 0 && !flow->is_sender_gone)
		if (!cond_wait_until(&flow->changed, held, flow->until))
			return PASSED_LATE;
	if (flow->is_sender_gone)
		return PASSED_NOBODY;
	if (flow->is_suspended && flow->path.may_be_taken && flow->passed >= LONG) {
		flow->is_taken = true;
		return PASSED_NOT;
	}
	char *block = flow->block;
	flow->block = flow->spare;
	flow->spare = block;
	flow->len = count;
	flow->at = 0;
	flow->passed += count;
	resume_locked(flow);
	return PASSED;
}

/* For poll(). */
static int time_left(const struct flow *flow)
{
	int64_t left = flow->until - clock_boot_ms();

	if (flow->until == INT64_MAX)
		return -1;
	return left <= 0 ? 0 : left < INT_MAX ? (int)left : INT_MAX;
}

/* False: the client is gone, was silent for too long, or time is over. */
static bool wait_for_client(struct flow *flow, int fd)
{
	struct pollfd watched[] = { { .fd = fd, .events = POLLOUT },
				    { .fd = flow->path.cut->fd, .events = POLLIN } };

	idle_expect(flow->path.idle);
	int found = poll(watched, ARRAY_SIZE(watched), time_left(flow));
	idle_hold(flow->path.idle);
	return found < 0 ? errno == EINTR : found > 0 && watched[1].revents == 0;
}

static void skip(struct msghdr *message, size_t count)
{
	while (message->msg_iovlen > 0 && count >= message->msg_iov->iov_len) {
		count -= message->msg_iov->iov_len;
		message->msg_iov++;
		message->msg_iovlen--;
	}
	if (message->msg_iovlen == 0)
		return;
	message->msg_iov->iov_base = (char *)message->msg_iov->iov_base + count;
	message->msg_iov->iov_len -= count;
}

static bool send_parts(struct flow *flow, int fd, struct iovec *parts, size_t count)
{
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = count };

	while (message.msg_iovlen > 0) {
		ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (sent >= 0)
			skip(&message, (size_t)sent);
		else if (errno != EINTR &&
			 (errno != EAGAIN || !wait_for_client(flow, fd)))
			return false;
	}
	return true;
}

/* RFC 9112, 7.1. */
static bool send_chunk(struct flow *flow, int fd, size_t len)
{
	char head[24], tail[] = "\r\n";
	struct iovec parts[] = { { head, 0 }, { flow->spare, len }, { tail, 2 } };

	parts[0].iov_len = (size_t)snprintf(head, sizeof(head), "%zx\r\n", len);
	return send_parts(flow, fd, parts, ARRAY_SIZE(parts));
}

/* Sends the spare block, and all that follows but the last chunk, which the library
 * sends. */
static enum flow_end send_rest(struct flow *flow, size_t len)
{
	int fd = MHD_get_connection_info(flow->path.connection,
					 MHD_CONNECTION_INFO_CONNECTION_FD)
			 ->connect_fd;
	ssize_t count = (ssize_t)len;

	do {
		if (!send_chunk(flow, fd, (size_t)count))
			return FLOW_OPEN;
		count = flow->read(flow->stream, flow->spare, FLOW_BLOCK);
	} while (count > 0);
	return count < 0 ? FLOW_BROKEN : FLOW_WHOLE;
}

static void pump(struct flow *flow)
{
	for (;;) {
		ssize_t count = flow->read(flow->stream, flow->spare, FLOW_BLOCK);
		if (count <= 0) {
			end(flow, count == 0 ? FLOW_WHOLE : FLOW_BROKEN);
			return;
		}
		switch (pass(flow, (size_t)count)) {
		case PASSED:
			break;
		case PASSED_NOBODY:
			return;
		case PASSED_LATE:
			end(flow, FLOW_BROKEN);
			return;
		case PASSED_NOT:
			end(flow, send_rest(flow, (size_t)count));
			return;
		}
	}
}

void flow_pump(struct flow *flow)
{
	pump(flow);
	flow->close(flow->stream);
	release(flow);
}

static ssize_t take_locked(struct flow *flow, char *buffer, size_t size)
{
	size_t left = flow->len - flow->at;

	size = size < left ? size : left;
	memcpy(buffer, flow->block + flow->at, size);
	flow->at += size;
	if (flow->at == flow->len) {
		flow->len = 0;
		pthread_cond_signal(&flow->changed);
	}
	idle_expect(flow->path.idle);
	return (ssize_t)size;
}

ssize_t flow_read(void *arg, uint64_t at, char *buffer, size_t size)
{
	struct flow *flow = arg;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flow->mutex);

	(void)at;
	if (flow->len > 0)
		return take_locked(flow, buffer, size);
	if (flow->end == FLOW_WHOLE)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (flow->is_taken || flow->end == FLOW_BROKEN)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	idle_hold(flow->path.idle);
	flow->is_suspended = true;
	MHD_suspend_connection(flow->path.connection);
	return 0;
}

void flow_leave(void *arg)
{
	struct flow *flow = arg;

	lock(&flow->mutex);
	flow->is_sender_gone = true;
	pthread_cond_signal(&flow->changed);
	unlock(&flow->mutex);
	release(flow);
}

enum flow_end flow_end(struct flow *flow)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flow->mutex);

	return flow->end;
}
