/*
 * What of a transfer can be done without git: which refs are plain, and which objects the
 * destination gets for them. For transfer_here.c and transfer_http.c, each of which
 * brings them there in its own way. For one thread.
 *
 * Plain is what git would do without a word: to make a ref, or to move one forward, or by
 * force where the spec forces; and what is small. Everything else stays as it is for
 * `git push`, which does it, or refuses it in its own words. So nothing here needs to
 * know how a push fails.
 *
 * Why nothing is missing there: what a new value reaches is in the list of objects, or is
 * reached by a ref that was seen at the destination (git/new_objects.h), which git takes
 * for complete, too.
 */
#ifndef PUSH_SMALL_PUSH_H
#define PUSH_SMALL_PUSH_H

#include "base/base.h"
#include "git/object_store.h"
#include "git/repo.h"
#include "push/transfer_run.h"

#define SMALL_PUSH_REFS 100 /* of more refs the others are git's */
#define SMALL_PUSH_BYTES                                                                 \
	(4ULL << 20) /* of new objects; deltas are worth a child then                    \
		      */

struct small_push {
	/* The caller's, before small_push_open(). */
	struct transfer *transfer;
	const struct ref_snapshot *theirs; /* read before the local refs */
	const struct ref_snapshot *before; /* what was seen there before the local refs
					    * were read, if `theirs` was read after; then
					    * only refs are plain that have not changed in
					    * between. NULL: `theirs` is */
	size_t most_refs;                  /* SMALL_PUSH_REFS, or fewer */

	struct repo local;
	struct object_store *store; /* the local repository's */
	push_items items;           /* that are to be done */
	oid_list tips, known;
	oid_list added; /* objects */
};

/* False: the local repository is git's alone to read. To be closed in either case. */
bool small_push_open(struct small_push *push);
void small_push_close(struct small_push *push);

/* Fills `items` with those plain ones that are small as far as their refs say, and
 * settles what is up to date. */
void small_push_choose(struct small_push *push);

/* Fills `added` with what their destination lacks for them. False: it is too much, or
 * cannot be told. */
bool small_push_find_added(struct small_push *push);

#endif
