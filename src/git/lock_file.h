/*
 * Git's own locks: "<path>.lock" beside what it protects, made by one call that fails if
 * it is there. Stock git respects ours and we respect git's.
 *
 * Ours are hard links to an owner file (lock_owner.h), on which the owner holds an flock
 * as long as it lives. So a lock whose owner died is recognised at once and removed; one
 * whose owner is merely paused is never touched. Where the flock proves nothing, since
 * its owner is on another host, it is removed after a minute of silence. Any other lock
 * is git's, or foreign: it is waited for, and removed only when it is an hour old.
 */
#ifndef GIT_LOCK_FILE_H
#define GIT_LOCK_FILE_H

#include "base/base.h"
#include "git/lock_owner.h"

/* Default for how long to wait for another owner's lock. */
#define LOCK_FILE_WAIT_MS 10000
/* A publication holds its locks for moments, and a person's git for not much longer. */
#define LOCK_FILE_OLD_S 10

struct lock_file {
	const struct lock_owner *owner; /* NULL: not held */
	char *path;                     /* with ".lock"; owned */
};

/* Takes "<path>.lock", making directories above it if need be. Waits wait_ms for
 * another owner. ERR_CONFLICT: still locked, or a ref is where a directory must be;
 * ERR_LOST: the owner file is gone. Where this owner has it already, by this path or by
 * another that is the same there (a file system that ignores case): 0, and *lock is not
 * held. */
int lock_file_take(const struct lock_owner *owner, const char *path, int64_t wait_ms,
		   struct lock_file *lock, struct err *err);

/* Removes every lock of a dead owner in the repository: HEAD's, packed-refs' and those of
 * refs. Returns how many. */
size_t lock_file_bury_dead(int dir);

/* Removes git's and foreign locks of that age: where only refrelay changes refs, locks
 * are never held for long. Those whose owner may be on another host stay. Returns how
 * many. */
size_t lock_file_bury_strangers(int dir, int64_t age_s);

/* The same as lock_file_bury_dead for one dead owner, whose file's flock the caller holds
 * by owner_fd. */
size_t lock_file_bury_of(int dir, int owner_fd);

/* Removes it, and directories above it that are left empty. Does nothing when it is not
 * held. */
void lock_file_release(struct lock_file *lock);

#endif
