/*
 * Looks after the mirrors: asks each upstream once an interval what its refs are, and has
 * those brought whose refs are others than the last time, or that do not answer as they
 * should: what is wrong is for the job to say, which backs off (replicable/registry.h).
 * A thread, and some that ask, so that an upstream which does not answer holds up no
 * other.
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
	const struct mirrors *mirrors; /* those of lists are loaded by it alone */
	const char *root;              /* of the clones */
	struct credential_marks *marks;
	struct mirror_checkout_site checkouts;
	void (*wake)(void *arg); /* rows were asked for; from any thread */
	/* Whether the clone is there, and what was proved of it last, by whatever node of
	 * this tree, has that checksum; from any thread. NULL: it always is so. */
	bool (*stands)(void *arg, const char *name, const char *checksum);
	void *arg;
};

/* What lists told of in a former life is loaded first, rows of new mirrors are made, and
 * requests wait again. */
int mirror_poll_start(const struct mirror_poll_options *options,
		      struct mirror_poll **poll, struct err *err);
void mirror_poll_stop(struct mirror_poll *poll); /* NULL is allowed */

/* For a site that has no mirrors (any more): nothing is expected of any. */
int mirror_poll_forget(struct store *store, struct err *err);

/* Lists have told of other mirrors (mirror/listed.h): from now on these are polled. Any
 * thread. */
void mirror_poll_reload(struct mirror_poll *poll);

/* A list has told which refs the upstream has: grokmirror's fingerprint of them, and the
 * short name of its default branch. If that is what was found equal last, it is so now,
 * and nothing is asked; if it is news, the upstream is asked now. Any thread. */
void mirror_poll_tell(struct mirror_poll *poll, const char *name, const char *fingerprint,
		      const char *branch);

/* 0 to most - 1; and an interval, give or take a tenth, so that many do not coincide. */
int64_t mirror_random_ms(int64_t most);
int64_t mirror_jitter_ms(int64_t interval_ms);

/* Its upstream is asked now; if it was asked less than a second ago, when that is over.
 * Any thread. */
void mirror_poll_hurry(struct mirror_poll *poll, const struct mirror *mirror);

/* When an upstream was last asked, and had nothing new, wall ms; 0: never. For
 * commands, from the database. */
int mirror_checked_at(struct store *store, const char *name, int64_t *at,
		      struct err *err);

#endif
