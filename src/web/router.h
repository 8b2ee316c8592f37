/*
 * The target of a request, a path and a query as they were sent, checked once (RFC 3986),
 * and which route it is for; patterns are described at struct web_route. Plain data.
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

/* Takes it apart. ERR_CONFIG: more than 8 KiB, bytes that must be encoded, bad
 * percent-encoding, an encoded NUL, or a path that has an empty part or "..". The target
 * must be cleared in any case. */
int target_parse(const char *raw, struct target *target, struct err *err);
void target_clear(struct target *target);

/* The last value of that key, or NULL. */
const char *target_query(const struct target *target, const char *key);

/* Percent-decodes so many bytes of a target that was parsed; the caller frees. */
char *target_decode(const char *text, size_t len);

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
