/*
 * One thread per node that maintains the copies which this site owns, one at a time:
 * recently synced ones as soon as they are idle, and all of them once an interval. It
 * gives way at once to other work on a copy.
 *
 * The kind defines the work (copy_kind.h, `maintain`); a kind without it is skipped.
 */
#ifndef PULL_MAINTAINER_H
#define PULL_MAINTAINER_H

#include "pull/copy_kind.h"
#include "pull/pull_parts.h"

struct maintainer;

/* Whether the row's copy is idle: not in work, nor about to be. */
bool maintain_is_idle(const struct registry_row *row);

struct maintainer *maintainer_start(struct pull *pull);

/* Ends running maintenance and the thread. The calls below are still allowed then. NULL
 * is allowed, as below. */
void maintainer_stop(struct maintainer *maintainer);
void maintainer_free(struct maintainer *maintainer);

/* The copy was synced: it is maintained when it is idle. Any thread. */
void maintainer_report(struct maintainer *maintainer, const char *kind, const char *name);

/* Call before acquiring the lease of a repository: when this returns, maintenance has
 * left it, or did not leave it in time. The caller's row must be claimed, so that
 * maintenance does not begin again. Any thread. */
void maintainer_make_way(struct maintainer *maintainer, const char *name);

#endif
