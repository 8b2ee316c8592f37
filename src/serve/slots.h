/*
 * Limits how many operations of a kind run at once for clients, with a fair share for
 * each (base/fair.h), and how many may wait. Any thread.
 */
#ifndef SERVE_SLOTS_H
#define SERVE_SLOTS_H

#include "base/fair.h"

struct slots;

struct slots_limits {
	size_t running, waiting;
	int64_t wait_ms;
	size_t each; /* of one client; 0: all */
};

/* `name` is the value of the metrics' label kind; static. */
struct slots *slots_new(const char *name, const struct slots_limits *limits);
void slots_free(struct slots *slots);
void slots_set(struct slots *slots, const struct slots_limits *limits);

struct slots_request {
	const struct fair_client *client; /* NULL: no client; in order of arrival */
	const struct stop *stop;          /* may be NULL */
	unsigned *retry_after_s; /* may be NULL; with ERR_BUSY: when to come again */
};

/* Keep *place until slots_leave(). ERR_BUSY: too many wait already, or it waited too
 * long; err->remedy says when to come again. ERR_CANCELED: stopped. */
int slots_enter(struct slots *slots, const struct slots_request *request,
		struct fair_place *place, struct err *err);
void slots_leave(struct slots *slots, struct fair_place *place);

/* Whether another client waits for a place. */
bool slots_is_wanted(struct slots *slots, const struct fair_place *place);

#endif
