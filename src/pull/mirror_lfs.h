/*
 * The objects of Git LFS that a mirror's history names, brought from its upstream: after
 * its refs, as a client does, so that an object that cannot be had keeps no ref back.
 * What the history names is known as everywhere (verify/lfs_names.h), and so is what of
 * it is here; all that is absent is asked for in batches, and placed as uploads are, with
 * events, so that secondaries bring it as any blob.
 *
 * Sources: seed 004; docs/design/0031-lfs-objects-of-mirrors.md.
 */
#ifndef PULL_MIRROR_LFS_H
#define PULL_MIRROR_LFS_H

#include "change/notice.h"
#include "pull/copy_kind.h"
#include "verify/lfs_names.h"

/* What a primary with objects of LFS has for that. Borrowed, as all in it. */
struct mirror_lfs_parts {
	struct lfs_names *names;
	struct notice *notice;
	const struct kind *kind; /* of the objects */
};

/* With the credential of the watcher that the job has read the refs with; NULL: none. Not
 * asked, what the last try left is left until it is due, and for a minute only new
 * objects are begun: the next job goes on. Asked, all is tried until the job's end. -1:
 * not all that the history names is here, *err says why; 0: it is, or is not to be
 * brought, or was left for later. */
int mirror_lfs_bring(struct pull_job *job, const struct watcher *watcher, bool is_asked,
		     struct err *err);

#endif
