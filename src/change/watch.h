/*
 * Watches the primary's kinds of replicables: scans them within a budget, learns of blobs
 * through inotify as far as watches suffice, processes the spool of hooks, and prunes the
 * event log. One thread each.
 */
#ifndef CHANGE_WATCH_H
#define CHANGE_WATCH_H

#include "base/base.h"
#include "change/scan.h"

struct watch;

struct watch_options {
	const char *thread;              /* its name */
	const struct origin_kind *kinds; /* copied */
	size_t kind_count;
	struct store *store;
	int64_t scan_interval_ms; /* sync.scanInterval; stretched to keep 0.4 % of a core
				   */
	/* Called daily for each kind, after its own. May be NULL. */
	void (*tend)(const struct origin_kind *kind);
	size_t directories; /* most to watch; 0: a share of what the kernel allows */
	/* For a watch that also works for the site as a whole; else NULL. */
	const char *data;      /* has the spool; copied */
	struct notice *notice; /* of repositories: for the spool, and owed changes */
	int64_t keep_ms;       /* events: log.keepFor */
	uint64_t keep_count;   /* log.keepEvents */
};

/* The first scans start at once. */
struct watch *watch_start(const struct watch_options *options);
void watch_stop(struct watch *watch); /* NULL is allowed */

/* Scans all kinds at once. */
void watch_wake(struct watch *watch);

/* The state of one kind, for readiness and status. False: it is not watched. */
struct watch_state {
	bool has_scanned;
	bool is_failing; /* the last scan failed */
	int64_t interval_ms, took_ms;
	int64_t scanned_boot; /* boot ms */
};
bool watch_look(struct watch *watch, const char *type, struct watch_state *state);

#endif
