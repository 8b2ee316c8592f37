/*
 * What inotify reports of blobs: which directories are watched, and what was heard of
 * them, gathered until somebody looks. It is a hint where to look, nothing more. One
 * thread. Linux: inotify(7).
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

/* What counts as a change. */
enum blob_scope {
	BLOB_ORIGIN, /* a file that is whole: closed, renamed or linked; or gone */
	BLOB_COPY,   /* whatever is done to a file: nobody else should touch it */
};

struct blob_directories {
	int fd; /* of inotify, not blocking; -1: none */
	enum blob_scope scope;
	size_t limit;                     /* of directories */
	VEC(struct blob_directory) items; /* in order of wd */
};

/* limit 0: a share of what the kernel allows a user. ERR_*: this kernel allows none; the
 * directories are usable, and watch nothing. */
int blob_directories_open(struct blob_directories *all, enum blob_scope scope,
			  size_t limit, struct err *err);
void blob_directories_close(struct blob_directories *all);

/* Watches one below the kind's root, from now on. -1: it is not watched: ERR_INTERNAL:
 * for want of watches; ERR_CONFIG: other hosts write its file system; ERR_MISSING. */
int blob_directories_add(struct blob_directories *all, size_t kind, const char *root,
			 const char *path, struct err *err);

/* Of one kind, each once after blob_hints_settle. */
struct blob_hints {
	const char *root;      /* of the kind; borrowed; NULL: nothing is watched */
	text_list ids;         /* of files to look at */
	text_list directories; /* to be scanned with all below: new, or gone */
	bool is_lost;          /* something else happened: only a scan tells */
};
typedef VEC(struct blob_hints) blob_hints_list; /* by the kind's index */

/* Reads what is queued now. */
void blob_hints_read(struct blob_directories *all, blob_hints_list *hints);

/* In order, each once. */
void blob_hints_settle(struct blob_hints *hints);
void blob_hints_clear(struct blob_hints *hints);

#endif
