/*
 * Announces changes that mirrors brought: [mirror] then. Documents are on disk
 * (mirror/then_queue.h) before they are sent, and removed after they were accepted: so
 * they survive a crash, but one accepted just before it is sent twice. Documents of one
 * mirror are sent one after another; rejected ones are retried with growing delays,
 * without delaying other mirrors.
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

/* Call before anything is brought: changes not announced before a restart are found from
 * the refs. NULL: not configured for any mirror. */
struct then_teller *then_teller_start(const struct then_teller_options *options);

/* Aborts announcements under way. NULL is allowed, as below. */
void then_teller_stop(struct then_teller *teller);

/* The mirror's refs may have changed; if so, that is durable on return. A failure to
 * store it is logged, and retried. Any thread. */
void then_teller_take(struct then_teller *teller, const char *mirror,
		      const struct then_origin *origin);

/* Sends the stored documents. Any thread. */
void then_teller_wake(struct then_teller *teller, const char *mirror);

#endif
