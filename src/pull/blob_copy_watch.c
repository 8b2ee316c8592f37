/*
 * The directories are those that rows name: nothing is listed, and what has no row is
 * nobody's concern. Each is watched before the files in it are looked at. So from then on
 * its files are as their rows say, or somebody tells; scans look at the others alone.
 *
 * Our own renames are told as well: a look finds the row at work, or written later than
 * the file. Whoever works on a row compares the file once more after the row is written
 * (blob_fetch.c, blob_verify.c), and so sees what others did until then.
 *
 * Kinds whose files may change are watched first. Objects of Git LFS are many, and who
 * reads them compares them with their names.
 */
#include "pull/blob_copy_watch.h"

#include <stdatomic.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "change/watcher.h"
#include "pull/copy_kind.h"
#include "pull/glance.h"
#include "upkeep/copies_root.h"

#define SCAN_INTERVAL_MS 60000

struct copied_kind {
	struct kind kind;
	bool looks_at_all; /* the last scan failed, or there was none */
	bool was_away;     /* a file system below it was not mounted */
	bool is_failing;
	bool has_looked; /* at all, since the start */
};

/* All of the watcher's thread, but for `unlooked`. */
struct blob_copy_watch {
	struct pull *pull;
	VEC(struct copied_kind) kinds; /* in the order of their turns */
	atomic_size_t unlooked;        /* kinds that were not looked at as a whole */
	struct watcher *watcher;
};

static void blob_copy_watch_failed(void *arg, size_t kind, const struct err *err)
{
	struct blob_copy_watch *watch = arg;
	struct copied_kind *one = &watch->kinds.items[kind];

	if (!one->is_failing && err->class != ERR_CANCELED)
		log_warn("copies.not_looked_at", LOG_ERR(err),
			 LOG_TEXT("kind", one->kind.type));
	one->is_failing = err->class != ERR_CANCELED;
}

struct copy_scanning {
	const struct watcher_scan *scan;
	bool looks_at_all;
	bool met_away; /* the file system of some is not mounted */
	char *watched; /* owned; the last directory, if it is watched with all above */
};

/* With all above it: where one of these goes, those below hear nothing. */
static bool watch_with_above(struct copy_scanning *scanning, const char *directory)
{
	const struct watcher_scan *scan = scanning->scan;
	AUTO_FREE char *before = TAKE(scanning->watched);
	size_t len = 0;
	bool goes_on = true;

	while (goes_on) {
		AUTO_FREE char *path = xstrndup(directory, len);
		if ((!before || !path_is_within(before, path)) &&
		    watcher_add(scan->watcher, scan->kind, path, ERR_IGNORED) != 0)
			return false;
		goes_on = directory[len];
		len += directory[len] == '/';
		len += strcspn(directory + len, "/");
	}
	scanning->watched = xstrdup(directory);
	return true;
}

/* What was watched before needs no look. */
static bool blob_copy_watch_enters(void *arg, const char *directory)
{
	struct copy_scanning *scanning = arg;
	struct watcher *watcher = scanning->scan->watcher;
	size_t before = watcher_count(watcher);

	return !watch_with_above(scanning, directory) ||
	       watcher_count(watcher) != before || scanning->looks_at_all;
}

static void blob_copy_watch_breathe(void *arg)
{
	const struct copy_scanning *scanning = arg;

	watcher_breathe(scanning->scan->watcher);
}

static struct glance_request blob_copy_watch_make_request(struct blob_copy_watch *watch,
							  size_t kind)
{
	return (struct glance_request){ .store = watch->pull->options.store,
					.kind = &watch->kinds.items[kind].kind,
					.pull = watch->pull };
}

/* The others were looked at: no more is to be had until it is mounted. */
static void blob_copy_watch_note_away(struct blob_copy_watch *watch, size_t kind,
				      const struct err *away)
{
	if (away->class == ERR_NONE)
		return;
	watch->kinds.items[kind].was_away = true;
	blob_copy_watch_failed(watch, kind, away);
}

static int blob_copy_watch_look(void *arg, size_t kind, const text_list *ids,
				struct err *err)
{
	const struct glance_request request = blob_copy_watch_make_request(arg, kind);
	int64_t started = clock_boot_ms();
	struct glance_result result;

	int done = glance_these(&request, ids->items, ids->count, &result, err);
	blob_copy_watch_note_away(arg, kind, &result.away);
	glance_report(&request, &result, clock_boot_ms() - started);
	return done;
}

static int blob_copy_watch_scan_below(struct blob_copy_watch *watch,
				      struct copy_scanning *scanning, struct err *err)
{
	struct glance_request request =
		blob_copy_watch_make_request(watch, scanning->scan->kind);
	int64_t started = clock_boot_ms();
	struct glance_result result;

	request.stop = watcher_stop_of(scanning->scan->watcher);
	request.rest_ms = GLANCE_REST_MS;
	request.below = scanning->scan->below;
	request.enters = blob_copy_watch_enters;
	request.paged = blob_copy_watch_breathe;
	request.arg = scanning;
	int done = glance_all(&request, &result, err);
	free(TAKE(scanning->watched));
	scanning->met_away |= result.away.class != ERR_NONE;
	blob_copy_watch_note_away(watch, scanning->scan->kind, &result.away);
	glance_report(&request, &result, clock_boot_ms() - started);
	return done;
}

static void blob_copy_watch_note_whole(struct blob_copy_watch *watch,
				       struct copied_kind *one)
{
	one->is_failing = false;
	if (one->has_looked)
		return;
	one->has_looked = true;
	atomic_fetch_sub(&watch->unlooked, 1);
	bell_ring();
}

/* Of a file system that is mounted elsewhere, too, the watches have stayed. All are asked
 * for, since what was left out may have been on one without copies. */
static bool blob_copy_watch_is_back(const struct blob_copy_watch *watch,
				    struct copied_kind *one)
{
	if (!one->was_away ||
	    copies_root_check_copy(watch->pull->options.store, one->kind.type,
				   one->kind.path, NULL, ERR_IGNORED) != 0)
		return false;
	one->was_away = false;
	return true;
}

static int blob_copy_watch_scan(void *arg, const struct watcher_scan *scan,
				struct err *err)
{
	struct blob_copy_watch *watch = arg;
	struct copied_kind *one = &watch->kinds.items[scan->kind];
	struct copy_scanning scanning = { .scan = scan, .looks_at_all = true };
	const size_t watched = watcher_count(scan->watcher);
	int64_t started = clock_boot_ms();

	if (scan->below)
		return blob_copy_watch_scan_below(watch, &scanning, err);
	copies_root_keep_mounts(watch->pull->options.store, one->kind.type,
				one->kind.path, ERR_IGNORED);
	/* Also before there is any row. */
	watcher_add(scan->watcher, scan->kind, "", ERR_IGNORED);
	scanning.looks_at_all = one->looks_at_all || scan->was_lost ||
				watcher_count(scan->watcher) != watched ||
				blob_copy_watch_is_back(watch, one);
	one->looks_at_all = false;
	int done = blob_copy_watch_scan_below(watch, &scanning, err);
	if (done != 0)
		one->looks_at_all = true;
	else if (!scanning.met_away)
		blob_copy_watch_note_whole(watch, one);
	log_debug("blob_copy_watch.scanned",
		  LOG_NUMBER("dur_ms", clock_boot_ms() - started),
		  LOG_TEXT("kind", one->kind.type),
		  LOG_NUMBER("directories", watcher_count(scan->watcher)));
	return done;
}

static void blob_copy_watch_add_kinds(struct blob_copy_watch *watch,
				      enum blob_layout layout)
{
	const struct kind *kind = NULL;

	while ((kind = kinds_next_copied(watch->pull->options.here, kind)) != NULL)
		if (kind->copies->is_watched && kind->path && kind_layout(kind) == layout)
			vec_add(&watch->kinds,
				((struct copied_kind){ .kind = *kind,
						       .looks_at_all = true }));
}

struct blob_copy_watch *blob_copy_watch_start(struct pull *pull, size_t directories)
{
	static const struct watcher_ops ops = {
		.scan = blob_copy_watch_scan,
		.look = blob_copy_watch_look,
		.failed = blob_copy_watch_failed,
		.limit = "blob_copy_watch.limit",
		.scope = BLOB_COPY,
	};
	int64_t interval_ms = pull->options.scan_interval_ms;

	struct blob_copy_watch *watch = xcalloc(1, sizeof(*watch));
	watch->pull = pull;
	blob_copy_watch_add_kinds(watch, BLOB_PLAIN);
	blob_copy_watch_add_kinds(watch, BLOB_LFS);
	AUTO_FREE const char **roots = xcalloc(watch->kinds.count + 1, sizeof(*roots));
	if (watch->kinds.count == 0) {
		free(watch);
		return NULL;
	}
	watch->unlooked = watch->kinds.count;
	for (size_t i = 0; i < watch->kinds.count; i++)
		roots[i] = watch->kinds.items[i].kind.path;
	watch->watcher = watcher_start(&(struct watcher_options){
		.ops = &ops,
		.arg = watch,
		.thread = "blob-copy-watch",
		.interval_ms = interval_ms > 0 ? interval_ms : SCAN_INTERVAL_MS,
		.roots = roots,
		.root_count = watch->kinds.count,
		.directories = directories,
		.descriptor = -1 });
	return watch;
}

bool blob_copy_watch_has_looked(const struct blob_copy_watch *watch)
{
	return !watch || atomic_load(&watch->unlooked) == 0;
}

void blob_copy_watch_stop(struct blob_copy_watch *watch)
{
	if (watch)
		watcher_stop(TAKE(watch->watcher));
}

void blob_copy_watch_free(struct blob_copy_watch *watch)
{
	if (!watch)
		return;
	vec_clear(&watch->kinds);
	free(watch);
}
