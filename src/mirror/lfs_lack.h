/*
 * The objects that mirrors with lfs = true still lack from their upstreams: one
 * persistent row per mirror, so that a complete mirror costs nothing, and an incomplete
 * one is retried when it is due, independently of its refs. verify/lfs_names.h finds the
 * objects that a mirror needs. Any thread.
 */
#ifndef MIRROR_LFS_LACK_H
#define MIRROR_LFS_LACK_H

#include "base/json.h"
#include "mirror/mirrors.h"
#include "replicable/lfs_rows.h"
#include "store/store.h"

struct lfs_lack {
	int64_t next_at;                /* wall ms; -1: nothing to bring */
	int64_t attempts;               /* failed ones in a row */
	int64_t absent;                 /* objects still absent after the last try */
	int64_t missing;                /* of these, those that the upstream lacks */
	char left_over[17];             /* identifies the set of them */
	char *class, *message, *remedy; /* why it failed; owned; NULL: it did not */
};
#define AUTO_LFS_LACK __attribute__((cleanup(lfs_lack_clear)))
void lfs_lack_clear(struct lfs_lack *lack);

/* At a node's start, and when lists have changed: mirrors with lfs are examined at once,
 * other rows are removed. Inside store_write(). */
int lfs_lack_begin_in(struct store_tx *tx, const struct mirrors *mirrors,
		      struct err *err);

/* 1: there is a row; 0: that mirror does not bring objects. The caller clears. */
int lfs_lack_get(struct store *store, const char *mirror, struct lfs_lack *lack,
		 struct err *err);

/* Records what a try left; also updates the status counts of the repository with that
 * id. */
int lfs_lack_put(struct store *store, const char *mirror, uint64_t repository,
		 const struct lfs_lack *lack, struct err *err);

void lfs_lack_set_failure(struct lfs_lack *lack, const struct err *why);

/* The text that identifies this set of objects. */
void lfs_lack_mark(const lfs_rows *rows, char mark[17]);

/* Requests mirrors whose retry is due, or which lost an object since, unless a job is
 * pending or their refs are in a retry delay. *any: whether there were some. */
int lfs_lack_hurry(struct store *store, bool *any, struct err *err);

#endif
