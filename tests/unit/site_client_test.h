/*
 * What the tests of the client between sites share: a server that answers by a script.
 */
#ifndef UNIT_SITE_CLIENT_TEST_H
#define UNIT_SITE_CLIENT_TEST_H

#include "test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/thread.h"
#include "net/site_client.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define OK_ANSWER "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

/*
 * A server that answers the n-th request with the n-th step of a script, whatever was
 * asked, on whatever connection it comes.
 */
enum then { KEEP, CLOSE, STALL, CLOSE_AFTER_NEXT };

struct step {
	const char *answer;
	enum then then; /* CLOSE_AFTER_NEXT: reads one more request, closes unanswered */
};

static struct {
	int fd;
	uint16_t port;
	struct stop stop;
	pthread_t thread;
	const struct step *script;
	size_t steps;
	size_t served, connections;
	char requests[20][4096];
} server;

static inline bool wait_for(int fd)
{
	struct pollfd watched[] = { { .fd = fd, .events = POLLIN },
				    { .fd = server.stop.fd, .events = POLLIN } };

	while (poll(watched, 2, -1) < 0)
		;
	return !stop_is_requested(&server.stop);
}

/* One whole request, head and body; false: the connection or the test ended. */
static inline bool read_request(int fd, char *text, size_t size)
{
	size_t len = 0;

	for (;;) {
		const char *head = len > 0 ? strstr(text, "\r\n\r\n") : NULL;
		const char *length = head ? strstr(text, "Content-Length: ") : NULL;
		size_t body = length ? (size_t)atoi(length + 16) : 0;

		if (head && len >= (size_t)(head + 4 - text) + body)
			return true;
		if (!wait_for(fd))
			return false;
		ssize_t got = read(fd, text + len, size - 1 - len);
		if (got <= 0)
			return false;
		len += (size_t)got;
		text[len] = '\0';
	}
}

static inline void serve_connection(int fd)
{
	char rest[4096] = "";

	while (server.served < server.steps) {
		char *text = server.requests[server.served];
		if (!read_request(fd, text, sizeof(server.requests[0])))
			return;
		const struct step *step = &server.script[server.served++];
		ssize_t sent = send(fd, step->answer, strlen(step->answer), MSG_NOSIGNAL);
		assert_true(sent >= 0);
		if (step->then == STALL)
			wait_for(server.stop.fd);
		if (step->then == CLOSE_AFTER_NEXT)
			read_request(fd, rest, sizeof(rest));
		if (step->then != KEEP)
			return;
	}
	wait_for(server.stop.fd);
}

static inline void *serve(void *arg)
{
	while (wait_for(server.fd)) {
		AUTO_CLOSE int fd = accept4(server.fd, NULL, NULL, SOCK_CLOEXEC);
		server.connections++;
		serve_connection(fd);
	}
	return arg;
}

static inline void start_server(const struct step *script, size_t steps)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);

	memset(&server, 0, sizeof(server));
	server.script = script;
	server.steps = steps;
	server.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(server.fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(server.fd, 8), 0);
	getsockname(server.fd, (struct sockaddr *)&address, &len);
	server.port = ntohs(address.sin_port);
	stop_init(&server.stop);
	thread_start(&server.thread, "server", serve, NULL);
}

/* Then what it recorded may be looked at. */
static inline void stop_server(void)
{
	stop_request(&server.stop);
	thread_join(server.thread);
	stop_clear(&server.stop);
	close(server.fd);
}

static inline struct site_client *open_client(void)
{
	AUTO_FREE char *url = xasprintf("http://127.0.0.1:%d/", server.port);
	AUTO_SITE_KEY struct site_key key = { .site = "paris", .secret = STR_INIT };
	struct site_client *client = NULL;

	str_add(&key.secret, SECRET);
	assert_ok(site_client_open(url, &key, &client, &err));
	return client;
}

/* One request to a server with this one answer. */
static inline int ask(const struct step *step, const struct site_request *request,
		      struct site_answer *answer)
{
	start_server(step, 1);
	struct site_client *client = open_client();
	int result = site_client_call(client, request, answer, &err);
	site_client_close(client);
	stop_server();
	return result;
}

#endif
