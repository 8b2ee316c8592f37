/*
 * The objects that belong to a change. At the receiver the same walk proves that they are
 * complete.
 */
#ifndef GIT_NEW_OBJECTS_H
#define GIT_NEW_OBJECTS_H

#include "base/base.h"
#include "git/object_store.h"
#include "git/oid.h"

struct new_objects_request {
	struct object_store *store;
	const oid_list *tips;  /* named by refs after the change; of any kind */
	const oid_list *known; /* objects that the other side (or, at the receiver, the
				  published refs) has with all they reach */
	size_t most;           /* objects to read or list */
	uint64_t most_bytes;   /* of the listed commits, trees and tags */
};

/* Lists the objects that the tips reach and `known` does not, each once; rarely a few
 * more. All are in the store, and of the kind under which they are referenced; those not
 * listed are reached by `known`. Blobs are not read. A root is listed whole, and
 * submodules are left out. Members of `known` missing from the store are ignored unless
 * they are parents.
 *
 * 1: *list, which may hold some before, has grown by all of them, blobs last.
 * 0: more than the bounds or the store allow, a known object cannot be read, or the time
 * is over (object_store_obey()): use git.
 * -1, ERR_CORRUPT with its name: an object is missing, of another kind, or invalid. In
 * both cases *list is useless. The caller clears it. */
int new_objects_list(const struct new_objects_request *request, oid_list *list,
		     struct err *err);

#endif
