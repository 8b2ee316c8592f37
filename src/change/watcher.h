/*
 * A look-out: one thread that looks at several kinds again and again: at what inotify
 * hints at as soon as it is heard, at everything within a budget. The scan is the truth,
 * hints only make it soon: they are gathered for a moment, looked at in groups, and where
 * one was lost a scan follows. What is looked at, and against what, is the user's:
 * watch.h of what stands at the primary, copy_watch.h and blob_copy_watch.h of a
 * secondary's copies.
 */
#ifndef CHANGE_WATCHER_H
#define CHANGE_WATCHER_H

#include "base/thread.h"
#include "change/blob_hints.h"

struct watcher;

struct watcher_scan {
	struct watcher *watcher;
	size_t kind;       /* index */
	const char *below; /* a directory that was hinted at; NULL: everything */
	bool was_lost;     /* hints were, since the last scan of everything */
};

/* Called by its thread. */
struct watcher_ops {
	/* An error leads to `failed`, and to another scan. */
	int (*scan)(void *arg, const struct watcher_scan *scan, struct err *err);
	/* At these; -1 as above. NULL where nothing is watched here. */
	int (*look)(void *arg, size_t kind, const text_list *ids, struct err *err);
	void (*failed)(void *arg, size_t kind, const struct err *err);
	/* The next scan is in so many ms. May be NULL. */
	void (*paced)(void *arg, size_t kind, int64_t interval_ms);
	/* Before each round. May be NULL, as the next. */
	void (*tend)(void *arg, const struct stop *stop);
	/* Boot ms: when `tend` must come again at the latest. */
	int64_t (*due)(void *arg);
	/* The descriptor can be read from. */
	void (*hear)(void *arg, const struct stop *stop);
	const char *limit; /* log event: no more directories can be watched */
	enum blob_scope scope;
};

struct watcher_options {
	const struct watcher_ops *ops; /* borrowed, as all of these */
	void *arg;
	const char *thread;  /* its name */
	int64_t interval_ms; /* between scans; stretched to keep 0.4 % of a core */
	/* Of the kinds, in the order of their turns; of one that is NULL nothing is
	 * watched. Copied; the texts are borrowed. */
	const char *const *roots;
	size_t root_count;
	size_t directories; /* that may be watched; 0: a share of what the kernel allows
			     */
	int descriptor;     /* of an inotify of the user's own; -1: none */
};

/* The first scans start at once. */
struct watcher *watcher_start(const struct watcher_options *options);
void watcher_stop(struct watcher *watcher); /* NULL is allowed */

/* Scans all kinds at once. Any thread. */
void watcher_wake(struct watcher *watcher);

/* There is something to tend. Any thread. */
void watcher_nudge(struct watcher *watcher);

/* These are for its own thread, during a scan. */

/* Watches a directory of a kind from now on. -1: only a scan tells of it; ERR_MISSING: it
 * is not there. */
int watcher_add(struct watcher *watcher, size_t kind, const char *path, struct err *err);
size_t watcher_count(const struct watcher *watcher); /* of directories */

/* So that a long scan does not keep others waiting: looks at what was hinted. */
void watcher_breathe(struct watcher *watcher);

const struct stop *watcher_stop_of(const struct watcher *watcher);

#endif
