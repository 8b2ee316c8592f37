/*
 * Brings to disk what stock git has changed in a repository: it flushes neither refs nor
 * their names. An event that is on disk before them would outlive them in a power cut,
 * and the older refs found then would be told as newer ones. Any thread.
 */
#ifndef CHANGE_REPOSITORY_FLUSH_H
#define CHANGE_REPOSITORY_FLUSH_H

#include "base/base.h"
#include "git/refs.h"

struct store;

/* To be called before the event is committed to the store. path: of the repository, below
 * `root`; diff: what has changed; NULL: unknown. Does nothing where the database's own
 * flush takes it along: one log has both; nor for ext4 without a journal that has both.
 */
MUST_CHECK int repository_flush(const struct store *store, int root, const char *path,
				const struct ref_diff *diff, struct err *err);

#endif
