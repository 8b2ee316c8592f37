/*
 * The common part of jobs on copies of repositories from any source; only for the kinds
 * "repository" and "mirror". As the functions of the same name in pull/copy_kind.h.
 */
#ifndef PULL_REPOSITORY_JOB_H
#define PULL_REPOSITORY_JOB_H

#include "pull/copy_kind.h"
#include "pull/source.h"

/* Makes the copy equal to what the source has, under the lease; may be called again after
 * the item was reopened. */
void repository_bring_from(struct pull_job *job, struct source *source);

void repository_begin(const struct pull_options *options, const struct kind *kind);
void repository_remove(struct pull_job *job);
void repository_verify(struct pull_job *job);
void repository_end(struct pull_job *job);

#endif
