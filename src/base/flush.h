/*
 * Brings many files, and then their names, to disk with as few flushes as their file
 * system allows. Any thread.
 */
#ifndef BASE_FLUSH_H
#define BASE_FLUSH_H

#include "base/base.h"

enum flush_way {
	FLUSH_EACH,    /* each file and each directory by itself */
	FLUSH_SYSTEM,  /* the whole file system */
	FLUSH_JOURNAL, /* one file's flush includes all earlier changes */
};

/* The way for that many files on the file system of `fd`. */
enum flush_way flush_way_for(int fd, size_t files);

/* Flushes the content of the files and, with FLUSH_JOURNAL and FLUSH_SYSTEM, all earlier
 * changes of directories. ERR_DISK and the like: unknown for all of them. */
MUST_CHECK int flush_data(const int *files, size_t count, enum flush_way way,
			  struct err *err);

/* The content of files of one file system that have no lasting names yet. Names they get
 * from now on may be lost in a power failure, but a name found afterwards has this
 * content. A flush of the names then makes everything durable. */
MUST_CHECK int flush_before_names(const int *files, size_t count, struct err *err);

/* The same for a file that keeps its name. Where changes of names are written to one log,
 * its content is not older after a power failure than a name that is flushed from now on;
 * elsewhere it only begins to be written. */
MUST_CHECK int flush_in_order(int file, struct err *err);

/* Flushes the name `id` below root. With FLUSH_JOURNAL and FLUSH_SYSTEM also all names
 * made or removed earlier on its file system; with FLUSH_EACH those of the directories
 * above it. */
MUST_CHECK int flush_name(int root, const char *id, enum flush_way way, struct err *err);

/* Flushes content and names of files that others have put there. ERR_MISSING: one is
 * gone. */
MUST_CHECK int flush_present(int root, const char *const *ids, size_t count,
			     struct err *err);

#endif
