/*
 * So many places, for clients that shall not keep each other out: whoever has the fewest
 * before him is next, not who has asked most often. If too many wait, the last of who
 * has most of them is sent away. Any thread.
 */
#ifndef WEB_FAIR_H
#define WEB_FAIR_H

#include <sys/queue.h>

#include "base/base.h"
#include "web/listen.h"

struct fair;

struct fair_limits {
	size_t places, waiting;
	size_t each; /* places that one client may have; 0: all */
};

/* One that is in, or waits; the caller's memory. */
struct fair_place {
	char client[ADDRESS_TEXT_SIZE];
	uint64_t turn;
	enum { FAIR_OUT, FAIR_WAITS, FAIR_IN } state;
	TAILQ_ENTRY(fair_place) entry;
};

struct fair *fair_new(const struct fair_limits *limits);
void fair_free(struct fair *fair); /* NULL is allowed */

/* `client`: an address without a port, or NULL. False: too many wait, or it was too late;
 * then there is nothing to leave. */
bool fair_enter(struct fair *fair, struct fair_place *place, const char *client,
		int64_t wait_ms);
void fair_leave(struct fair *fair, struct fair_place *place);

#endif
