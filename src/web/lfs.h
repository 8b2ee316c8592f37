/*
 * The batch request of a Git LFS client. Pure functions over its text.
 *
 * Source: Git LFS API, batch.
 */
#ifndef WEB_LFS_H
#define WEB_LFS_H

#include "base/base.h"
#include "base/json.h"
#include "base/vec.h"

#define LFS_BATCH_MAX 2000

enum lfs_operation { LFS_NO_OPERATION, LFS_DOWNLOAD, LFS_UPLOAD };

/* One object of a batch, and its outcome. */
struct lfs_item {
	char *oid;     /* owned; as it was sent */
	uint64_t size; /* likewise */
	/* Filled in by the answering code: */
	bool is_offered; /* the client gets a URL for the operation */
	int code;        /* 0: the object is fine */
	char *message;   /* owned; with a code */
};

struct lfs_batch {
	enum lfs_operation operation;
	VEC(struct lfs_item) items;
};

#define AUTO_LFS_BATCH __attribute__((cleanup(lfs_batch_clear)))

/* -1: *status is for the answer. An object with an invalid oid or size has its code set.
 * The caller clears in any case. */
int lfs_batch_read(const char *text, size_t len, struct lfs_batch *batch, int *status,
		   struct err *err);
void lfs_batch_clear(struct lfs_batch *batch);

/* The operation alone; LFS_NO_OPERATION: missing, or the text is not a batch. */
enum lfs_operation lfs_batch_operation(const char *text, size_t len);

/* An object's oid and size, as in a verification. -1: they are invalid. */
int lfs_object_read(const char *text, size_t len, struct lfs_item *item, struct err *err);
void lfs_item_clear(struct lfs_item *item);

/* Sets code and message, if none are set yet. */
PRINTF_LIKE(3, 4)
void lfs_item_fail(struct lfs_item *item, int code, const char *fmt, ...);

/* Takes over the primary's answer to a batch for these items: offered URLs, and errors.
 * ERR_CORRUPT: it is not such an answer. */
int lfs_batch_take_answer(const char *text, size_t len, struct lfs_item *const *items,
			  size_t count, struct err *err);

/* The batch's objects as a body: those of `items`. The caller owns it. */
json_t *lfs_batch_body(enum lfs_operation operation, struct lfs_item *const *items,
		       size_t count);

/* The answer: offered ones get URLs that begin with `base` (of the repository, without a
 * slash at its end). The caller owns it. */
json_t *lfs_batch_answer(const struct lfs_batch *batch, const char *base);

#endif
