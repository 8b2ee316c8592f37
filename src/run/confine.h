/*
 * Takes away from this process, and from all that it starts, what a Git child that only
 * reads has no need of. By Landlock: other files than those named, writing, running other
 * programs than the system's, TCP, signals to strangers. By a seccomp filter: sockets,
 * other processes' memory, limits and priorities, namespaces, keys, changes of names,
 * owners and times. Signals it can send to all of its user before Linux 6.12.
 *
 * A kernel without Landlock leaves the filter; refrelay check says so.
 */
#ifndef RUN_CONFINE_H
#define RUN_CONFINE_H

#include <stddef.h>

struct confinement {
	char *const *paths;  /* that may be read, each with what is below it, besides the
			      * current directory; what is not there is passed over */
	size_t path_count;   /* "/" is all that its user may read */
	const char *program; /* that is to run: it is looked for in PATH */
};

/* 0; or -1 with errno set: then the program must not run. */
int confine(const struct confinement *confinement);

#endif
