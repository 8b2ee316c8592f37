/*
 * A server with routes of the test's own, and an HTTP client that sends exactly the
 * bytes it is told to.
 */
#ifndef UNIT_WEB_TEST_H
#define UNIT_WEB_TEST_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "test.h"

#include "base/clock.h"
#include "base/log.h"
#include "web/server.h"
#include "web/services.h"

static struct web_server *server __attribute__((unused));
static struct web_services services __attribute__((unused));

static inline void start_server(const struct web_route *routes, int64_t idle_ms)
{
	static const struct web_route *tables[2];

	tables[0] = routes;
	services.data = root;
	log_set_level(LOG_LEVEL_NONE);
	assert_ok(server_start(&(struct web_server_options){ .listen = "127.0.0.1:0",
							     .services = &services,
							     .idle_ms = idle_ms,
							     .routes = tables },
			       &server, &err));
}

static inline int dial(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(web_server_port(server)),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static inline void send_bytes(int fd, const void *bytes, size_t len)
{
	const char *at = bytes;

	while (len > 0) {
		ssize_t count = send(fd, at, len, MSG_NOSIGNAL);
		if (count <= 0) /* the other side has answered, and closed */
			return;
		at += count;
		len -= (size_t)count;
	}
}

static inline void send_text(int fd, const char *text)
{
	send_bytes(fd, text, strlen(text));
}

/* Appends what comes within ms, or has come by then, until the other side closes. False:
 * it did not. */
static inline bool receive_all(int fd, int ms, struct str *out)
{
	int64_t until = clock_boot_ms() + ms;
	char block[65536];

	for (;;) {
		struct pollfd watched = { .fd = fd, .events = POLLIN };
		int64_t left = until - clock_boot_ms();
		if (poll(&watched, 1, left > 0 ? (int)left : 0) <= 0)
			return false;
		ssize_t count = recv(fd, block, sizeof(block), 0);
		if (count <= 0)
			return true;
		str_add_bytes(out, block, (size_t)count);
	}
}

/* Appends until so much of the text is there; fails after five seconds. */
static inline void receive_until(int fd, const char *text, struct str *out)
{
	struct pollfd watched = { .fd = fd, .events = POLLIN };
	char block[4096];

	while (!strstr(out->data, text)) {
		assert_int_equal(poll(&watched, 1, 5000), 1);
		ssize_t count = recv(fd, block, sizeof(block), 0);
		if (count <= 0)
			fail_msg("closed before \"%s\": %s", text, out->data);
		str_add_bytes(out, block, (size_t)count);
	}
}

/* Sends head and body on a connection of their own, and gives the whole answer. */
static inline const char *exchange(const char *head, const void *body, size_t len)
{
	static struct str answer = STR_INIT;
	AUTO_STR struct str text = STR_INIT;
	int fd = dial();

	str_addf(&text, "%s\r\nHost: 127.0.0.1\r\nConnection: close\r\n", head);
	if (body)
		str_addf(&text, "Content-Length: %zu\r\n", len);
	str_add(&text, "\r\n");
	str_add_bytes(&text, body ? body : "", body ? len : 0);
	str_reset(&answer);
	send_bytes(fd, text.data, text.len);
	assert_true(receive_all(fd, 5000, &answer));
	close(fd);
	return answer.data;
}

static inline const char *get(const char *target)
{
	AUTO_FREE char *head = xasprintf("GET %s HTTP/1.1", target);

	return exchange(head, NULL, 0);
}

static inline int status_of(const char *answer)
{
	int status = 0;

	assert_int_equal(sscanf(answer, "HTTP/1.1 %d", &status), 1);
	return status;
}

static inline const char *body_of(const char *answer)
{
	const char *body = strstr(answer, "\r\n\r\n");

	assert_non_null(body);
	return body + 4;
}

#endif
