/*
 * The target of a request, a path and a query as they were sent, checked once (RFC 3986),
 * and its route; patterns are described at struct web_route. Plain data.
 */
#ifndef WEB_ROUTER_H
#define WEB_ROUTER_H

#include "base/vec.h"
#include "web/route.h"

struct target_field {
	char *key, *value; /* decoded; owned */
};

struct target {
	char *raw;  /* as sent; owned */
	char *path; /* without the query, still encoded; owned */
	VEC(struct target_field) query;
};

/* Parses it. ERR_CONFIG: more than 8 KiB, bytes that must be encoded, bad
 * percent-encoding, an encoded NUL, or a path that has an empty part or "..". The target
 * must be cleared in any case. */
int target_parse(const char *raw, struct target *target, struct err *err);
void target_clear(struct target *target);

/* The last value of that key, or NULL. */
const char *target_query(const struct target *target, const char *key);

/* Percent-decodes `len` bytes of a parsed target; the caller frees. */
char *target_decode(const char *text, size_t len);

struct route_match {
	const struct web_route *route; /* NULL: not found */
	char *name;     /* the value of {name} or {path}, decoded; owned, or NULL */
	char *kind;     /* ... and {kind} */
	char allow[64]; /* methods of routes with this path; "": unknown path */
};

/* Tables end with NULL; the first route that fits counts. */
void route_find(const struct web_route *const *tables, const char *method,
		const struct target *target, struct route_match *match);
void route_match_clear(struct route_match *match);

/* Whether it is part of the API, whose errors are problem details. */
bool route_is_api(const struct web_route *route);

/* Checks that the route accepts all parameters of the query. ERR_CONFIG: names the first
 * other one, and the most similar accepted one. Requires a route of the API. */
int route_check_query(const struct web_route *route, const struct target *target,
		      struct err *err);

/* A route's class in metrics. */
enum route_kind {
	ROUTE_REFS,     /* of Git: a client's first request */
	ROUTE_FETCH,    /* of Git */
	ROUTE_PUSH,     /* of Git */
	ROUTE_LFS,      /* of Git LFS */
	ROUTE_API,      /* queries and commands of people and programs */
	ROUTE_EVENTS,   /* secondaries wait for these */
	ROUTE_TRANSFER, /* bytes for secondaries */
	ROUTE_MONITOR,  /* healthz, readyz, metrics */
	ROUTE_OTHER,
	ROUTE_KINDS,
};

/* NULL: not found. */
enum route_kind route_kind_of(const struct web_route *route);
const char *route_kind_name(enum route_kind kind);

#endif
