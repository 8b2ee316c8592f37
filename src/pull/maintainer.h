/*
 * One thread a node that maintains the copies which this site owns, one at a time: those
 * that were synced of late once they are idle, and all of them once an interval. It gives
 * way at once to whoever has other work on a copy.
 *
 * What there is to do is the kind's (copy_kind.h, `maintain`): a kind without has none.
 */
#ifndef PULL_MAINTAINER_H
#define PULL_MAINTAINER_H

#include "pull/copy_kind.h"
#include "pull/pull_parts.h"

struct maintainer;

/* Whether nobody works on the row's copy, or is about to. */
bool maintain_is_idle(const struct registry_row *row);

struct maintainer *maintainer_start(struct pull *pull);

/* Ends what runs, and the thread. Then others may still call. NULL is allowed, as
 * below. */
void maintainer_stop(struct maintainer *maintainer);
void maintainer_free(struct maintainer *maintainer);

/* It was synced: it is looked at when it rests. Any thread. */
void maintainer_report(struct maintainer *maintainer, const char *kind, const char *name);

/* Before somebody asks for the lease of a repository: when it returns, maintenance has
 * left it, or did not leave it in time. The caller's row is claimed, so that it is not
 * begun again. Any thread. */
void maintainer_make_way(struct maintainer *maintainer, const char *name);

#endif
