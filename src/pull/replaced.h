/*
 * Whether the copy of a repository is that of another one, which had its name at the
 * primary before. It goes to the trash then: readers of the new one must not get what
 * was the old one's, and that is kept as of any repository that was deleted.
 *
 * Another timeline alone does not tell: a database that was restored gives each
 * repository another one. So the refs tell, and then the history.
 */
#ifndef PULL_REPLACED_H
#define PULL_REPLACED_H

#include "pull/sync_repository.h"

/* Whether nothing that the refs name is the same. False also when that cannot be
 * determined. */
bool replaced_is_likely(const struct sync_request *request, const char *path,
			const struct source_view *view);

/* Whether the histories of two repositories have the same beginning, or one of several:
 * 1, 0, or -1. 1 also if the old one is damaged. */
int replaced_shares_history(const struct git_work *work, const char *old_path,
			    const char *new_path, struct err *err);

#endif
