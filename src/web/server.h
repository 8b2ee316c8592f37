/*
 * The internals of the server. Only for web/server.c and web/exchange.c, and for tests
 * that start a server with other routes.
 */
#ifndef WEB_SERVER_H
#define WEB_SERVER_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/base.h"
#include "base/metrics.h"
#include "web/gate.h"
#include "web/listen.h"
#include "web/route.h"
#include "web/router.h"
#include "web/tls.h"
#include "web/web_server.h"

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
	struct metric_series *durations[ROUTE_KINDS][WEB_CLASSES];
	unsigned limit; /* of connections */
	uint16_t port;
	int listen_fd; /* owned from web_server_stop on, by the daemon before */
	bool has_tls;
	pthread_mutex_t mutex;
	struct tls_identity *identity; /* guarded by mutex; NULL: no TLS */
	pthread_cond_t settled;        /* no request is active */
	atomic_size_t active;          /* requests begun, not answered */
};

/* A connected client. */
struct web_connection {
	struct web_server *server;
	struct idle_conn *idle;
	struct connection_count *count;
	struct gate *gate;
	struct exchange *open;         /* begun, end not yet reported; or NULL */
	struct tls_identity *identity; /* the one shown to it; a reference, or NULL */
	struct ip_address ip;
	int fd; /* borrowed */
	bool is_loopback;
	bool is_known; /* one request of it was answered */
	char peer[ADDRESS_TEXT_SIZE];
};

void server_count_answer(struct web_server *server, int status);

/* How long a request of a route of this kind took, to the last byte of its answer. */
void server_observe(struct web_server *server, enum route_kind kind, int status,
		    int64_t took_us);

/* As web_server_start(), but `routes` must be given: so only handlers in them are
 * linked. */
int server_start(const struct web_server_options *options, struct web_server **server,
		 struct err *err);

/*
 * The connected clients: how many connections each address has, so that one client cannot
 * take all of them; and which addresses are proxies. Any thread.
 */

struct connections;
struct connection_count; /* of one IPv4 address, or one /64 of IPv6 in its /48 */

struct connections *connections_new(void);
void connections_free(struct connections *connections);

/* At most `per_client` for each address, of IPv6 for each /64 and twice as many for each
 * /48, except those of proxies, which are copied. 0: no limit. Existing connections
 * stay. */
void connections_set(struct connections *connections, uint64_t per_client,
		     const struct trusted_proxies *proxies);

/* Whether one more connection from there is allowed. If not, counts it in metrics and
 * logs it. May exceed the limit by the number of threads that ask at the same time. */
bool connections_admit(struct connections *connections, const struct sockaddr *address);

/* Counts a connection; kept until it leaves. */
struct connection_count *connections_enter(struct connections *connections,
					   const struct sockaddr *address);
void connections_leave(struct connections *connections, struct connection_count *count);

bool connections_is_proxy(struct connections *connections,
			  const struct ip_address *address);

/* As trusted_proxies_client. */
bool connections_client(struct connections *connections, const char *forwarded,
			struct ip_address *client);

/*
 * Threads for requests that must wait: for a disk, a child, a change. There are as many
 * as the largest number of these requests at a time, which the server bounds. Any thread.
 */

struct workers;

/* Embedded in the caller's struct; belongs to the caller again once run is called. */
struct work {
	TAILQ_ENTRY(work) entry;
	void (*run)(struct work *work);
};

/* False: the workers are closing and will not run it. */
bool workers_add(struct workers *workers, struct work *work);

#endif
