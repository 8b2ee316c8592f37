/*
 * Blobs of the primary, noticed (change/notice.h). A look costs no reading of the file:
 * size, mtime, ctime and inode tell; rows and events of a group are committed in one
 * transaction. Its content is read later, by verify/, which hands its results in here.
 * Any thread, any process.
 *
 * Of notice_compare_these() a blob's `why` is ERR_MISSING: there is none (any more), or a
 * directory; if there was a row, `deleted` was committed. ERR_CORRUPT (a link, something
 * else) and ERR_CONFIG (no permission, or no id): if there is a row, it says so. Nothing
 * is recorded with ERR_CONFLICT (it changes too fast) and ERR_DISK (what is not there may
 * be on a file system that is away).
 */
#ifndef CHANGE_BLOB_NOTICE_H
#define CHANGE_BLOB_NOTICE_H

#include "base/base.h"
#include "base/str.h"
#include "blob/file.h"
#include "change/notice.h"

/* What came of reading a blob's content. */
struct blob_result {
	const struct origin_row *row; /* that it belongs to; borrowed */
	struct err why;               /* ERR_NONE: it was read */
	bool is_deferred;             /* that says nothing of it: it is due again soon */
	struct blob_fingerprint fingerprint; /* of exactly what was read */
	bool is_settled;                     /* before it was read (blob/file.h) */
	char digest[BLOB_DIGEST_SIZE];
	struct err verdict; /* filled: what is wrong with it; ERR_NONE: nothing */
};

/* Writes verifications in one transaction: checksum, state, when the next is due, and an
 * event where a checksum was not known before. Those whose row is another by now are left
 * alone. */
int blob_notice_record(struct notice *notice, const struct blob_kind *kind,
		       struct blob_result *results, size_t count, struct err *err);

/* Its content was read, and is known to be wrong. */
bool blob_row_is_damaged(const struct origin_row *row);

/* Somebody says that blobs changed: a command, by itself or by way of the node. The words
 * for some ids of a kind: "TYPE/ID" and more ids, each after a newline. Returns how many
 * of `count` found room; 0: not even one. */
size_t blob_changed_render(const char *type, char *const *ids, size_t count, size_t room,
			   struct str *out);

/* Looks at those that the words name. *event_id: of the last event that this made, or 0.
 * ERR_CONFIG: no such kind, or a name that cannot be an id: then nothing was looked at.
 * Otherwise the error of the first that is not as it should be, the others being
 * recorded; one that was deleted is no error. */
int blob_changed(struct notice *notice, const char *words, uint64_t *event_id,
		 struct err *err);

/* For `check`, which needs no node: -1: ERR_DISK where the kind's directory is away, or
 * is empty and another one than that in which its blobs were seen. */
int blob_notice_judge_root(struct store *store, const struct blob_kind *kind,
			   struct err *err);

#endif
