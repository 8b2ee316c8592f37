/*
 * Polls the mirrors: asks each upstream once an interval for its refs, and requests a job
 * if the refs have changed since the last time, or if the upstream does not answer
 * properly: the job reports what is wrong, and backs off (replicable/registry.h). One
 * thread, and some that ask, so that an unresponsive upstream does not delay others.
 */
#ifndef MIRROR_POLL_H
#define MIRROR_POLL_H

#include "mirror/checkouts.h"
#include "mirror/marks.h"
#include "mirror/mirrors.h"
#include "store/store.h"

struct mirror_poll;

struct mirror_poll_options {
	struct store *store;           /* borrowed, as all of these */
	const struct mirrors *mirrors; /* those of lists are loaded only by the poll */
	const char *root;              /* of the clones */
	struct credential_marks *marks;
	struct mirror_checkout_site checkouts;
	void (*wake)(void *arg); /* rows were requested; from any thread */
	/* Whether the clone exists, unchanged since its last proof, by any node of this
	 * tree, and that has that checksum; from any thread. NULL: always true. */
	bool (*stands)(void *arg, const char *name, const char *checksum);
	void *arg;
};

/* First loads the mirrors from earlier lists, makes rows of new mirrors, and makes
 * requests wait again. */
int mirror_poll_start(const struct mirror_poll_options *options,
		      struct mirror_poll **poll, struct err *err);
void mirror_poll_stop(struct mirror_poll *poll); /* NULL is allowed */

/* For a site without mirrors (any more): clears all expectations. */
int mirror_poll_forget(struct store *store, struct err *err);

/* The lists' mirrors have changed (mirror/listed.h): polls the new ones from now on. Any
 * thread. */
void mirror_poll_reload(struct mirror_poll *poll);

/* The settings were read anew: how long a checkout may take from now on. Any thread. */
void mirror_poll_set_timeout(struct mirror_poll *poll, int64_t timeout_ms);

/* A list reports the upstream's refs: grokmirror's fingerprint of them, and the short
 * name of its default branch. If that is the state last found equal, the mirror counts as
 * equal now, without asking, once its clone was looked at (`stands`); if it differs, the
 * upstream is asked now. Any thread. */
void mirror_poll_tell(struct mirror_poll *poll, const char *name, const char *fingerprint,
		      const char *branch);

/* A random number from 0 to most - 1; and an interval, varied by up to a tenth, so that
 * many do not coincide. */
int64_t mirror_random_ms(int64_t most);
int64_t mirror_jitter_ms(int64_t interval_ms);

/* Asks its upstream now; if it was asked less than a second ago, when that second has
 * passed. Any thread. */
void mirror_poll_hurry(struct mirror_poll *poll, const struct mirror *mirror);

#endif
