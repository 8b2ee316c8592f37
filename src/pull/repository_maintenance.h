/*
 * Maintenance of a copy of a repository, of any kind: when it is due, under its lease,
 * and so that it is not mistaken for somebody else's change of the copy.
 */
#ifndef PULL_REPOSITORY_MAINTENANCE_H
#define PULL_REPOSITORY_MAINTENANCE_H

#include "git/lock_file.h"
#include "pull/copy_record.h"
#include "pull/maintainer.h"

/* As copy_kind_ops.maintain. */
enum maintain_end repository_maintain(const struct maintain_call *call);

/* Under its lease: as long as it stands, readers and who watches the copy wait for the
 * end of what they see, and after our death they know of the cut. Taken before the first
 * file is changed, and removed when the record has been renewed. */
struct repository_mark {
	struct lock_owner owner;
	struct lock_file lock;
};
int repository_mark(int dir, struct repository_mark *mark, struct err *err);
void repository_unmark(struct repository_mark *mark);

/* Whether a copy that did not match its record, which was read before its files were
 * looked at, is being maintained, or has another record by now: then the difference means
 * nothing. `dir` is its directory, as below. Any thread, any process. */
bool repository_is_maintained(int dir, const struct copy_record *before);

/* Whether its maintenance was cut off by the death of its process. */
bool repository_was_cut_off(int dir);

/* Under the lease: the copy has been examined since the cut-off. */
void repository_forget_cut_off(int dir);

#endif
