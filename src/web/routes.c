#include "web/server.h"

/* Git's first, as most are asked there. */
const struct web_route *const web_routes[] = {
	web_git_routes,        web_lfs_routes,
	web_health_routes,     web_event_routes,
	web_repository_routes, web_blob_routes,
	web_retrieve_routes,   web_lease_routes,
	web_push_routes,       NULL,
};

int web_server_start(const struct web_server_options *options, struct web_server **server,
		     struct err *err)
{
	struct web_server_options own = *options;

	if (!own.routes)
		own.routes = web_routes;
	return server_start(&own, server, err);
}
