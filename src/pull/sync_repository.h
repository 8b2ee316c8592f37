/*
 * The sync of one repository: makes the copy equal to the source, and proves it.
 * Objects first, then refs (git/publish), then the proof, then the record.
 *
 * A new copy is built in <root>/.refrelay/staging and moved to its place when it is
 * whole, so that a crash never leaves half a repository under a name.
 */
#ifndef PULL_SYNC_REPOSITORY_H
#define PULL_SYNC_REPOSITORY_H

#include "base/base.h"
#include "change/hook_install.h"
#include "git/checksum.h"
#include "git/repo.h"
#include "job/job.h"
#include "pull/copy_record.h"
#include "pull/source.h"

struct sync_request {
	struct source *source;
	const char *root; /* of the copies; absolute */
	const char *name;
	bool is_forced;    /* does what would otherwise be held */
	bool is_suspect;   /* trust no record: compare, and look through all objects */
	bool takes_deltas; /* of a copy that was equal once, only what has changed is
			    * asked for */
	bool is_rebuild;   /* a new copy from nothing; the old one goes to the trash */
	const struct hook_place *hooks; /* that the copy is to have; NULL: none */
	bool mends; /* nobody but refrelay writes the copies: what is damaged of one is
		     * mended in its place ... */
	bool may_rebuild;     /* ... or with the rest by a new copy */
	const char *checksum; /* of the copy's refs when they were proved last; NULL: not
				 known */
};

enum sync_outcome {
	SYNC_UNCHANGED,
	SYNC_CREATED,
	SYNC_UPDATED,
	SYNC_HELD,
};

struct sync_result {
	enum sync_outcome outcome;
	size_t refs_changed;
	uint64_t bytes;      /* of packs that arrived */
	bool is_by_pack;     /* ... with the refs, without git */
	struct checksum sum; /* proved; not with SYNC_HELD */
	bool was_rebuilt;    /* a new copy took the place of a damaged one */
	char *held_reason;   /* SYNC_HELD; the caller frees */
	/* From a primary: what was brought, or found to be here already. */
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
	int64_t changed_at;
};

/* Whether a fingerprint on each side, or else the refs of both sides, prove that there
 * is nothing to do. Needs no lease, starts no process, takes some 0.1 ms. False also
 * when it cannot be told. */
bool sync_is_current(const struct sync_request *request);

/* What an inventory tells of a repository. */
struct sync_reported {
	const char *checksum; /* NULL: none, so that nothing is proved */
	const char *timeline;
	uint64_t generation;
};

/* Whether the copy is of that generation already, by its record and its disk. Asks the
 * source nothing. False also when it cannot be told. */
bool sync_is_recorded(const struct sync_request *request,
		      const struct sync_reported *reported);

/* Whether the copy's disk is as its record says; the source does not matter. */
bool sync_is_as_recorded(const struct repo *copy, const struct copy_record *record);

/* What the copy's own fence says, as a floor for the lease's; 0 if there is no copy. */
uint64_t sync_fence_floor(const char *root, const char *name);

/* Does it, under the job's lease. The classes are those of what failed; ERR_MISSING: the
 * source has no such repository. Nothing is half done after an error: the copy is as it
 * was, or as it should be. */
int sync_repository(struct job *job, const struct sync_request *request,
		    struct sync_result *result, struct err *err);

/* ERR_MISSING is the source's word only. What vanished from our own disk becomes
 * ERR_CONFLICT: it is looked at anew. Returns -1. */
int sync_failed_here(struct err *err);

#endif
