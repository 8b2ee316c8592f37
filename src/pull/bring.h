/*
 * Brings objects, then refs, so that a repository's refs equal those of a source's view.
 * For pull/sync_repository.c.
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
	struct source_view *view; /* peels that are learnt are added to it */
	bool is_forced;
	bool mends;           /* as in struct sync_request */
	bool is_new;          /* the copy is still empty */
	bool is_suspect;      /* no record is trusted */
	bool is_as_left;      /* its files were seen to be as its record says */
	const char *checksum; /* as in struct sync_request */
	double delete_share;  /* as in struct sync_request */
};

/* Sets outcome, refs_changed, bytes and held_reason. ERR_CONFLICT: the copy's refs moved
 * meanwhile; try again. */
int bring_repository(const struct bring_request *request, struct sync_result *result,
		     struct err *err);

/* Gives the copy the view's settings for readers. bring_repository() does so before it
 * publishes refs, so that refs hidden at the source are never shown, and first of all
 * gives it those that hide more; if no ref has changed, the caller must do it. */
int bring_settings(const struct repo *copy, const struct source_view *view,
		   struct err *err);

/* Whether the copy was recorded as of another log of events than the view's: that of
 * another primary, or of this one before it was restored. */
bool bring_is_of_other_log(const struct copy_record *record,
			   const struct source_view *view);

/* Whether these refs of the copy in `dir` are those that we last published there, by its
 * record, or last proved there (`checksum`, may be NULL): a power loss may destroy the
 * record, but not the row. */
bool bring_is_ours(int dir, const struct ref_snapshot *from, const char *checksum);

#endif
