/*
 * How many files, and then their names, come to be on disk with as few flushes as their
 * file system allows. Any thread.
 */
#ifndef BASE_FLUSH_H
#define BASE_FLUSH_H

#include "base/base.h"

enum flush_way {
	FLUSH_EACH,    /* each file and each directory by itself */
	FLUSH_SYSTEM,  /* all of the file system */
	FLUSH_JOURNAL, /* one file's flush takes along all that was done before */
};

/* For so many files on the file system of `fd`. */
enum flush_way flush_way_for(int fd, size_t files);

/* The content of the files, and all that was done to directories before with
 * FLUSH_JOURNAL and FLUSH_SYSTEM. ERR_DISK and the like: of none it is known. */
MUST_CHECK int flush_data(const int *files, size_t count, enum flush_way way,
			  struct err *err);

/* The content of files of one file system that have no lasting names yet. Names that they
 * get from now on may be lost with the machine's power, but whoever finds one afterwards
 * finds this content. A flush of the names then makes all of it durable. */
MUST_CHECK int flush_before_names(const int *files, size_t count, struct err *err);

/* The name `id` below root. With FLUSH_JOURNAL and FLUSH_SYSTEM: all names that were made
 * or removed before it on its file system, too; with FLUSH_EACH: those of the
 * directories above it. */
MUST_CHECK int flush_name(int root, const char *id, enum flush_way way, struct err *err);

/* Content and names of files that somebody else has put there. ERR_MISSING: one is away.
 */
MUST_CHECK int flush_present(int root, const char *const *ids, size_t count,
			     struct err *err);

#endif
