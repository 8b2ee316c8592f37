/*
 * libFuzzer: the HTTP server itself. Whatever bytes come on a connection, in one or in
 * two pieces, it answers with HTTP or closes, keeps nothing of them, and goes on to
 * answer honest clients. The first byte says where the bytes are cut.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "fuzz_threads.h"

#include "base/conf.h"
#include "base/file.h"
#include "base/log.h"
#include "web/server.h"
#include "web/services.h"

static char directory[] = "/tmp/refrelay-fuzz.XXXXXX";
static struct web_services services;
static struct web_server *server;

static int echo(const struct web_request *request, struct web_response *response,
		struct err *err)
{
	const char *word = web_query(request, "word");
	const char *header = web_header(request, "X-Word");
	uint64_t number = 0;

	if (web_query_number(request, "number", 100, &number, err) != 0)
		return -1;
	assert(number <= 100);
	str_addf(&response->body, "%s %s %s ", request->name, word ? word : "",
		 header ? header : "");
	str_add_bytes(&response->body, request->body->data, request->body->len);
	return 0;
}

static int swallow(const struct web_request *request, struct web_response *response,
		   struct err *err)
{
	char block[100];
	ssize_t got;

	while ((got = web_read_upload(request, block, sizeof(block), err)) > 0)
		assert((size_t)got <= sizeof(block));
	response->status = 201;
	return got == 0 ? 0 : -1;
}

static const struct web_route routes[] = {
	{ "GET", "/echo/{name}", WEB_ANYBODY, WEB_BODY_NONE, echo },
	{ "POST", "/echo/{name}", WEB_ANYBODY, WEB_BODY_MEMORY, echo },
	{ "PUT", "/upload/{kind}/{name}", WEB_ANYBODY, WEB_BODY_STREAM, swallow },
	{ "GET", "/read/{name}", WEB_READER, WEB_BODY_NONE, echo },
	{ "GET", "/operate/{name}", WEB_OPERATOR, WEB_BODY_NONE, echo },
	{ 0 },
};

static void clean_up(void)
{
	web_server_stop(server, 0);
	access_free(services.access);
	tree_remove(AT_FDCWD, directory, ERR_IGNORED);
}

static void start(void)
{
	static const struct web_route *const tables[] = { routes, NULL };
	static const char text[] = "[http]\n anonymousRead = false\n";
	AUTO_CONF struct conf *conf = NULL;
	struct err err;

	log_set_level(LOG_LEVEL_NONE);
	if (!mkdtemp(directory) ||
	    conf_load_text("fuzz.conf", text, strlen(text), &conf, &err) != 0 ||
	    access_read(conf, true, &services.access, &err) != 0)
		abort();
	services.data = directory;
	services.site = "fuzz";
	if (server_start(&(struct web_server_options){ .listen = "127.0.0.1:0",
						       .services = &services,
						       .idle_ms = 2000,
						       .head_ms = 2000,
						       .routes = tables },
			 &server, &err) != 0)
		abort();
	if (atexit(clean_up) != 0)
		abort();
}

static int dial(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET,
				       .sin_port = htons(web_server_port(server)),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int on = 1;
	const struct linger linger = { .l_onoff = 1 }; /* no port stays in TIME_WAIT */
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	/* The fuzzer's clock interrupts one that has to wait. */
	while (fd >= 0 &&
	       connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		int why = errno;
		close(fd);
		fd = why == EINTR ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
		errno = why;
	}
	if (fd < 0) {
		perror("fuzz_server: cannot connect");
		abort();
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return fd;
}

enum ending { HALF_CLOSED, LEFT_OPEN };

/* Until the server closes; who has said no whole request waits no longer than that. */
static bool hear(int fd, enum ending ending, struct str *answer)
{
	struct pollfd watched = { .fd = fd, .events = POLLIN };
	int patience_ms = ending == HALF_CLOSED ? 20 : 10000;
	char block[4096];

	int ready = (int)TEMP_FAILURE_RETRY(poll(&watched, 1, patience_ms));
	ssize_t got =
		ready > 0 ? TEMP_FAILURE_RETRY(recv(fd, block, sizeof(block), 0)) : 0;
	if (got > 0)
		str_add_bytes(answer, block, (size_t)got);
	return got > 0;
}

/* Says it, that it was all unless it says so itself, and hears to the end. */
static void talk(const uint8_t *data, size_t len, size_t cut, enum ending ending,
		 struct str *answer)
{
	AUTO_CLOSE int fd = dial();

	/* The server may have closed. */
	ssize_t sent = send(fd, data, cut, MSG_NOSIGNAL);
	if (sent == (ssize_t)cut && cut < len)
		send(fd, data + cut, len - cut, MSG_NOSIGNAL);
	if (ending == HALF_CLOSED)
		shutdown(fd, SHUT_WR);
	while (hear(fd, ending, answer))
		;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const char honest[] = "GET /echo/x HTTP/1.1\r\nHost: 127.0.0.1\r\n"
				     "Connection: close\r\n\r\n";
	AUTO_STR struct str answer = STR_INIT;

	if (!server)
		start_without_signals(start);
	if (len < 2)
		return 0;
	talk(data + 1, len - 1, 1 + data[0] * (len - 2) / 255, HALF_CLOSED, &answer);
	assert(answer.len == 0 || text_starts_with(answer.data, "HTTP/1."));
	str_reset(&answer);
	talk((const uint8_t *)honest, strlen(honest), strlen(honest), LEFT_OPEN, &answer);
	assert(text_starts_with(answer.data, "HTTP/1.1 200 "));
	return 0;
}
