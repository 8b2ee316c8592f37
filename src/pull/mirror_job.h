/*
 * The kind "mirror", for the engine (copy_kind.h): a repository of this site that is kept
 * equal to a foreign upstream. A job serves the requests for the mirror
 * (mirror/requests.h), each with its watcher's credential; without requests, or if all of
 * them failed, it brings what the mirror's watchers may read.
 *
 * Source: seed 004.
 */
#ifndef PULL_MIRROR_JOB_H
#define PULL_MIRROR_JOB_H

#include "pull/copy_kind.h"

extern const struct copy_kind_ops mirror_copy_ops;

/* Whether the clone of that name below the root exists and was proved, by the last job on
 * it, equal to refs of that checksum; and whether its files are stamped as they were
 * then, unless it is being maintained. Reads no object. */
bool mirror_job_stands(const char *root, const char *name, const char *checksum);

/* The URL that the record of the clone in this directory names; the caller frees. NULL:
 * it has none. */
char *mirror_job_source(int clone);

/* Whether the clone in this directory is what another primary had of the repository, and
 * not what the row of the mirror says: this site was its secondary since. 1, 0, or -1:
 * that cannot be told now. */
int mirror_job_is_from_elsewhere(const struct registry_row *row, int clone,
				 struct err *err);

#endif
