/*
 * A server that speaks HTTP exactly as well as a test wants: each connection is served by
 * the test's function on a thread of its own, with the few calls below.
 */
#ifndef UNIT_HTTP_PEER_H
#define UNIT_HTTP_PEER_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/thread.h"
#include "test.h"

#define PEER_LINKS 64

struct peer_link {
	int fd;
	size_t number; /* of the connection, from 0 */
	pthread_t thread;
};

static struct {
	int fd, port;
	char url[64];
	pthread_t thread;
	void (*serve)(struct peer_link *link);
	struct peer_link links[PEER_LINKS];
	atomic_size_t connections;
	atomic_size_t requests;
	char heads[32][4096]; /* of the first requests */
} peer;

static void *peer_serve(void *arg)
{
	struct peer_link *link = arg;

	peer.serve(link);
	shutdown(link->fd, SHUT_RDWR);
	return NULL;
}

static void *peer_accept(void *arg)
{
	for (;;) {
		int fd = accept4(peer.fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0 || peer.connections == PEER_LINKS)
			return arg;
		struct peer_link *link = &peer.links[peer.connections];
		link->fd = fd;
		link->number = peer.connections;
		thread_start(&link->thread, "peer link", peer_serve, link);
		peer.connections++;
	}
}

static void peer_listen(int backlog)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(address);

	memset(&peer, 0, sizeof(peer));
	peer.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(peer.fd, (struct sockaddr *)&address, len), 0);
	assert_int_equal(listen(peer.fd, backlog), 0);
	getsockname(peer.fd, (struct sockaddr *)&address, &len);
	peer.port = ntohs(address.sin_port);
	snprintf(peer.url, sizeof(peer.url), "http://127.0.0.1:%d/a%%2Fb?x=../y",
		 peer.port);
}

static inline void peer_start(void (*serve)(struct peer_link *link))
{
	peer_listen(16);
	peer.serve = serve;
	thread_start(&peer.thread, "peer", peer_accept, NULL);
}

/* Then what it recorded may be looked at. */
static inline void peer_stop(void)
{
	shutdown(peer.fd, SHUT_RDWR);
	thread_join(peer.thread);
	for (size_t i = 0; i < peer.connections; i++)
		shutdown(peer.links[i].fd, SHUT_RDWR);
	for (size_t i = 0; i < peer.connections; i++) {
		thread_join(peer.links[i].thread);
		close(peer.links[i].fd);
	}
	close(peer.fd);
}

static inline bool peer_say_bytes(struct peer_link *link, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t sent = send(link->fd, bytes, len, MSG_NOSIGNAL);
		if (sent <= 0)
			return false;
		bytes += sent;
		len -= (size_t)sent;
	}
	return true;
}

static inline bool peer_say(struct peer_link *link, const char *text)
{
	return peer_say_bytes(link, text, strlen(text));
}

/* The head of a request, byte by byte: what follows stays where it is. */
static inline bool peer_hear_head(struct peer_link *link)
{
	char head[4096];
	size_t len = 0;

	while (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0)
		if (len == sizeof(head) - 1 || read(link->fd, head + len++, 1) != 1)
			return false;
	head[len] = '\0';
	size_t number = peer.requests++;
	if (number < ARRAY_SIZE(peer.heads))
		memcpy(peer.heads[number], head, len + 1);
	return true;
}

/* So many bytes at most; 0: it ended. */
static inline size_t peer_hear(struct peer_link *link, void *buffer, size_t size)
{
	ssize_t got = read(link->fd, buffer, size);

	return got > 0 ? (size_t)got : 0;
}

/* One chunk of a body, without its framing; 0: the last one, or it broke. */
static inline size_t peer_hear_chunk(struct peer_link *link, struct str *out,
				     bool *is_end)
{
	char line[32], bytes[4096];
	size_t len = 0, size;

	for (; len < sizeof(line) - 1 && read(link->fd, line + len, 1) == 1; len++)
		if (line[len] == '\n')
			break;
	line[len] = '\0';
	size = strtoul(line, NULL, 16);
	*is_end = len > 0 && size == 0;
	for (size_t left = size + 2; left > 0;) {
		size_t got = peer_hear(link, bytes,
				       left < sizeof(bytes) ? left : sizeof(bytes));
		if (got == 0) {
			*is_end = false;
			return 0;
		}
		left -= got;
		if (out)
			str_add_bytes(out, bytes, got);
	}
	if (out)
		str_truncate(out, out->len - 2);
	return size;
}

/* Until the other side has closed, or the test ends; nothing is heard. */
static inline void peer_wait_for_end(struct peer_link *link)
{
	struct pollfd watched = { .fd = link->fd, .events = POLLRDHUP };

	while (poll(&watched, 1, -1) < 0)
		;
}

/* A connection that is closed with bytes unheard is reset. */
static inline void peer_reset(struct peer_link *link)
{
	struct linger linger = { .l_onoff = 1 };

	setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	dup3(fd, link->fd, O_CLOEXEC);
	close(fd);
}

#endif
