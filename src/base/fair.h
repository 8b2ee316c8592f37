/*
 * A number of places, shared fairly among clients: the next place goes to the client that
 * has the fewest, and among equals to the one that has waited behind the fewest; frequent
 * requests gain nothing. If too many wait, the last request of the client with the most
 * waiting requests is rejected. Any thread.
 */
#ifndef BASE_FAIR_H
#define BASE_FAIR_H

#include <sys/queue.h>

#include "base/metrics.h"
#include "base/thread.h"

struct fair;
struct fair_share;

struct fair_limits {
	size_t places, waiting;
	size_t each; /* places that one client may have; 0: all */
};

/* The names of a client, each with its own share; NULL or "": unused. Clients without any
 * name do not compete: they are served in their order. */
#define FAIR_NAMES 3
struct fair_client {
	const char *names[FAIR_NAMES]; /* address, block of addresses, user */
};

/* A request that is in, or waits; the caller's memory. */
struct fair_place {
	struct fair_share *shares[FAIR_NAMES];
	uint64_t turn;
	enum { FAIR_OUT, FAIR_WAITS, FAIR_IN } state;
	int fd; /* readable once it is out of the line; -1: there is none */
	TAILQ_ENTRY(fair_place) entry;
};

enum fair_result { FAIR_ENTERED, FAIR_TOO_MANY, FAIR_TOO_LATE, FAIR_STOPPED };

struct fair *fair_new(const struct fair_limits *limits);
void fair_free(struct fair *fair); /* NULL is allowed */
void fair_set(struct fair *fair, const struct fair_limits *limits);

/* From now on these show how many are in, and how many wait. */
void fair_show(struct fair *fair, struct metric_series *in,
	       struct metric_series *waiting);

/* Waits for at most wait_ms, or until the stop is requested (NULL: none). To be left only
 * after FAIR_ENTERED. */
enum fair_result fair_enter(struct fair *fair, struct fair_place *place,
			    const struct fair_client *client, int64_t wait_ms,
			    const struct stop *stop);
void fair_leave(struct fair *fair, struct fair_place *place);

/* Whether another client waits for a place. */
bool fair_is_wanted(struct fair *fair, const struct fair_place *place);

#endif
