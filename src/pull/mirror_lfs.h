/*
 * The objects of Git LFS that a mirror's history names, brought from its upstream: after
 * its refs, as a client does, so that an unavailable object does not hold back refs. As
 * elsewhere, verify/lfs_names.h knows which objects the history names and which are here;
 * absent ones are requested in batches and placed like uploads, with events, so that
 * secondaries bring them like any blob.
 *
 * Sources: seed 004; docs/design/0031-lfs-objects-of-mirrors.md.
 */
#ifndef PULL_MIRROR_LFS_H
#define PULL_MIRROR_LFS_H

#include "change/notice.h"
#include "pull/copy_kind.h"
#include "verify/lfs_names.h"

/* What a primary with LFS objects provides for that. Borrowed, as is everything in it. */
struct mirror_lfs_parts {
	struct lfs_names *names;
	struct notice *notice;
	const struct kind *kind; /* of the objects */
};

/* Uses the credential of the watcher with which the job read the refs; NULL: none.
 * Without a request, objects that failed last time wait until they are due, and new ones
 * are begun for a minute only: the next job goes on. With a request, all are tried until
 * the job's end. -1: some objects that the history names are missing, *err says why; 0:
 * all are here, or are not to be brought, or were left for later. */
int mirror_lfs_bring(struct pull_job *job, const struct watcher *watcher, bool is_asked,
		     struct err *err);

#endif
