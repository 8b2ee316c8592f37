#include "web/server.h"

const struct web_route *const web_routes[] = {
	web_git_routes, /* first, as most are asked there */
	web_health_routes, web_event_routes, web_repository_routes,
	web_lease_routes,  web_push_routes,  NULL,
};

int web_server_start(const struct web_server_options *options, struct web_server **server,
		     struct err *err)
{
	struct web_server_options own = *options;

	if (!own.routes)
		own.routes = web_routes;
	return server_start(&own, server, err);
}
