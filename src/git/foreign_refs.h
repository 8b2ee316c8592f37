/*
 * Refs of a repository that others write as well, changed one by one by git's own rules:
 * "<ref>.lock" is made by a call that fails if it is there, the ref must still have the
 * value that was seen, and the lock is renamed over it. So git, and other programs that
 * obey its locks, never see half a change, and their changes are not undone. Cases that
 * are not plain are left: the caller then has git do it, and report problems.
 *
 * The lock is a further name of an owner file in the repository's directory, under whose
 * flock its writer lives. A killed writer leaves both, and the next writer of the same
 * owner's name removes them; a lock of git's is never touched. The owner file gets its
 * name when it is whole and flocked, so that a living one is never taken for dead. On a
 * file system without O_TMPFILE, such as NFS, everything is left to git.
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

/* Cleans up after a killed writer of that owner, then reads the refs. SHA-1 only.
 * ERR_CONFLICT: packed-refs changed meanwhile, or a writer of that owner lives. */
int foreign_refs_read(int dir, const char *owner, struct ref_snapshot *seen,
		      struct foreign_refs *refs, struct err *err);

/* Gives the ref this value, if it is still as seen: its content is on disk, its name is
 * after foreign_refs_sync(). False: unchanged. Each name once. */
bool foreign_refs_write(const struct foreign_refs *refs, const char *name,
			const struct oid *value);

/* Makes the name of a ref that was written durable. */
int foreign_refs_sync(const struct foreign_refs *refs, const char *name, struct err *err);

/* Removes a killed writer's locks and owner file. False: it lives. */
bool foreign_refs_recover(int dir, const char *owner);

#endif
