/*
 * Git's own locks: "<path>.lock" beside what it protects, made by one call that fails if
 * it is there. Stock git respects ours and we respect git's.
 *
 * Ours are hard links to an owner file, on which the owner holds an flock as long as it
 * lives. So a lock whose owner died is recognised at once and removed; one whose owner
 * is merely paused is never touched. Any other lock is git's, or a stranger's: it is
 * waited for, and removed only when it is an hour old. So is ours on file systems that
 * have no flock.
 *
 * A struct lock_owner is for one thread at a time.
 */
#ifndef GIT_LOCK_FILE_H
#define GIT_LOCK_FILE_H

#include "base/base.h"

#define LOCK_OWNER_NAME_SIZE 64

/* Default for how long to wait for somebody else's lock. */
#define LOCK_FILE_WAIT_MS 10000

struct lock_owner {
	int dir;                         /* the repository's directory; borrowed */
	int fd;                          /* the owner file, flock'ed; -1: none */
	char name[LOCK_OWNER_NAME_SIZE]; /* its path below dir */
};

/* Makes an owner file in `folder`, which must exist. */
int lock_owner_open(int dir, const char *folder, struct lock_owner *owner,
		    struct err *err);

/* Removes it. Locks must have been released. Does nothing when it is not open. */
void lock_owner_close(struct lock_owner *owner);

/* Whether the file still stands under its name: nobody took us for dead. */
bool lock_owner_stands(const struct lock_owner *owner);

enum lock_owner_state {
	LOCK_OWNER_GONE, /* no such file */
	LOCK_OWNER_ALIVE,
	LOCK_OWNER_DEAD,
	LOCK_OWNER_FOREIGN, /* not one of ours, or its owner died while making it */
	LOCK_OWNER_UNKNOWN, /* it cannot be told */
};

/* What the file at path tells of its owner. The caller closes *fd, which may be -1. With
 * LOCK_OWNER_DEAD and LOCK_OWNER_FOREIGN it holds the file's flock, which keeps all
 * others from burying it at the same time. */
enum lock_owner_state lock_owner_probe(int dir, const char *path, int *fd);

/* Whether the probed file is so old that its owner need not be known. */
bool lock_owner_is_old(int fd);

struct lock_file {
	const struct lock_owner *owner; /* NULL: not held */
	char *path;                     /* with ".lock"; owned */
};

/* Takes "<path>.lock", making directories above it if need be. Waits wait_ms for
 * another owner. ERR_CONFLICT: still locked, or a ref is where a directory must be;
 * ERR_LOST: the owner file is gone. */
int lock_file_take(const struct lock_owner *owner, const char *path, int64_t wait_ms,
		   struct lock_file *lock, struct err *err);

/* Removes every lock of a dead owner that stands in the repository: HEAD's, packed-refs'
 * and those of refs. Returns how many. */
size_t lock_file_bury_dead(int dir);

/* The same for one dead owner, whose file's flock the caller holds by owner_fd. */
size_t lock_file_bury_of(int dir, int owner_fd);

/* Removes it, and directories above it that are left empty. Does nothing when it is not
 * held. */
void lock_file_release(struct lock_file *lock);

#endif
