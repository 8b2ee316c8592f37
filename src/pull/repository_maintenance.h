/*
 * Maintenance of a copy of a repository, of any kind: when it is due, under its lease,
 * and so that it is not mistaken for somebody else's change of the copy.
 */
#ifndef PULL_REPOSITORY_MAINTENANCE_H
#define PULL_REPOSITORY_MAINTENANCE_H

#include "pull/maintainer.h"

/* As copy_kind_ops.maintain. */
enum maintain_end repository_maintain(const struct maintain_call *call);

/* The identity of a copy's record, taken before reading it. `dir` is the copy's
 * directory, as below. */
struct repository_glimpse {
	uint64_t inode; /* 0: there is none */
	int64_t changed_ns;
};
void repository_glimpse_take(int dir, struct repository_glimpse *glimpse);

/* Whether a copy that did not match its record is being maintained, or has another record
 * by now: then the difference means nothing. Any thread, any process. */
bool repository_is_maintained(int dir, const struct repository_glimpse *before);

/* Whether its maintenance was cut off by the death of its process. */
bool repository_was_cut_off(int dir);

/* Under the lease: the copy has been examined since the cut-off. */
void repository_forget_cut_off(int dir);

#endif
