/*
 * Pull: this secondary follows its primary. The parts, a thread each, share struct pull:
 *
 *	log cursor	events -> rows pending, with the new position
 *	consistency	inventory <-> rows, both ways
 *	scheduler	due rows -> workers
 *	sync (n)	one row: lease, sync, record
 *	blob (n)	some rows of one kind of blobs: bring, record
 *	verify (n)	one row, or some of blobs: recompute, compare, record
 *	maintenance	packs of copies that rest are folded, one copy at a time
 *	copy watch	copies are looked at once at the start; those that others have
 *			changed are brought again
 *
 * Log cursor, consistency and scheduler run once a site, each under a lease of its own
 * (kind "site"). For `replicate` there are only scheduler and workers, and no such lease
 * (struct pull_once). Source: seeds 000 and 002; states in replicable/registry.h.
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
	int64_t scan_interval_ms;       /* for all that scan, also at a primary */
	int64_t consistency_interval_ms;
	int64_t timeout_ms;
	int64_t reverify_ms;
	bool takes_deltas;      /* small changes come in one request, without git */
	bool is_maintained;     /* copies' object stores: pull/maintainer.h */
	int64_t maintenance_ms; /* all of them are looked at so often */
	double delete_brake;
	uint64_t bandwidth; /* of the primary, in bytes a second; 0: all */
};

extern const struct setting_table pull_settings_table;

/* One run over the rows that are there: each is worked on until it has ended, and then no
 * more. Nothing is followed, compared or watched, nothing that stands in the way
 * of a copy is moved or mended: it may be somebody else's. */
struct pull_item; /* pull/copy_kind.h */
struct pull_once {
	struct source *source;
	int64_t lease_wait_ms;       /* for the lease of a repository */
	atomic_uint_fast64_t *bytes; /* grows by what arrives */
	/* From any worker, of each row but those that a stop cuts short. */
	void (*ended)(void *arg, const struct pull_item *item);
	void *arg;
};

struct pull_options {
	struct store *store; /* borrowed, as all of these */
	struct lease_manager *leases;
	struct primary *primary; /* NULL: nothing is followed; rows come from others */
	const struct pull_once *once; /* in place of the primary; NULL: a node */
	/* Of mirrors (pull/mirror_job.h); NULL: there are none. */
	const struct mirrors *mirrors;
	struct credential_marks *marks;     /* theirs, as this: */
	struct then_teller *teller;         /* NULL: nobody is told of what they bring */
	const struct mirror_lfs_parts *lfs; /* NULL: no objects of LFS are brought */
	const struct kinds_here *here; /* borrowed; those with copies are worked on */
	struct pull_settings settings;
	int64_t fresh_for_ms;     /* serve.freshFor; 0: the default */
	int64_t scan_interval_ms; /* of copies that cannot be watched: sync.scanInterval;
				     0: a minute */
	const struct hook_place *hooks; /* that copies are to have; NULL: none */
	/* Appends the text of Refrelay-Report, and says whether that is of a site in
	 * sync; from the log cursor's thread; may be NULL. */
	int (*report)(void *arg, struct str *out, bool *is_good, struct err *err);
	void *report_arg;
	/* A copy was brought, or removed: all of it is on disk, the row does not say so
	 * yet. From any worker, without a lock; may take its time; may be NULL. */
	void (*published)(void *arg, const char *name);
	void *arg; /* of published */
};

struct pull;

/* Sorts of workers that bring copies, each with a capacity of its own. */
enum pull_workers { PULL_SYNC_WORKERS, PULL_BLOB_WORKERS, PULL_WORKERS };

/* Starts everything. ERR_DISK: the root is empty, but copies should be there. */
int pull_start(const struct pull_options *options, struct pull **pull, struct err *err);

/* Stops taking work; what runs has grace_ms, then its children are killed; rows of
 * unfinished work are pending again. Joins all threads. */
void pull_stop(struct pull *pull, int64_t grace_ms);

/* New capacities and intervals, obeyed at once; and perhaps another key, so what failed
 * for want of the primary is tried again at once. */
void pull_set(struct pull *pull, const struct pull_settings *settings);

struct pull_settings pull_settings_now(struct pull *pull);

/* Something was put into the database by others: look now. */
void pull_wake(struct pull *pull);

/* A hook says that somebody else has changed a copy. Any thread. */
void pull_copy_changed(struct pull *pull, const char *name);
/* Something was met that may be damage of a copy, of whatever kind: its row is not synced
 * any more from now on, and the copy is looked through and mended, at once, or later if
 * that was so often. Any thread; costs little where it is known already. */
void pull_doubt(struct pull *pull, const char *kind, const char *name,
		const struct err *why);

/* A look whether the copy of a repository that is called synced is as it was left: some
 * dozens of stat(). False: it is not, and pull_doubt() was called. */
bool pull_glance(struct pull *pull, const char *name);

/* For readiness and status. */
struct pull_state {
	uint64_t cursor; /* id of the last event taken over */
	bool has_cursor;
	bool is_comparing;   /* the whole inventory is being compared */
	int64_t compared_at; /* when the inventory was last found consistent; 0: never */
	size_t bringing[PULL_WORKERS], verifying; /* workers at work now */
	/* By the boot clock, of this run; 0: never. */
	int64_t heard_boot;     /* when all news of the primary were last known */
	int64_t news_void;      /* why they are not (enum news_void) */
	int64_t compared_boot;  /* of the comparison that is oldest, over all kinds */
	int64_t compared_until; /* until then these count as fresh */
};
void pull_look(struct pull *pull, struct pull_state *state);

/* Keys in site_value that pull keeps for `status` (commands read them without a node). */
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
	"pull.last_event" /* "ID AT_MS": newest at the primary, as last heard */

/* The last of these, of a kind: left_out and example; all else is 0. */
int pull_skipped_read(struct store *store, const char *type, struct scan_record *skipped,
		      struct err *err);
int pull_skipped_write(struct store_tx *tx, const char *type,
		       const struct scan_record *skipped, struct err *err);

#endif
