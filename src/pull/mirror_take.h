/*
 * A clone with a working tree that another program made at NAME, where the mirror is to
 * be NAME.git: taken over, so that nothing is fetched again. Its objects become those of
 * NAME.git; its refs are mapped to what the mirror would have. For pull/mirror_adopt.c.
 *
 * Source: seed 004 (a shared clone per repository: `git clone --depth 1`, and a working
 * tree that is reset after each fetch).
 */
#ifndef PULL_MIRROR_TAKE_H
#define PULL_MIRROR_TAKE_H

#include "job/job.h"

/* A lock of git that is older is left over from one that died. */
#define MIRROR_TAKE_LOCK_AGE_S 3600

struct mirror_take {
	const char *root;         /* site.repositories */
	const char *name;         /* of the mirror */
	const char *url;          /* of its upstream */
	const struct err *unread; /* why it stays, whatever else it is; may be NULL */
};

/* 1: there is such a clone, or one that an earlier try has begun to take over. 0:
 * NAME.git exists already; or it is not fit (pull/mirror_fit.h): it stays as it is, and
 * the log says why. -1: that cannot be told now: NAME.git must not be made meanwhile.
 * Reads its refs, if there is no NAME.git. */
int mirror_take_is_needed(const struct mirror_take *take, struct err *err);

/* Under the mirror's lease. Whatever it leaves after an error or a crash, the next call
 * completes. ERR_CONFLICT: git runs there, or was killed there. */
int mirror_take_over(struct job *job, const struct mirror_take *take, struct err *err);

#endif
