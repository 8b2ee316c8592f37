#include "push/task_list.h"

#include <dirent.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "push/store_file.h"
#include "push/task_parts.h"

/*
 * Keeping the index as waiting/ is. A listing is compared with the index by names and
 * inode numbers; only files that are new are opened.
 *
 * claim needs to know what came since. The directory's mtime tells that nothing came,
 * but only if it had been the same for longer than its clock's grain before the listing
 * began; and a listing of very many names is not worth each claim, so that one may miss
 * what inotify or the next round brings.
 */

enum {
	GRAIN_MS = 1100,
	CHEAP_MS = 5,
	CHEAP_NAMES = 1000, /* whatever it took: the machine was busy */
	DEAR_TIMES = 20,
	DEAR_LEAST_MS = 1000,
};

/* Since it was met, somebody may have claimed it, and even done it. What is not there any
 * more must not seem to wait: its URI would rest for rescheduleDelay. Who claims it from
 * now on drops it. */
void store_note_task(struct task_store *store, int dir, const char *name,
		     const struct stat *st, const struct task *task)
{
	uint64_t births;
	struct stat now;

	task_index_put(&store->index, name, st, task);
	births = task_index_births(&store->index);
	if (fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) != 0)
		task_index_drop(&store->index, name, births);
}

void store_notice_name(struct task_store *store, int dir, const char *name,
		       bool may_be_torn)
{
	uint64_t births = task_index_births(&store->index);
	AUTO_TASK struct task task = { 0 };
	struct stat st;
	struct err err;

	if (!is_store_name(name))
		return;
	bool is_seen = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (is_seen ? S_ISDIR(st.st_mode) : errno == ENOENT) {
		task_index_drop(&store->index, name, births);
		return;
	}
	if (is_seen &&
	    task_index_knows(&store->index, name, st.st_ino, clock_ms(&st.st_mtim)))
		return;
	if (store_read_task(dir, name, &task, &st, &err) == 0) {
		store_note_task(store, dir, name, &st, &task);
		return;
	}
	if (err.class == ERR_MISSING)
		task_index_drop(&store->index, name, births);
	else if (!is_no_task(&err))
		store_note_trouble(store, name, &err);
	else if (!may_be_torn)
		store_set_aside(store, dir, name, &err);
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

static int task_listing_read_names(int dir, struct listed *listed, struct err *err)
{
	AUTO_CLOSEDIR DIR *list = dir_list(dir, ".");
	struct dirent *entry;

	if (!list)
		return err_errno(err, "cannot open waiting/ of the task store");
	while (errno = 0, (entry = readdir(list)) != NULL) {
		if (!is_store_name(entry->d_name))
			continue;
		if (dir_entry_is_directory(dir, entry)) {
			listed->found_dirs = true;
			continue;
		}
		struct listed_name one = { listed->texts.len, entry->d_ino };
		vec_add(&listed->names, one);
		str_add_bytes(&listed->texts, entry->d_name, strlen(entry->d_name) + 1);
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list waiting/ of the task store");
}

static void note_listing(struct task_store *store, struct timespec modified,
			 int64_t began_at, size_t names)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->index.mutex);
	struct listing *listing = &store->listing;

	if (listing->began_at == 0 || !clock_same_time(&listing->modified, &modified)) {
		listing->modified = modified;
		listing->modified_since = began_at;
	}
	listing->is_settled = began_at - listing->modified_since > GRAIN_MS;
	listing->began_at = began_at;
	listing->cost_ms = clock_boot_ms() - began_at;
	listing->is_cheap = listing->cost_ms < CHEAP_MS || names < CHEAP_NAMES;
}

static bool listing_is_due(struct task_store *store)
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
	if (listing->is_settled && clock_same_time(&listing->modified, &st.st_mtim))
		return false;
	return listing->is_cheap ||
	       (age > DEAR_LEAST_MS && age > DEAR_TIMES * listing->cost_ms);
}

/* With the store's listing_mutex. */
static int list_waiting_locked(struct task_store *store, bool *found_dirs,
			       struct err *err)
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

static bool was_listed_since(struct task_store *store, int64_t came_at)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->index.mutex);

	return store->listing.began_at > came_at;
}

/* Many claims may begin at once: each would hold all names in memory. */
int store_list_if_due(struct task_store *store, struct err *err)
{
	int64_t came_at = clock_boot_ms();
	bool found_dirs = false;

	if (!listing_is_due(store))
		return 0;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->listing_mutex);
	if (was_listed_since(store, came_at) || !listing_is_due(store))
		return 0;
	return list_waiting_locked(store, &found_dirs, err);
}

static int list_waiting(struct task_store *store, bool *found_dirs, struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->listing_mutex);

	return list_waiting_locked(store, found_dirs, err);
}

static void task_list_forget_trouble(struct task_store *store)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->index.mutex);

	map_clear(&store->index.troubled);
}

int task_store_refresh(struct task_store *store, waiting_uri_seen seen,
		       running_uri_seen running, void *arg, struct err *err)
{
	bool found_dirs = false;

	task_list_forget_trouble(store);
	store_watch_again(store);
	if (task_store_list_running(store, running, arg, err) != 0 ||
	    list_waiting(store, &found_dirs, err) != 0)
		return -1;
	if (found_dirs && (store_adopt_waiting(store, err) != 0 ||
			   list_waiting(store, &found_dirs, err) != 0))
		return -1;
	task_index_report(&store->index, seen, arg);
	return 0;
}

void task_index_init(struct task_index *index)
{
	*index = (struct task_index){ 0 };
	mutex_init(&index->mutex);
	TAILQ_INIT(&index->changed);
}

static void free_task(struct known_task *task)
{
	free(task->name);
	free(task->remote);
	free(task->project);
	free(task);
}

static void free_uri(struct known_uri *uri)
{
	free(uri->uri);
	free(uri);
}

void task_index_clear(struct task_index *index)
{
	const struct map_entry *entry;

	for (size_t at = 0; (entry = map_next(&index->tasks, &at)) != NULL;)
		free_task(entry->value);
	for (size_t at = 0; (entry = map_next(&index->uris, &at)) != NULL;)
		free_uri(entry->value);
	map_clear(&index->tasks);
	map_clear(&index->uris);
	map_clear(&index->troubles);
	map_clear(&index->troubled);
	pthread_mutex_destroy(&index->mutex);
}

static void set_changed(struct task_index *index, struct known_uri *uri)
{
	if (uri->is_changed)
		return;
	uri->is_changed = true;
	TAILQ_INSERT_TAIL(&index->changed, uri, changed);
}

static struct known_uri *need_uri(struct task_index *index, const char *text)
{
	struct known_uri *uri = map_get(&index->uris, text);

	if (uri)
		return uri;
	uri = xcalloc(1, sizeof(*uri));
	uri->uri = xstrdup(text);
	uri_key_of(text, uri->key);
	LIST_INIT(&uri->tasks);
	map_put(&index->uris, text, uri);
	return uri;
}

static void drop_locked(struct task_index *index, const char *name)
{
	struct known_task *task = map_remove(&index->tasks, name);

	if (!task)
		return;
	LIST_REMOVE(task, of_uri);
	task->uri->count--;
	if (task->uri->oldest == task)
		task->uri->oldest = NULL;
	set_changed(index, task->uri);
	free_task(task);
}

bool task_index_knows(struct task_index *index, const char *name, uint64_t inode,
		      int64_t since)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);
	const struct known_task *task = map_get(&index->tasks, name);

	return task && task->inode == inode && (since == 0 || task->since == since);
}

void task_index_put(struct task_index *index, const char *name, const struct stat *st,
		    const struct task *from)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);
	struct known_task *task = xcalloc(1, sizeof(*task));
	bool is_oldest;

	drop_locked(index, name);
	map_remove(&index->troubles, name);
	task->name = xstrdup(name);
	task->remote = xstrdup(from->remote);
	task->project = xstrdup(from->project);
	task->inode = st->st_ino;
	task->since = clock_ms(&st->st_mtim);
	task->birth = ++index->births;
	task->uri = need_uri(index, from->uri);
	is_oldest = task->uri->count == 0 ||
		    (task->uri->oldest && task->uri->oldest->since > task->since);
	if (is_oldest)
		task->uri->oldest = task;
	task->uri->count++;
	LIST_INSERT_HEAD(&task->uri->tasks, task, of_uri);
	map_put(&index->tasks, name, task);
	set_changed(index, task->uri);
}

void task_index_drop(struct task_index *index, const char *name, uint64_t births)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);
	const struct known_task *task = map_get(&index->tasks, name);

	map_remove(&index->troubles, name);
	if (task && task->birth <= births)
		drop_locked(index, name);
}

void task_index_names(struct task_index *index, const char *uri, text_list *names)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);
	const struct known_uri *known = map_get(&index->uris, uri);
	const struct known_task *task;

	if (!known)
		return;
	LIST_FOREACH(task, &known->tasks, of_uri)
	vec_add(names, xstrdup(task->name));
}

uint64_t task_index_births(struct task_index *index)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);

	return index->births;
}

static void drop_unmet_locked(struct task_index *index, uint64_t births)
{
	text_list gone = { 0 };
	const struct map_entry *entry;

	for (size_t at = 0; (entry = map_next(&index->tasks, &at)) != NULL;) {
		const struct known_task *task = entry->value;
		if (task->round != index->rounds && task->birth <= births)
			vec_add(&gone, task->name);
	}
	for (size_t i = 0; i < gone.count; i++)
		drop_locked(index, gone.items[i]);
	vec_clear(&gone);
}

void task_index_compare(struct task_index *index, const listed_names *listed,
			const char *texts, uint64_t births, listed_names *unknown)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);
	size_t met = 0;

	index->rounds++;
	for (size_t i = 0; i < listed->count; i++) {
		struct listed_name one = listed->items[i];
		struct known_task *task = map_get(&index->tasks, texts + one.at);
		if (task) {
			task->round = index->rounds;
			met++;
		}
		if (!task || task->inode != one.inode)
			vec_add(unknown, one);
	}
	if (met < index->tasks.count)
		drop_unmet_locked(index, births);
}

static struct known_task *oldest_locked(struct known_uri *uri)
{
	struct known_task *task;

	if (uri->oldest)
		return uri->oldest;
	LIST_FOREACH(task, &uri->tasks, of_uri)
	if (!uri->oldest || task->since < uri->oldest->since)
		uri->oldest = task;
	return uri->oldest;
}

static void report_locked(struct known_uri *uri, struct waiting_uri *waiting)
{
	const struct known_task *oldest = oldest_locked(uri);

	*waiting =
		(struct waiting_uri){ .uri = xstrdup(uri->uri),
				      .remote = xstrdup(oldest ? oldest->remote : ""),
				      .project = xstrdup(oldest ? oldest->project : ""),
				      .tasks = uri->count,
				      .since = oldest ? oldest->since : 0 };
	memcpy(waiting->uri_key, uri->key, sizeof(waiting->uri_key));
}

void task_store_report_all(struct task_store *store)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->index.mutex);
	const struct map_entry *entry;

	for (size_t at = 0; (entry = map_next(&store->index.uris, &at)) != NULL;)
		set_changed(&store->index, entry->value);
}

/* The next URI that changed; false: no more. */
static bool next_reported(struct task_index *index, struct waiting_uri *waiting)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);
	struct known_uri *uri = TAILQ_FIRST(&index->changed);

	if (!uri)
		return false;
	TAILQ_REMOVE(&index->changed, uri, changed);
	uri->is_changed = false;
	report_locked(uri, waiting);
	if (uri->count == 0) {
		map_remove(&index->uris, uri->uri);
		free_uri(uri);
	}
	return true;
}

void task_index_report(struct task_index *index, waiting_uri_seen seen, void *arg)
{
	struct waiting_uri waiting;

	/* Without the mutex: whoever is told may ask the index. */
	while (seen && next_reported(index, &waiting)) {
		seen(arg, &waiting);
		free(waiting.uri);
		free(waiting.remote);
		free(waiting.project);
	}
}

bool task_index_trouble(struct task_index *index, const char *name)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&index->mutex);

	map_put(&index->troubled, name, index);
	return map_put(&index->troubles, name, index) == NULL;
}

size_t task_store_troubled(struct task_store *store)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->index.mutex);

	return store->index.troubled.count;
}

enum { DIGEST_MAX = 256 };

static void task_seen_make_name(const char *project, char name[URI_KEY_SIZE])
{
	uri_key_of(project, name); /* the SHA-1 of a text, that is */
}

bool task_store_was_seen(struct task_store *store, const char *project,
			 const char *digest)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CLOSE int dir = store_dir(store, SEEN, ERR_IGNORED);
	char name[URI_KEY_SIZE];

	task_seen_make_name(project, name);
	return dir >= 0 && file_read(dir, name, DIGEST_MAX, &text, ERR_IGNORED) == 0 &&
	       strcmp(text.data, digest) == 0;
}

void task_store_note_seen(struct task_store *store, const char *project,
			  const char *digest)
{
	AUTO_STR struct str text = STR_INIT;
	char name[URI_KEY_SIZE];
	struct new_file file = { SEEN, name, &text, 0, FILE_NO_SYNC };

	task_seen_make_name(project, name);
	str_add(&text, digest);
	(void)store_put(store, &file, ERR_IGNORED);
}

void listed_tasks_clear(listed_tasks *tasks)
{
	for (size_t i = 0; i < tasks->count; i++)
		task_clear(&tasks->items[i].task);
	vec_clear(tasks);
}

struct listing_place {
	const char *path;
	bool is_running;
	listed_tasks *tasks;
	struct unreadable *unreadable;
};

/* What is gone meanwhile is left out. */
static void task_list_add_file(const struct listing_place *place, int dir,
			       const char *name)
{
	struct listed_task one = { .is_running = place->is_running };
	struct stat st;
	struct err err;

	if (store_read_task(dir, name, &one.task, &st, &err) != 0) {
		if (place->unreadable && err.class != ERR_MISSING &&
		    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
			vec_add(&place->unreadable->waiting, st.st_ino);
			unreadable_add(place->unreadable, place->path, name);
			place->unreadable->kept += !is_no_task(&err);
		}
		return;
	}
	snprintf(one.name, sizeof(one.name), "%s", name);
	one.since = clock_ms(&st.st_mtim);
	one.inode = st.st_ino;
	vec_add(place->tasks, one);
}

static int task_list_add_files(const struct listing_place *place, int dir,
			       struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };

	if (store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++)
		task_list_add_file(place, dir, names.items[i]);
	return 0;
}

static int list_below(const struct listing_place *place, int dir, const char *name,
		      struct err *err)
{
	AUTO_CLOSE int below =
		openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (below < 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot open %s", name);
	return task_list_add_files(place, below, err);
}

static int list_place(struct task_store *store, enum store_place which,
		      struct listing_place *place, struct err *err)
{
	AUTO_TEXT_LIST text_list dirs = { 0 };
	AUTO_CLOSE int dir = store_dir(store, which, err);

	place->path = store->paths[which];
	place->is_running = which == RUNNING;
	if (dir < 0 || task_list_add_files(place, dir, err) != 0 ||
	    store_list_dirs(dir, &dirs, err) != 0)
		return -1;
	for (size_t i = 0; i < dirs.count; i++)
		if (list_below(place, dir, dirs.items[i], err) != 0)
			return -1;
	return 0;
}

static int by_uri(const void *a, const void *b)
{
	const struct listed_task *one = a, *other = b;
	int order = strcmp(one->task.uri, other->task.uri);

	if (order == 0 && one->is_running != other->is_running)
		return one->is_running ? -1 : 1;
	if (order == 0 && one->since != other->since)
		return one->since < other->since ? -1 : 1;
	return order ? order : strcmp(one->name, other->name);
}

/* In the order in which tasks move: one that is claimed meanwhile may be met in both
 * places, but not be missed. */
int task_store_list(struct task_store *store, listed_tasks *tasks,
		    struct unreadable *unreadable, struct err *err)
{
	struct listing_place place = { .tasks = tasks, .unreadable = unreadable };

	if (list_place(store, WAITING, &place, err) != 0 ||
	    list_place(store, RUNNING, &place, err) != 0)
		return err_prefix(err, "task store");
	vec_sort(tasks, by_uri);
	return 0;
}

static bool task_list_is_in_directory(int dir, const char *key)
{
	AUTO_FREE char *json = xasprintf("%s.json", key);
	struct stat st;

	return fstatat(dir, key, &st, AT_SYMLINK_NOFOLLOW) == 0 ||
	       fstatat(dir, json, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

int store_is_waiting(struct task_store *store, const char *key, bool *is, struct err *err)
{
	AUTO_CLOSE int waiting = store_dir(store, WAITING, err);

	*is = waiting >= 0 && task_list_is_in_directory(waiting, key);
	return waiting < 0 ? -1 : 0;
}

int store_is_running(struct task_store *store, const char *key, bool *is, struct err *err)
{
	AUTO_TEXT_LIST text_list dirs = { 0 };
	AUTO_CLOSE int running = store_dir(store, RUNNING, err);

	*is = false;
	if (running < 0 || store_list_dirs(running, &dirs, err) != 0)
		return -1;
	for (size_t i = 0; i < dirs.count && !*is; i++) {
		AUTO_FREE char *path = xasprintf("%s/%s", dirs.items[i], key);
		*is = task_list_is_in_directory(running, path);
	}
	return 0;
}

/* Again at the end for one that was given back meanwhile. */
int task_store_has(struct task_store *store, const char *key, bool *has, struct err *err)
{
	if (store_check_key(key, err) != 0 || store_is_waiting(store, key, has, err) != 0)
		return -1;
	if (!*has && store_is_running(store, key, has, err) != 0)
		return -1;
	return *has ? 0 : store_is_waiting(store, key, has, err);
}

int task_store_waits(struct task_store *store, const char *key, bool *waits,
		     struct err *err)
{
	return store_check_key(key, err) == 0 ? store_is_waiting(store, key, waits, err)
					      : -1;
}

static void task_list_add_refs(int dir, const text_list *names, const char *uri,
			       struct map *refs)
{
	for (size_t i = 0; i < names->count; i++) {
		AUTO_TASK struct task task = { 0 };
		struct stat st;
		if (store_read_task(dir, names->items[i], &task, &st, ERR_IGNORED) != 0 ||
		    strcmp(task.uri, uri) != 0)
			continue;
		for (size_t k = 0; k < task.refs.count; k++)
			map_put(refs, task.refs.items[k], refs);
	}
}

void task_store_add_refs(struct task_store *store, const char *uri, struct map *refs)
{
	AUTO_TEXT_LIST text_list waiting = { 0 };
	AUTO_TEXT_LIST text_list running = { 0 };
	AUTO_CLOSE int waits = store_dir(store, WAITING, ERR_IGNORED);
	AUTO_CLOSE int runs = store_dir(store, RUNNING, ERR_IGNORED);
	char key[URI_KEY_SIZE];

	uri_key_of(uri, key);
	task_index_names(&store->index, uri, &waiting);
	if (waits >= 0)
		task_list_add_refs(waits, &waiting, uri, refs);
	AUTO_CLOSE int dir =
		openat(runs, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir >= 0 && store_list_files(dir, &running, ERR_IGNORED) == 0)
		task_list_add_refs(dir, &running, uri, refs);
}
