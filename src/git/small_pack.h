/*
 * A small change's objects as one pack in memory, made and taken in this process: without
 * a child on either side. Failpoints: those of git/pack_put.h.
 */
#ifndef GIT_SMALL_PACK_H
#define GIT_SMALL_PACK_H

#include "base/base.h"
#include "base/str.h"
#include "git/object_store.h"
#include "git/oid.h"
#include "git/refs.h"
#include "git/repo.h"

/* Appends a pack of these objects, each once and whole (no deltas). 1: made; 0: their
 * contents have more than most_bytes; -1: as object_store_read(). Except for 1, *pack is
 * as before. */
int small_pack_make(struct object_store *store, const oid_list *list, uint64_t most_bytes,
		    struct str *pack, struct err *err);

struct small_pack_request {
	const struct repo *copy;
	const struct git_work *work; /* its limits end it; NULL: none */
	const void *pack;
	size_t len;
	const oid_list *tips, *known; /* as for new_objects_list() */
	size_t most;
	uint64_t most_bytes; /* of all contents, checked before memory is used for them */
	struct ref_snapshot *refs; /* refs to an object in the pack get their peel, unless
				      that is a tag; NULL: none */
};

/* Takes a pack into the copy; a pack that may be merged later (git/pack_merge.h) is
 * written without its deltas. The disk is not touched before each object has its name
 * from its content, the pack has the right trailer with nothing after it, and the walk of
 * new_objects_list() on copy and pack has found no missing object. Objects that the tips
 * do not reach stay in the pack.
 *
 * 1: the objects are there, complete and durable. 0: that cannot be proved here (bounds,
 * a delta whose base is not earlier in the pack, a copy that only git can read): use git.
 * -1: ERR_CORRUPT: the pack is faulty; ERR_DISK and the like. Except for 1 it leaves
 * nothing in the copy; after a crash at most temporary files as git makes them, or a pack
 * without index (upkeep/stale.h). An empty pack with all tips present: 1 without a
 * file. */
int small_pack_take(const struct small_pack_request *request, struct err *err);

#endif
