/*
 * What mirrors with lfs = true still lack of their upstreams' objects: a row each, which
 * outlives the node, so that a mirror that lacks nothing costs nothing, and one that
 * lacks something is tried again when it is due, apart from its refs. What there is to
 * lack is found by verify/lfs_names.h. Any thread.
 */
#ifndef MIRROR_LFS_LACK_H
#define MIRROR_LFS_LACK_H

#include "base/json.h"
#include "mirror/mirrors.h"
#include "replicable/lfs_rows.h"
#include "store/store.h"

struct lfs_lack {
	int64_t next_at;                /* wall ms; -1: nothing is to be brought */
	int64_t attempts;               /* that failed in a row */
	int64_t absent;                 /* objects that the last try left */
	int64_t missing;                /* of these, what the upstream does not have */
	char left_over[17];             /* stands for which they are */
	char *class, *message, *remedy; /* why it failed; owned; NULL: it did not */
};
#define AUTO_LFS_LACK __attribute__((cleanup(lfs_lack_clear)))
void lfs_lack_clear(struct lfs_lack *lack);

/* At a node's start, and when lists have told of others: mirrors that have lfs by now are
 * looked at once, all else is forgotten. Inside store_write(). */
int lfs_lack_begin_in(struct store_tx *tx, const struct mirrors *mirrors,
		      struct err *err);

/* 1: there is a row; 0: nothing is to be brought for that mirror. The caller clears. */
int lfs_lack_get(struct store *store, const char *mirror, struct lfs_lack *lack,
		 struct err *err);

/* What a try left: also what status counts of the repository, which has that id. */
int lfs_lack_put(struct store *store, const char *mirror, uint64_t repository,
		 const struct lfs_lack *lack, struct err *err);

void lfs_lack_set_failure(struct lfs_lack *lack, const struct err *why);

/* The text that stands for these objects. */
void lfs_lack_mark(const lfs_rows *rows, char mark[17]);

/* Mirrors whose try is due, or of which an object was lost since, are asked for again,
 * unless a job is to come or a failure of their refs has to be waited for. *any: some. */
int lfs_lack_hurry(struct store *store, bool *any, struct err *err);

#endif
