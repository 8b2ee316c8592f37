/*
 * The target of a request: a path and a query as they were sent, checked once. Plain
 * data, for one thread at a time. Source: RFC 3986.
 */
#ifndef WEB_TARGET_H
#define WEB_TARGET_H

#include "base/base.h"
#include "base/vec.h"

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

#endif
