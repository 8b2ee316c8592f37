/*
 * libFuzzer: any answer of another site to a request that is passed on is refused with an
 * error, or handed on: with a status that ends a request, and with as many bytes as it
 * announces, or an error instead of an end.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "fuzz_threads.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "net/forward.h"

static struct forwarder *forwarder;
static char *url;
static int listener;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct str said = STR_INIT; /* guarded by mutex: what the other site says */

static void set_said(const uint8_t *data, size_t len)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);

	str_reset(&said);
	str_add_bytes(&said, data, len);
}

static void get_said(struct str *out)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&mutex);

	str_add_bytes(out, said.data, said.len);
}

static void answer(int fd)
{
	const struct linger linger = { .l_onoff = 1 }; /* no port stays in TIME_WAIT */
	AUTO_STR struct str text = STR_INIT;
	char block[4096];
	ssize_t got = 1;

	while (!strstr(text.data, "\r\n\r\n") && got > 0) {
		got = recv(fd, block, sizeof(block), 0);
		str_add_bytes(&text, block, got > 0 ? (size_t)got : 0);
	}
	str_reset(&text);
	get_said(&text);
	send(fd, text.data, text.len, MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	while (recv(fd, block, sizeof(block), 0) > 0)
		;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	close(fd);
}

static void *answer_all(void *arg)
{
	for (;;)
		answer(accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	return arg;
}

static void start(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	pthread_t thread;

	log_set_level(LOG_LEVEL_NONE);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 ||
	    listen(listener, 16) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &size) != 0 ||
	    pthread_create(&thread, NULL, answer_all, NULL) != 0)
		abort();
	url = xasprintf("http://127.0.0.1:%d/x", ntohs(address.sin_port));
	forwarder = forwarder_new("fuzz");
}

/* How many bytes an answer has to have; UINT64_MAX: any number. */
static uint64_t length_of(struct forward *forward)
{
	AUTO_STR struct str length = STR_INIT;
	AUTO_STR struct str coding = STR_INIT;
	int status = forward_status(forward);
	uint64_t number;

	if (status == 204 || status == 304 ||
	    forward_add_header(forward, "Transfer-Encoding", &coding) ||
	    !forward_add_header(forward, "Content-Length", &length) ||
	    !text_to_uint64(length.data, &number))
		return UINT64_MAX;
	return number;
}

static void check(struct forward *forward)
{
	char block[512];
	uint64_t count = 0, length = length_of(forward);
	ssize_t got;
	AUTO_STR struct str value = STR_INIT;
	struct err err = { 0 };

	assert(forward_status(forward) >= 200);
	assert(forward_add_header(forward, "Content-Type", &value) || value.len == 0);
	while ((got = forward_read(forward, block, sizeof(block), &err)) > 0)
		count += (uint64_t)got;
	if (got < 0)
		assert(err.class != ERR_NONE && err.text[0]);
	else
		assert(length == UINT64_MAX || count == length);
	/* Asked again, it says the same. */
	assert((forward_read(forward, block, sizeof(block), &err) < 0) == (got < 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct http_request request = { .method = "GET", .silence_ms = 500 };
	struct forward *forward;
	bool is_sent;
	struct err err = { 0 };

	if (!forwarder)
		start_without_signals(start);
	request.url = url;
	request.until = clock_boot_ms() + 2000;
	set_said(data, len);
	if (forward_open(forwarder, &request, &forward, &is_sent, &err) == 0) {
		check(forward);
		forward_close(forward);
	} else {
		assert(err.class != ERR_NONE && err.text[0]);
	}
	return 0;
}
