/*
 * The primary's look-out for blobs: one thread for all kinds, which hears of changes by
 * inotify as far as watches suffice, and scans within its budget.
 */
#ifndef CHANGE_BLOB_WATCH_H
#define CHANGE_BLOB_WATCH_H

#include "base/base.h"
#include "change/blob_notice.h"

struct blob_watch;

struct blob_watch_options {
	struct blob_notice *notice;
	struct store *store;
	const struct blob_kinds *kinds; /* borrowed */
	int64_t scan_interval_ms; /* sync.scanInterval; stretched to keep 0.4 % of a core
				   */
	size_t directories; /* that may be watched; 0: a share of what the kernel allows
			     */
};

/* The first scans start at once. */
struct blob_watch *blob_watch_start(const struct blob_watch_options *options);
void blob_watch_stop(struct blob_watch *watch); /* NULL is allowed */

/* Scans all kinds at once. */
void blob_watch_wake(struct blob_watch *watch);

/* Of one kind, for readiness and status. False: it is not watched. */
struct blob_watch_state {
	bool has_scanned;
	bool is_failing;                            /* the last scan failed */
	int64_t last_scan_at, interval_ms, took_ms; /* wall; ms */
	int64_t scanned_boot;                       /* the same by the boot clock */
	uint64_t files;
	bool is_whole; /* all of its directories are watched */
};
bool blob_watch_look(struct blob_watch *watch, const char *type,
		     struct blob_watch_state *state);

#endif
