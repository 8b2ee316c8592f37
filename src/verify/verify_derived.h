/*
 * What git derives from the objects to be faster: multi-pack-index, commit-graph, bitmaps
 * and reverse indexes. Git fails, or goes without, when they are damaged; it needs none
 * of them. So whatever is wrong with one of a copy is mended by removing it.
 */
#ifndef VERIFY_VERIFY_DERIVED_H
#define VERIFY_VERIFY_DERIVED_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/repo.h"

/* Reads them all and removes what is damaged, and alternates that lead nowhere; each is
 * logged. Readers may be at work. Under the repository's lease. ERR_CANCELED and the
 * like: not all were read. */
int verify_derived(const struct git_work *work, const struct repo *repo, struct err *err);

/* Whether a file is there, can be read, and ends with the digest of the rest, as packs,
 * their indexes and what git derives do. False also after a stop (may be NULL). */
bool verify_ends_with_digest(int dir, const char *name, size_t oid_len,
			     const struct stop *stop);

#endif
