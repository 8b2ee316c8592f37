/*
 * The HTTP server for the node: start, new settings, stop.
 */
#ifndef WEB_WEB_SERVER_H
#define WEB_WEB_SERVER_H

#include "base/base.h"

struct web_server;
struct web_services; /* web/services.h */
struct web_route;    /* web/route.h */
struct transport;    /* web/transport.h */
struct web_server_options {
	const char *listen; /* "127.0.0.1:8418", "[::1]:8418", "*:8418"; port 0: any */
	const struct web_services *services;
	const struct transport *transport; /* copied; NULL: plain */
	int64_t idle_ms; /* a client's longest silence; 0: two minutes */
	int64_t head_ms; /* a client's time to send a whole head; 0: 30 s */
	const struct web_route *const *routes; /* NULL: web_routes */
};

/* ERR_CONFIG: not a usable address; ERR_BUSY: it is taken. */
int web_server_start(const struct web_server_options *options, struct web_server **server,
		     struct err *err);

/* Takes over the settings that can change while it runs: the certificate, proxies, the
 * limit for each client. Existing connections are not affected. */
void web_server_set(struct web_server *server, const struct transport *transport);
uint16_t web_server_port(const struct web_server *server);

/* NULL is allowed. No new connections; waiting requests are answered; streams have until
 * `grace_ms`. */
void web_server_stop(struct web_server *server, int64_t grace_ms);

#endif
