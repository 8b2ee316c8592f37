/*
 * The primary's own look-out: one thread that works through the spool, scans within its
 * budget, and prunes the event log.
 */
#ifndef CHANGE_WATCH_H
#define CHANGE_WATCH_H

#include "base/base.h"
#include "change/notice.h"

struct watch;

struct watch_options {
	struct notice *notice;
	struct store *store;
	const char *data;
	int64_t scan_interval_ms; /* sync.scanInterval; stretched to keep 0.4 % of a core
				   */
	int64_t keep_ms;          /* events: log.keepFor */
	uint64_t keep_count;      /* log.keepEvents */
	bool looks_at_hooks;      /* notice does */
};

/* The first scan starts at once. */
struct watch *watch_start(const struct watch_options *options);
void watch_stop(struct watch *watch);

/* Scans at once. */
void watch_wake(struct watch *watch);

/* When the first scan was done, and how long the last took; for readiness and status. */
struct watch_state {
	bool has_scanned;
	bool is_failing;                            /* the last scan failed */
	int64_t last_scan_at, interval_ms, took_ms; /* wall; ms */
	int64_t scanned_boot;                       /* the same by the boot clock */
	size_t repositories;
};
void watch_look(struct watch *watch, struct watch_state *state);

#endif
