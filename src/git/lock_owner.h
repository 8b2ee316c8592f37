/*
 * Owner files: which process is at work, and whether it still lives. Each has one line,
 * in the words of base/hook_wire.h; there are two kinds:
 *
 *	a lock		its owner, a refrelay, holds an flock on it as long as it lives
 *	a process	made by a hook for the git process that ran it; alive as long as a
 *			process of that number and start time is there
 *
 * Whether a process lives is visible only where it runs: same boot, same pid namespace.
 * An flock may not reach beyond its host. An unknown one counts as alive until the file
 * is old, by the clock of the file system: owners of locks touch theirs (lock_owner_beat)
 * at least every 10 s, so a minute of silence is death; git processes do not, and have an
 * hour.
 *
 * A struct lock_owner is for one thread at a time.
 */
#ifndef GIT_LOCK_OWNER_H
#define GIT_LOCK_OWNER_H

#include "base/base.h"

#define LOCK_OWNER_NAME_SIZE 64

struct lock_owner {
	int dir;                         /* the repository's directory; borrowed */
	int fd;                          /* the owner file, flock'ed; -1: none */
	char name[LOCK_OWNER_NAME_SIZE]; /* its path below dir */
};

/* Makes an owner file in `folder`, which must exist. */
int lock_owner_open(int dir, const char *folder, struct lock_owner *owner,
		    struct err *err);

/* The same for one that must not appear in any list yet, with a temporary name in
 * `folder`: a child started now can inherit its flock. lock_owner_show moves it to where
 * it counts. */
int lock_owner_open_hidden(int dir, const char *folder, struct lock_owner *owner,
			   struct err *err);
int lock_owner_show(struct lock_owner *owner, const char *folder, struct err *err);

/* Removes it. Locks must have been released. Does nothing when it is not open. */
void lock_owner_close(struct lock_owner *owner);

/* Whether the file still has its name: we were not taken for dead. */
bool lock_owner_stands(const struct lock_owner *owner);

/* Shows that its owner lives to processes that cannot see the flock. Returns the time by
 * the file system's clock, in seconds since 1970; -1 with errno set. */
int64_t lock_owner_beat(const struct lock_owner *owner);

enum lock_owner_state {
	LOCK_OWNER_GONE, /* the file does not exist */
	LOCK_OWNER_ALIVE,
	LOCK_OWNER_DEAD,
	LOCK_OWNER_FOREIGN, /* not one of ours, or its owner died while making it */
	LOCK_OWNER_UNKNOWN, /* it cannot be determined */
};

/* The state of its owner by the file at path. The caller closes *fd, which may be -1.
 * With LOCK_OWNER_DEAD and LOCK_OWNER_FOREIGN it holds the file's flock where flocks
 * exist, which keeps others from burying it at the same time. */
enum lock_owner_state lock_owner_probe(int dir, const char *path, int *fd);

/* The time, in seconds since 1970, by the clock that stamps files in `folder`; that of a
 * shared file system is not ours. -1 with errno set. */
int64_t lock_owner_clock(int dir, const char *folder);

/* Whether the probed file is so old at that time that its owner's state does not
 * matter. */
bool lock_owner_is_old(int fd, int64_t now);

/* The same of one that could not be opened. */
bool lock_owner_is_old_unread(int dir, const char *path, int64_t now);

enum lock_owner_kind {
	LOCK_OWNER_OTHER, /* not one of ours */
	LOCK_OWNER_LOCK,
	LOCK_OWNER_PROCESS,
};

/* An owner file's line. */
struct lock_owner_line {
	enum lock_owner_kind kind;
	char boot[40];  /* "": not given, as with the values below */
	uint64_t pidns; /* 0 */
	uint64_t pid;   /* 0 */
	uint64_t start; /* 0 */
};

/* A file without a known line is LOCK_OWNER_OTHER. */
void lock_owner_read(int fd, struct lock_owner_line *line);

/* Whether it is on another host, or in another container. */
bool lock_owner_is_elsewhere(const struct lock_owner_line *line);

#endif
