/*
 * Notices changes of the primary's blobs (change/notice.h). A check does not read the
 * file: size, mtime, ctime and inode suffice; rows and events of a group are committed in
 * one transaction. Its content is read later by verify/, which reports its results here.
 * Any thread, any process.
 *
 * After notice_compare_these() a blob's `why` is ERR_MISSING: it does not exist (any
 * more), or is a directory; if it had a row, `deleted` was committed. ERR_CORRUPT (a
 * link, or another file type) and ERR_CONFIG (no permission, or not an id): its row, if
 * any, says so. Nothing is recorded with ERR_CONFLICT (it changes too fast) and ERR_DISK
 * (a missing blob may be on a file system that is not mounted).
 */
#ifndef CHANGE_BLOB_NOTICE_H
#define CHANGE_BLOB_NOTICE_H

#include "base/base.h"
#include "base/str.h"
#include "blob/file.h"
#include "change/notice.h"

/* The result of reading a blob's content. */
struct blob_result {
	const struct origin_row *row; /* its row; borrowed */
	struct err why;               /* ERR_NONE: it was read */
	bool is_deferred;             /* the error says nothing about the blob: it is due
					 again soon */
	struct blob_fingerprint fingerprint; /* of exactly the bytes read */
	bool is_settled;                     /* before it was read (blob/file.h) */
	char digest[BLOB_DIGEST_SIZE];
	struct err verdict; /* filled: what is wrong with it; ERR_NONE: nothing */
};

/* Writes verifications in one transaction: checksum, state, when the next is due, and an
 * event where a checksum was not known before. Those whose row is another by now are left
 * alone. */
int blob_notice_record(struct notice *notice, const struct blob_kind *kind,
		       struct blob_result *results, size_t count, struct err *err);

/* Whether its content was read and is known to be wrong. */
bool blob_row_is_damaged(const struct origin_row *row);

/* A report of changed blobs: from a command, directly or through the node. The message
 * for some ids of a kind: "TYPE/ID" and more ids, each after a newline. Returns how many
 * of `count` fit; 0: not even one. */
size_t blob_changed_render(const char *type, char *const *ids, size_t count, size_t room,
			   struct str *out);

/* Checks the blobs named in the message. *event_id: of the last event that this made, or
 * 0. ERR_CONFIG: unknown kind, or an invalid id: then nothing was checked. Otherwise the
 * error of the first bad one, while the others are recorded; a deleted blob is not an
 * error. */
int blob_changed(struct notice *notice, const char *words, uint64_t *event_id,
		 struct err *err);

/* For `check`, which works without a node. -1: ERR_DISK: the kind's directory is missing,
 * or is empty and not the one in which its blobs were seen. */
int blob_notice_judge_root(struct store *store, const struct blob_kind *kind,
			   struct err *err);

#endif
