/*
 * Leftovers: copies below site.repositories, or in a directory of blobs, without a row,
 * so the primary does not have them. This site's own copies, left by a database that was
 * lost, are removed like any other that the primary deleted: within the deletion limit,
 * through the trash. A copy is ours if a sync put it into that directory under that name
 * and its refs are unchanged. All others stay and are reported: copies that a person
 * changed, copies of versions that did not record the directory, and blobs, whose owner
 * cannot be determined.
 */
#ifndef PULL_LEFTOVERS_H
#define PULL_LEFTOVERS_H

#include "pull/pull.h"
#include "replicable/kind.h"

struct leftovers_found {
	int64_t count;
	char example[256]; /* a name or an id; may be cut */
};

/* Counts them; 0 until a comparison has shown what the primary has. Walks the tree; any
 * thread, with or without a node. */
int leftovers_count(struct store *store, const struct kind *kind,
		    struct leftovers_found *found, struct err *err);

/* copy_kind_ops.count_leftovers. */
int leftovers_count_repositories(struct store *store, const struct kind *kind,
				 struct leftovers_found *found, struct err *err);
int leftovers_count_blobs(struct store *store, const struct kind *kind,
			  struct leftovers_found *found, struct err *err);

/* After a comparison of the whole inventory of a kind: takes over the copies that are
 * ours, and logs the rest. Blobs may be very many: they are searched for only with a new
 * database. */
struct leftovers_call {
	const struct kind *kind;
	int64_t rows;       /* of the registry */
	bool is_of_another; /* the primary may never have had them: they are held */
};
int leftovers_take_repositories(struct pull *pull, const struct leftovers_call *call,
				struct err *err);
int leftovers_take_blobs(struct pull *pull, const struct leftovers_call *call,
			 struct err *err);

#endif
