/*
 * The server's own parts. Only web/server.c and web/exchange.c use it, and tests that
 * start a server with routes of their own.
 */
#ifndef WEB_SERVER_H
#define WEB_SERVER_H

#include "web/idle.h"
#include "web/web.h"

struct MHD_Daemon;

struct web_server {
	const struct web_services *services;
	const struct web_route *const *routes;
	struct stop stop, cut; /* see struct web_request */
	struct idle_watch *idle;
	struct MHD_Daemon *daemon;
	uint16_t port;
	int listen_fd; /* owned from web_server_stop on, by the daemon before */
	pthread_mutex_t mutex;
	pthread_cond_t settled; /* no request is active */
	size_t active;          /* requests begun, not answered; guarded by mutex */
};

/* As web_server_start, but `routes` must be given: so no handler is linked that they do
 * not name. */
int server_start(const struct web_server_options *options, struct web_server **server,
		 struct err *err);

#endif
