/*
 * The objects of Git LFS named in the histories of this site's repositories, and those of
 * them that are absent here. Only new history is scanned: small blobs that the refs reach
 * now but did not before. A thread `lfs-names` scans changed repositories and counts
 * absent objects; callers that cannot wait for it scan one repository. Any thread.
 */
#ifndef VERIFY_LFS_NAMES_H
#define VERIFY_LFS_NAMES_H

#include "base/base.h"
#include "replicable/lfs_rows.h"
#include "store/store.h"

struct lfs_names;

struct lfs_names_options {
	struct store *store; /* borrowed, as all of these */
	const char *root;    /* site.repositories */
	const char *data;    /* site.data */
	const char *kind;    /* the kind of blobs for the objects */
	enum lfs_side side;
};

struct lfs_names *lfs_names_start(const struct lfs_names_options *options);
/* Call before waiting for scanning threads: makes all scans end soon. NULL is allowed. */
void lfs_names_interrupt(struct lfs_names *names);
void lfs_names_stop(struct lfs_names *names); /* NULL is allowed */

/* Scans the repository's history as of its present row; costs one database query if that
 * was done before. ERR_MISSING: the repository, or its content, is not here; ERR_BUSY:
 * not finished by `until` (boot ms); the thread scans it. */
int lfs_names_look(struct lfs_names *names, const char *name, int64_t until,
		   struct err *err);

#endif
