/*
 * A copy that was built in staging gets its place. Under the repository's lease; paths
 * are absolute. For pull/sync_repository.c.
 */
#ifndef PULL_PLACE_H
#define PULL_PLACE_H

#include "base/base.h"
#include "job/job.h"

struct placing {
	struct job *job;
	const char *root;    /* of the copies */
	const char *staging; /* the new copy: whole, durable, its fence raised */
	const char *below;   /* where it is to be, below the root: "group/tool.git" */
};

/* Moves it to its place, where nothing may be. ERR_LOST: a later lease holder cleared it
 * away. */
int place_new(const struct placing *placing, struct err *err);

/* Moves it to its place in one step with what stands there, a copy or what is left of
 * one, which goes to the trash. A crash leaves either in place and none lost. ERR_LOST: a
 * later lease holder is at work. */
int place_instead(const struct placing *placing, struct err *err);

/* What failed may have failed because a later holder of the lease took `staging` for a
 * dead one's: then it becomes ERR_LOST. Returns -1. */
int place_is_cleared(const char *staging, struct err *err);

#endif
