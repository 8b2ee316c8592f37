/*
 * Checks that the objects of a repository are intact: reads and hashes every pack (git
 * verify-pack) and every loose object, and checks that everything that the refs reach
 * exists (git rev-list --objects).
 */
#ifndef VERIFY_VERIFY_OBJECTS_H
#define VERIFY_VERIFY_OBJECTS_H

#include "base/base.h"
#include "git/checksum.h"
#include "git/git_child.h"
#include "git/refs.h"
#include "git/repo.h"

/* ERR_CORRUPT: they are not; the text names the damaged or missing object. Packs may be
 * folded meanwhile; ERR_CONFLICT: they were so often that not all could be read. */
int verify_objects(const struct git_work *work, const struct repo *repo,
		   const struct ref_snapshot *refs, struct err *err);

/* Only the packs: reads each object and compares it with its name. */
int verify_packs(const struct git_work *work, const struct repo *repo, struct err *err);

/* The same of all objects in a directory from which the repository borrows. */
int verify_borrowed(const struct git_work *work, const struct repo *repo,
		    const char *objects, struct err *err);

/*
 * Files that git derives from the objects for speed: multi-pack-index, commit-graph,
 * bitmaps and reverse indexes. If they are damaged git fails, or ignores them; it does
 * not need them. So any damage of one in a copy is mended by removing it.
 */

/* Reads all of them and removes damaged ones, and alternates that lead nowhere; logs
 * each. Readers may be active. Under the repository's lease. ERR_CANCELED and the like:
 * not all were read. */
int verify_derived(const struct git_work *work, const struct repo *repo, struct err *err);

/* 1: a file ends with the digest of the rest, as packs, their indexes and derived files
 * do; 0: it does not, does not exist, or its disk cannot read it. -1: that is not known:
 * ERR_CANCELED (`stop` may be NULL), or this machine lacks memory or descriptors. */
int verify_ends_with_digest(int dir, const char *name, size_t oid_len,
			    const struct stop *stop, struct err *err);

/*
 * Verification of a repository's copy: compares the content of its disk, read anew and
 * hashed, with the expected state.
 */

/* Reads the copy's refs and compares them. *sum is the checksum found. ERR_CORRUPT:
 * different; the text names the first different ref. */
int verify_repository(const struct repo *copy, const struct ref_snapshot *expected,
		      struct checksum *sum, struct err *err);

#endif
