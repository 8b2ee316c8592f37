/*
 * Blobs of the primary compared with what is recorded of them, and the differences made
 * events. inotify, scans, commands, uploads and readers all come through here; what they
 * say is a hint where to look, never what is recorded.
 *
 * A look costs no reading of the file: size, mtime, ctime and inode tell. Rows and events
 * of a group are committed in one transaction, each on condition that its row is still
 * the one compared with. Its content is read later, by verify/, which hands its results
 * in here. Any thread, any process.
 */
#ifndef CHANGE_BLOB_NOTICE_H
#define CHANGE_BLOB_NOTICE_H

#include "base/base.h"
#include "blob/file.h"
#include "blob/kinds.h"
#include "change/event_log.h"
#include "change/scan.h"
#include "replicable/origin_rows.h"

struct blob_notice;

struct blob_notice_options {
	struct store *store;   /* borrowed, as all of these */
	struct event_log *log; /* NULL: a command; its caller pokes the node */
	const struct blob_kinds *kinds;
	int64_t reverify_ms; /* sync.reverifyInterval */
};

struct blob_notice *blob_notice_new(const struct blob_notice_options *options);
void blob_notice_free(struct blob_notice *notice); /* NULL is allowed */

/* Who is told when contents are to be read; any thread, short. Before anybody else uses
 * it. */
void blob_notice_set_due(struct blob_notice *notice, void (*due)(void *arg), void *arg);

/* NULL: the site has no such kind. */
const struct blob_kind *blob_notice_kind(const struct blob_notice *notice,
					 const char *type);

/* What somebody who put the file there knows of it, so that it need not be read again: it
 * counts if the file is still the one of this fingerprint. */
struct blob_known {
	struct blob_fingerprint fingerprint;
	char digest[BLOB_DIGEST_SIZE];
};

struct blob_look {
	const char *id;                 /* borrowed */
	const struct blob_known *known; /* borrowed; NULL: nothing is */
	/* Filled: */
	bool is_changed;       /* an event was committed */
	uint64_t event_id;     /* of it, or 0 */
	struct origin_row row; /* as it is now; name NULL: there is none */
	/* ERR_NONE: the file is there, and row says so. ERR_MISSING: there is none (any
	 * more), or a directory; if there was a row, `deleted` was committed. ERR_CORRUPT
	 * (a link, something else) and ERR_CONFIG (no permission, or no id): if there
	 * is a row, it says so. Nothing is recorded with ERR_CONFLICT (it changes too
	 * fast) and ERR_DISK (what is not there may be on a file system that is away). */
	struct err why;
};
void blob_look_clear(struct blob_look *look);

/* Compares them, whatever their number. Events are durable when it returns. -1: nothing
 * more is recorded: ERR_DISK: the kind's directory is away; or the database failed. The
 * caller clears the looks in any case. */
int blob_notice_compare(struct blob_notice *notice, const struct blob_kind *kind,
			struct blob_look *looks, size_t count, struct err *err);

/* One, whose look's `why` is the error, too. */
int blob_notice_compare_one(struct blob_notice *notice, const struct blob_kind *kind,
			    struct blob_look *look, struct err *err);

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
int blob_notice_record(struct blob_notice *notice, const struct blob_kind *kind,
		       struct blob_result *results, size_t count, struct err *err);

/* Its content was read, and is known to be wrong. */
bool blob_row_is_damaged(const struct origin_row *row);

/* For scans of that kind. */
struct origin_kind blob_notice_origin_kind(struct blob_notice *notice,
					   const struct blob_kind *kind);

/* For `check`, which needs no node: -1: ERR_DISK where the kind's directory is away, or
 * is empty and another one than that in which its blobs were seen. */
int blob_notice_judge_root(struct store *store, const struct blob_kind *kind,
			   struct err *err);

#endif
