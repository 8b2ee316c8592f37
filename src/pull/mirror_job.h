/*
 * The kind "mirror", as the engine knows it (copy_kind.h): a repository of this site that
 * is kept equal to a foreign upstream. A job serves what was asked of the mirror
 * (mirror/requests.h), each request with its watcher's credential; without a request, or
 * where none could be served, it brings what the mirror's watchers may read.
 *
 * Source: seed 004.
 */
#ifndef PULL_MIRROR_JOB_H
#define PULL_MIRROR_JOB_H

#include "pull/copy_kind.h"

extern const struct copy_kind_ops mirror_copy_ops;

/* Whether the clone of that name below the root is there, and whoever worked on it last
 * has proved it equal to refs of that checksum. */
bool mirror_job_stands(const char *root, const char *name, const char *checksum);

#endif
