/*
 * Which route a request is for. Patterns are described at struct web_route. Any thread.
 */
#ifndef WEB_ROUTER_H
#define WEB_ROUTER_H

#include "web/route.h"
#include "web/target.h"

struct route_match {
	const struct web_route *route; /* NULL: none */
	char *name;     /* what {name} or {path} stands for, decoded; owned, or NULL */
	char *kind;     /* ... and {kind} */
	char allow[64]; /* methods of routes with this path; "": there is no such path */
};

/* Tables end with NULL; the first route that fits counts. */
void route_find(const struct web_route *const *tables, const char *method,
		const struct target *target, struct route_match *match);
void route_match_clear(struct route_match *match);

#endif
