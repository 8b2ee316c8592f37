/*
 * The one way in which refs of a copy are changed.
 *
 * Readers on disk, stock git included, see the old refs or the new ones, never a
 * mixture: the values of all refs stand in packed-refs, which is replaced by one
 * rename (but see publish_is_loose). Loose refs that others left are folded into it
 * first, which changes no value. Outside that rename are only HEAD and other symbolic
 * refs, which packed-refs cannot hold: what they will name is added first, then they
 * move, then what they named is deleted. Nor are the commits at which refrelay has cut
 * the history: for the change of the refs all are cut that were or will be (git/cuts.h).
 * A reader that listed such loose refs of others just before may still pair them with the
 * new packed-refs; where only we write there are none.
 *
 * Why nothing is lost or undone: under the locks, the fence must be the caller's own
 * (nobody was granted a later lease), the pending file must stand (nobody took us for
 * dead), and each ref to be changed must still have the value that the caller worked
 * from. Refs that do not change keep whatever value they have by then.
 */
#ifndef GIT_PUBLISH_H
#define GIT_PUBLISH_H

#include "base/base.h"
#include "git/refs.h"

/* Above so many refs, packed-refs is not written for the sake of one that changes, as
 * long as not too many stand beside it: a file of its own gets the value, as with Git.
 * Then readers on disk see this ref's old value or the new one, but may see neighbouring
 * states mixed, as they may where Git itself pushes. */
#define PUBLISH_LOOSE_FROM 10000
#define PUBLISH_LOOSE_MOST 200

/* Whether this change is made so. Then the peel of the new value need not be known. */
bool publish_is_loose(const struct ref_snapshot *from, const struct ref_diff *diff);

/* Whether `from` has loose refs that are to be folded into packed-refs. */
bool publish_is_to_fold(const struct ref_snapshot *from);

struct publish_request {
	int dir;                         /* the repository's directory */
	size_t oid_len;                  /* 20 or 32 */
	const struct ref_snapshot *from; /* the refs that the caller worked from */
	const struct ref_snapshot *to;   /* the refs to be; every object named is there,
					    durable; each peel should be known
					    (publish_is_loose) */
	uint64_t fence;                  /* raised before `from` was read */
	int64_t lock_wait_ms; /* for all locks together; 0: LOCK_FILE_WAIT_MS */
};

/* Durable when it returns 0. ERR_CONFLICT: a ref has changed since `from` was read, or
 * is locked: read again and repeat. ERR_LOST: a later lease holder is at work: stop.
 * After any error the refs are those of `from` or, if the machine failed in between, on
 * the way that the order above describes; to publish again is always right. */
MUST_CHECK int publish(const struct publish_request *request, struct err *err);

#endif
