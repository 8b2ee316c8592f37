/*
 * The server's life. Threads: libmicrohttpd's own, a few that accept, read and send for
 * all connections; the workers; and the idle watch. What happens to a request is in
 * web/exchange.c.
 */
#include "web/server.h"

#include <microhttpd.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "web/exchange.h"
#include "web/listen.h"
#include "web/transport.h"

enum {
	DESCRIPTORS_EACH = 6,
	IDLE_MS = 120 * 1000,
	HEAD_MS = 30 * 1000,
	THREADS_MIN = 2,
	THREADS_MAX = 8, /* if more connections are not wanted */
	CONNECTIONS_EACH = 120,
	ROOM = 16, /* from one in so many on that is free, some are closed */
	/* A request's head, or a block of an answer. All of it is zeroed for each. */
	CONNECTION_MEMORY = 16 << 10,
};

__attribute__((format(printf, 2, 0))) static void on_log(void *arg, const char *fmt,
							 va_list args)
{
	char text[256];

	(void)arg;
	vsnprintf(text, sizeof(text), fmt, args);
	text[strcspn(text, "\n")] = '\0';
	log_debug("http.library", LOG_TEXT("message", text));
}

/* What came before the bad part may have begun a request. */
static void on_refused(void *arg, int status, const char *why)
{
	struct web_connection *client = arg;

	idle_linger(client->idle);
	server_count_answer(client->server, status);
	log_debug("http.bad_request", LOG_TEXT("client", client->peer),
		  LOG_NUMBER("status", status), LOG_TEXT("message", why));
}

static struct web_connection *enter_client(struct web_server *server,
					   struct MHD_Connection *connection)
{
	struct web_connection *client = xcalloc(1, sizeof(*client));
	int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
			 ->connect_fd;
	const struct sockaddr *address =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
			->client_addr;

	client->server = server;
	client->idle = idle_enter(server->idle, fd);
	client->count = connections_enter(server->connections, address);
	client->fd = fd;
	client->gate =
		gate_enter(fd, &(struct gate_client){ .refused = on_refused,
						      .arg = client,
						      .is_secure = server->has_tls });
	address_ip(address, &client->ip);
	client->is_loopback = address_is_loopback(address);
	address_format(address, client->peer);
	return client;
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	struct web_connection *client = *context;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = enter_client(arg, connection);
	} else if (client) {
		exchange_abandon(client);
		gate_leave(client->gate);
		idle_leave(client->idle);
		connections_leave(client->server->connections, client->count);
		tls_identity_unref(client->identity);
		free(client);
		*context = NULL;
	}
}

static enum MHD_Result on_accept(void *arg, const struct sockaddr *address, socklen_t len)
{
	const struct web_server *server = arg;

	(void)len;
	return connections_admit(server->connections, address) ? MHD_YES : MHD_NO;
}

/* The connection keeps it, as a handshake may go on with it when there is another one
 * already. */
struct tls_identity *server_identity_for(struct MHD_Connection *connection)
{
	struct web_connection *client =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
			->socket_context;

	if (client->identity)
		return client->identity;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&client->server->mutex);
	client->identity = tls_identity_ref(client->server->identity);
	return client->identity;
}

/* Targets are decoded by web/router.h, which must see them as they were sent. */
static size_t keep_encoded(void *arg, struct MHD_Connection *connection, char *text)
{
	(void)arg;
	(void)connection;
	return strlen(text);
}

/* The library spins when it cannot accept for want of a descriptor, so they must not run
 * out: a connection may need a few more, for a child of git's. */
static unsigned limit_connections(uint64_t wanted)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) ||
	    files.rlim_cur / DESCRIPTORS_EACH >= wanted)
		return (unsigned)wanted;
	log_warn("http.few_connections", LOG_NUMBER("wanted", wanted),
		 LOG_NUMBER("limit", files.rlim_cur / DESCRIPTORS_EACH),
		 LOG_NUMBER("descriptors", files.rlim_cur));
	return (unsigned)(files.rlim_cur / DESCRIPTORS_EACH);
}

/* More of them than cores only cost: with few clients each sleeps between two requests.
 */
static unsigned threads_by_cores(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	if (cores < THREADS_MIN)
		return THREADS_MIN;
	return (unsigned)(cores < THREADS_MAX ? cores : THREADS_MAX);
}

/* A thread of the library that is told of 128 events at once waits for more before it
 * looks at them, for ever if none come (0.9.75): so none has so many connections. */
static unsigned count_threads(unsigned connections)
{
	unsigned least = (connections + CONNECTIONS_EACH - 1) / CONNECTIONS_EACH;
	unsigned count = threads_by_cores();

	return count < least ? least : count;
}

/* As of 0.9.75 the library takes EAGAIN in a handshake for no reason to wait for epoll: a
 * client that sends a part of its hello would have a thread spin. With poll it waits. */
static unsigned choose_flags(const struct web_server *server)
{
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_ITC |
			 MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME;

	return flags | (server->has_tls ? MHD_USE_POLL | MHD_USE_TLS : MHD_USE_EPOLL);
}

static struct MHD_Daemon *start_daemon(struct web_server *server)
{
	struct MHD_OptionItem tls[TLS_OPTIONS] = { { MHD_OPTION_END, 0, NULL } };

	if (server->has_tls)
		tls_options(tls);
	return MHD_start_daemon(
		choose_flags(server), 0, on_accept, server, exchange_on_request, server,
		MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,    /* first: it logs the rest */
		MHD_OPTION_LISTEN_SOCKET, server->listen_fd, /* */
		MHD_OPTION_ARRAY, tls, MHD_OPTION_CONNECTION_LIMIT, server->limit,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
		MHD_OPTION_THREAD_POOL_SIZE, count_threads(server->limit),
		MHD_OPTION_STRICT_FOR_CLIENT, 1, /* */
		MHD_OPTION_UNESCAPE_CALLBACK, keep_encoded, NULL,
		MHD_OPTION_URI_LOG_CALLBACK, exchange_on_target, server,
		MHD_OPTION_NOTIFY_COMPLETED, exchange_on_completed, server,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
}

/* Its threads must not take this program's signals. */
static struct MHD_Daemon *start_daemon_deaf(struct web_server *server)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	struct MHD_Daemon *daemon = start_daemon(server);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return daemon;
}

static void register_metrics(struct web_server *server)
{
	static const char *const classes[WEB_CLASSES] = { "none", "1xx", "2xx",
							  "3xx",  "4xx", "5xx" };
	struct metric *metric = metric_counter("refrelay_http_requests_total",
					       "Requests that were answered.", "class");

	for (size_t i = 0; i < WEB_CLASSES; i++)
		server->answers[i] = metric_at(metric, classes[i]);
	server->open_requests =
		metric_at(metric_gauge("refrelay_http_requests_open",
				       "Requests that have begun, and not ended."));
}

void server_count_answer(struct web_server *server, int status)
{
	size_t class = (size_t)status / 100;

	metric_add(server->answers[class < WEB_CLASSES ? class : 0], 1);
}

static void server_free(struct web_server *server)
{
	workers_stop(server->workers);
	idle_stop(server->idle);
	connections_free(server->connections);
	tls_identity_unref(server->identity);
	stop_clear(&server->stop);
	stop_clear(&server->cut);
	pthread_cond_destroy(&server->settled);
	pthread_mutex_destroy(&server->mutex);
	free(server);
}

static void server_start_parts(struct web_server *server,
			       const struct web_server_options *options)
{
	int64_t idle_ms = options->idle_ms ? options->idle_ms : IDLE_MS;
	int64_t head_ms = options->head_ms ? options->head_ms : HEAD_MS;

	server->idle = idle_start(idle_ms, head_ms, server->limit - server->limit / ROOM);
	server->connections = connections_new();
	server->workers = workers_start();
	if (options->transport) {
		server->has_tls = options->transport->identity;
		web_server_set(server, options->transport);
	}
	register_metrics(server);
}

int server_start(const struct web_server_options *options, struct web_server **server,
		 struct err *err)
{
	int fd = listen_open(options->listen, err);

	if (fd < 0)
		return -1;
	struct web_server *new = xcalloc(1, sizeof(*new));
	new->services = options->services;
	new->routes = options->routes;
	new->listen_fd = fd;
	new->port = listen_port(fd);
	stop_init(&new->stop);
	stop_init(&new->cut);
	mutex_init(&new->mutex);
	cond_init(&new->settled);
	new->limit =
		limit_connections(options->transport && options->transport->connections
					  ? options->transport->connections
					  : threads_by_cores() * CONNECTIONS_EACH);
	server_start_parts(new, options);
	new->daemon = start_daemon_deaf(new);
	if (!new->daemon) {
		/* It may have closed the socket; then its number may be another's. */
		server_free(new);
		return err_set(err, ERR_INTERNAL, "the HTTP server cannot start on %s",
			       options->listen);
	}
	*server = new;
	return 0;
}

/* A connection whose handshake has begun keeps the old one. */
void web_server_set(struct web_server *server, const struct transport *transport)
{
	struct tls_identity *identity = transport->identity, *before;

	connections_set(server->connections, transport->per_client, &transport->proxies);
	if (!server->has_tls || !identity)
		return;
	lock(&server->mutex);
	before = server->identity;
	server->identity = tls_identity_ref(identity);
	unlock(&server->mutex);
	tls_identity_unref(before);
	metric_set(metric_at(metric_gauge(
			   "refrelay_http_certificate_expires_timestamp_seconds",
			   "When the certificate that is shown is over.")),
		   (double)tls_identity_expires(identity));
}

uint16_t web_server_port(const struct web_server *server)
{
	return server->port;
}

static void wait_settled(struct web_server *server, int64_t grace_ms)
{
	int64_t until = clock_boot_ms() + grace_ms;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	while (atomic_load(&server->active) > 0)
		if (!cond_wait_until(&server->settled, held, until))
			break;
}

void web_server_stop(struct web_server *server, int64_t grace_ms)
{
	if (!server)
		return;
	stop_request(&server->stop);
	/* Not closed yet: the accepting thread may be about to use it. */
	MHD_quiesce_daemon(server->daemon);
	shutdown(server->listen_fd, SHUT_RDWR);
	wait_settled(server, grace_ms);
	stop_request(&server->cut);
	idle_cut(server->idle);
	workers_close(server->workers); /* none is suspended any more */
	MHD_stop_daemon(server->daemon);
	close(server->listen_fd);
	server_free(server);
}
