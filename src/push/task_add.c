#include "push/task_store.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/flush.h"
#include "push/store_file.h"
#include "push/task_parts.h"

/*
 * A task is made by one link() of a whole file: a reader never sees a part, and of two
 * that make the same one, one finds the other's. What is found there must be read: if it
 * is no task, as after a crash of a machine where Gerrit wrote, it is set aside, and ours
 * takes its place.
 *
 * Only on a local file system does a look come first. A client of NFS may believe for a
 * minute that a file still waits that another node has taken and pushed; link() asks the
 * server.
 *
 * Many at once share their flushes: all files are written, then come to be on disk
 * together, then get their names, which one fsync() of the directory makes durable. The
 * flush may touch the file that comes last (base/flush.h), so that is the store's clock.
 */

enum { ATTEMPTS = 10, TOGETHER = 100 };

/* Git's names need not be UTF-8, JSON's texts must; a task of all refs does more, but
 * what is asked is in it. Likewise when they are too many. */
static void widen(struct task *task)
{
	text_list_clear(&task->refs);
	vec_add(&task->refs, xstrdup(TASK_ALL_REFS));
}

static bool task_add_is_text(const char *text)
{
	return text && text[0] && text_is_utf8(text, strlen(text));
}

static int task_add_check_task(const struct task *task, struct err *err)
{
	if (task->refs.count == 0)
		return err_set(err, ERR_INTERNAL, "a replication task without refs");
	if (task_add_is_text(task->project) && task_add_is_text(task->uri) &&
	    task_add_is_text(task->remote))
		return 0;
	err_set(err, ERR_CONFIG,
		"the repository, the URI or the remote of a replication "
		"task is empty or not UTF-8");
	return err_remedy(err, "rename the repository");
}

static int task_add_normalize(struct task *task, char key[TASK_KEY_SIZE],
			      struct str *content, struct err *err)
{
	if (task_add_check_task(task, err) != 0)
		return -1;
	for (size_t i = 0; i < task->refs.count; i++) {
		if (!task_add_is_text(task->refs.items[i])) {
			widen(task);
			break;
		}
	}
	task_order(task);
	task_write(task, content);
	if (content->len > TASK_SIZE_MAX) {
		widen(task);
		str_reset(content);
		task_write(task, content);
	}
	task_key(task, key);
	return 0;
}

static int open_task(int waiting, const char *name)
{
	return openat(waiting, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

static int sync_name(int waiting, const char *name, struct err *err)
{
	AUTO_CLOSE int fd = open_task(waiting, name);

	if (fd >= 0 && fsync(fd) != 0)
		return err_errno(err, "cannot sync %s", name);
	return 0;
}

struct adding {
	struct task_store *store;
	struct task *task;
	struct str content;
	int64_t since_ms;
	char key[TASK_KEY_SIZE];
	int waiting; /* directory */
	bool is_new;
	bool only_hurries;  /* what does not wait is not made */
	struct built built; /* of many: what waits for its name */
	int fd;             /* of many: what has to be on disk, or -1 */
};

/* 1: such a task waits, as `later` says with a later time than asked for; 0: none; -1. */
static int task_add_inspect_waiting(const struct adding *adding, const char *name,
				    bool *later, struct err *err)
{
	AUTO_TASK struct task there = { 0 };
	struct stat st;

	if (store_read_task(adding->waiting, name, &there, &st, err) == 0) {
		*later = adding->since_ms > 0 && clock_ms(&st.st_mtim) > adding->since_ms;
		return 1;
	}
	if (err->class == ERR_MISSING)
		return 0;
	if (!is_no_task(err))
		return -1;
	store_set_aside(adding->store, adding->waiting, name, err);
	return 0;
}

/* Likewise, and its file is on disk. */
static int task_add_find_synced(const struct adding *adding, const char *name,
				bool *later, struct err *err)
{
	int found = task_add_inspect_waiting(adding, name, later, err);

	return found == 1 && sync_name(adding->waiting, name, err) != 0 ? -1 : found;
}

/* One that is there is replaced, not touched: other nodes see by its inode that its time
 * is another one. If it was taken meanwhile, this is another task to do the same. */
static int task_add_make_file(struct adding *adding, bool replaces, struct err *err)
{
	AUTO_BUILT struct built built = BUILT_INIT;
	struct new_file file = { WAITING, adding->key, &adding->content, adding->since_ms,
				 FILE_SYNC };
	int result = 1;

	if (store_build(adding->store, &file, &built, err) != 0)
		return -1;
	failpoint("task.written");
	if (!replaces)
		result = built_link(&built, adding->waiting, adding->key, err);
	else if (built_rename(&built, adding->waiting, adding->key, err) != 0)
		result = -1;
	if (result == 1) {
		failpoint("task.linked");
		adding->is_new = !replaces;
		store_note_task(adding->store, adding->waiting, adding->key, &built.st,
				adding->task);
	}
	return result;
}

/* 1: it waits; 0: it was there and is gone, or no task; -1. */
static int attempt(struct adding *adding, struct err *err)
{
	char json[TASK_KEY_SIZE + 5];
	bool later = false;
	int found = 0, made;

	snprintf(json, sizeof(json), "%s.json", adding->key);
	if (adding->store->is_local || adding->only_hurries) {
		found = task_add_find_synced(adding, adding->key, &later, err);
		if (found == 0)
			found = task_add_find_synced(adding, json, &later, err);
	}
	if (found == 0 && adding->only_hurries)
		return 1;
	if (found == 0) {
		made = task_add_make_file(adding, false, err);
		if (made != 0)
			return made;
		found = task_add_find_synced(adding, adding->key, &later, err);
	}
	return found == 1 && later ? task_add_make_file(adding, true, err) : found;
}

static int task_add_add_single(struct adding *adding, struct err *err)
{
	AUTO_CLOSE int waiting = store_dir(adding->store, WAITING, err);
	const char *path = adding->store->paths[WAITING];
	int result = 0;

	if (waiting < 0 ||
	    task_add_normalize(adding->task, adding->key, &adding->content, err) != 0)
		return -1;
	adding->waiting = waiting;
	for (int i = 0; result == 0 && i < ATTEMPTS; i++)
		result = attempt(adding, err);
	if (result == 0)
		return err_set(err, ERR_CONFLICT, "%s/%s comes and goes", path,
			       adding->key);
	if (result < 0)
		return -1;
	return fsync(waiting) == 0 ? 0 : err_errno(err, "cannot sync %s", path);
}

int task_store_add(struct task_store *store, struct task *task, int64_t since_ms,
		   bool *is_new, struct err *err)
{
	struct adding adding = {
		.store = store, .task = task, .content = STR_INIT, .since_ms = since_ms
	};
	int result = task_add_add_single(&adding, err);

	str_clear(&adding.content);
	*is_new = adding.is_new;
	return result == 0 ? 0 : err_prefix(err, "task store");
}

int task_store_hurry(struct task_store *store, struct task *task, int64_t since_ms,
		     struct err *err)
{
	struct adding adding = { .store = store,
				 .task = task,
				 .content = STR_INIT,
				 .since_ms = since_ms,
				 .only_hurries = true };
	int result = task_add_add_single(&adding, err);

	str_clear(&adding.content);
	return result == 0 ? 0 : err_prefix(err, "task store");
}

/* 1: it waits already; 0: it does not, or not as is asked for; -1. */
static int open_present(struct adding *adding, struct err *err)
{
	char json[TASK_KEY_SIZE + 5];
	const char *const names[] = { adding->key, json };

	snprintf(json, sizeof(json), "%s.json", adding->key);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		bool later = false;
		int found = task_add_inspect_waiting(adding, names[i], &later, err);
		if (found == 1 && !later)
			adding->fd = open_task(adding->waiting, names[i]);
		if (found < 0 || adding->fd >= 0)
			return found;
	}
	return 0;
}

/* Opens one that waits already; or writes a file that is not on disk yet. */
static int task_add_prepare_file(struct adding *adding, struct err *err)
{
	struct new_file file = { WAITING, adding->key, &adding->content, adding->since_ms,
				 FILE_NO_SYNC };
	int found;

	if (task_add_normalize(adding->task, adding->key, &adding->content, err) != 0)
		return -1;
	found = adding->store->is_local ? open_present(adding, err) : 0;
	if (found != 0)
		return found < 0 ? -1 : 0;
	if (store_build(adding->store, &file, &adding->built, err) != 0)
		return -1;
	failpoint("task.written");
	adding->fd = openat(adding->built.dir, adding->built.name, O_RDONLY | O_CLOEXEC);
	if (adding->fd < 0)
		return err_errno(err, "cannot open %s", adding->built.name);
	return 0;
}

static int flush(struct task_store *store, const struct adding *list, size_t count,
		 struct err *err)
{
	AUTO_CLOSE int clock = store_clock(store, err);
	VEC(int) files = { 0 };
	int result;

	if (clock < 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		vec_add(&files, list[i].fd);
	vec_add(&files, clock);
	result = flush_data(files.items, files.count, flush_way_for(clock, files.count),
			    err);
	vec_clear(&files);
	return result;
}

/* One of the same name is left to the way of a single one, which has to look at it. */
static int task_add_link_file(struct adding *adding, struct err *err)
{
	int linked;

	if (adding->built.dir < 0)
		return 0; /* it was there */
	linked = built_link(&adding->built, adding->waiting, adding->key, err);
	if (linked < 0)
		return -1;
	if (linked == 0)
		return task_store_add(adding->store, adding->task, adding->since_ms,
				      &adding->is_new, err);
	failpoint("task.linked");
	store_note_task(adding->store, adding->waiting, adding->key, &adding->built.st,
			adding->task);
	return 0;
}

static int add_together(struct task_store *store, struct adding *list, size_t count,
			struct err *err)
{
	AUTO_CLOSE int waiting = store_dir(store, WAITING, err);
	int result = waiting < 0 ? -1 : 0;

	for (size_t i = 0; i < count && result == 0; i++) {
		list[i].waiting = waiting;
		result = task_add_prepare_file(&list[i], err);
	}
	if (result == 0)
		result = flush(store, list, count, err);
	for (size_t i = 0; i < count && result == 0; i++)
		result = task_add_link_file(&list[i], err);
	if (result == 0 && fsync(waiting) != 0)
		return err_errno(err, "cannot sync %s", store->paths[WAITING]);
	return result;
}

static int add_batch(struct task_store *store, struct new_task *tasks, size_t count,
		     struct err *err)
{
	struct adding list[TOGETHER];
	int result;

	for (size_t i = 0; i < count; i++)
		list[i] = (struct adding){ .store = store,
					   .task = &tasks[i].task,
					   .content = STR_INIT,
					   .since_ms = tasks[i].since_ms,
					   .built = BUILT_INIT,
					   .fd = -1 };
	result = add_together(store, list, count, err);
	for (size_t i = 0; i < count; i++) {
		str_clear(&list[i].content);
		built_clear(&list[i].built);
		if (list[i].fd >= 0)
			close(list[i].fd);
	}
	return result;
}

void new_tasks_clear(new_tasks *tasks)
{
	for (size_t i = 0; i < tasks->count; i++)
		task_clear(&tasks->items[i].task);
	vec_clear(tasks);
}

int task_store_add_all(struct task_store *store, struct new_task *tasks, size_t count,
		       struct err *err)
{
	for (size_t at = 0; at < count; at += TOGETHER) {
		size_t left = count - at;
		if (add_batch(store, tasks + at, left < TOGETHER ? left : TOGETHER,
			      err) != 0)
			return err_prefix(err, "task store");
	}
	return 0;
}
