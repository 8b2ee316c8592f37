/*
 * Writes objects into a repository on this machine as git's unpack-objects does: loose.
 * For one thread at a time.
 */
#ifndef PUSH_HERE_OBJECTS_H
#define PUSH_HERE_OBJECTS_H

#include "base/base.h"
#include "git/object_store.h"

/* Writes those objects into the repository whose directory is open; they are durable when
 * it returns 0. At any time, only whole objects have their names there. *bytes grows by
 * the bytes written. */
int here_objects_place(struct object_store *from, const oid_list *list, int repository,
		       uint64_t *bytes, struct err *err);

#endif
