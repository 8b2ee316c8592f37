/*
 * A copy is watched before it is judged: what changes meanwhile is told. Events of our
 * own syncs come, too; a copy is judged again until no sync is at work on it.
 *
 * What cannot be watched, on network file systems and above the kernel's limit, is judged
 * by each scan. Scans keep to their share of a core, as those of a primary do.
 */
#include "pull/copy_watch.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/map.h"
#include "base/metrics.h"
#include "base/vec.h"
#include "change/watcher.h"
#include "git/inotify.h"
#include "replicable/name.h"

struct copy_folders {
	const char *root;        /* borrowed */
	struct inotify *inotify; /* borrowed; NULL: nothing is watched */
	struct map folders;      /* path below the root -> struct folder, owned */
};

typedef VEC(char *) copy_folder_list; /* paths below the root, owned */

struct folder {
	struct inotify_watch *watch;
	uint64_t epoch;
	uint64_t scan; /* the last that met it */
	bool is_watched;
};

static void copy_folders_drop_folder(struct folder *folder)
{
	inotify_disarm(folder->watch);
	free(folder);
}

static struct folder *folder_of(struct copy_folders *folders, const char *path)
{
	struct folder *folder = map_get(&folders->folders, path);

	if (folder)
		return folder;
	folder = xcalloc(1, sizeof(*folder));
	map_put(&folders->folders, path, folder);
	return folder;
}

/* Another directory may stand there by now: inotify_arm_folder() looks. What cannot be
 * watched is left to the scans, which meet every copy. */
static void copy_folders_note_folder(struct copy_folders *folders, const char *path,
				     uint64_t scan)
{
	struct folder *folder = folder_of(folders, path);
	AUTO_FREE char *full = xasprintf("%s/%s", folders->root, path);

	if (folder->scan == scan && folder->is_watched)
		return;
	folder->scan = scan;
	if (folder->is_watched && inotify_epoch(folder->watch) != folder->epoch)
		return; /* to be heard of first */
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, full, ERR_IGNORED);
	folder->is_watched =
		dir >= 0 && inotify_arm_folder(folders->inotify, dir, &folder->watch,
					       &folder->epoch, ERR_IGNORED) == 0;
}

/* Watches those above the copy at this path below the root; each at most once a scan,
 * unless it was lost. */
static void copy_folders_meet(struct copy_folders *folders, const char *below,
			      uint64_t scan)
{
	AUTO_FREE char *path = xstrdup(below);
	char *slash;

	while (folders->inotify && (slash = strrchr(path, '/')) != NULL) {
		*slash = '\0';
		copy_folders_note_folder(folders, path, scan);
	}
}

/* Appends those that were moved, deleted or given other rights since they were met. They
 * are lost until they are met again. After inotify_drain(). */
static void copy_folders_hear(struct copy_folders *folders, copy_folder_list *changed)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(&folders->folders, &at)) != NULL) {
		struct folder *folder = entry->value;
		if (!folder->is_watched || inotify_epoch(folder->watch) == folder->epoch)
			continue;
		folder->is_watched = false;
		vec_add(changed, xstrdup(entry->key));
	}
}

/* Whether the copy stands below one of these. */
static bool copy_folders_has(const copy_folder_list *list, const char *below)
{
	for (size_t i = 0; i < list->count; i++)
		if (text_starts_with(below, list->items[i]) &&
		    below[strlen(list->items[i])] == '/')
			return true;
	return false;
}

static void copy_folder_list_clear(copy_folder_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	vec_clear(list);
}

/* Forgets those that this scan did not meet. */
static void copy_folders_drop_unmet(struct copy_folders *folders, uint64_t scan)
{
	const struct map_entry *entry;
	copy_folder_list unmet = { 0 };
	size_t at = 0;

	while ((entry = map_next(&folders->folders, &at)) != NULL)
		if (((struct folder *)entry->value)->scan != scan)
			vec_add(&unmet, xstrdup(entry->key));
	for (size_t i = 0; i < unmet.count; i++)
		copy_folders_drop_folder(map_remove(&folders->folders, unmet.items[i]));
	copy_folder_list_clear(&unmet);
}

static void copy_folders_clear(struct copy_folders *folders)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(&folders->folders, &at)) != NULL)
		copy_folders_drop_folder(entry->value);
	map_clear(&folders->folders);
}

#define GATHER_MS 50
#define GATHER_SHARE 20 /* of what the last look at all watches took */
#define BUSY_MS 250     /* doubled with each try ... */
#define BUSY_MAX_MS 5000
#define YOUNG_TRIES 6 /* a file server's clock may be ahead of ours for good */
#define PAGE 500
#define DIRECTORIES_EACH 1024
#define SCAN_INTERVAL_MS 60000

struct watched {
	char *name;  /* owned */
	char *below; /* its path below the root; owned */
	struct inotify_watch *watch;
	dev_t device; /* of the directory that is watched */
	ino_t inode;
	uint64_t epoch;
	uint64_t scan; /* the last that met it */
	bool is_watched, is_suspect;
	unsigned tries;
	int64_t look_at; /* boot ms; of a suspect */
};

typedef VEC(char *) name_list; /* owned */

struct copy_watch {
	pthread_mutex_t mutex;
	/* Guarded by mutex: */
	name_list reported;
	struct watcher *watcher; /* NULL: it has ended */
	/* The watcher's thread only: */
	struct pull *pull;
	struct inotify *inotify; /* NULL: none */
	struct map copies;       /* name -> struct watched, owned */
	struct copy_folders folders;
	uint64_t scans;
	int64_t gather_ms; /* before events are looked at */
	bool reported_limit, reported_failure;
};

static void names_clear(name_list *names)
{
	for (size_t i = 0; i < names->count; i++)
		free(names->items[i]);
	vec_clear(names);
}

static void copy_watch_suspect_copy(struct watched *copy)
{
	copy->is_suspect = true;
	copy->tries = 0;
	copy->look_at = 0;
}

static struct watched *copy_of(struct copy_watch *watch, const char *name)
{
	struct watched *copy = map_get(&watch->copies, name);

	if (copy)
		return copy;
	copy = xcalloc(1, sizeof(*copy));
	copy->name = xstrdup(name);
	copy->below = name_to_path(name);
	map_put(&watch->copies, name, copy);
	return copy;
}

static void copy_watch_drop_copy(struct watched *copy)
{
	inotify_disarm(copy->watch);
	free(copy->name);
	free(copy->below);
	free(copy);
}

static int copy_watch_open_copy(const struct copy_watch *watch,
				const struct watched *copy)
{
	AUTO_FREE char *path = xasprintf("%s/%s", watch->pull->options.root, copy->below);

	return dir_open(AT_FDCWD, path, ERR_IGNORED);
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
	copy_folders_meet(&watch->folders, copy->below, watch->scans);
	AUTO_CLOSE int dir = copy_watch_open_copy(watch, copy);

	if (dir >= 0)
		copy_watch_arm_copy(watch, copy, dir);
	copy_watch_suspect_copy(copy);
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

	copy_folders_meet(&watch->folders, copy->below, watch->scans);
	AUTO_CLOSE int dir = copy_watch_open_copy(watch, copy);
	bool was_watched = is_watched_at(copy, dir);
	if (dir >= 0) {
		copy_watch_check_hooks(watch, copy, dir);
		if (!was_watched)
			copy_watch_arm_copy(watch, copy, dir);
	}
	if (copy->scan == 0 || !was_watched)
		copy_watch_suspect_copy(copy);
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

static int copy_watch_inspect_copy(struct copy_watch *watch, struct watched *copy,
				   struct err *err)
{
	enum copy_verdict verdict = COPY_BUSY;

	if (copy_judge(watch->pull, copy->name, &verdict, err) != 0)
		return -1;
	copy->is_suspect = verdict == COPY_BUSY ||
			   (verdict == COPY_YOUNG && copy->tries < YOUNG_TRIES);
	if (copy->is_suspect)
		postpone(copy);
	return verdict == COPY_CHANGED ? copy_doubt(watch->pull, copy->name, err) : 0;
}

static void look_at_suspects(struct copy_watch *watch, const struct stop *stop)
{
	const struct map_entry *entry;
	int64_t now = clock_boot_ms();
	size_t at = 0;
	struct err err;

	while ((entry = map_next(&watch->copies, &at)) != NULL) {
		struct watched *copy = entry->value;
		if (!copy->is_suspect || copy->look_at > now || stop_is_requested(stop))
			continue;
		if (copy_watch_inspect_copy(watch, copy, &err) == 0) {
			watch->reported_failure = false;
			continue;
		}
		copy_watch_report_failure(watch, &err);
		copy->is_suspect = true;
		postpone(copy);
	}
}

/* Directories may have come: they are armed anew. */
static void copy_watch_drain_events(struct copy_watch *watch)
{
	const struct map_entry *entry;
	int64_t started = clock_boot_ms();
	copy_folder_list changed = { 0 };
	size_t at = 0;

	if (!watch->inotify)
		return;
	inotify_drain(watch->inotify);
	copy_folders_hear(&watch->folders, &changed);
	while ((entry = map_next(&watch->copies, &at)) != NULL) {
		struct watched *copy = entry->value;
		if ((copy->is_watched && inotify_epoch(copy->watch) != copy->epoch) ||
		    copy_folders_has(&changed, copy->below))
			arm_and_suspect(watch, copy);
	}
	copy_folder_list_clear(&changed);
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
	name_list unmet = { 0 };
	size_t at = 0;

	while ((entry = map_next(&watch->copies, &at)) != NULL)
		if (((struct watched *)entry->value)->scan != watch->scans)
			vec_add(&unmet, xstrdup(entry->key));
	for (size_t i = 0; i < unmet.count; i++)
		copy_watch_drop_copy(map_remove(&watch->copies, unmet.items[i]));
	names_clear(&unmet);
	copy_folders_drop_unmet(&watch->folders, watch->scans);
}

static size_t count_watched(const struct copy_watch *watch)
{
	const struct map_entry *entry;
	size_t at = 0, count = 0;

	while ((entry = map_next(&watch->copies, &at)) != NULL)
		count += ((const struct watched *)entry->value)->is_watched;
	return count;
}

static void report_scanned(const struct copy_watch *watch, int64_t took_ms)
{
	struct metric *copies =
		metric_gauge("refrelay_watched_copies",
			     "Copies whose changes by others inotify tells.");
	size_t watched = count_watched(watch);

	metric_set(metric_at(copies), (double)watched);
	log_debug("copy_watch.scanned", LOG_NUMBER("dur_ms", took_ms),
		  LOG_NUMBER("copies", watch->copies.count),
		  LOG_NUMBER("watched", watched));
}

static int copy_watch_scan(void *arg, const struct watcher_scan *scan, struct err *err)
{
	struct copy_watch *watch = arg;
	const struct stop *stop = watcher_stop_of(scan->watcher);
	int64_t started = clock_boot_ms();
	AUTO_FREE char *after = NULL;
	int more;

	watch->scans++;
	do {
		more = scan_page(watch, stop, &after, err);
		copy_watch_drain_events(watch);
		look_at_suspects(watch, stop);
	} while (more > 0 && !stop_is_requested(stop));
	if (more == 0 && !stop_is_requested(stop))
		drop_unmet(watch);
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
	name_list reported = watch->reported;
	watch->reported = (name_list){ 0 };
	unlock(&watch->mutex);
	for (size_t i = 0; i < reported.count; i++) {
		struct watched *copy = copy_of(watch, reported.items[i]);
		inotify_retry(copy->watch);
		arm_and_suspect(watch, copy);
	}
	names_clear(&reported);
}

static void copy_watch_tend(void *arg, const struct stop *stop)
{
	copy_watch_take_reported(arg);
	look_at_suspects(arg, stop);
}

static int64_t copy_watch_due(void *arg)
{
	const struct copy_watch *watch = arg;
	const struct map_entry *entry;
	int64_t due = INT64_MAX;
	size_t at = 0;

	while ((entry = map_next(&watch->copies, &at)) != NULL) {
		const struct watched *copy = entry->value;
		if (copy->is_suspect && copy->look_at < due)
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
	static const struct blob_kind *const no_blobs[] = { NULL };
	const struct inotify_limits limits = { .scope = INOTIFY_COPY,
					       .directories_each = DIRECTORIES_EACH };
	int64_t interval_ms = pull->options.scan_interval_ms;
	struct copy_watch *watch = xcalloc(1, sizeof(*watch));
	struct err err;

	mutex_init(&watch->mutex);
	watch->pull = pull;
	watch->gather_ms = GATHER_MS;
	watch->inotify = inotify_open(&limits, &err);
	if (!watch->inotify)
		report_limit(watch, &err);
	watch->folders.root = pull->options.root;
	watch->folders.inotify = watch->inotify;
	watch->watcher = watcher_start(&(struct watcher_options){
		.ops = &ops,
		.arg = watch,
		.thread = "copy-watch",
		.interval_ms = interval_ms > 0 ? interval_ms : SCAN_INTERVAL_MS,
		.kinds = no_blobs,
		.kind_count = ARRAY_SIZE(no_blobs),
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
	while ((entry = map_next(&watch->copies, &at)) != NULL)
		copy_watch_drop_copy(entry->value);
	map_clear(&watch->copies);
	copy_folders_clear(&watch->folders);
	inotify_close(watch->inotify);
	names_clear(&watch->reported);
	pthread_mutex_destroy(&watch->mutex);
	free(watch);
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
