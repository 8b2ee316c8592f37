/*
 * Whether the objects of a repository are whole: every pack read and summed up (git
 * verify-pack), every loose object as well (verify/verify_objects.h), and everything that
 * the refs reach is there (git rev-list --objects).
 */
#ifndef VERIFY_VERIFY_OBJECTS_H
#define VERIFY_VERIFY_OBJECTS_H

#include "base/base.h"
#include "git/checksum.h"
#include "git/fingerprint.h"
#include "git/git_child.h"
#include "git/refs.h"
#include "git/repo.h"

/* ERR_CORRUPT: not; the text says what is damaged or missing. Packs may be folded
 * meanwhile. */
int verify_objects(const struct git_work *work, const struct repo *repo,
		   const struct ref_snapshot *refs, struct err *err);

/* The packs alone: each object is read, and is what its name says. */
int verify_packs(const struct git_work *work, const struct repo *repo, struct err *err);

/*
 * What git derives from the objects to be faster: multi-pack-index, commit-graph, bitmaps
 * and reverse indexes. Git fails, or goes without, when they are damaged; it needs none
 * of them. So whatever is wrong with one of a copy is mended by removing it.
 */

/* Reads them all and removes what is damaged, and alternates that lead nowhere; each is
 * logged. Readers may be at work. Under the repository's lease. ERR_CANCELED and the
 * like: not all were read. */
int verify_derived(const struct git_work *work, const struct repo *repo, struct err *err);

/* Whether a file is there, can be read, and ends with the digest of the rest, as packs,
 * their indexes and what git derives do. False also after a stop (may be NULL). */
bool verify_ends_with_digest(int dir, const char *name, size_t oid_len,
			     const struct stop *stop);

/*
 * Verification of a repository's copy: what the copy's own disk holds, read anew and
 * summed up, against what it should be.
 */

/* Reads the copy's refs and compares. *sum is what was found, *print what the disk
 * looked like right before it was read, so that an equal fingerprint later stands for
 * this result. ERR_CORRUPT: different; the text names the first ref that is. */
int verify_repository(const struct repo *copy, const struct ref_snapshot *expected,
		      struct checksum *sum, struct fingerprint *fingerprint,
		      struct err *err);

#endif
