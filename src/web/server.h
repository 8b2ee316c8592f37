/*
 * The server's own parts. Only web/server.c and web/exchange.c use it, and tests that
 * start a server with routes of their own.
 */
#ifndef WEB_SERVER_H
#define WEB_SERVER_H

#include <stdatomic.h>

#include "base/metrics.h"
#include "web/connections.h"
#include "web/gate.h"
#include "web/idle.h"
#include "web/listen.h"
#include "web/route.h"
#include "web/tls.h"
#include "web/web_server.h"
#include "web/workers.h"

struct MHD_Daemon;
struct exchange;

#define WEB_CLASSES 6 /* of status: none, 1xx to 5xx */

struct web_server {
	const struct web_services *services;
	const struct web_route *const *routes;
	struct stop stop, cut; /* see struct web_request */
	struct idle_watch *idle;
	struct connections *connections;
	struct workers *workers;
	struct MHD_Daemon *daemon;
	struct metric_series *answers[WEB_CLASSES], *open_requests;
	unsigned limit; /* of connections */
	uint16_t port;
	int listen_fd; /* owned from web_server_stop on, by the daemon before */
	bool has_tls;
	pthread_mutex_t mutex;
	struct tls_identity *identity; /* guarded by mutex; NULL: no TLS */
	pthread_cond_t settled;        /* no request is active */
	atomic_size_t active;          /* requests begun, not answered */
};

/* A client, as long as it stays. */
struct web_connection {
	struct web_server *server;
	struct idle_conn *idle;
	struct connection_count *count;
	struct gate *gate;
	struct exchange *open;         /* begun, and its end not told; or NULL */
	struct tls_identity *identity; /* what was shown to it; a reference, or NULL */
	struct ip_address ip;
	int fd; /* borrowed */
	bool is_loopback;
	bool is_known; /* one request of it was answered */
	char peer[ADDRESS_TEXT_SIZE];
};

void server_count_answer(struct web_server *server, int status);

/* As web_server_start, but `routes` must be given: so no handler is linked that they do
 * not name. */
int server_start(const struct web_server_options *options, struct web_server **server,
		 struct err *err);

#endif
