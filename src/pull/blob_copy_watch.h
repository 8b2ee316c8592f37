/*
 * Finds copies of blobs, and of other kinds stored as files, that something other than
 * pull has changed. One thread learns of changes through inotify, as far as watches
 * suffice; it checks files below other directories within a budget, and all files at its
 * start.
 *
 * pull/glance.c decides from a file's times who changed it, and has it mended.
 */
#ifndef PULL_BLOB_COPY_WATCH_H
#define PULL_BLOB_COPY_WATCH_H

#include "pull/pull_parts.h"

/* The first check of all files begins at once. `directories`: the most that may be
 * watched; 0: a share of what the kernel allows. Returns NULL if no kind here is
 * watched. */
struct blob_copy_watch *blob_copy_watch_start(struct pull *pull, size_t directories);

/* Whether each file was looked at since the start. Any thread; NULL: there is none. */
bool blob_copy_watch_has_looked(const struct blob_copy_watch *watch);

/* NULL is allowed. */
void blob_copy_watch_stop(struct blob_copy_watch *watch);
void blob_copy_watch_free(struct blob_copy_watch *watch); /* after that */

#endif
