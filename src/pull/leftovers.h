/*
 * Repositories below site.repositories that have no row. Copies of this site's own, as
 * left by a database that was lost, are gone like any other that the primary deleted:
 * with the deletion limit, by way of the trash. What is no copy of ours stays, and is
 * told of. Internal to pull.
 */
#ifndef PULL_LEFTOVERS_H
#define PULL_LEFTOVERS_H

#include "pull/pull_parts.h"

/* After a comparison of the whole inventory: what has no row now, the primary does not
 * have. Walks the tree: once a start. */
int leftovers_take_up(struct pull *pull, struct err *err);

#endif
