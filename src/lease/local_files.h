/*
 * The kernel's part in local leases: which managers are alive, and whether children of a
 * dead one still run; and what holders gave up. All but that by flock, which the kernel
 * drops at the last close of an open file, however its owners end.
 *
 *	directory/alive/<pid>-<random>  flock'ed by a manager as long as it lives
 *	directory/guard/<sha256 of key> flock'ed by a holder and the children that
 *					inherit its descriptor; if it begins with the
 *					nonce of a grant, that is given up
 *
 * Owners open for writing and others for reading only, so that IN_CLOSE_WRITE means an
 * owner's last descriptor and never a reader's; IN_ATTRIB means that its owner is to
 * recheck the key it waits for. Names are made, replaced and
 * removed only inside a store_write(), which serialises all processes.
 */
#ifndef LEASE_LOCAL_FILES_H
#define LEASE_LOCAL_FILES_H

#include "base/base.h"

#define ALIVE_NAME_SIZE 40

struct local_files {
	char *directory; /* owned; absolute */
	char alive_name[ALIVE_NAME_SIZE];
	int alive_fd;
};

enum alive_state {
	ALIVE_YES,
	ALIVE_NO,
	ALIVE_UNKNOWN, /* no file: removed by a person, or in another directory */
};

/* Makes the directories. ERR_CONFIG: other hosts can write there too. */
int local_files_open(struct local_files *files, const char *directory, struct err *err);

/* Removes our alive file. */
void local_files_close(struct local_files *files);

/* Makes and locks our alive file; does nothing if already done. */
int alive_start(struct local_files *files, struct err *err);

enum alive_state alive_probe(const struct local_files *files, const char *name);

/* The same for any file that some process of this kernel flocks while it lives. */
enum alive_state alive_probe_path(const char *path);

/* Calls `forget` with the names of dead managers' files, one at a time, and removes
 * those for which it returns 1; -1 ends with its error. */
int alive_sweep(const struct local_files *files,
		int (*forget)(const char *name, void *arg, struct err *err), void *arg,
		struct err *err);

/* Whether a holder of the key, or a child of one, has its guard open. */
bool guard_is_busy(const struct local_files *files, const char *key);

/* Replaces any existing guard with ours. Returns its descriptor, locked. */
int guard_take(const struct local_files *files, const char *key, struct err *err);

/* Says in our guard that the grant with this nonce is given up; -1 is allowed. False: it
 * could not be said, or nobody would see it: the guard is another's by now. */
bool guard_mark(int guard_fd, const char *nonce);

/* Whether the key's guard says so of this grant. */
bool guard_is_marked(const struct local_files *files, const char *key, const char *nonce);

/* Removes the name. The guard's owner still has it open, and wakes watchers by closing
 * it. */
void guard_drop(const struct local_files *files, const char *key);

/* Another holder's guard, opened so that its close wakes watchers; -1: none. */
int guard_open(const struct local_files *files, const char *key);

/* Makes hint_fd (an inotify) readable when the key's guard or the manager's alive file
 * is closed by its owner. */
void local_files_watch(const struct local_files *files, const char *key,
		       const char *alive_name, int hint_fd);

/* Makes it readable when our own alive file is touched. -1 is allowed. */
void local_files_watch_self(const struct local_files *files, int hint_fd);

/* Wakes that manager's waiters, which watch its alive file; "": does nothing. */
void alive_touch(const struct local_files *files, const char *name);

/* Discards its queued events. Whether there were any. */
bool local_files_drain_hints(int hint_fd);

#endif
