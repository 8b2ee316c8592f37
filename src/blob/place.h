/*
 * The places of a blob, and of new and deleted ones: opened and made beneath the kind's
 * directory, never through a symbolic link. Any thread.
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

/* Opens the directory of the id, making missing parts of it. ERR_CONFLICT: a file or a
 * link is in the way. */
int place_open_parent(int root, const char *id, struct err *err);

/* Checks whether a file may be placed there: *old is the existing one, or has the mode 0.
 * An empty directory is removed. ERR_CONFLICT: something else is there. */
int place_check(int root, const char *id, struct stat *old, struct err *err);

/* The folder below root for new files of that id, from which a rename brings them into
 * place. The caller frees. */
char *place_of_incoming(int root, const char *id);

/* Opens that folder, making it if missing. */
int place_open_incoming(int root, const char *place, struct err *err);

/* Removes directories above the id that have become empty. */
void place_remove_empty(int root, const char *id);

#endif
