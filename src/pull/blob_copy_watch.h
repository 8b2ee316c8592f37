/*
 * Copies of blobs, and of other kinds that are files, that others than pull have changed.
 * One thread hears of changes by inotify, as far as watches suffice; files below other
 * directories it looks at within a budget, and at its start at all.
 *
 * pull/glance.c decides by a file's times who has changed it, and has it mended.
 */
#ifndef PULL_BLOB_COPY_WATCH_H
#define PULL_BLOB_COPY_WATCH_H

#include "pull/pull_parts.h"

/* The first look at all files begins at once. `directories`: how many may be watched; 0:
 * a share of what the kernel allows. NULL: no kind here is watched. */
struct blob_copy_watch *blob_copy_watch_start(struct pull *pull, size_t directories);

/* NULL is allowed. */
void blob_copy_watch_stop(struct blob_copy_watch *watch);

#endif
