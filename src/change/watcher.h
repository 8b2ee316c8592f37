/*
 * A watcher: one thread that checks several kinds repeatedly: files reported by inotify
 * as soon as possible, everything within a budget. Scans decide, hints only speed them
 * up: they are gathered for a moment, handled in groups, and if one was lost a scan
 * follows. The user defines the checks: watch.h for the primary's files, copy_watch.h and
 * blob_copy_watch.h for a secondary's copies.
 */
#ifndef CHANGE_WATCHER_H
#define CHANGE_WATCHER_H

#include "base/thread.h"
#include "change/blob_hints.h"

struct watcher;

struct watcher_scan {
	struct watcher *watcher;
	size_t kind;       /* index */
	const char *below; /* a reported directory; NULL: everything */
	bool was_lost;     /* hints were lost since the last whole scan that succeeded */
};

/* Called by its thread. */
struct watcher_ops {
	/* An error leads to `failed`, and to another scan soon: within 10 % of a core. */
	int (*scan)(void *arg, const struct watcher_scan *scan, struct err *err);
	/* Checks these; -1 as above. NULL if inotify is not used here. */
	int (*look)(void *arg, size_t kind, const text_list *ids, struct err *err);
	void (*failed)(void *arg, size_t kind, const struct err *err);
	/* The next scan is in interval_ms. May be NULL. */
	void (*paced)(void *arg, size_t kind, int64_t interval_ms);
	/* Before each round. May be NULL, as the next. */
	void (*tend)(void *arg, const struct stop *stop);
	/* Boot ms: when `tend` must be called again at the latest. */
	int64_t (*due)(void *arg);
	/* The descriptor is readable. */
	void (*hear)(void *arg, const struct stop *stop);
	const char *limit; /* log event: no more directories can be watched */
	enum blob_scope scope;
};

struct watcher_options {
	const struct watcher_ops *ops; /* borrowed, as all of these */
	void *arg;
	const char *thread;  /* its name */
	int64_t interval_ms; /* between scans; stretched to keep 0.4 % of a core */
	/* Of the kinds, in the order of their turns; one that is NULL is not watched.
	 * Copied; the texts are borrowed. */
	const char *const *roots;
	size_t root_count;
	size_t directories; /* most to watch; 0: a share of what the kernel allows */
	int descriptor;     /* of the user's own inotify; -1: not used */
};

/* The first scans start at once. */
struct watcher *watcher_start(const struct watcher_options *options);
void watcher_stop(struct watcher *watcher); /* NULL is allowed */

/* Scans all kinds at once. Any thread. */
void watcher_wake(struct watcher *watcher);

/* Makes it call `tend`. Any thread. */
void watcher_nudge(struct watcher *watcher);

/* The following are for its own thread, during a scan. */

/* Watches a directory of a kind from now on. -1: only scans will notice its changes;
 * ERR_MISSING: it does not exist. */
int watcher_add(struct watcher *watcher, size_t kind, const char *path, struct err *err);
size_t watcher_count(const struct watcher *watcher); /* of directories */

/* Handles hints during a long scan, so that they need not wait for its end. */
void watcher_breathe(struct watcher *watcher);

const struct stop *watcher_stop_of(const struct watcher *watcher);

#endif
