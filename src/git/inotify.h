/*
 * Whether anything changed in a repository since a look at it, for the price of one
 * system call: inotify watches on its directory, on all below refs/, and on
 * refrelay/state or those of its objects. The kernel queues an event before the system
 * call that changed something returns; so a question after that call has ended always
 * learns of it, also of changes made neither by a hook nor by refrelay.
 *
 * Local file systems only: of what other hosts write inotify tells nothing. It does not
 * see what is written through mmap() or through a hard link elsewhere; git does neither.
 * Any thread.
 *
 * Source: inotify(7).
 */
#ifndef GIT_INOTIFY_H
#define GIT_INOTIFY_H

#include "base/base.h"

struct inotify;
struct inotify_watch; /* one repository */

enum inotify_scope {
	INOTIFY_READERS, /* what decides the refs, and refrelay/state */
	INOTIFY_COPY, /* what fingerprints of copies look at: the refs, packs and what git
			 derives from them, what diverts git; not what refrelay writes
			 for itself */
};

struct inotify_limits {
	enum inotify_scope scope;
	size_t directories_each; /* of one repository; above it is not watched */
	size_t directories;      /* of all; 0: inotify_share() */
};

/* NULL: this kernel or its limits allow none; *err says why. */
struct inotify *inotify_open(const struct inotify_limits *limits, struct err *err);

/* All watches must have been freed. NULL is allowed. */
void inotify_close(struct inotify *inotify);

/* Watches the repository whose directory is open; *watch is NULL the first time and what
 * this gave later, for directories come and go: to be called before each whole look, by
 * one thread at a time for each repository. Whatever changes after its return makes
 * inotify_epoch give another number than *epoch. -1: it cannot be watched (too many
 * directories, limits of the kernel, a shared file system, no refs); *watch remembers
 * that of this inode for a minute. In any case *watch lives until inotify_disarm, so that
 * others may ask it. */
int inotify_arm(struct inotify *inotify, int dir, struct inotify_watch **watch,
		uint64_t *epoch, struct err *err);

/* The same for a folder on the way to repositories, of whatever scope: only that it is
 * moved, deleted, or given other rights is a change, and nothing that is in it. */
int inotify_arm_folder(struct inotify *inotify, int dir, struct inotify_watch **watch,
		       uint64_t *epoch, struct err *err);

/* What made it fail may be mended: the next arming tries. NULL is allowed. */
void inotify_retry(struct inotify_watch *watch);

/* The present number: that which inotify_arm gave proves that nothing changed since
 * then. No number comes twice, not even from different watches. Cheap when nothing is
 * queued. */
uint64_t inotify_epoch(struct inotify_watch *watch);

/* Can be read from when an event is queued: for poll(), never for read(). */
int inotify_descriptor(const struct inotify *inotify);

/* Takes over what is queued now. */
void inotify_drain(struct inotify *inotify);

/* How many directories one part of this program may watch: a quarter of what the kernel
 * lets a user watch. */
size_t inotify_share(void);

/* Nobody may ask it any more. NULL is allowed. */
void inotify_disarm(struct inotify_watch *watch);

#endif
