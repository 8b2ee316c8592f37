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

enum {
	CONNECTIONS = 256,
	DESCRIPTORS_EACH = 6,
	IDLE_MS = 120 * 1000,
	THREADS_MIN = 2,
	THREADS_MAX = 8,
	/* A request's head, or a block of an answer. All of it is zeroed for each. */
	CONNECTION_MEMORY = 32 << 10,
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

static struct web_connection *enter_client(struct web_server *server,
					   struct MHD_Connection *connection)
{
	struct web_connection *client = xcalloc(1, sizeof(*client));
	int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
			 ->connect_fd;
	const struct sockaddr *address =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
			->client_addr;

	client->idle = idle_enter(server->idle, fd);
	client->fd = fd;
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
		idle_leave(client->idle);
		free(client);
		*context = NULL;
	}
}

/* Targets are decoded by web/target.h, which must see them as they were sent. */
static size_t keep_encoded(void *arg, struct MHD_Connection *connection, char *text)
{
	(void)arg;
	(void)connection;
	return strlen(text);
}

/* The library spins when it cannot accept for want of a descriptor, so they must not run
 * out: a connection may need a few more, for a child of git's. */
static unsigned limit_connections(unsigned wanted)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files))
		return wanted;
	return files.rlim_cur / DESCRIPTORS_EACH < wanted
		       ? (unsigned)(files.rlim_cur / DESCRIPTORS_EACH)
		       : wanted;
}

static unsigned count_threads(void)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);

	return cores < THREADS_MIN
		       ? THREADS_MIN
		       : (unsigned)(cores < THREADS_MAX ? cores : THREADS_MAX);
}

static struct MHD_Daemon *start_daemon(struct web_server *server, unsigned connections)
{
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_USE_ITC |
			 MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME;

	return MHD_start_daemon(
		flags, 0, NULL, NULL, exchange_on_request, server,
		MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,    /* first: it logs the rest */
		MHD_OPTION_LISTEN_SOCKET, server->listen_fd, /* */
		MHD_OPTION_CONNECTION_LIMIT,
		limit_connections(connections ? connections : CONNECTIONS),
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY,
		MHD_OPTION_THREAD_POOL_SIZE, count_threads(), /* */
		MHD_OPTION_STRICT_FOR_CLIENT, 1,              /* */
		MHD_OPTION_UNESCAPE_CALLBACK, keep_encoded, NULL,
		MHD_OPTION_URI_LOG_CALLBACK, exchange_on_target, server,
		MHD_OPTION_NOTIFY_COMPLETED, exchange_on_completed, server,
		MHD_OPTION_NOTIFY_CONNECTION, on_connection, server, MHD_OPTION_END);
}

/* Its threads must not take this program's signals. */
static struct MHD_Daemon *start_daemon_deaf(struct web_server *server,
					    unsigned connections)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	struct MHD_Daemon *daemon = start_daemon(server, connections);
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
	stop_clear(&server->stop);
	stop_clear(&server->cut);
	pthread_cond_destroy(&server->settled);
	pthread_mutex_destroy(&server->mutex);
	free(server);
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
	new->idle = idle_start(options->idle_ms ? options->idle_ms : IDLE_MS);
	new->workers = workers_start();
	register_metrics(new);
	new->daemon = start_daemon_deaf(new, options->connections);
	if (!new->daemon) {
		/* It may have closed the socket; then its number may be another's. */
		server_free(new);
		return err_set(err, ERR_INTERNAL, "the HTTP server cannot start on %s",
			       options->listen);
	}
	*server = new;
	return 0;
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
