/*
 * Reports of inotify on blobs: the watched directories, and the reports on them, gathered
 * until they are handled. They are only hints where to look. One thread. Linux:
 * inotify(7).
 */
#ifndef CHANGE_BLOB_HINTS_H
#define CHANGE_BLOB_HINTS_H

#include "base/base.h"
#include "base/vec.h"
#include "blob/kinds.h"

struct blob_directory {
	int wd;
	size_t kind; /* index */
	char *path;  /* owned; below the kind's; "": itself */
};

/* The changes to report. */
enum blob_scope {
	BLOB_ORIGIN, /* a file that is complete: closed, renamed or linked; or gone */
	BLOB_COPY,   /* anything done to a file: others should not touch it */
};

struct blob_directories {
	int fd; /* of inotify, non-blocking; -1: not available */
	enum blob_scope scope;
	size_t limit;                     /* of directories */
	VEC(struct blob_directory) items; /* in order of wd */
};

/* limit 0: a share of what the kernel allows a user. ERR_*: not possible on this kernel;
 * the struct is usable, but watches nothing. */
int blob_directories_open(struct blob_directories *all, enum blob_scope scope,
			  size_t limit, struct err *err);
void blob_directories_close(struct blob_directories *all);

/* Watches one below the kind's root, from now on. -1: it is not watched: ERR_INTERNAL:
 * out of watches; ERR_CONFIG: other hosts write to its file system; ERR_MISSING. */
int blob_directories_add(struct blob_directories *all, size_t kind, const char *root,
			 const char *path, struct err *err);

/* The hints of one kind; without duplicates after blob_hints_settle(). */
struct blob_hints {
	const char *root;      /* of the kind; borrowed; NULL: nothing is watched */
	text_list ids;         /* of files to check */
	text_list directories; /* to be scanned with everything below: new, or gone */
	bool is_lost;          /* something else happened: a scan is needed */
};
typedef VEC(struct blob_hints) blob_hints_list; /* by the kind's index */

/* Reads the events queued now. */
void blob_hints_read(struct blob_directories *all, blob_hints_list *hints);

/* Sorts them and removes duplicates. */
void blob_hints_settle(struct blob_hints *hints);
void blob_hints_clear(struct blob_hints *hints);

#endif
