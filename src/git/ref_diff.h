/*
 * What turns one ref snapshot into another.
 */
#ifndef GIT_REF_DIFF_H
#define GIT_REF_DIFF_H

#include "base/base.h"
#include "base/vec.h"
#include "git/refs.h"

struct ref_change {
	const char *name;         /* borrowed from one of the snapshots */
	const struct ref *before; /* NULL: created */
	const struct ref *after;  /* NULL: deleted */
};

struct ref_diff {
	VEC(struct ref_change) changes; /* in byte order of their names */
	size_t deletions;
	bool head_changed;
	bool symbolic_changed; /* some change has a symbolic ref on either side */
};

#define AUTO_DIFF __attribute__((cleanup(ref_diff_clear)))

/* Both snapshots must outlive the diff, unchanged. */
void ref_diff_compute(const struct ref_snapshot *before, const struct ref_snapshot *after,
		      struct ref_diff *diff);
void ref_diff_clear(struct ref_diff *diff);

bool ref_diff_is_empty(const struct ref_diff *diff);

#endif
