/*
 * What the tests of forwarding share: a body to send, requests, and one forward at a time
 * to the peer.
 */
#ifndef UNIT_FORWARD_TEST_H
#define UNIT_FORWARD_TEST_H

#include "base/clock.h"
#include "http_peer.h"
#include "net/forward.h"
#include "test.h"

#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define CONTINUE "HTTP/1.1 100 Continue\r\n\r\n"
#define REFUSAL                                                                          \
	"HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic realm=\"x\"\r\n"                    \
	"Content-Length: 3\r\n"

static struct forwarder *forwarder;

static inline int set_up(void **state)
{
	(void)state;
	forwarder = forwarder_new("paris");
	return 0;
}

static inline int tear_down(void **state)
{
	(void)state;
	forwarder_free(forwarder);
	return 0;
}

/* A body of so many bytes 'b', in pieces of `step`; then its end, or an error. */
struct source {
	uint64_t size, given;
	size_t step; /* 0: as much as fits */
	size_t calls;
	bool breaks;
	atomic_bool *waits_for; /* for the second piece */
};

static inline ssize_t give(void *arg, void *buffer, size_t size, struct err *failure)
{
	struct source *source = arg;
	uint64_t left = source->size - source->given;

	source->calls++;
	while (source->waits_for && source->given > 0 && !*source->waits_for)
		usleep(1000);
	if (left == 0 && source->breaks)
		return err_set(failure, ERR_NETWORK, "the client is gone");
	if (source->step > 0 && size > source->step)
		size = source->step;
	if (size > left)
		size = (size_t)left;
	memset(buffer, 'b', size);
	source->given += size;
	return (ssize_t)size;
}

static inline struct http_request get(void)
{
	return (struct http_request){ .method = "GET",
				      .url = peer.url,
				      .silence_ms = 5000 };
}

static inline struct http_request post(struct source *source)
{
	return (struct http_request){ .method = "POST",
				      .url = peer.url,
				      .silence_ms = 5000,
				      .read = give,
				      .arg = source,
				      .body_size = UINT64_MAX };
}

static struct forward *forward;
static bool is_sent;

static inline int open_it(const struct http_request *request)
{
	memset(&err, 0, sizeof(err));
	return forward_open(forwarder, request, &forward, &is_sent, &err);
}

static inline void close_it(void)
{
	forward_close(forward);
	forward = NULL;
}

static inline void assert_header(const char *name, const char *expected)
{
	AUTO_STR struct str value = STR_INIT;

	forward_add_header(forward, name, &value);
	assert_string_equal(value.data, expected);
}

/* The rest of the answer; the result of the last read. */
static inline ssize_t read_rest(struct str *text)
{
	char bytes[1000];
	ssize_t got;

	while ((got = forward_read(forward, bytes, sizeof(bytes), &err)) > 0)
		str_add_bytes(text, bytes, (size_t)got);
	return got;
}

static inline void assert_body(const char *expected)
{
	AUTO_STR struct str text = STR_INIT;

	if (read_rest(&text) != 0)
		fail_msg("%s", err.text);
	assert_string_equal(text.data, expected);
	assert_int_equal(forward_read(forward, (char[1]){ 0 }, 1, &err), 0);
}

static inline size_t count(const char *text, const char *part)
{
	size_t found = 0;

	for (; (text = strcasestr(text, part)) != NULL; text++)
		found++;
	return found;
}

static const char *script; /* said after each head */

static inline void follow_script(struct peer_link *link)
{
	while (peer_hear_head(link) && peer_say(link, script))
		;
}

static inline void take_nothing(struct peer_link *link)
{
	if (peer_hear_head(link) && peer_say(link, CONTINUE))
		peer_wait_for_end(link);
}

#define FORWARDS(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
