/*
 * libFuzzer: any request line finds one of the server's routes, with the name that the
 * path holds, or none, and then the methods that the path has; and a method that is
 * allowed there finds a route.
 */
#include <assert.h>

#include "web/router.h"

static void check_route(const struct route_match *match, const char *method)
{
	const struct web_route *route = match->route;

	assert(strcmp(route->method, method) == 0 ||
	       (strcmp(route->method, "GET") == 0 && strcmp(method, "HEAD") == 0));
	assert(!match->name ==
	       !(strstr(route->pattern, "{name}") || strstr(route->pattern, "{path}")));
	assert(!match->kind == !strstr(route->pattern, "{kind}"));
	assert(!match->name || match->name[0]);
	assert(!match->kind || match->kind[0]);
}

static void check_allowed(const struct route_match *match, const struct target *target)
{
	AUTO_FREE char *methods = xstrdup(match->allow);
	struct route_match again;
	char *at = methods, *method;

	assert(!match->name && !match->kind);
	while ((method = strsep(&at, ", ")) != NULL) {
		if (!*method)
			continue;
		route_find(web_routes, method, target, &again);
		assert(again.route);
		check_route(&again, method);
		route_match_clear(&again);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	char *raw = strchr(text, ' ');
	struct route_match match;
	struct target target;

	if (!raw)
		return 0;
	*raw++ = '\0';
	if (target_parse(raw, &target, ERR_IGNORED) == 0) {
		route_find(web_routes, text, &target, &match);
		if (match.route)
			check_route(&match, text);
		else
			check_allowed(&match, &target);
		route_match_clear(&match);
	}
	target_clear(&target);
	return 0;
}
