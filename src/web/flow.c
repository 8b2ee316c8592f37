/*
 * The library sends from the few threads that serve all connections, a piece of a block
 * at a time. For a short answer that is good, and the connection stays. But some clones
 * together would keep these threads from what they are for. So the worker takes over the
 * socket of what has become long. It may: it does so only while the connection is
 * suspended, when the library has sent all it was given and does not touch the socket,
 * and it gives it back at the end of a chunk. There the library sends the last one, and
 * the connection stays; if the stream broke, it closes it. What must be encrypted only
 * the library can send.
 *
 * A stream that can be sent without being read, as a file, and whose length is known, the
 * worker gives to the kernel, from the first byte on. Its last byte it reads, when
 * nothing went wrong: so a client that has all bytes has the right ones. Where the head
 * may leave the length out, this is a chunk, and the connection stays. Where it says the
 * length, the library would still have all of it to send; the connection ends behind it.
 */
#include "web/flow.h"

#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/pace.h"
#include "base/thread.h"

enum {
	LONG = 256 << 10, /* what has so many bytes is long */
	SEND_MAX = 16 << 20,
	LOOK_MS = 1000, /* how often is asked whether others wait */
};

struct flow {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	struct flow_path path; /* borrowed; the sender's, or the worker's if suspended */
	ssize_t (*read)(void *stream, void *buffer, size_t size);
	ssize_t (*send)(void *stream, int socket, size_t max); /* NULL: it is read */
	void (*close)(void *stream);
	void *stream;
	uint64_t length;                 /* 0: not known */
	bool is_chunked;                 /* what is sent with `send` */
	bool (*is_wanted)(void *stream); /* or NULL; the worker's, as the two below */
	struct pace pace;
	bool is_too_slow;
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
	flow->is_wanted = response->is_wanted;
	flow->pace.least = response->least_rate;
	flow->length = response->length;
	flow->is_chunked = response->may_leave_length_out;
	if (path->may_be_taken && flow->length > LONG)
		flow->send = response->send;
	flow->stream = TAKE(response->stream);
	flow->until = response->until ? response->until : INT64_MAX;
	response->read = NULL;
	response->send = NULL;
	flow->spare = xmalloc(FLOW_BLOCK);
	flow->block = xmalloc(FLOW_BLOCK);
	flow->holders = 2;
	return flow;
}

static void flow_release(struct flow *flow)
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

static void flow_resume_locked(struct flow *flow)
{
	if (!flow->is_suspended)
		return;
	flow->is_suspended = false;
	MHD_resume_connection(flow->path.connection);
}

static void flow_set_end(struct flow *flow, enum flow_end how)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flow->mutex);

	flow->end = how;
	flow_resume_locked(flow);
}

enum passed { PASSED, PASSED_NOBODY, PASSED_NOT, PASSED_LATE };

/* Others have waited long enough for a client that takes next to nothing. */
static bool must_give_way(struct flow *flow)
{
	flow->is_too_slow = flow->is_wanted && pace_is_too_slow(&flow->pace) &&
			    flow->is_wanted(flow->stream);
	return flow->is_too_slow;
}

/* False: it is time to end. */
static bool wait_until_sent_locked(struct flow *flow)
{
	bool may_wait = true;

	pace_begin_wait(&flow->pace);
	while (may_wait && flow->len > 0 && !flow->is_sender_gone) {
		int64_t look_at = clock_boot_ms() + LOOK_MS;
		if (!flow->is_wanted || flow->until < look_at)
			look_at = flow->until;
		if (!cond_wait_until(&flow->changed, &flow->mutex, look_at))
			may_wait = clock_boot_ms() < flow->until && !must_give_way(flow);
	}
	pace_end_wait(&flow->pace);
	return may_wait || flow->len == 0 || flow->is_sender_gone;
}

/* Hands on what is in the spare block, unless it shall be sent from here. */
static enum passed flow_pass_block(struct flow *flow, size_t count)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flow->mutex);

	if (!wait_until_sent_locked(flow))
		return PASSED_LATE;
	if (flow->is_sender_gone)
		return PASSED_NOBODY;
	if (flow->is_suspended && flow->path.may_be_taken && flow->length == 0 &&
	    flow->passed >= LONG) {
		flow->is_taken = true;
		return PASSED_NOT;
	}
	char *block = flow->block;
	flow->block = flow->spare;
	flow->spare = block;
	flow->len = count;
	flow->at = 0;
	flow->passed += count;
	pace_add(&flow->pace, count);
	flow_resume_locked(flow);
	return PASSED;
}

static size_t block_size(const struct flow *flow, size_t most)
{
	return flow->path.bucket ? bucket_block(flow->path.bucket, most) : most;
}

/* Until so many bytes may be sent. False: the server ends, or time is over. */
static bool flow_wait_for_turn(const struct flow *flow, size_t count)
{
	return !flow->path.bucket ||
	       bucket_wait(flow->path.bucket, count, flow->until, flow->path.cut);
}

/* For poll(). */
static int flow_compute_time_left(const struct flow *flow)
{
	int64_t left = flow->until - clock_boot_ms();
	int64_t most = flow->is_wanted ? LOOK_MS : INT_MAX;

	if (flow->until == INT64_MAX && !flow->is_wanted)
		return -1;
	return left <= 0 ? 0 : (int)(left < most ? left : most);
}

/* False: the client is gone, was silent for too long, or time is over. */
static bool wait_for_client(struct flow *flow, int fd)
{
	struct pollfd watched[] = { { .fd = fd, .events = POLLOUT },
				    { .fd = flow->path.cut->fd, .events = POLLIN } };

	int found, time;

	idle_expect(flow->path.idle);
	pace_begin_wait(&flow->pace);
	do {
		time = flow_compute_time_left(flow);
		found = poll(watched, ARRAY_SIZE(watched), time);
	} while (found == 0 && time > 0 && !must_give_way(flow));
	pace_end_wait(&flow->pace);
	idle_hold(flow->path.idle);
	return found < 0 ? errno == EINTR : found > 0 && watched[1].revents == 0;
}

static void flow_skip_sent(struct msghdr *message, size_t count)
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
		if (sent >= 0) {
			pace_add(&flow->pace, (size_t)sent);
			flow_skip_sent(&message, (size_t)sent);
		} else if (errno != EINTR &&
			   (errno != EAGAIN || !wait_for_client(flow, fd)))
			return false;
	}
	return true;
}

static int socket_of(const struct flow *flow)
{
	return MHD_get_connection_info(flow->path.connection,
				       MHD_CONNECTION_INFO_CONNECTION_FD)
		->connect_fd;
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
	int fd = socket_of(flow);
	ssize_t count = (ssize_t)len;

	do {
		if (!send_chunk(flow, fd, (size_t)count))
			return FLOW_OPEN;
		count = flow->read(flow->stream, flow->spare,
				   block_size(flow, FLOW_BLOCK));
		if (count > 0 && !flow_wait_for_turn(flow, (size_t)count))
			return FLOW_BROKEN;
	} while (count > 0);
	return count < 0 ? FLOW_BROKEN : FLOW_WHOLE;
}

/* Until the library has sent the head, and asks for the first byte. */
static enum passed take_socket(struct flow *flow)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flow->mutex);

	while (!flow->is_suspended && !flow->is_sender_gone)
		if (!cond_wait_until(&flow->changed, held, flow->until))
			return PASSED_LATE;
	if (flow->is_sender_gone)
		return PASSED_NOBODY;
	flow->is_taken = true;
	return PASSED;
}

/* All but the last byte. */
static enum flow_end send_most(struct flow *flow, int fd)
{
	uint64_t left = flow->length - 1;

	while (left > 0) {
		size_t max = block_size(flow, left < SEND_MAX ? (size_t)left : SEND_MAX);
		ssize_t sent = flow->send(flow->stream, fd, max);
		if (sent == 0 || stop_is_requested(flow->path.cut) ||
		    clock_boot_ms() >= flow->until)
			return FLOW_BROKEN;
		if (sent > 0) {
			left -= (uint64_t)sent;
			pace_add(&flow->pace, (size_t)sent);
			if (!flow_wait_for_turn(flow, (size_t)sent))
				return FLOW_BROKEN;
		} else if (errno == EPIPE || errno == ECONNRESET)
			return FLOW_OPEN;
		else if (errno == EAGAIN && !wait_for_client(flow, fd))
			return FLOW_OPEN;
		else if (errno != EAGAIN && errno != EINTR)
			return FLOW_BROKEN;
	}
	return FLOW_WHOLE;
}

static bool send_text(struct flow *flow, int fd, const char *text)
{
	struct iovec part = { (void *)(uintptr_t)text, strlen(text) };

	return send_parts(flow, fd, &part, 1);
}

static enum flow_end send_as_chunk(struct flow *flow, int fd)
{
	char head[24];

	snprintf(head, sizeof(head), "%" PRIx64 "\r\n", flow->length - 1);
	if (!send_text(flow, fd, head))
		return FLOW_OPEN;
	enum flow_end how = send_most(flow, fd);
	if (how != FLOW_WHOLE)
		return how;
	if (!send_text(flow, fd, "\r\n"))
		return FLOW_OPEN;
	ssize_t count = flow->read(flow->stream, flow->spare, FLOW_BLOCK);
	return count <= 0 ? FLOW_BROKEN : send_rest(flow, (size_t)count);
}

static enum flow_end send_as_it_is(struct flow *flow, int fd)
{
	enum flow_end how = send_most(flow, fd);

	if (how != FLOW_WHOLE)
		return how;
	ssize_t count = flow->read(flow->stream, flow->spare, FLOW_BLOCK);
	struct iovec part = { flow->spare, 1 };
	if (count != 1)
		return FLOW_BROKEN;
	return send_parts(flow, fd, &part, 1) ? FLOW_WHOLE : FLOW_OPEN;
}

static void send_all(struct flow *flow)
{
	int fd;

	switch (take_socket(flow)) {
	case PASSED:
		fd = socket_of(flow);
		flow_set_end(flow, flow->is_chunked ? send_as_chunk(flow, fd)
						    : send_as_it_is(flow, fd));
		return;
	case PASSED_LATE:
		flow_set_end(flow, FLOW_BROKEN);
		return;
	default:
		return;
	}
}

static void flow_pump_stream(struct flow *flow)
{
	if (flow->send) {
		send_all(flow);
		return;
	}
	for (;;) {
		ssize_t count = flow->read(flow->stream, flow->spare,
					   block_size(flow, FLOW_BLOCK));
		if (count > 0 && !flow_wait_for_turn(flow, (size_t)count)) {
			flow_set_end(flow, FLOW_BROKEN);
			return;
		}
		if (count <= 0) {
			flow_set_end(flow, count == 0 ? FLOW_WHOLE : FLOW_BROKEN);
			return;
		}
		switch (flow_pass_block(flow, (size_t)count)) {
		case PASSED:
			break;
		case PASSED_NOBODY:
			return;
		case PASSED_LATE:
			flow_set_end(flow, FLOW_BROKEN);
			return;
		case PASSED_NOT:
			flow_set_end(flow, send_rest(flow, (size_t)count));
			return;
		}
	}
}

void flow_pump(struct flow *flow)
{
	flow_pump_stream(flow);
	if (flow->is_too_slow)
		log_info("http.too_slow", LOG_NUMBER("least", flow->pace.least));
	flow->close(flow->stream);
	flow_release(flow);
}

uint64_t flow_size(const struct flow *flow)
{
	if (flow->length == 0 || (flow->send && flow->is_chunked))
		return MHD_SIZE_UNKNOWN;
	return flow->length;
}

bool flow_ends_connection(const struct flow *flow)
{
	return flow->send && !flow->is_chunked;
}

static ssize_t flow_take_locked(struct flow *flow, char *buffer, size_t size)
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

/* The library (0.9.75) takes a connection whose answer breaks off off its list of those
 * to look at, but closes it only when it looks at it again; and of one that was suspended
 * it hears no events any more. One with a time limit of its own is looked at each round.
 */
static ssize_t break_off(const struct flow *flow)
{
	MHD_set_connection_option(flow->path.connection, MHD_CONNECTION_OPTION_TIMEOUT,
				  1U);
	return MHD_CONTENT_READER_END_WITH_ERROR;
}

ssize_t flow_read(void *arg, uint64_t at, char *buffer, size_t size)
{
	struct flow *flow = arg;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flow->mutex);

	(void)at;
	if (flow->len > 0)
		return flow_take_locked(flow, buffer, size);
	if (flow->end == FLOW_WHOLE)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (flow->is_taken || flow->end == FLOW_BROKEN)
		return break_off(flow);
	idle_hold(flow->path.idle);
	flow->is_suspended = true;
	MHD_suspend_connection(flow->path.connection);
	pthread_cond_signal(&flow->changed);
	return 0;
}

void flow_leave(void *arg)
{
	struct flow *flow = arg;

	lock(&flow->mutex);
	flow->is_sender_gone = true;
	pthread_cond_signal(&flow->changed);
	unlock(&flow->mutex);
	flow_release(flow);
}

enum flow_end flow_end(struct flow *flow)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flow->mutex);

	return flow->end;
}
