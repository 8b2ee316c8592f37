/*
 * What inotify tells of blobs, gathered until somebody looks: ids and directories of each
 * kind, each once. One thread.
 */
#ifndef CHANGE_BLOB_HEARSAY_H
#define CHANGE_BLOB_HEARSAY_H

#include "base/base.h"
#include "base/vec.h"
#include "change/blob_directories.h"

typedef VEC(char *) blob_paths; /* owned */
void blob_paths_clear(blob_paths *paths);

struct blob_heard {
	blob_paths ids;         /* of files to look at */
	blob_paths directories; /* to be scanned with all below: new, or gone */
	bool is_lost;           /* something else happened: only a scan tells */
};

/* Reads what is queued now; heard[kind index]. */
void blob_hearsay_read(struct blob_directories *all, const struct blob_kinds *kinds,
		       struct blob_heard *heard);

/* In order, each once. */
void blob_hearsay_settle(struct blob_heard *heard);
void blob_heard_clear(struct blob_heard *heard);

#endif
