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
#include "base/map.h"
#include "base/metrics.h"
#include "base/thread.h"
#include "base/vec.h"
#include "web/exchange.h"
#include "web/listen.h"
#include "web/transport.h"

enum { LOG_INTERVAL_MS = 1000 };

struct connection_count {
	char client[ADDRESS_TEXT_SIZE];
	struct connection_count *block; /* that it belongs to; or NULL */
	uint64_t count;
};

/* Who has many networks of IPv6 has so many connections as that many clients. */
enum { CLIENTS_OF_BLOCK = 2 };

struct client_name {
	struct ip_address ip;
	char network[ADDRESS_TEXT_SIZE], block[ADDRESS_TEXT_SIZE];
};

struct connections {
	pthread_mutex_t mutex;
	uint64_t per_client; /* guarded by mutex, as all below; 0: no limit */
	struct trusted_proxies proxies;
	struct map counts; /* by client; of those that have at least one */
	int64_t logged_at;
	uint64_t unlogged; /* refused since then */
	struct metric_series *refused;
};

struct connections *connections_new(void)
{
	struct connections *connections = xcalloc(1, sizeof(*connections));

	mutex_init(&connections->mutex);
	connections->logged_at = INT64_MIN / 2;
	connections->refused =
		metric_at(metric_counter("refrelay_http_connections_refused_total",
					 "Connections closed at once, as their client "
					 "has too many."));
	return connections;
}

void connections_free(struct connections *connections)
{
	if (!connections)
		return;
	map_clear(&connections->counts); /* all have left */
	trusted_proxies_clear(&connections->proxies);
	pthread_mutex_destroy(&connections->mutex);
	free(connections);
}

void connections_set(struct connections *connections, uint64_t per_client,
		     const struct trusted_proxies *proxies)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&connections->mutex);

	connections->per_client = per_client;
	trusted_proxies_clear(&connections->proxies);
	for (size_t i = 0; i < proxies->networks.count; i++)
		vec_add(&connections->proxies.networks, proxies->networks.items[i]);
}

static void name_client(const struct sockaddr *address, struct client_name *client)
{
	char text[ADDRESS_TEXT_SIZE];

	address_ip(address, &client->ip);
	address_format_ip(&client->ip, text);
	address_network(text, client->network);
	address_block(text, client->block);
}

/* Returns how many were not logged, or -1 if this one is not to be either. */
static int64_t note_refused_locked(struct connections *connections)
{
	int64_t now = clock_boot_ms(), unlogged = (int64_t)connections->unlogged;

	if (now - connections->logged_at < LOG_INTERVAL_MS) {
		connections->unlogged++;
		return -1;
	}
	connections->logged_at = now;
	connections->unlogged = 0;
	return unlogged;
}

static bool has_fewer_locked(const struct connections *connections, const char *name,
			     uint64_t limit)
{
	const struct connection_count *count = map_get(&connections->counts, name);

	return !count || count->count < limit;
}

static bool may_come_locked(const struct connections *connections,
			    const struct client_name *client)
{
	uint64_t limit = connections->per_client;

	return limit == 0 ||
	       (has_fewer_locked(connections, client->network, limit) &&
		has_fewer_locked(connections, client->block, CLIENTS_OF_BLOCK * limit)) ||
	       trusted_proxies_has(&connections->proxies, &client->ip);
}

/* All who come through a web server on this machine are one client until it is named. */
static const char *connections_choose_remedy(const struct sockaddr *address)
{
	return address_is_loopback(address)
		       ? "name the web server on this machine in http.trustedProxy, if "
			 "it is one"
		       : "raise http.connectionsPerClient, or name it in "
			 "http.trustedProxy if it is a web server in front";
}

bool connections_admit(struct connections *connections, const struct sockaddr *address)
{
	struct client_name client;
	int64_t unlogged = -1;

	name_client(address, &client);
	lock(&connections->mutex);
	uint64_t limit = connections->per_client;
	bool may_come = may_come_locked(connections, &client);
	if (!may_come)
		unlogged = note_refused_locked(connections);
	unlock(&connections->mutex);
	if (may_come)
		return true;
	metric_add(connections->refused, 1);
	if (unlogged >= 0)
		log_warn("http.too_many_connections", LOG_TEXT("client", client.network),
			 LOG_NUMBER("limit", limit), LOG_NUMBER("unlogged", unlogged),
			 LOG_TEXT("remedy", connections_choose_remedy(address)));
	return false;
}

static struct connection_count *add_locked(struct connections *connections,
					   const char *name)
{
	struct connection_count *count = map_get(&connections->counts, name);

	if (!count) {
		count = xcalloc(1, sizeof(*count));
		snprintf(count->client, sizeof(count->client), "%s", name);
		map_put(&connections->counts, name, count);
	}
	count->count++;
	return count;
}

static void remove_locked(struct connections *connections, struct connection_count *count)
{
	if (--count->count > 0)
		return;
	map_remove(&connections->counts, count->client);
	free(count);
}

struct connection_count *connections_enter(struct connections *connections,
					   const struct sockaddr *address)
{
	struct connection_count *count;
	struct client_name client;

	name_client(address, &client);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&connections->mutex);
	count = add_locked(connections, client.network);
	count->block = *client.block ? add_locked(connections, client.block) : NULL;
	return count;
}

void connections_leave(struct connections *connections, struct connection_count *count)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&connections->mutex);

	if (count->block)
		remove_locked(connections, count->block);
	remove_locked(connections, count);
}

bool connections_is_proxy(struct connections *connections,
			  const struct ip_address *address)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&connections->mutex);

	return trusted_proxies_has(&connections->proxies, address);
}

bool connections_client(struct connections *connections, const char *forwarded,
			struct ip_address *client)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&connections->mutex);

	return trusted_proxies_client(&connections->proxies, forwarded, client);
}

struct workers {
	pthread_mutex_t mutex;
	pthread_cond_t changed, settled;
	TAILQ_HEAD(, work) queue; /* guarded by mutex, as those below */
	size_t queued, idle;
	VEC(pthread_t) threads;
	bool is_closed, is_stopping;
};

static struct work *workers_next_locked(struct workers *workers)
{
	struct work *work;

	workers->idle++;
	if (workers->idle == workers->threads.count)
		pthread_cond_broadcast(&workers->settled);
	while (TAILQ_EMPTY(&workers->queue) && !workers->is_stopping)
		cond_wait_until(&workers->changed, &workers->mutex, INT64_MAX);
	work = TAILQ_FIRST(&workers->queue);
	if (!work)
		return NULL;
	TAILQ_REMOVE(&workers->queue, work, entry);
	workers->queued--;
	workers->idle--;
	return work;
}

static void *workers_run_thread(void *arg)
{
	struct workers *workers = arg;
	struct work *work;

	lock(&workers->mutex);
	while ((work = workers_next_locked(workers))) {
		unlock(&workers->mutex);
		work->run(work);
		lock(&workers->mutex);
	}
	unlock(&workers->mutex);
	return NULL;
}

static struct workers *workers_start(void)
{
	struct workers *workers = xcalloc(1, sizeof(*workers));

	mutex_init(&workers->mutex);
	cond_init(&workers->changed);
	cond_init(&workers->settled);
	TAILQ_INIT(&workers->queue);
	return workers;
}

/* It counts as idle when it comes to the queue. */
static void add_thread_locked(struct workers *workers)
{
	pthread_t thread;

	thread_start(&thread, "http-worker", workers_run_thread, workers);
	vec_add(&workers->threads, thread);
}

bool workers_add(struct workers *workers, struct work *work)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&workers->mutex);

	if (workers->is_closed)
		return false;
	TAILQ_INSERT_TAIL(&workers->queue, work, entry);
	workers->queued++;
	if (workers->queued > workers->idle)
		add_thread_locked(workers);
	pthread_cond_signal(&workers->changed);
	return true;
}

/* Takes no more, and waits until all that was added has ended. */
static void workers_close(struct workers *workers)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&workers->mutex);

	workers->is_closed = true;
	while (workers->queued > 0 || workers->idle < workers->threads.count)
		cond_wait_until(&workers->settled, held, INT64_MAX);
}

/* Closes and frees. */
static void workers_stop(struct workers *workers)
{
	workers_close(workers);
	lock(&workers->mutex);
	workers->is_stopping = true;
	pthread_cond_broadcast(&workers->changed);
	unlock(&workers->mutex);
	for (size_t i = 0; i < workers->threads.count; i++)
		thread_join(workers->threads.items[i]);
	vec_clear(&workers->threads);
	pthread_cond_destroy(&workers->changed);
	pthread_cond_destroy(&workers->settled);
	pthread_mutex_destroy(&workers->mutex);
	free(workers);
}

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
		if (client->identity) /* most speak no TLS */
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

static const char *const classes[WEB_CLASSES] = { "none", "1xx", "2xx",
						  "3xx",  "4xx", "5xx" };

/* From what memory answers to a clone; fewer than of others, as there are many series. */
static const double request_buckets[] = { 0.001, 0.005, 0.025, 0.1, 0.5,
					  2.5,   10,    60,    600, 0 };

static void register_durations(struct web_server *server)
{
	struct metric *metric = metric_histogram(
		"refrelay_http_request_duration_seconds",
		"From the first byte of a request to the last of its answer.",
		request_buckets, "kind", "class");

	for (int kind = 0; kind < ROUTE_KINDS; kind++)
		for (size_t i = 0; i < WEB_CLASSES; i++)
			server->durations[kind][i] =
				metric_at(metric, route_kind_name((enum route_kind)kind),
					  classes[i == 1 ? 2 : i]);
}

static void register_metrics(struct web_server *server)
{
	struct metric *metric = metric_counter("refrelay_http_requests_total",
					       "Requests that were answered.", "class");

	for (size_t i = 0; i < WEB_CLASSES; i++)
		server->answers[i] = metric_at(metric, classes[i]);
	server->open_requests =
		metric_at(metric_gauge("refrelay_http_requests_open",
				       "Requests that have begun, and not ended."));
	register_durations(server);
}

void server_count_answer(struct web_server *server, int status)
{
	size_t class = (size_t)status / 100;

	metric_add(server->answers[class < WEB_CLASSES ? class : 0], 1);
}

void server_observe(struct web_server *server, enum route_kind kind, int status,
		    int64_t took_us)
{
	size_t class = (size_t)status / 100;

	metric_observe(server->durations[kind][class < WEB_CLASSES ? class : 0],
		       (double)took_us / 1000000);
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
