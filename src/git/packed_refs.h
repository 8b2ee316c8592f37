/*
 * packed-refs of repositories, read and parsed once as long as the file is unchanged.
 * Some of the large ones stay in memory, so that reading refs again costs only the loose
 * ones, and a copy of the others.
 *
 * A file is recognised by its inode, size and times, the later of which must have been
 * old before it was read (git/fingerprint.h). It is still read again after some minutes.
 * Any thread.
 */
#ifndef GIT_PACKED_REFS_H
#define GIT_PACKED_REFS_H

#include <sys/stat.h>

#include "base/base.h"
#include "git/checksum.h"
#include "git/refs.h"

struct packed_refs;

/* A reference to the parsed packed-refs of the repository whose directory is open. NULL:
 * it has no packed-refs. */
MUST_CHECK int packed_refs_read(int dir, size_t oid_len, struct packed_refs **packed,
				struct err *err);

/* Never changes. */
const struct ref_snapshot *packed_refs_of(const struct packed_refs *packed);

/* The checksum of these refs alone: computed once. False: they are not kept, so computing
 * it from all refs costs no more. */
bool packed_refs_sum(struct packed_refs *packed, struct checksum *sum);

/* A new number for each one read, never 0. */
uint64_t packed_refs_serial(const struct packed_refs *packed);

/* Ends a reference; NULL is allowed. */
void packed_refs_leave(struct packed_refs *packed);

#endif
