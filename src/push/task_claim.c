/*
 * Between waiting/ and running/<uri key>/, always by one rename: a task is in one of
 * them, whoever dies when.
 */
#include "push/task_parts.h"

void claimed_tasks_clear(claimed_tasks *tasks)
{
	for (size_t i = 0; i < tasks->count; i++) {
		free(tasks->items[i].name);
		task_clear(&tasks->items[i].task);
	}
	vec_clear(tasks);
}

/* running/<uri key>/, made if it is missing and `makes`. -1 with ERR_MISSING: there is
 * none. A link there would have us move files that are none of ours. */
static int open_running(struct task_store *store, const char *uri_key, bool makes,
			struct err *err)
{
	AUTO_CLOSE int running = store_dir(store, RUNNING, err);

	if (running < 0)
		return -1;
	if (makes && mkdirat(running, uri_key, 0700) != 0 && errno != EEXIST)
		return err_errno(err, "cannot make %s/%s", store->paths[RUNNING],
				 uri_key);
	int fd =
		openat(running, uri_key, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 ? fd
		       : err_errno(err, "cannot open %s/%s", store->paths[RUNNING],
				   uri_key);
}

struct move {
	struct task_store *store;
	const char *uri;
	int waiting, running; /* directories */
};

/* Back to where it was: it is another URI's, or cannot be read just now. */
static void task_claim_put_back(const struct move *move, const char *name)
{
	struct err err;

	if (renameat(move->running, name, move->waiting, name) == 0) {
		store_notice_name(move->store, move->waiting, name, false);
	} else if (errno != ENOENT) {
		err_errno(&err, "cannot move %s back to waiting/", name);
		store_note_trouble(move->store, name, &err);
	}
}

/* What was written there is what counts, whatever it was when it was listed. */
static void task_claim_take(const struct move *move, const char *name,
			    claimed_tasks *tasks)
{
	AUTO_TASK struct task task = { 0 };
	struct stat st;
	struct err err;

	if (store_read_task(move->running, name, &task, &st, &err) != 0) {
		if (is_no_task(&err)) {
			store_set_aside(move->store, move->running, name, &err);
		} else if (err.class != ERR_MISSING) {
			store_note_trouble(move->store, name, &err);
			task_claim_put_back(move, name);
		}
		return;
	}
	if (strcmp(task.uri, move->uri) != 0) {
		task_claim_put_back(move, name);
		return;
	}
	struct claimed_task claimed = { xstrdup(name), stat_ms(&st), task };
	task = (struct task){ 0 };
	vec_add(tasks, claimed);
}

static int claim_all(const struct move *move, const store_names *names,
		     claimed_tasks *tasks, struct err *err)
{
	uint64_t births = task_index_births(&move->store->index);

	for (size_t i = 0; i < names->count; i++) {
		const char *name = names->items[i];
		bool is_ours = renameat(move->waiting, name, move->running, name) == 0;
		if (!is_ours && errno != ENOENT)
			return err_errno(err, "cannot move %s to running/", name);
		task_index_drop(&move->store->index, name, births);
		if (is_ours)
			task_claim_take(move, name, tasks);
	}
	return 0;
}

static int claim_names(struct task_store *store, const char *uri,
		       const store_names *names, claimed_tasks *tasks, struct err *err)
{
	char uri_key[URI_KEY_SIZE];

	uri_key_of(uri, uri_key);
	AUTO_CLOSE int waiting = store_dir(store, WAITING, err);
	AUTO_CLOSE int running =
		waiting < 0 ? -1 : open_running(store, uri_key, true, err);
	if (running < 0)
		return -1;
	struct move move = { store, uri, waiting, running };
	return claim_all(&move, names, tasks, err);
}

int task_store_claim(struct task_store *store, const char *uri, claimed_tasks *tasks,
		     struct err *err)
{
	AUTO_NAMES store_names names = { 0 };
	claimed_tasks claimed = { 0 };
	bool found_dirs = false;

	if (store_listing_is_due(store) &&
	    store_list_waiting(store, &found_dirs, err) != 0)
		return -1;
	task_index_names(&store->index, uri, &names);
	if (names.count == 0)
		return 0;
	if (claim_names(store, uri, &names, &claimed, err) != 0) {
		for (size_t i = 0; i < claimed.count; i++)
			(void)task_store_give_back(store, &claimed.items[i], ERR_IGNORED);
		claimed_tasks_clear(&claimed);
		return err_prefix(err, "task store");
	}
	for (size_t i = 0; i < claimed.count; i++)
		vec_add(tasks, claimed.items[i]);
	vec_clear(&claimed);
	return 0;
}

int task_store_recover(struct task_store *store, const char *uri_key, size_t *recovered,
		       struct err *err)
{
	AUTO_NAMES store_names names = { 0 };
	AUTO_CLOSE int waiting = store_dir(store, WAITING, err);
	AUTO_CLOSE int running =
		waiting < 0 ? -1 : open_running(store, uri_key, false, err);

	*recovered = 0;
	if (running < 0)
		return err->class == ERR_MISSING ? 0 : -1;
	if (store_list_files(running, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		if (renameat(running, name, waiting, name) == 0) {
			store_notice_name(store, waiting, name, false);
			++*recovered;
		} else if (errno != ENOENT) {
			return err_errno(err, "cannot move %s back to waiting/", name);
		}
	}
	return 0;
}

int task_store_done(struct task_store *store, const struct claimed_task *task,
		    struct err *err)
{
	char uri_key[URI_KEY_SIZE];

	uri_key_of(task->task.uri, uri_key);
	AUTO_CLOSE int running = open_running(store, uri_key, false, err);
	if (running < 0 && err->class != ERR_MISSING)
		return -1;
	if (running >= 0 && unlinkat(running, task->name, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s from running/", task->name);
	return store_remove_letter(store, task, err);
}

int task_store_give_back(struct task_store *store, const struct claimed_task *task,
			 struct err *err)
{
	char uri_key[URI_KEY_SIZE];

	uri_key_of(task->task.uri, uri_key);
	AUTO_CLOSE int waiting = store_dir(store, WAITING, err);
	AUTO_CLOSE int running =
		waiting < 0 ? -1 : open_running(store, uri_key, false, err);
	if (running < 0)
		return err->class == ERR_MISSING ? 0 : -1; /* another has recovered it */
	if (renameat(running, task->name, waiting, task->name) != 0 && errno != ENOENT)
		return err_errno(err, "cannot move %s back to waiting/", task->name);
	store_notice_name(store, waiting, task->name, false);
	return 0;
}

int task_store_shrink(struct task_store *store, const struct claimed_task *task,
		      const ref_names *left, struct err *err)
{
	AUTO_TASK struct task rest = { .project = xstrdup(task->task.project),
				       .uri = xstrdup(task->task.uri),
				       .remote = xstrdup(task->task.remote) };
	char uri_key[URI_KEY_SIZE];
	bool is_new;

	for (size_t i = 0; i < left->count; i++)
		vec_add(&rest.refs, xstrdup(left->items[i]));
	if (task_store_add(store, &rest, task->since, &is_new, err) != 0)
		return -1;
	uri_key_of(task->task.uri, uri_key);
	AUTO_CLOSE int running = open_running(store, uri_key, false, err);
	if (running < 0)
		return err->class == ERR_MISSING ? 0 : -1;
	if (unlinkat(running, task->name, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s from running/", task->name);
	return 0;
}

void task_store_tidy(struct task_store *store, const char *uri_key)
{
	AUTO_CLOSE int running = store_dir(store, RUNNING, ERR_IGNORED);

	if (running >= 0)
		unlinkat(running, uri_key, AT_REMOVEDIR);
}
