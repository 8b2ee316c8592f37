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

/* Whether it has another hash, and was brought here. */
bool replaced_is_of_other_hash(const char *path, const struct source_view *view);

/* Whether it was brought under another name. Then *err says what it is. */
bool replaced_is_of_other_name(const struct sync_request *request, const char *path,
			       const struct source_view *view, struct err *err);

/* Whether nothing that the refs name is the same. False also when that cannot be
 * determined, or was answered before. */
bool replaced_is_likely(const struct sync_request *request, const char *path,
			const struct source_view *view);

/* Whether the histories of two repositories have the same beginning, or one of several:
 * 1, 0, or -1. 1 also if the old one is damaged. */
int replaced_shares_history(const struct git_work *work, const char *old_path,
			    const char *new_path, struct err *err);

/* After the question could not be answered: 1 if the copy is to be updated, as if it were
 * of the same repository; -1: a later attempt may answer it. */
int replaced_may_stay(const struct git_work *work, const struct source_view *view,
		      const struct err *why);

enum replaced_answer {
	REPLACED_NOT,     /* as far as can be told */
	REPLACED_NO_ROOM, /* to tell: asked again after a day */
};

/* Remembers, for this timeline, what was found of a copy that is to be updated:
 * NAME.git/refrelay/compared. */
void replaced_note(const char *path, const struct source_view *view,
		   enum replaced_answer answer);

#endif
