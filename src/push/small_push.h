/*
 * The part of a transfer that can be done without git: which refs are plain, and which
 * objects the destination gets for them. For transfer_here.c and transfer_http.c, which
 * deliver them in different ways. For one thread.
 *
 * A ref is plain if git would simply accept it: a creation, a fast-forward, or a forced
 * update where the spec forces; and if it is small. Everything else is left to `git
 * push`, which does it, or refuses it with its own message. So this code does not deal
 * with the ways in which a push fails.
 *
 * Why objects are not missing there: each object that a new value reaches is in the list,
 * or is reached by a ref that was seen at the destination (git/new_objects.h), which git,
 * too, assumes to be complete.
 */
#ifndef PUSH_SMALL_PUSH_H
#define PUSH_SMALL_PUSH_H

#include "base/base.h"
#include "git/object_store.h"
#include "git/repo.h"
#include "push/transfer_run.h"

#define SMALL_PUSH_REFS 100 /* further refs are left to git */
#define SMALL_PUSH_BYTES                                                                 \
	(4ULL << 20) /* of new objects; deltas are worth a child then                    \
		      */

struct small_push {
	/* The caller's, before small_push_open(). */
	struct transfer *transfer;
	const struct ref_snapshot *theirs; /* read before the local refs */
	const struct ref_snapshot *before; /* read there before the local refs, if
					      `theirs` was read after them; then only refs
					      that have not changed in between are plain.
					      NULL: `theirs` is from before */
	size_t most_refs;                  /* SMALL_PUSH_REFS, or fewer */

	struct repo local;
	struct object_store *store; /* the local repository's */
	push_items items;           /* to be done */
	oid_list tips, known;
	oid_list added; /* objects */
};

/* False: only git can read the local repository. Close it in either case. */
bool small_push_open(struct small_push *push);
void small_push_close(struct small_push *push);

/* Fills `items` with the plain refs that are small as far as can be seen from refs alone,
 * and settles those that are up to date. */
void small_push_choose(struct small_push *push);

/* Fills `added` with the objects that the destination lacks for them. False: too many, or
 * it cannot be determined. */
bool small_push_find_added(struct small_push *push);

#endif
