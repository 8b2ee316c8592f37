/*
 * The only way of changing refs of a copy.
 *
 * Readers on disk, stock git included, see the old refs or the new ones, never a
 * mixture: the values of all refs stand in packed-refs, which is replaced by one
 * rename (but see publish_is_loose). Loose refs that others left are folded into it
 * first, which changes no value. Only HEAD and other symbolic refs are outside that
 * rename, since packed-refs cannot hold them: their new targets are added first, then
 * they move, then their old targets are deleted. The commits at which refrelay has cut
 * the history are outside too: during the change of the refs both the old and the new
 * cuts apply (git/cuts.h). A reader that listed loose refs of others just before may
 * still pair them with the new packed-refs; where only we write there are none.
 *
 * Why changes are not lost or undone: under the locks, the fence must be the caller's own
 * (no later lease was granted), the pending file must exist (we were not taken for dead),
 * and each ref to be changed must still have the value that the caller worked from. Refs
 * that do not change keep the value they have by then.
 */
#ifndef GIT_PUBLISH_H
#define GIT_PUBLISH_H

#include "base/base.h"
#include "git/checksum.h"
#include "git/refs.h"

/* Above this many refs, packed-refs is not rewritten for a single change, as long as
 * there are not too many loose refs: a loose file gets the value, as with Git. Then
 * readers on disk see this ref's old value or the new one, but may see neighbouring
 * states mixed, as with pushes by Git itself. */
#define PUBLISH_LOOSE_FROM 10000
#define PUBLISH_LOOSE_MOST 200

/* Whether this change is made that way. Then the peel of the new value may be unknown. */
bool publish_is_loose(const struct ref_snapshot *from, const struct ref_diff *diff);

/* Whether `from` has loose refs to fold into packed-refs. */
bool publish_is_to_fold(const struct ref_snapshot *from);

struct publish_request {
	int dir;                         /* the repository's directory */
	size_t oid_len;                  /* 20 or 32 */
	const struct ref_snapshot *from; /* the refs that the caller worked from */
	const struct ref_snapshot *to;   /* the new refs; their objects are here, durable;
					    each peel should be known (publish_is_loose) */
	uint64_t fence;                  /* raised before `from` was read */
	int64_t lock_wait_ms; /* for all locks together; 0: LOCK_FILE_WAIT_MS */
};

/* Durable when it returns 0. ERR_CONFLICT: a ref has changed since `from` was read, or is
 * locked: read again and repeat. ERR_LOST: a later lease holder is at work: stop. After
 * any error the refs are those of `from` or, if the machine failed in between, at a stage
 * of the order above; publishing again is always right. */
MUST_CHECK int publish(const struct publish_request *request, struct err *err);

/* What checksum_of_refs() says of the refs between the steps of the order above, where
 * there are several: never that of `from`. Puts at most `most` of them into sums, in that
 * order, of more than that the first ones and the last; returns how many there are. */
size_t publish_steps(const struct ref_snapshot *from, const struct ref_snapshot *to,
		     const struct ref_diff *diff, struct checksum *sums, size_t most);

#endif
