/*
 * Tells others of what mirrors brought: [mirror] then. What is to be told is on disk
 * (mirror/then_queue.h) before anybody is told, and goes when it was taken: so a crash
 * loses nothing, and what was taken just before one is told twice. Documents of one
 * mirror go one after another; what is not taken is tried again, ever more seldom, and
 * holds up no other mirror.
 */
#ifndef MIRROR_THEN_TELLER_H
#define MIRROR_THEN_TELLER_H

#include "mirror/mirrors.h"
#include "mirror/then_queue.h"

struct then_teller;

struct then_teller_options {
	const struct mirrors *mirrors; /* read at the start only */
	const char *data, *root;       /* site.data, site.repositories; borrowed */
};

/* Before anything is brought: what a former life did not tell is found by the refs. NULL:
 * no mirror tells anybody. */
struct then_teller *then_teller_start(const struct then_teller_options *options);

/* What is under way is broken off. NULL is allowed, as below. */
void then_teller_stop(struct then_teller *teller);

/* The mirror's refs may be others; if they are, that is durable when it returns. What
 * cannot be kept is said in the log, and tried again. Any thread. */
void then_teller_take(struct then_teller *teller, const char *mirror,
		      const struct then_origin *origin);

/* Tells what was taken. Any thread. */
void then_teller_wake(struct then_teller *teller, const char *mirror);

#endif
