/*
 * Which objects belong to a change. The same walk proves, where they are received, that
 * nothing is missing.
 */
#ifndef GIT_NEW_OBJECTS_H
#define GIT_NEW_OBJECTS_H

#include "base/base.h"
#include "git/object_store.h"
#include "git/oid.h"

struct new_objects_request {
	struct object_store *store;
	const oid_list *tips;  /* what refs name after the change; of whatever kind */
	const oid_list *known; /* objects that the other side (or, at the receiver, the
				  published refs) has with all they reach */
	size_t most;           /* objects that are read or listed */
	uint64_t most_bytes;   /* of commits, trees and tags that are listed */
};

/* Lists what the tips reach and `known` does not, each once; rarely something more. All
 * of it is in the store, of the kind that those who name it say; what is not listed is
 * reached by `known`. Blobs are not read. A root is listed whole, and submodules are left
 * out. Of `known`, what is not in the store counts for nothing unless it is a parent.
 *
 * 1: *list, which may hold some before, has grown by all of them, blobs last.
 * 0: there are more than the bounds, or what is known cannot be read: take git.
 * -1, ERR_CORRUPT with its name: an object is missing, of another kind, or no object. In
 * both cases *list is of no use. The caller clears it. */
int new_objects_list(const struct new_objects_request *request, oid_list *list,
		     struct err *err);

#endif
