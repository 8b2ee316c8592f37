/*
 * What lies below site.repositories, or in a directory of blobs, and has no row: the
 * primary does not have it. Copies of this site's own, as left by a database that was
 * lost, are gone like any other that the primary deleted: with the deletion limit, by way
 * of the trash. Ours is what a sync put into that directory under that name, with refs as
 * they were then. All else stays, and is told of: what a person made of a copy, copies of
 * versions that did not record the directory, and blobs, of which it cannot be told whose
 * they are.
 */
#ifndef PULL_LEFTOVERS_H
#define PULL_LEFTOVERS_H

#include "pull/pull.h"
#include "replicable/kind.h"

struct leftovers_found {
	int64_t count;
	char example[256]; /* a name or an id; may be cut */
};

/* Counts them; 0 while no comparison has told what the primary has. Walks the tree; any
 * thread, with and without a node. */
int leftovers_count(struct store *store, const struct kind *kind,
		    struct leftovers_found *found, struct err *err);

/* copy_kind_ops.count_leftovers. */
int leftovers_count_repositories(struct store *store, const struct kind *kind,
				 struct leftovers_found *found, struct err *err);
int leftovers_count_blobs(struct store *store, const struct kind *kind,
			  struct leftovers_found *found, struct err *err);

/* After a comparison of the whole inventory of a kind: takes up the copies that are ours,
 * and tells the log of the rest. Blobs may be very many: they are looked for only with a
 * new database. */
int leftovers_take_repositories(struct pull *pull, const struct kind *kind, int64_t rows,
				struct err *err);
int leftovers_take_blobs(struct pull *pull, const struct kind *kind, int64_t rows,
			 struct err *err);

#endif
