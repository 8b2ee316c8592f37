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
	bool is_forced;    /* makes changes that would otherwise be held */
	bool is_suspect;   /* do not trust records: compare, and examine all objects */
	bool takes_deltas; /* of a copy that was equal once, only changes are requested */
	bool is_rebuild;   /* a new copy from nothing; the old one goes to the trash */
	const struct hook_place *hooks; /* for the copy; NULL: none */
	bool mends; /* only refrelay writes the copies: damage is mended in place ... */
	bool may_rebuild;     /* ... or by a new copy of everything */
	const char *checksum; /* of the copy's refs when last proved; NULL: not known */
	double delete_share;  /* of its refs; more deletions at once are held */
	/* A new copy takes over the packs of those whose objects it borrows at the source
	 * (pull/share.h). Whether the first copy of that one is about to come, so that it
	 * is worth waiting for: SYNC_AWAITS. NULL: nothing is taken over. */
	bool (*awaits_lender)(void *arg, const char *name);
	/* Of a copy that may be damaged: of a lender, or of this one after its sync. */
	void (*doubt)(void *arg, const char *name, const struct err *why);
	void *arg;
};

enum sync_outcome {
	SYNC_UNCHANGED,
	SYNC_CREATED,
	SYNC_UPDATED,
	SYNC_HELD,
	SYNC_AWAITS, /* nothing was done: another copy is to come first */
};

struct sync_result {
	enum sync_outcome outcome;
	size_t refs_changed;
	uint64_t bytes;      /* in packs that arrived */
	bool is_by_pack;     /* ... with the refs, without git */
	struct checksum sum; /* proved; not with SYNC_HELD */
	bool was_rebuilt;    /* a new copy took the place of a damaged one */
	char *held_reason;   /* SYNC_HELD; the caller frees */
	/* From a primary: the state that was brought, or found to be here already. */
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
	int64_t changed_at;
};

/* Whether a fingerprint on each side, or else the refs of both sides, prove that there is
 * nothing to do. Without a lease or a process; takes some 0.1 ms. False also when that
 * cannot be determined. */
bool sync_is_current(const struct sync_request *request);

/* What an inventory reports of a repository. */
struct sync_reported {
	const char *checksum; /* NULL: none, so that nothing is proved */
	const char *timeline;
	uint64_t generation;
};

/* Whether the copy is of that generation already, by its record and its disk. Does not
 * ask the source. False also when that cannot be determined. */
bool sync_is_recorded(const struct sync_request *request,
		      const struct sync_reported *reported);

/* Whether the copy's disk, whose FINGERPRINT_COPY is `now`, is as its record says; the
 * source does not matter. ERR_CORRUPT: it is not; other errors: that cannot be
 * determined. */
bool sync_is_as_recorded(const struct repo *copy, const struct copy_record *record,
			 const struct fingerprint *now, struct err *err);

/* Does the sync, under the job's lease. Errors have the class of what failed;
 * ERR_MISSING: the source does not have this repository. After an error nothing is half
 * done: the copy is as it was, or as it should be. */
int sync_repository(struct job *job, const struct sync_request *request,
		    struct sync_result *result, struct err *err);

/* Only the source may report ERR_MISSING. A loss from our own disk becomes ERR_CONFLICT:
 * try again. Returns -1. */
int sync_failed_here(struct err *err);

/* Syncs a new repository, before it is placed: the names in its directories, and the
 * files that nothing else has synced. */
int sync_make_durable(int dir, struct err *err);

#endif
