/*
 * A task is made by one link() of a whole file: a reader never sees a part, and of two
 * that make the same one, one finds the other's. What is found there must be read: if it
 * is no task, as after a crash of a machine where Gerrit wrote, it is set aside, and ours
 * takes its place.
 *
 * Only on a local file system does a look come first. A client of NFS may believe for a
 * minute that a file still waits that another node has taken and pushed; link() asks the
 * server.
 */
#include "base/failpoint.h"
#include "push/store_file.h"
#include "push/task_parts.h"

enum { ATTEMPTS = 10 };

/* Git's names need not be UTF-8, JSON's texts must; a task of all refs does more, but
 * what is asked is in it. Likewise when they are too many. */
static void widen(struct task *task)
{
	ref_names_clear(&task->refs);
	vec_add(&task->refs, xstrdup(TASK_ALL_REFS));
}

static bool is_text(const char *text)
{
	return text && text[0] && text_is_utf8(text, strlen(text));
}

static int check(const struct task *task, struct err *err)
{
	if (task->refs.count == 0)
		return err_set(err, ERR_INTERNAL, "a replication task without refs");
	if (is_text(task->project) && is_text(task->uri) && is_text(task->remote))
		return 0;
	err_set(err, ERR_CONFIG,
		"the repository, the URI or the remote of a replication "
		"task is empty or not UTF-8");
	return err_remedy(err, "rename the repository");
}

static int settle(struct task *task, char key[TASK_KEY_SIZE], struct str *content,
		  struct err *err)
{
	if (check(task, err) != 0)
		return -1;
	for (size_t i = 0; i < task->refs.count; i++) {
		if (!is_text(task->refs.items[i])) {
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

static int sync_name(int waiting, const char *name, struct err *err)
{
	AUTO_CLOSE int fd =
		openat(waiting, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

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
};

/* 1: such a task waits, with its file on disk and, as `later` says, a later time than
 * asked for; 0: none; -1. */
static int find(const struct adding *adding, const char *name, bool *later,
		struct err *err)
{
	AUTO_TASK struct task there = { 0 };
	struct stat st;

	if (store_read_task(adding->waiting, name, &there, &st, err) == 0) {
		*later = adding->since_ms > 0 && stat_ms(&st) > adding->since_ms;
		return sync_name(adding->waiting, name, err) == 0 ? 1 : -1;
	}
	if (err->class == ERR_MISSING)
		return 0;
	if (!is_no_task(err))
		return -1;
	store_set_aside(adding->store, adding->waiting, name, err);
	return 0;
}

/* One that is there is replaced, not touched: other nodes see by its inode that its time
 * is another one. If it was taken meanwhile, this is another task to do the same. */
static int make(struct adding *adding, bool replaces, struct err *err)
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
		task_index_put(&adding->store->index, adding->key, &built.st,
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
	if (adding->store->is_local) {
		found = find(adding, adding->key, &later, err);
		if (found == 0)
			found = find(adding, json, &later, err);
	}
	if (found == 0) {
		made = make(adding, false, err);
		if (made != 0)
			return made;
		found = find(adding, adding->key, &later, err);
	}
	return found == 1 && later ? make(adding, true, err) : found;
}

static int add(struct adding *adding, struct err *err)
{
	AUTO_CLOSE int waiting = store_dir(adding->store, WAITING, err);
	const char *path = adding->store->paths[WAITING];
	int result = 0;

	if (waiting < 0 || settle(adding->task, adding->key, &adding->content, err) != 0)
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
	int result = add(&adding, err);

	str_clear(&adding.content);
	*is_new = adding.is_new;
	return result == 0 ? 0 : err_prefix(err, "task store");
}
