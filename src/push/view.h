/*
 * A view: a temporary bare repository that contains only refs, from which git pushes with
 * another repository's objects. For one thread at a time.
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

/* Makes it below `directory`, with its history cut where the repository's is. */
int view_create(const char *directory, const char *repository, size_t oid_len,
		struct view *view, struct err *err);

/* Replaces its refs by these, sorted by name. */
int view_fill(struct view *view, const struct ref_snapshot *refs, struct err *err);

/* Also for one that was not made, or only in part. */
void view_remove(struct view *view);

/* Removes those whose makers are dead. */
void view_sweep(const char *directory);

#endif
