/*
 * Whether anything changed in a repository since a look at it, for the price of one
 * system call: inotify watches on its directory, on all below refs/, and on
 * refrelay/state or those of its objects. The kernel queues an event before the system
 * call that changed something returns; so a query after that call has ended always sees
 * the change, even one made neither by a hook nor by refrelay.
 *
 * Local file systems only: inotify does not report writes of other hosts, nor writes
 * through mmap() or through a hard link elsewhere; git does neither. Any thread.
 *
 * Source: inotify(7).
 */
#ifndef GIT_INOTIFY_H
#define GIT_INOTIFY_H

#include "base/base.h"

struct inotify;
struct inotify_watch; /* one repository */

enum inotify_scope {
	INOTIFY_READERS, /* the files that decide the refs, and refrelay/state */
	INOTIFY_COPY, /* the files in fingerprints of copies: refs, packs and git's data
			 derived from them, diversions; not refrelay's own files */
};

struct inotify_limits {
	enum inotify_scope scope;
	size_t directories_each; /* of one repository; not watched if it has more */
	size_t directories;      /* of all; 0: inotify_share() */
};

/* NULL: not possible with this kernel or its limits; *err says why. */
struct inotify *inotify_open(const struct inotify_limits *limits, struct err *err);

/* All watches must have been freed. NULL is allowed. */
void inotify_close(struct inotify *inotify);

/* Watches the repository whose directory is open; *watch is NULL the first time and the
 * earlier result later, since directories come and go: call it before each full scan,
 * from one thread at a time for each repository. Any change after its return makes
 * inotify_epoch return another number than *epoch. -1: it cannot be watched (too many
 * directories, limits of the kernel, a shared file system, no refs); *watch remembers
 * that of this inode for a minute. In any case *watch lives until inotify_disarm, so that
 * others may query it. */
int inotify_arm(struct inotify *inotify, int dir, struct inotify_watch **watch,
		uint64_t *epoch, struct err *err);

/* The same for a folder on the way to repositories, in any scope: only moving it,
 * deleting it or changing its permissions is a change, not changes inside it. */
int inotify_arm_folder(struct inotify *inotify, int dir, struct inotify_watch **watch,
		       uint64_t *epoch, struct err *err);

/* The cause of its failure may be gone: the next arming tries again. NULL is allowed. */
void inotify_retry(struct inotify_watch *watch);

/* The present number: if it equals the one from inotify_arm, nothing has changed since.
 * Numbers never repeat, not even across watches. Cheap when nothing is queued. */
uint64_t inotify_epoch(struct inotify_watch *watch);

/* The number as of the last inotify_drain(), without a system call: for many watches
 * after one drain. */
uint64_t inotify_drained_epoch(const struct inotify_watch *watch);

/* Readable when an event is queued: for poll(), never for read(). */
int inotify_descriptor(const struct inotify *inotify);

/* Takes over the events queued now. */
void inotify_drain(struct inotify *inotify);

/* How many directories one part of this program may watch: a quarter of the kernel's
 * limit for a user. */
size_t inotify_share(void);

/* Must not be queried any more. NULL is allowed. */
void inotify_disarm(struct inotify_watch *watch);

#endif
