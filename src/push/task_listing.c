/*
 * Keeping the index as waiting/ is. A listing is compared with the index by names and
 * inode numbers; only files that are new are opened.
 *
 * claim needs to know what came since. The directory's mtime tells that nothing came,
 * but only if it had been the same for longer than its clock's grain before the listing
 * began; and a listing of very many names is not worth each claim, so that one may miss
 * what inotify or the next round brings.
 */
#include <dirent.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "push/task_parts.h"

enum {
	GRAIN_MS = 1100,
	CHEAP_MS = 5,
	CHEAP_NAMES = 1000, /* whatever it took: the machine was busy */
	DEAR_TIMES = 20,
	DEAR_LEAST_MS = 1000,
};

void store_notice_name(struct task_store *store, int dir, const char *name,
		       bool may_be_torn)
{
	uint64_t births = task_index_births(&store->index);
	AUTO_TASK struct task task = { 0 };
	struct stat st;
	struct err err;

	if (!is_store_name(name))
		return;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || S_ISDIR(st.st_mode)) {
		task_index_drop(&store->index, name, births);
		return;
	}
	if (task_index_knows(&store->index, name, st.st_ino, stat_ms(&st)))
		return;
	if (store_read_task(dir, name, &task, &st, &err) == 0) {
		task_index_put(&store->index, name, &st, &task);
		return;
	}
	if (err.class == ERR_MISSING)
		task_index_drop(&store->index, name, births);
	else if (!is_no_task(&err))
		store_note_trouble(store, name, &err);
	else if (!may_be_torn)
		store_set_aside(store, dir, name, &err);
}

void task_store_look(struct task_store *store, const char *name, waiting_uri_seen seen,
		     void *arg)
{
	AUTO_CLOSE int dir = store_dir(store, WAITING, ERR_IGNORED);

	if (dir >= 0)
		store_notice_name(store, dir, name, false);
	task_index_report(&store->index, seen, arg);
}

struct listed {
	listed_names names;
	struct str texts;
	bool found_dirs;
};

static void listed_clear(struct listed *listed)
{
	vec_clear(&listed->names);
	str_clear(&listed->texts);
}

static bool task_listing_is_directory(int dir, const struct dirent *entry)
{
	struct stat st;

	return entry->d_type == DT_DIR ||
	       (entry->d_type == DT_UNKNOWN &&
		fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		S_ISDIR(st.st_mode));
}

static int task_listing_read_names(int dir, struct listed *listed, struct err *err)
{
	AUTO_CLOSEDIR DIR *list = dir_list(dir, ".");
	struct dirent *entry;

	if (!list)
		return err_errno(err, "cannot open waiting/ of the task store");
	while (errno = 0, (entry = readdir(list)) != NULL) {
		if (!is_store_name(entry->d_name))
			continue;
		if (task_listing_is_directory(dir, entry)) {
			listed->found_dirs = true;
			continue;
		}
		struct listed_name one = { listed->texts.len, entry->d_ino };
		vec_add(&listed->names, one);
		str_add_bytes(&listed->texts, entry->d_name, strlen(entry->d_name) + 1);
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list waiting/ of the task store");
}

static bool task_listing_same_time(struct timespec one, struct timespec other)
{
	return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

static void note_listing(struct task_store *store, struct timespec modified,
			 int64_t began_at, size_t names)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->index.mutex);
	struct listing *listing = &store->listing;

	if (listing->began_at == 0 ||
	    !task_listing_same_time(listing->modified, modified)) {
		listing->modified = modified;
		listing->modified_since = began_at;
	}
	listing->is_settled = began_at - listing->modified_since > GRAIN_MS;
	listing->began_at = began_at;
	listing->cost_ms = clock_boot_ms() - began_at;
	listing->is_cheap = listing->cost_ms < CHEAP_MS || names < CHEAP_NAMES;
}

bool store_listing_is_due(struct task_store *store)
{
	AUTO_CLOSE int dir = store_dir(store, WAITING, ERR_IGNORED);
	const struct listing *listing = &store->listing;
	struct stat st;

	if (dir < 0 || fstat(dir, &st) != 0)
		return true;

	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->index.mutex);
	int64_t age = clock_boot_ms() - listing->began_at;
	if (listing->began_at == 0)
		return true;
	if (listing->is_settled && task_listing_same_time(listing->modified, st.st_mtim))
		return false;
	return listing->is_cheap ||
	       (age > DEAR_LEAST_MS && age > DEAR_TIMES * listing->cost_ms);
}

int store_list_waiting(struct task_store *store, bool *found_dirs, struct err *err)
{
	__attribute__((
		cleanup(listed_clear))) struct listed listed = { .texts = STR_INIT };
	AUTO_CLOSE int dir = store_dir(store, WAITING, err);
	uint64_t births = task_index_births(&store->index);
	int64_t began_at = clock_boot_ms();
	listed_names unknown = { 0 };
	struct stat st;

	if (dir < 0)
		return -1;
	if (fstat(dir, &st) != 0)
		return err_errno(err, "cannot look at %s", store->paths[WAITING]);
	if (task_listing_read_names(dir, &listed, err) != 0)
		return -1;
	task_index_compare(&store->index, &listed.names, listed.texts.data, births,
			   &unknown);
	note_listing(store, st.st_mtim, began_at, listed.names.count);
	for (size_t i = 0; i < unknown.count; i++)
		store_notice_name(store, dir, listed.texts.data + unknown.items[i].at,
				  false);
	vec_clear(&unknown);
	*found_dirs = listed.found_dirs;
	return 0;
}

int task_store_list_running(struct task_store *store, running_uri_seen running, void *arg,
			    struct err *err)
{
	return store_adopt_running(store, running, arg, err);
}

int task_store_refresh(struct task_store *store, waiting_uri_seen seen,
		       running_uri_seen running, void *arg, struct err *err)
{
	bool found_dirs = false;

	store_watch_again(store);
	if (store_adopt_running(store, running, arg, err) != 0 ||
	    store_list_waiting(store, &found_dirs, err) != 0)
		return -1;
	if (found_dirs && (store_adopt_waiting(store, err) != 0 ||
			   store_list_waiting(store, &found_dirs, err) != 0))
		return -1;
	task_index_report(&store->index, seen, arg);
	return 0;
}
