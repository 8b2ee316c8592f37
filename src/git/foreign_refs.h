/*
 * Refs of a repository that others write as well, changed one by one by git's own rules:
 * "<ref>.lock" is made by a call that fails if it is there, the ref must still have the
 * value that was seen, and the lock is renamed over it. So git, and whoever else obeys
 * its locks, never sees half a change, and nothing of theirs is undone. Whatever is not
 * plain is left: the caller then has git do it, and say what is wrong.
 *
 * The lock is a further name of an owner file in the repository's directory, under whose
 * flock its writer lives. A killed writer leaves both, and the next writer of the same
 * owner's name removes them; a lock of git's is never touched. The owner file gets its
 * name when it is whole and flocked, so nobody takes a living one for dead. Where a file
 * system has no O_TMPFILE, as NFS, all is left.
 *
 * For one thread at a time.
 */
#ifndef GIT_FOREIGN_REFS_H
#define GIT_FOREIGN_REFS_H

#include <sys/stat.h>

#include "base/base.h"
#include "git/refs.h"

struct foreign_refs {
	int dir;           /* the repository's; borrowed */
	const char *owner; /* the owner file's name: the same for all that may clean up
			      after each other; borrowed */
	const struct ref_snapshot *seen; /* borrowed */
	bool has_packed;
	struct stat packed; /* of packed-refs, when it was seen */
};

/* Cleans up after a writer of that owner that was killed, then reads the refs. SHA-1
 * only. ERR_CONFLICT: packed-refs changed meanwhile, or such a writer lives. */
int foreign_refs_read(int dir, const char *owner, struct ref_snapshot *seen,
		      struct foreign_refs *refs, struct err *err);

/* Gives the ref this value, if it still is as it was seen: its content is on disk, its
 * name is after foreign_refs_sync(). False: nothing was changed. Each name once. */
bool foreign_refs_write(const struct foreign_refs *refs, const char *name,
			const struct oid *value);

/* Makes the name of a ref that was written durable. */
int foreign_refs_sync(const struct foreign_refs *refs, const char *name, struct err *err);

/* Removes what a killed writer left: its locks and its owner file. False: it lives. */
bool foreign_refs_recover(int dir, const char *owner);

#endif
