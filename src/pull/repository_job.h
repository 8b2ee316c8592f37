/*
 * What jobs on copies of repositories have in common, wherever these come from; for the
 * kinds "repository" and "mirror" only. As the parts of the same name in
 * pull/copy_kind.h.
 */
#ifndef PULL_REPOSITORY_JOB_H
#define PULL_REPOSITORY_JOB_H

#include "pull/copy_kind.h"
#include "pull/source.h"

/* Makes the copy equal to what the source has, under the lease; may be called again when
 * the item was opened again. */
void repository_bring_from(struct pull_job *job, struct source *source);

void repository_begin(const struct pull_options *options, const struct kind *kind);
void repository_remove(struct pull_job *job);
void repository_verify(struct pull_job *job);
void repository_end(struct pull_job *job);

#endif
