/*
 * How many of a thing may run at once, and how many may wait for it: first come, first
 * served. Any thread.
 */
#ifndef SERVE_SLOTS_H
#define SERVE_SLOTS_H

#include "base/base.h"
#include "base/thread.h"

struct slots;

struct slots_limits {
	size_t running, waiting;
	int64_t wait_ms;
};

/* `name` is the value of the metrics' label kind; static. */
struct slots *slots_new(const char *name, const struct slots_limits *limits);
void slots_free(struct slots *slots);
void slots_set(struct slots *slots, const struct slots_limits *limits);

/* ERR_BUSY: too many wait already, or it waited for too long; err->remedy says when to
 * come again, and *retry_after_s, which may be NULL. ERR_CANCELED: stopped. */
int slots_enter(struct slots *slots, const struct stop *stop, unsigned *retry_after_s,
		struct err *err);
void slots_leave(struct slots *slots);

#endif
