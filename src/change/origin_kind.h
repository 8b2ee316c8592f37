/*
 * What a kind of replicables must be able to do at the primary. Looking through its
 * directory (change/scan.h), comparing what stands there with its rows, and recording the
 * difference with an event in one transaction (change/notice.h) are there once for all
 * kinds; a kind is one file: change/repository_notice.c, change/blob_notice.c.
 */
#ifndef CHANGE_ORIGIN_KIND_H
#define CHANGE_ORIGIN_KIND_H

#include "base/base.h"
#include "base/json.h"
#include "base/vec.h"
#include "blob/file.h"
#include "blob/kinds.h"
#include "change/event_log.h"
#include "git/refs.h"
#include "replicable/kind.h"
#include "replicable/origin_rows.h"

struct scan;
struct scan_result;
struct notice;

/* What somebody who put a blob's file there knows of it, so that it need not be read
 * again: it counts if the file is still the one of this fingerprint. */
struct blob_known {
	struct blob_fingerprint fingerprint;
	char digest[BLOB_DIGEST_SIZE];
};

/* One replicable, and what its comparison found. */
struct noticed {
	const char *name;               /* borrowed */
	const struct blob_known *known; /* of a blob; borrowed; NULL: nothing is */
	/* Filled: */
	bool is_changed;         /* an event was committed */
	struct event_mark event; /* that one; id 0: none */
	struct origin_row row;   /* as it is now; name NULL: there is none */
	struct err why;          /* ERR_NONE: it is there, and row says so */
	/* Of a repository that is there: */
	struct ref_snapshot refs;
	size_t oid_len;
	char *description; /* the file's content; owned; NULL: none */
	char *settings;    /* for readers (git/read_settings.h); owned; "": none */
};
#define AUTO_NOTICED __attribute__((cleanup(noticed_clear)))
void noticed_clear(struct noticed *noticed);

/* What is gone may stand under a new name, and that one is to be noticed first: only so
 * is it a rename, and no deletion. */
enum absence {
	ABSENCE_SOUGHT,  /* the tree is walked for it */
	ABSENCE_DELETED, /* that was done: it is recorded */
	ABSENCE_LATER,   /* the next scan will: nothing is recorded */
};

/* Why it is compared. */
struct notice_cause {
	bool is_scanned;    /* nobody told of it, a scan came to it */
	bool is_first_scan; /* and it is the first of a new database */
	bool is_sought;     /* its former name's deletion is being recorded */
	bool is_hint;       /* noticed->refs are not wanted */
	enum absence absence;
};

/* What the disk says of one. */
enum observation {
	OBSERVATION_WHOLE,
	OBSERVATION_UNREADABLE, /* something is there; `why` says what is wrong */
	OBSERVATION_GONE,       /* proved */
	OBSERVATION_UNKNOWN,    /* nothing is to be recorded: `why` */
	OBSERVATION_MOVING,     /* look anew */
};

/* What is to become of the row. From STEP_CREATED on it is an event. */
enum origin_step {
	STEP_NOTHING,
	STEP_NOTED, /* without an event */
	STEP_CREATED,
	STEP_UPDATED,
	STEP_CHECKSUMMED, /* the same generation */
	STEP_DELETED,
};

struct comparison {
	struct noticed *noticed;
	struct origin_row base; /* what is compared with; no name: there is no row */
	enum observation observation;
	enum origin_step step;
	char fingerprint[BLOB_FINGERPRINT_SIZE]; /* text; of one that is whole */
	char *changes; /* for the event, JSON; owned; NULL: not known */
	void *seen;    /* the kind's own, until `settle` */
	bool is_done;
	bool is_committed; /* in this transaction */
};

/* Those that are compared together. */
struct comparisons {
	const struct origin_kind *kind;
	const struct notice_cause *cause;
	VEC(struct comparison) items;
	int tries; /* before this one */
	int root;  /* of this one */
	/* notice_is_away(): */
	bool is_judged;
	struct err away;
	json_t *mounts; /* owned; known ones, once it is judged */
};

/* One that stands on disk. All borrowed; a kind fills what its as_recorded needs. */
struct scan_item {
	const char *name;
	const char *path; /* below the root */
	bool is_damaged;
	const struct blob_fingerprint *fingerprint;
};

/* Names of log events (docs/events.md). */
struct scan_events {
	const char *finding, *failed, *not_kept;
};

struct origin_kind;
struct origin_kind_ops {
	struct scan_events events;

	/* Of a scan. */

	/* What has no file any more may stand under another name: it is compared last,
	 * and only when nothing hid names. */
	bool is_gone_last;
	/* Its directories are watched by inotify, beside the scans. */
	bool is_watched;
	/* Each is the file of that name below the directory, with the fingerprint of
	 * blob_fingerprint_format(): its bytes are given out, and taken, over HTTP. */
	bool is_file;
	/* The directory; -1: ERR_DISK, it is away. */
	int (*open_root)(const struct origin_kind *kind, struct err *err);
	/* After it was opened; may be NULL, both. `close` follows in any case. */
	int (*open)(struct scan *scan, struct err *err);
	void (*close)(struct scan *scan);
	/* Whether anything stands there. */
	int (*has_any)(struct scan *scan, bool *has_any, struct err *err);
	/* Calls scan_meet for each in byte order of the names, scan_enter and scan_find
	 * as it comes by. below: a directory, or "": all. ERR_MISSING: it is not there.
	 */
	int (*walk)(struct scan *scan, const char *below, struct err *err);
	/* Whether its looks prove that it is as its row says. */
	bool (*is_as_recorded)(struct scan *scan, const struct scan_item *item,
			       const struct origin_row *row);
	/* After a whole scan. */
	void (*finish)(const struct origin_kind *kind, const struct scan_result *result,
		       int64_t took_ms);
	/* Now and then; may be NULL. */
	void (*tend)(const struct origin_kind *kind);

	/* Of a comparison. */

	/* So many share a transaction; 1: each is compared by itself, a scan's by several
	 * threads, and fails alone. */
	size_t group;
	/* Whether a scan is to compare it; NULL: always. */
	int (*may_look)(const struct origin_kind *kind, const char *name, bool *may,
			struct err *err);
	/* Looks at the disk, after the row was read: sets observation, why, fingerprint.
	 * It may come again. */
	void (*observe)(struct comparisons *all, struct comparison *one);
	/* Of what is whole or unreadable. */
	enum origin_step (*judge)(const struct comparisons *all,
				  const struct comparison *one);
	/* Before the transaction. */
	void (*announce)(struct comparisons *all);
	/* Puts what was observed into the row, but for its generation and changed_at. */
	void (*fill)(struct comparisons *all, struct comparison *one,
		     struct origin_row *row);
	/* What else the transaction is to write; may be NULL. */
	int (*record)(struct store_tx *tx, struct comparisons *all,
		      struct comparison *one, struct err *err);
	/* After the transaction, of those that are committed and not done. */
	void (*committed)(struct comparisons *all);
	/* At its end, however it ended: hands on or frees what was seen. NULL: nothing.
	 */
	void (*settle)(struct comparison *one);
	/* Of a scan: what came of one, for scan_count and scan_is_news. */
	void (*note)(struct scan *scan, const struct noticed *noticed);
};

/* A kind at the primary. Borrowed, as all in it. */
struct origin_kind {
	struct kind of;
	struct store *store;
	struct notice *notice;
};

extern const struct origin_kind_ops repository_origin_ops, blob_origin_ops;

#endif
