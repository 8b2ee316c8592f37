/*
 * The operations of a kind of replicables at the primary. Scanning its directory
 * (change/scan.h), comparing the files with its rows, and recording the difference with
 * an event in one transaction (change/notice.h) are common to all kinds; a kind is one
 * file: change/repository_notice.c, change/blob_notice.c.
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

/* Facts about a blob's file from the code that put it there, so that it need not be read
 * again: valid if the file still has this fingerprint. */
struct blob_known {
	struct blob_fingerprint fingerprint;
	char digest[BLOB_DIGEST_SIZE];
};

/* One replicable, and what its comparison found. */
struct noticed {
	const char *name;               /* borrowed */
	const struct blob_known *known; /* of a blob; borrowed; NULL: unknown */
	/* Filled: */
	bool is_changed;         /* an event was committed */
	struct event_mark event; /* that one; id 0: no event */
	struct origin_row row;   /* as it is now; name NULL: it does not exist */
	struct err why;          /* ERR_NONE: it exists, and the row is right */
	/* Of an existing repository: */
	struct ref_snapshot refs;
	size_t oid_len;
	char *description; /* the file's content; owned; NULL: none */
	char *settings;    /* for readers (git/read_settings.h); owned; "": none */
};
#define AUTO_NOTICED __attribute__((cleanup(noticed_clear)))
void noticed_clear(struct noticed *noticed);

/* A missing one may exist under a new name, which must be noticed first, so that it is a
 * rename, not a deletion. */
enum absence {
	ABSENCE_SOUGHT,  /* walk the tree for it */
	ABSENCE_DELETED, /* that was done: record the deletion */
	ABSENCE_LATER,   /* the next scan will do it: record nothing */
};

/* Why it is compared. */
struct notice_cause {
	bool is_scanned;    /* found by a scan, not reported */
	bool is_first_scan; /* and it is the first of a new database */
	bool is_sought;     /* its former name's deletion is being recorded */
	bool is_hint;       /* noticed->refs are not needed */
	enum absence absence;
	const text_list *unrecorded; /* identities under names without a row, or NULL */
	/* Of the verification that reads the objects next: it stands. Or NULL. */
	const char *claim_token;
};

/* The state of one on disk. */
enum observation {
	OBSERVATION_WHOLE,
	OBSERVATION_UNREADABLE, /* it exists; `why` says what is wrong */
	OBSERVATION_GONE,       /* proved */
	OBSERVATION_UNKNOWN,    /* record nothing: `why` */
	OBSERVATION_MOVING,     /* try again */
};

/* What to do with the row. From STEP_CREATED on with an event. */
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
	struct origin_row base; /* the row compared with; no name: it does not exist */
	enum observation observation;
	enum origin_step step;
	char fingerprint[BLOB_FINGERPRINT_SIZE]; /* text; of one that is whole */
	char *changes; /* for the event, JSON; owned; NULL: unknown */
	char *told;    /* checksum, as in notice_parts.h; owned; NULL: the sink was not */
	void *seen;    /* the kind's own, until `settle` */
	bool is_done, is_committed; /* in this transaction */
};

/* A group that is compared together. */
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

/* One found on disk. All borrowed; a kind fills in the members that its is_as_recorded
 * needs. */
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

	/* A missing one may exist under another name: compare it last, and only if the
	 * scan saw all names. */
	bool is_gone_last;
	/* Its directories are watched by inotify, in addition to scans. */
	bool is_watched;
	/* Each is the file of that name below the directory, with the fingerprint of
	 * blob_fingerprint_format(): its bytes are served, and accepted, over HTTP. */
	bool is_file;
	/* Opens the directory; -1: ERR_DISK: it is missing. */
	int (*open_root)(const struct origin_kind *kind, struct err *err);
	/* After it was opened; both may be NULL. `close` follows in any case. */
	int (*open)(struct scan *scan, struct err *err);
	void (*close)(struct scan *scan);
	/* Whether the directory contains anything of the kind. */
	int (*has_any)(struct scan *scan, bool *has_any, struct err *err);
	/* Calls scan_meet() for each in byte order of the names, scan_enter() and
	 * scan_find() on the way. below: a directory, or "": all. ERR_MISSING: it does
	 * not exist. */
	int (*walk)(struct scan *scan, const char *below, struct err *err);
	/* Whether its stat data prove that it is as its row says. */
	bool (*is_as_recorded)(struct scan *scan, const struct scan_item *item,
			       const struct origin_row *row);
	/* After a whole scan. */
	void (*finish)(const struct origin_kind *kind, const struct scan_result *result,
		       int64_t took_ms);
	/* Called periodically; may be NULL. */
	void (*tend)(const struct origin_kind *kind);

	/* Of a comparison. */

	/* How many share a transaction; 1: each is compared by itself, in a scan by
	 * several threads, and fails alone. */
	size_t group;
	/* Whether a scan may compare it; NULL: always. */
	int (*may_look)(const struct origin_kind *kind, const char *name, bool *may,
			struct err *err);
	/* Examines the disk, after the row was read: sets observation, why, fingerprint.
	 * May be called again. */
	void (*observe)(struct comparisons *all, struct comparison *one);
	/* Decides the step for whole or unreadable ones. */
	enum origin_step (*judge)(const struct comparisons *all,
				  const struct comparison *one);
	/* Before the transaction. */
	void (*announce)(struct comparisons *all);
	/* Copies the observation into the row, except its generation and changed_at. */
	void (*fill)(struct comparisons *all, struct comparison *one,
		     struct origin_row *row);
	/* Writes further data in the transaction; may be NULL. */
	int (*record)(struct store_tx *tx, struct comparisons *all,
		      struct comparison *one, struct err *err);
	/* After the transaction, for those that are committed and not done. */
	void (*committed)(struct comparisons *all);
	/* At its end, with any outcome: passes on or frees `seen`. NULL: not needed. */
	void (*settle)(const struct comparisons *all, struct comparison *one);
	/* In a scan: reports the outcome of one, for scan_count() and scan_is_news(). */
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
