/*
 * Objects, then refs: what makes a repository's refs those of a source's view. For
 * pull/sync_repository.c.
 */
#ifndef PULL_BRING_H
#define PULL_BRING_H

#include "pull/sync_repository.h"

#include "git/repo.h"

struct bring_request {
	struct job *job;
	struct source *source;
	const char *name;
	const struct repo *copy;  /* its fence was raised to the job's */
	struct source_view *view; /* gets what is learnt of its peels */
	bool is_forced;
	bool is_new;          /* nothing is in it yet */
	bool is_suspect;      /* no record is trusted */
	const char *checksum; /* as in struct sync_request */
};

/* Sets outcome, refs_changed, bytes and held_reason. ERR_CONFLICT: the copy's refs moved
 * meanwhile: again. */
int bring_repository(const struct bring_request *request, struct sync_result *result,
		     struct err *err);

/* Gives the copy the view's settings for readers. bring() does so before it publishes
 * refs, so that none is shown that is hidden at the source; if no ref has changed, it is
 * for the caller. */
int bring_settings(const struct repo *copy, const struct source_view *view,
		   struct err *err);

/* Whether these refs of the copy in `dir` are those that we published there last, by its
 * record, or were proved there last (`checksum`, may be NULL): a power loss may take the
 * record, but not the row. */
bool bring_is_ours(int dir, const struct ref_snapshot *from, const char *checksum);

#endif
