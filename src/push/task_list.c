#include "push/task_list.h"

#include "push/task_parts.h"

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
		if (place->unreadable && is_no_task(&err))
			unreadable_add(place->unreadable, place->path, name);
		return;
	}
	snprintf(one.name, sizeof(one.name), "%s", name);
	one.since = stat_ms(&st);
	one.inode = st.st_ino;
	vec_add(place->tasks, one);
}

static int task_list_add_files(const struct listing_place *place, int dir,
			       struct err *err)
{
	AUTO_NAMES store_names names = { 0 };

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
	AUTO_NAMES store_names dirs = { 0 };
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
	AUTO_NAMES store_names dirs = { 0 };
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

static bool any_covers(int dir, const store_names *names, const char *uri,
		       const char *ref)
{
	bool covers = false;

	for (size_t i = 0; i < names->count && !covers; i++) {
		AUTO_TASK struct task task = { 0 };
		struct stat st;
		covers = store_read_task(dir, names->items[i], &task, &st, ERR_IGNORED) ==
				 0 &&
			 strcmp(task.uri, uri) == 0 &&
			 (task_is_all(&task) || ref_names_have(&task.refs, ref));
	}
	return covers;
}

bool task_store_covers(struct task_store *store, const char *uri, const char *ref)
{
	AUTO_NAMES store_names waiting = { 0 };
	AUTO_NAMES store_names running = { 0 };
	AUTO_CLOSE int waits = store_dir(store, WAITING, ERR_IGNORED);
	AUTO_CLOSE int runs = store_dir(store, RUNNING, ERR_IGNORED);
	char key[URI_KEY_SIZE];

	uri_key_of(uri, key);
	task_index_names(&store->index, uri, &waiting);
	if (waits >= 0 && any_covers(waits, &waiting, uri, ref))
		return true;
	AUTO_CLOSE int dir =
		openat(runs, key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return dir >= 0 && store_list_files(dir, &running, ERR_IGNORED) == 0 &&
	       any_covers(dir, &running, uri, ref);
}
