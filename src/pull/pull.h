/*
 * Pull: this secondary follows its primary. The parts, one thread each, share struct
 *pull:
 *
 *	log cursor	events -> rows pending, with the new position
 *	consistency	inventory <-> rows, both ways
 *	scheduler	due rows -> workers
 *	sync (n)	one row: lease, sync, record
 *	blob (n)	some rows of one kind of blobs: bring, record
 *	verify (n)	one row, or some of blobs: recompute, compare, record
 *	maintenance	folds packs of idle copies, one copy at a time
 *	copy watch	checks all copies once at the start; has those that others have
 *			changed brought again
 *
 * Log cursor, consistency and scheduler run once per site, each under its own lease
 * (kind "site"). `replicate` has only scheduler and workers, without that lease (struct
 * pull_once). Source: seeds 000 and 002; states in replicable/registry.h.
 */
#ifndef PULL_PULL_H
#define PULL_PULL_H

#include "base/base.h"
#include "base/setting.h"
#include "base/str.h"
#include "base/thread.h"
#include "blob/kinds.h"
#include "change/hook_install.h"
#include "change/scan_record.h"
#include "lease/lease.h"
#include "mirror/marks.h"
#include "mirror/mirrors.h"
#include "pull/kinds.h"
#include "pull/primary.h"
#include "pull/source.h"
#include "replicable/registry.h"
#include "store/store.h"

/* The section [sync]. */
struct pull_settings {
	uint64_t repository_capacity;   /* 0: no new syncs */
	uint64_t blob_capacity;         /* 0: no new ones */
	uint64_t verification_capacity; /* 0: none */
	int64_t scan_interval_ms;       /* for all scanners, also at a primary */
	int64_t consistency_interval_ms;
	int64_t timeout_ms;
	int64_t reverify_ms;
	bool takes_deltas;      /* small changes come in one request, without git */
	bool shares_objects;    /* of forks: pull/share.h */
	bool is_maintained;     /* copies' object stores: pull/maintainer.h */
	int64_t maintenance_ms; /* interval at which all are checked */
	double delete_brake;
	uint64_t bandwidth; /* of the primary, in bytes a second; 0: all */
};

extern const struct setting_table pull_settings_table;

/* One run over the existing rows: each is worked on until it has ended, and not again.
 * Pull does not follow, compare or watch anything then, and does not move or mend
 * anything that stands in the way of a copy: it may be somebody else's. */
struct pull_item; /* pull/copy_kind.h */
struct pull_once {
	struct source *source;
	int64_t lease_wait_ms;       /* how long to wait for a repository's lease */
	atomic_uint_fast64_t *bytes; /* grows by what arrives */
	/* Called by any worker, for each row except those that a stop cuts short. */
	void (*ended)(void *arg, const struct pull_item *item);
	void *arg;
};

struct pull_options {
	struct store *store; /* borrowed, as all of these */
	struct lease_manager *leases;
	struct primary *primary;      /* NULL: follows nothing; rows come from others */
	const struct pull_once *once; /* instead of the primary; NULL: a node */
	/* Of mirrors (pull/mirror_job.h); NULL: there are none. */
	const struct mirrors *mirrors;
	struct credential_marks *marks;     /* theirs, as this: */
	struct then_teller *teller;         /* NULL: their changes are not announced */
	const struct mirror_lfs_parts *lfs; /* NULL: no objects of LFS are brought */
	const struct kinds_here *here; /* borrowed; those with copies are worked on */
	struct pull_settings settings;
	int64_t fresh_for_ms;     /* serve.freshFor; 0: the default */
	int64_t scan_interval_ms; /* of copies that cannot be watched: sync.scanInterval;
				     0: a minute */
	const struct hook_place *hooks; /* that copies are to have; NULL: none */
	/* Appends the text of Refrelay-Report; *is_good: the site is in sync. Called by
	 * the log cursor's thread; may be NULL. */
	int (*report)(void *arg, struct str *out, bool *is_good, struct err *err);
	void *report_arg;
	/* A copy was brought or removed: all of it is on disk, but the row does not say
	 * so yet. Called by any worker, without a lock; may block; may be NULL. */
	void (*published)(void *arg, const char *name);
	void *arg; /* of published */
};

struct pull;

/* Sorts of workers that bring copies, each with a capacity of its own. */
enum pull_workers { PULL_SYNC_WORKERS, PULL_BLOB_WORKERS, PULL_WORKERS };

/* Starts everything. ERR_DISK: the root is empty, although copies should be there. */
int pull_start(const struct pull_options *options, struct pull **pull, struct err *err);

/* Stops taking work; running jobs have grace_ms, then their children are killed; rows of
 * unfinished work become pending again. Joins all threads. */
void pull_stop(struct pull *pull, int64_t grace_ms);

/* New capacities and intervals, effective at once. The key may have changed, too, so
 * requests that failed at the primary are retried at once. */
void pull_set(struct pull *pull, const struct pull_settings *settings);

struct pull_settings pull_settings_now(struct pull *pull);

/* Others have written to the database: check it now. */
void pull_wake(struct pull *pull);

/* A hook reports that somebody else has changed a copy. Any thread. */
void pull_copy_changed(struct pull *pull, const char *name);
/* A copy of any kind may be damaged: its row is no longer synced from now on, and the
 * copy is examined and mended, at once, or later if this happened often. Any thread;
 * cheap if it is recorded already. */
void pull_doubt(struct pull *pull, const char *kind, const char *name,
		const struct err *why);

/* Checks whether the copy of a repository whose row is synced is as it was left: some
 * dozens of stat(). False: it is not, and pull_doubt() was called. */
bool pull_glance(struct pull *pull, const char *name);

/* Of the repositories that are being copied now. */
struct pull_copies {
	int64_t sized;         /* those whose size is known */
	int64_t bytes_to_come; /* of those */
	int64_t copied;        /* those of which all is on disk, and is being verified */
};

/* For readiness and status. */
struct pull_state {
	uint64_t cursor; /* id of the last event taken over */
	bool has_cursor;
	bool is_comparing;   /* the whole inventory is being compared */
	int64_t compared_at; /* when the inventory was last found consistent; 0: never */
	bool has_looked;     /* at each copy, since the start */
	size_t bringing[PULL_WORKERS], verifying; /* workers at work now */
	/* By the boot clock, of this run; 0: never. */
	int64_t heard_boot;      /* when all of the primary's news were last known */
	int64_t news_void;       /* why they are not (enum news_void) */
	int64_t compared_boot;   /* of the oldest comparison, over all kinds */
	int64_t compared_until;  /* until then these count as fresh */
	int64_t primary_wait_ms; /* primary_wait_ms() */
	struct pull_copies copies;
};
void pull_look(struct pull *pull, struct pull_state *state);

/* Keys in site_value that pull writes for `status` (commands read them without a
 * node). */
#define PULL_CURSOR                                                                      \
	"pull.cursor" /* "ID MARK TIMELINE", MARK "-" for ID 0; absent: the whole        \
			 inventory is to be compared first */
#define PULL_HEARD "pull.heard" /* wall ms of the last good answer, at most 10 s old */
#define PULL_SKEW "pull.skew"   /* ms */
#define PULL_FAILURE                                                                     \
	"pull.failure" /* JSON: {since, class, message, remedy}; absent: none */
#define PULL_COMPARED "pull.compared" /* wall ms */
#define PULL_COMPARED_ORDERED                                                            \
	"pull.compared_ordered"     /* removals by order, over all kinds, of which that  \
				       comparison knew */
#define PULL_SKIPPED "pull.skipped" /* and ".TYPE": "COUNT EXAMPLE"; absent: none */
#define PULL_LAST_EVENT                                                                  \
	"pull.last_event" /* "ID AT_MS": newest at the primary, as last reported */

/* Reads PULL_SKIPPED of a kind: left_out and example; the other fields are 0. */
int pull_skipped_read(struct store *store, const char *type, struct scan_record *skipped,
		      struct err *err);
int pull_skipped_write(struct store_tx *tx, const char *type,
		       const struct scan_record *skipped, struct err *err);

#endif
