/*
 * A small change's objects as one pack in memory, made and taken in this process: no
 * child is started on either side. Failpoints: those of git/pack_put.h.
 */
#ifndef GIT_SMALL_PACK_H
#define GIT_SMALL_PACK_H

#include "base/base.h"
#include "base/str.h"
#include "git/object_store.h"
#include "git/oid.h"
#include "git/refs.h"
#include "git/repo.h"

/* Appends a pack of these objects, each once and whole (no deltas). 1: it is made; 0:
 * their contents have more than most_bytes; -1: as object_store_read(). Except for 1,
 * *pack is as before. */
int small_pack_make(struct object_store *store, const oid_list *list, uint64_t most_bytes,
		    struct str *pack, struct err *err);

struct small_pack_request {
	const struct repo *copy;
	const void *pack;
	size_t len;
	const oid_list *tips, *known; /* as for new_objects_list() */
	size_t most;
	uint64_t most_bytes; /* of all contents, before any memory is used for them */
	struct ref_snapshot *refs; /* of those that name an object in the pack the peel
				      becomes known, unless that is a tag; NULL: none */
};

/* Takes a pack into the copy, without its deltas: nothing touches the disk before each
 * object has its name from its content, the pack has the right trailer and nothing behind
 * it, and the walk of new_objects_list() on copy and pack has found that nothing is
 * missing. Objects that the tips do not reach stay in the pack.
 *
 * 1: the objects are there, complete and durable. 0: that cannot be proved here (bounds,
 * a delta on what is not before it in the pack, a copy that is git's alone to read): take
 * git. -1: ERR_CORRUPT: what came is
 * wrong; ERR_DISK and the like. Except for 1 nothing is left in the copy; after a crash
 * at most git's own kind of temporary files, or a pack without index (upkeep/stale.h).
 * A pack of no objects with tips that are all there: 1 without a file. */
int small_pack_take(const struct small_pack_request *request, struct err *err);

#endif
