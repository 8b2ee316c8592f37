/*
 * Takes from this process, and from all its children, the rights that a read-only Git
 * child does not need. By Landlock: files other than those named, writing, running
 * programs other than the system's, TCP, signals to outside processes. By a seccomp
 * filter: sockets, other processes' memory, limits and priorities, namespaces, keys,
 * changes of names, owners and times. Before Linux 6.12 it can still send signals to all
 * processes of its user.
 *
 * On a kernel without Landlock only the filter applies; refrelay check reports this.
 */
#ifndef RUN_CONFINE_H
#define RUN_CONFINE_H

#include <stddef.h>

struct confinement {
	char *const *paths;  /* readable, each with everything below it, besides the
				current directory; missing ones are skipped */
	size_t path_count;   /* "/": everything its user may read */
	const char *program; /* to run: searched for in PATH */
};

/* 0; or -1 with errno set: then the program must not run. */
int confine(const struct confinement *confinement);

#endif
