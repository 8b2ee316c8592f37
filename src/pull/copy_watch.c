/*
 * A copy is watched before it is judged: what changes meanwhile is told. Events of our
 * own syncs come, too; a copy is judged again until no sync is at work on it.
 *
 * What cannot be watched, on network file systems and above the kernel's limit, is judged
 * by each scan. Scans keep to their share of a core, as those of a primary do.
 */
#include "pull/copy_watch.h"

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/vec.h"
#include "change/watcher.h"
#include "git/inotify.h"
#include "git/objects.h"
#include "git/sound_files.h"
#include "pull/copy_record.h"
#include "replicable/name.h"
#include "upkeep/copies_root.h"

#define GATHER_MS 50
#define GATHER_SHARE 20 /* of what the last look at all watches took */
#define REST_MS 100     /* of a copy that changed: by then its stamps prove something */
#define SHARED_REST_MS 2000 /* who writes to what others share is done by then */
#define BUSY_MS 250         /* doubled with each try ... */
#define BUSY_MAX_MS 5000
#define YOUNG_TRIES 6 /* a file server's clock may be ahead of ours for good */
#define PAGE 500
#define DIRECTORIES_EACH 1024
#define SCAN_INTERVAL_MS 60000

/* A copy, or a folder on the way to some. */
struct watched {
	char *below; /* its path below the root; owned */
	char *name;  /* of a copy; owned; NULL: a folder */
	struct inotify_watch *watch;
	uint64_t epoch;
	uint64_t scan; /* the last that met it */
	bool is_watched;
	/* Of a copy: */
	dev_t device; /* of the directory that is watched */
	ino_t inode;
	bool is_suspect; /* in the watch's list of them */
	TAILQ_ENTRY(watched) suspect;
	unsigned tries;
	int64_t look_at; /* boot ms; of a suspect */
};
TAILQ_HEAD(watched_list, watched);

struct copy_watch {
	pthread_mutex_t mutex;
	/* Guarded by mutex: */
	text_list reported;      /* names */
	struct watcher *watcher; /* NULL: it has ended */
	/* Any thread: */
	atomic_bool has_looked; /* at each copy, since the start */
	/* The watcher's thread only: */
	struct pull *pull;
	struct inotify *inotify; /* NULL: none */
	struct map places;       /* path below the root -> struct watched, owned */
	struct watched_list suspects;
	uint64_t scans;
	uint64_t failures; /* of shared files, that were taken up */
	int64_t gather_ms; /* before events are looked at */
	bool reported_limit, reported_failure;
};

/* A look that is due sooner stays so: what changes all the time is looked at, too. */
static void copy_watch_suspect_copy(struct copy_watch *watch, struct watched *copy,
				    int64_t rest_ms)
{
	int64_t look_at = clock_boot_ms() + rest_ms;

	if (!copy->is_suspect || look_at < copy->look_at)
		copy->look_at = look_at;
	copy->tries = 0;
	if (copy->is_suspect)
		return;
	copy->is_suspect = true;
	TAILQ_INSERT_TAIL(&watch->suspects, copy, suspect);
}

static void copy_watch_clear_copy(struct copy_watch *watch, struct watched *copy)
{
	if (!copy->is_suspect)
		return;
	copy->is_suspect = false;
	TAILQ_REMOVE(&watch->suspects, copy, suspect);
}

/* name NULL: a folder. */
static struct watched *place_at(struct copy_watch *watch, const char *below,
				const char *name)
{
	struct watched *place = map_get(&watch->places, below);

	if (place)
		return place;
	place = xcalloc(1, sizeof(*place));
	place->below = xstrdup(below);
	place->name = name ? xstrdup(name) : NULL;
	map_put(&watch->places, below, place);
	return place;
}

static struct watched *copy_of(struct copy_watch *watch, const char *name)
{
	AUTO_FREE char *below = name_to_path(name);

	return place_at(watch, below, name);
}

static void drop_place(struct copy_watch *watch, struct watched *place)
{
	copy_watch_clear_copy(watch, place);
	inotify_disarm(place->watch);
	free(place->below);
	free(place->name);
	free(place);
}

/* The next copy, or folder; NULL at the end. */
static struct watched *next_place(const struct copy_watch *watch, bool is_copy,
				  size_t *at)
{
	const struct map_entry *entry;

	while ((entry = map_next(&watch->places, at)) != NULL)
		if ((((struct watched *)entry->value)->name != NULL) == is_copy)
			return entry->value;
	return NULL;
}

static int open_place(const struct copy_watch *watch, const struct watched *place)
{
	AUTO_FREE char *path =
		xasprintf("%s/%s", watch->pull->options.here->root, place->below);

	return dir_open(AT_FDCWD, path, ERR_IGNORED);
}

/* Another directory may stand there by now: inotify_arm_folder() looks. What cannot be
 * watched is left to the scans, which meet every copy. */
static void note_folder(struct copy_watch *watch, const char *path)
{
	struct watched *folder = place_at(watch, path, NULL);

	if (folder->scan == watch->scans && folder->is_watched)
		return;
	folder->scan = watch->scans;
	if (folder->is_watched && inotify_epoch(folder->watch) != folder->epoch)
		return; /* to be heard of first */
	AUTO_CLOSE int dir = open_place(watch, folder);
	folder->is_watched =
		dir >= 0 && inotify_arm_folder(watch->inotify, dir, &folder->watch,
					       &folder->epoch, ERR_IGNORED) == 0;
}

/* Watches those above the copy; each at most once a scan, unless it was lost. */
static void note_folders_above(struct copy_watch *watch, const struct watched *copy)
{
	AUTO_FREE char *path = xstrdup(copy->below);
	char *slash;

	while (watch->inotify && (slash = strrchr(path, '/')) != NULL) {
		*slash = '\0';
		note_folder(watch, path);
	}
}

/* Appends those that were moved, deleted or given other rights since they were met. They
 * are lost until they are met again. After inotify_drain(). */
static void hear_folders(struct copy_watch *watch, text_list *changed)
{
	struct watched *folder;
	size_t at = 0;

	while ((folder = next_place(watch, false, &at)) != NULL) {
		if (!folder->is_watched ||
		    inotify_drained_epoch(folder->watch) == folder->epoch)
			continue;
		folder->is_watched = false;
		vec_add(changed, xstrdup(folder->below));
	}
}

/* Whether the copy stands below one of these. */
static bool is_below(const text_list *folders, const struct watched *copy)
{
	for (size_t i = 0; i < folders->count; i++)
		if (path_is_within(copy->below, folders->items[i]))
			return true;
	return false;
}

static void report_limit(struct copy_watch *watch, const struct err *err)
{
	if (watch->reported_limit)
		return;
	watch->reported_limit = true;
	log_warn("copy_watch.limit", LOG_ERR(err), LOG_TEXT("remedy", err->remedy));
}

/* Before it is judged. */
static void copy_watch_arm_copy(struct copy_watch *watch, struct watched *copy, int dir)
{
	struct stat st;
	struct err err;

	if (!watch->inotify || fstat(dir, &st) != 0)
		return;
	copy->is_watched =
		inotify_arm(watch->inotify, dir, &copy->watch, &copy->epoch, &err) == 0;
	copy->device = st.st_dev;
	copy->inode = st.st_ino;
	if (!copy->is_watched && err.class != ERR_BUSY)
		report_limit(watch, &err);
}

/* Not so when a folder on the way was moved before it could be watched. */
static bool is_watched_at(const struct watched *copy, int dir)
{
	struct stat st;

	return copy->is_watched && dir >= 0 && fstat(dir, &st) == 0 &&
	       st.st_dev == copy->device && st.st_ino == copy->inode;
}

/* One whose copy is not there is judged all the same: somebody may have removed it. */
static void arm_and_suspect(struct copy_watch *watch, struct watched *copy)
{
	note_folders_above(watch, copy);
	AUTO_CLOSE int dir = open_place(watch, copy);

	if (dir >= 0)
		copy_watch_arm_copy(watch, copy, dir);
	copy_watch_suspect_copy(watch, copy, REST_MS);
}

/* Whatever removed them. A copy without hooks is told once. */
static void copy_watch_check_hooks(const struct copy_watch *watch,
				   const struct watched *copy, int dir)
{
	const struct hook_place *hooks = watch->pull->options.hooks;
	struct hook_look look;
	struct err err;

	if (!hooks ||
	    (hook_look(dir, hooks, &look, &err) == 0 &&
	     hook_look_state(&look, hooks) == HOOK_INSTALLED) ||
	    hook_install(dir, hooks, &err) == 0 || copy->scan > 0)
		return;
	log_warn("copy.no_hooks", LOG_TEXT("repo", copy->name), LOG_ERR(&err),
		 LOG_TEXT("remedy", err.remedy));
}

static void copy_watch_visit_copy(struct copy_watch *watch, const char *name)
{
	struct watched *copy = copy_of(watch, name);

	note_folders_above(watch, copy);
	AUTO_CLOSE int dir = open_place(watch, copy);
	bool was_watched = is_watched_at(copy, dir);
	if (dir >= 0) {
		copy_watch_check_hooks(watch, copy, dir);
		if (!was_watched)
			copy_watch_arm_copy(watch, copy, dir);
	}
	if (copy->scan == 0 || !was_watched)
		copy_watch_suspect_copy(watch, copy, 0);
	copy->scan = watch->scans;
}

static void copy_watch_report_failure(struct copy_watch *watch, const struct err *err)
{
	if (!watch->reported_failure)
		log_warn("copy_watch.failed", LOG_ERR(err));
	watch->reported_failure = true;
}

static void postpone(struct watched *copy)
{
	int64_t wait_ms = BUSY_MS << (copy->tries < 5 ? copy->tries : 5);

	copy->tries++;
	copy->look_at = clock_boot_ms() + (wait_ms < BUSY_MAX_MS ? wait_ms : BUSY_MAX_MS);
}

/* What is damaged where it is shared is so in each copy with it, and only the name that
 * was written through is watched for that. */
static void copy_watch_suspect_all(struct copy_watch *watch, int64_t rest_ms)
{
	struct watched *copy;
	size_t at = 0;

	while ((copy = next_place(watch, true, &at)) != NULL)
		copy_watch_suspect_copy(watch, copy, rest_ms);
}

static bool copy_watch_is_shared(const struct copy_watch *watch,
				 const struct watched *copy)
{
	AUTO_CLOSE int dir = open_place(watch, copy);
	AUTO_OBJECT_FILES object_files files = { 0 };

	if (dir < 0 || object_files_take(dir, &files, ERR_IGNORED) != 0)
		return false;
	for (size_t i = 0; i < files.count; i++)
		if (files.items[i].stat.st_nlink > 1)
			return true;
	return false;
}

static int copy_watch_inspect_copy(struct copy_watch *watch, struct watched *copy,
				   struct err *err)
{
	enum copy_verdict verdict = COPY_BUSY;

	if (copy_judge(watch->pull, copy->name, &verdict, err) != 0)
		return -1;
	if (verdict == COPY_BUSY || (verdict == COPY_YOUNG && copy->tries < YOUNG_TRIES))
		postpone(copy);
	else
		copy_watch_clear_copy(watch, copy);
	if (verdict != COPY_CHANGED)
		return 0;
	if (copy_watch_is_shared(watch, copy))
		copy_watch_suspect_all(watch, SHARED_REST_MS);
	if (copy_doubt(watch->pull, copy->name, err) == 0)
		return 0;
	copy_watch_suspect_copy(watch, copy, 0);
	return -1;
}

static void look_at_suspect(struct copy_watch *watch, struct watched *copy)
{
	struct err err;

	if (copy_watch_inspect_copy(watch, copy, &err) == 0) {
		watch->reported_failure = false;
		return;
	}
	copy_watch_report_failure(watch, &err);
	postpone(copy);
}

static void look_at_suspects(struct copy_watch *watch, const struct stop *stop)
{
	int64_t now = clock_boot_ms();
	struct watched *copy, *next;
	size_t looks = 0;

	for (copy = TAILQ_FIRST(&watch->suspects); copy && !stop_is_requested(stop);
	     copy = next) {
		next = TAILQ_NEXT(copy, suspect);
		if (copy->look_at > now)
			continue;
		look_at_suspect(watch, copy);
		looks++;
	}
	if (looks > 0 && TAILQ_EMPTY(&watch->suspects))
		log_debug("copy_watch.settled", LOG_NUMBER("copies", looks));
}

/* Directories may have come: they are armed anew. The folders above a copy are in the map
 * as long as it is, so this adds none. */
static void copy_watch_drain_events(struct copy_watch *watch)
{
	int64_t started = clock_boot_ms();
	text_list changed = { 0 };
	struct watched *copy;
	size_t at = 0;

	if (!watch->inotify)
		return;
	inotify_drain(watch->inotify);
	hear_folders(watch, &changed);
	while ((copy = next_place(watch, true, &at)) != NULL)
		if ((copy->is_watched &&
		     inotify_drained_epoch(copy->watch) != copy->epoch) ||
		    is_below(&changed, copy))
			arm_and_suspect(watch, copy);
	text_list_clear(&changed);
	watch->gather_ms = (clock_boot_ms() - started) * GATHER_SHARE;
	if (watch->gather_ms < GATHER_MS)
		watch->gather_ms = GATHER_MS;
}

/* 1: more may follow. */
static int scan_page(struct copy_watch *watch, const struct stop *stop, char **after,
		     struct err *err)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	const struct registry_filter filter = { .kind = KIND_REPOSITORY,
						.after = *after,
						.limit = PAGE,
						.state = REGISTRY_ANY };

	if (registry_list(watch->pull->options.store, &filter, &rows, err) != 0)
		return -1;
	for (size_t i = 0; i < rows.count && !stop_is_requested(stop); i++)
		copy_watch_visit_copy(watch, rows.items[i].name);
	if (rows.count < PAGE)
		return 0;
	free(*after);
	*after = xstrdup(rows.items[PAGE - 1].name);
	return 1;
}

static void drop_unmet(struct copy_watch *watch)
{
	const struct map_entry *entry;
	text_list unmet = { 0 };
	size_t at = 0;

	while ((entry = map_next(&watch->places, &at)) != NULL)
		if (((struct watched *)entry->value)->scan != watch->scans)
			vec_add(&unmet, xstrdup(entry->key));
	for (size_t i = 0; i < unmet.count; i++)
		drop_place(watch, map_remove(&watch->places, unmet.items[i]));
	text_list_clear(&unmet);
}

static void copy_watch_show(size_t watched)
{
	struct metric *copies =
		metric_gauge("refrelay_watched_copies",
			     "Copies whose changes by others inotify tells.");

	metric_set(metric_at(copies), (double)watched);
}

static void report_scanned(const struct copy_watch *watch, int64_t took_ms)
{
	size_t at = 0, count = 0, watched = 0;
	const struct watched *copy;

	while ((copy = next_place(watch, true, &at)) != NULL) {
		count++;
		watched += copy->is_watched;
	}
	copy_watch_show(watched);
	log_debug("copy_watch.scanned", LOG_NUMBER("dur_ms", took_ms),
		  LOG_NUMBER("copies", count), LOG_NUMBER("watched", watched));
}

static int copy_watch_scan(void *arg, const struct watcher_scan *scan, struct err *err)
{
	struct copy_watch *watch = arg;
	const struct stop *stop = watcher_stop_of(scan->watcher);
	int64_t started = clock_boot_ms();
	AUTO_FREE char *after = NULL;
	int more;

	watch->scans++;
	if (watch->pull->options.here->root)
		copies_root_keep_mounts(watch->pull->options.store, KIND_REPOSITORY,
					watch->pull->options.here->root, ERR_IGNORED);
	do {
		more = scan_page(watch, stop, &after, err);
		copy_watch_drain_events(watch);
		look_at_suspects(watch, stop);
	} while (more > 0 && !stop_is_requested(stop));
	if (more == 0 && !stop_is_requested(stop)) {
		drop_unmet(watch);
		if (!atomic_exchange(&watch->has_looked, true))
			bell_ring();
	}
	report_scanned(watch, clock_boot_ms() - started);
	return more < 0 ? -1 : 0;
}

static void copy_watch_failed(void *arg, size_t kind, const struct err *err)
{
	(void)kind;
	copy_watch_report_failure(arg, err);
}

static void copy_watch_take_reported(struct copy_watch *watch)
{
	lock(&watch->mutex);
	text_list reported = watch->reported;
	watch->reported = (text_list){ 0 };
	unlock(&watch->mutex);
	for (size_t i = 0; i < reported.count; i++) {
		struct watched *copy = copy_of(watch, reported.items[i]);
		AUTO_CLOSE int dir = open_place(watch, copy);
		if (is_watched_at(copy, dir)) {
			copy_watch_suspect_copy(watch, copy, REST_MS);
			continue;
		}
		inotify_retry(copy->watch);
		arm_and_suspect(watch, copy);
	}
	text_list_clear(&reported);
}

static void copy_watch_take_failures(struct copy_watch *watch)
{
	const uint64_t failures = sound_file_failures();

	if (failures != watch->failures)
		copy_watch_suspect_all(watch, 0);
	watch->failures = failures;
}

static void copy_watch_tend(void *arg, const struct stop *stop)
{
	copy_watch_take_reported(arg);
	copy_watch_take_failures(arg);
	look_at_suspects(arg, stop);
}

static int64_t copy_watch_due(void *arg)
{
	const struct copy_watch *watch = arg;
	const struct watched *copy;
	int64_t due = INT64_MAX;

	TAILQ_FOREACH(copy, &watch->suspects, suspect)
	{
		if (copy->look_at < due)
			due = copy->look_at;
	}
	return due;
}

static void copy_watch_hear(void *arg, const struct stop *stop)
{
	struct copy_watch *watch = arg;

	if (!stop_wait(stop, watch->gather_ms))
		copy_watch_drain_events(watch);
}

struct copy_watch *copy_watch_start(struct pull *pull)
{
	static const struct watcher_ops ops = {
		.scan = copy_watch_scan,
		.failed = copy_watch_failed,
		.tend = copy_watch_tend,
		.due = copy_watch_due,
		.hear = copy_watch_hear,
	};
	static const char *const not_watched[] = { NULL };
	const struct inotify_limits limits = { .scope = INOTIFY_COPY,
					       .directories_each = DIRECTORIES_EACH };
	int64_t interval_ms = pull->options.scan_interval_ms;

	copy_watch_show(0);
	copy_record_count_changes(0);
	struct copy_watch *watch = xcalloc(1, sizeof(*watch));
	struct err err;

	mutex_init(&watch->mutex);
	TAILQ_INIT(&watch->suspects);
	watch->pull = pull;
	watch->gather_ms = GATHER_MS;
	watch->inotify = inotify_open(&limits, &err);
	if (!watch->inotify)
		report_limit(watch, &err);
	watch->watcher = watcher_start(&(struct watcher_options){
		.ops = &ops,
		.arg = watch,
		.thread = "copy-watch",
		.interval_ms = interval_ms > 0 ? interval_ms : SCAN_INTERVAL_MS,
		.roots = not_watched,
		.root_count = ARRAY_SIZE(not_watched),
		.descriptor = watch->inotify ? inotify_descriptor(watch->inotify) : -1 });
	return watch;
}

void copy_watch_stop(struct copy_watch *watch)
{
	if (!watch)
		return;
	lock(&watch->mutex);
	struct watcher *watcher = TAKE(watch->watcher);
	unlock(&watch->mutex);
	watcher_stop(watcher);
}

void copy_watch_free(struct copy_watch *watch)
{
	const struct map_entry *entry;
	size_t at = 0;

	if (!watch)
		return;
	while ((entry = map_next(&watch->places, &at)) != NULL)
		drop_place(watch, entry->value);
	map_clear(&watch->places);
	inotify_close(watch->inotify);
	text_list_clear(&watch->reported);
	pthread_mutex_destroy(&watch->mutex);
	free(watch);
}

bool copy_watch_has_looked(const struct copy_watch *watch)
{
	return !watch || atomic_load(&watch->has_looked);
}

void copy_watch_report(struct copy_watch *watch, const char *name)
{
	if (!watch)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&watch->mutex);
	vec_add(&watch->reported, xstrdup(name));
	if (watch->watcher)
		watcher_nudge(watch->watcher);
}
