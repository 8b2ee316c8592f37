/*
 * A view: a temporary bare repository that has refs and nothing else, for git to push
 * from with another repository's objects. For one thread at a time.
 */
#ifndef PUSH_VIEW_H
#define PUSH_VIEW_H

#include "base/base.h"
#include "git/refs.h"

struct view {
	char *path; /* owned; NULL: none was made */
	int lock;   /* held while we live; -1 */
};

#define VIEW_INIT                                                                        \
	{                                                                                \
		.lock = -1                                                               \
	}
#define AUTO_VIEW __attribute__((cleanup(view_remove)))

/* Makes it below `directory`, with the history cut where the repository's is. */
int view_create(const char *directory, const char *repository, size_t oid_len,
		struct view *view, struct err *err);

/* Gives it these refs, sorted by name, in place of those that it has. */
int view_fill(struct view *view, const struct ref_snapshot *refs, struct err *err);

/* Also of one that was not made, or not to the end. */
void view_remove(struct view *view);

/* Removes those whose makers are dead. */
void view_sweep(const char *directory);

#endif
