/*
 * Where a blob stands, and where new and deleted ones wait: opened and made beneath the
 * kind's directory, through no symbolic link. Any thread.
 */
#ifndef BLOB_PLACE_H
#define BLOB_PLACE_H

#include <sys/stat.h>

#include "base/base.h"
#include "base/file.h"

#define PLACE_INCOMING OWN_FOLDER "/incoming"
#define PLACE_TRASH OWN_FOLDER "/trash"

/* Of a link in PLACE_INCOMING that leads to a place on another file system. */
#define PLACE_LINK_PREFIX "at-"

/* The last part of an id. */
const char *place_name(const char *id);

/* Opens the directory that the id is in, and makes what is missing of it. ERR_CONFLICT: a
 * file or a link is in the way. */
int place_open_parent(int root, const char *id, struct err *err);

/* Looks whether a file may stand there: *old is the one that does, or has the mode 0. A
 * directory that is empty is taken away. ERR_CONFLICT: something else is there. */
int place_check(int root, const char *id, struct stat *old, struct err *err);

/* Where below root new files of that id wait, so that a rename brings them into place.
 * The caller frees. */
char *place_of_incoming(int root, const char *id);

/* Opens such a place, and makes it. */
int place_open_incoming(int root, const char *place, struct err *err);

/* Takes away the directories above the id that have become empty. */
void place_remove_empty(int root, const char *id);

#endif
