/*
 * A repository that was renamed at the primary keeps its timeline there. Its copy is
 * moved to the new name, under the leases of both names, and nothing is fetched. Internal
 * to pull; worker threads.
 */
#ifndef PULL_RENAME_H
#define PULL_RENAME_H

#include "pull/pull_parts.h"

/* Before the first sync of a row of which nothing is here. True: the row waits a moment,
 * since the same repository is still recorded under its former name, or another has one
 * of the leases. False: the sync can begin; perhaps on a copy that was moved there. */
bool rename_puts_off(struct pull *pull, const struct registry_row *row);

/* Whether the copy of a row that is gone will be moved, so that it is not removed now. */
bool rename_is_expected(struct pull *pull, const struct registry_row *row);

#endif
