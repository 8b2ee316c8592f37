/*
 * Which objects of Git LFS the histories of this site's repositories name, and which of
 * them are absent here. Only what is new is looked through: small blobs that the refs
 * reach now and did not before. A thread `lfs-names` does so for what changed, and counts
 * what is absent; whoever cannot wait for it asks for one repository. Any thread.
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
	const char *kind;    /* of blobs, that the objects are */
	enum lfs_side side;
};

struct lfs_names *lfs_names_start(const struct lfs_names_options *options);
/* Before the threads that look are waited for: all looks end soon. NULL is allowed. */
void lfs_names_interrupt(struct lfs_names *names);
void lfs_names_stop(struct lfs_names *names); /* NULL is allowed */

/* Looks through the repository's history as its row has it now; costs one question to the
 * database if that was done. ERR_MISSING: no such repository, or nothing of it is here;
 * ERR_BUSY: it takes longer than until `until` (boot ms), and goes on. */
int lfs_names_look(struct lfs_names *names, const char *name, int64_t until,
		   struct err *err);

#endif
