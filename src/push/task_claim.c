#include "push/task_store.h"

#include <fcntl.h>

#include "base/clock.h"
#include "base/log.h"
#include "push/task_parts.h"

/*
 * Between waiting/ and running/<uri key>/, always by one rename: a task is in one of
 * them, whoever dies when.
 */

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
	struct claimed_task claimed = { xstrdup(name), clock_ms(&st.st_mtim), task };
	task = (struct task){ 0 };
	vec_add(tasks, claimed);
}

static int claim_all(const struct move *move, const text_list *names,
		     claimed_tasks *tasks, struct err *err)
{
	for (size_t i = 0; i < names->count; i++) {
		const char *name = names->items[i];
		uint64_t births = task_index_births(&move->store->index);
		bool is_ours = renameat(move->waiting, name, move->running, name) == 0;
		if (!is_ours && errno != ENOENT)
			return err_errno(err, "cannot move %s to running/", name);
		task_index_drop(&move->store->index, name, births);
		if (is_ours)
			task_claim_take(move, name, tasks);
	}
	return 0;
}

/* Where no log keeps the order of names, a later sync of waiting/ would otherwise let a
 * power failure find the task in neither directory. */
static int claim_sync(struct task_store *store, int running, struct err *err)
{
	AUTO_CLOSE int above = store_dir(store, RUNNING, err);

	if (above < 0 || store_sync_names(store, RUNNING, running, err) != 0)
		return -1;
	return store_sync_names(store, RUNNING, above, err);
}

static int claim_names(struct task_store *store, const char *uri, const text_list *names,
		       claimed_tasks *tasks, struct err *err)
{
	char uri_key[URI_KEY_SIZE];

	uri_key_of(uri, uri_key);
	AUTO_CLOSE int waiting = store_dir(store, WAITING, err);
	AUTO_CLOSE int running =
		waiting < 0 ? -1 : open_running(store, uri_key, true, err);
	if (running < 0)
		return -1;
	struct move move = { store, uri, waiting, running };
	if (claim_all(&move, names, tasks, err) != 0)
		return -1;
	return tasks->count > 0 ? claim_sync(store, running, err) : 0;
}

/* All of them, or none. */
static int claim_whole(struct task_store *store, const char *uri, const text_list *names,
		       claimed_tasks *tasks, struct err *err)
{
	claimed_tasks claimed = { 0 };

	if (claim_names(store, uri, names, &claimed, err) != 0) {
		for (size_t i = 0; i < claimed.count; i++)
			(void)task_store_give_back(store, &claimed.items[i], ERR_IGNORED);
		(void)task_store_sync_waiting(store, ERR_IGNORED);
		claimed_tasks_clear(&claimed);
		return err_prefix(err, "task store");
	}
	for (size_t i = 0; i < claimed.count; i++)
		vec_add(tasks, claimed.items[i]);
	vec_clear(&claimed);
	return 0;
}

int task_store_claim(struct task_store *store, const char *uri, claimed_tasks *tasks,
		     struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };

	if (store_list_if_due(store, err) != 0)
		return -1;
	task_index_names(&store->index, uri, &names);
	return names.count > 0 ? claim_whole(store, uri, &names, tasks, err) : 0;
}

int task_store_claim_one(struct task_store *store, const struct task *task,
			 claimed_tasks *tasks, struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	char key[TASK_KEY_SIZE];

	task_key(task, key);
	vec_add(&names, xstrdup(key));
	return claim_whole(store, task->uri, &names, tasks, err);
}

int task_store_recover(struct task_store *store, const char *uri_key, size_t *recovered,
		       struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
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
	return *recovered > 0 ? store_sync_names(store, WAITING, waiting, err) : 0;
}

/* Where another has recovered it, it is gone: fine. */
static int remove_running(struct task_store *store, const struct claimed_task *task,
			  struct err *err)
{
	char uri_key[URI_KEY_SIZE];

	uri_key_of(task->task.uri, uri_key);
	AUTO_CLOSE int running = open_running(store, uri_key, false, err);
	if (running < 0)
		return err->class == ERR_MISSING ? 0 : -1;
	if (unlinkat(running, task->name, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s from running/", task->name);
	return 0;
}

int task_store_done(struct task_store *store, const struct claimed_task *task,
		    struct err *err)
{
	if (store_remove_letter(store, task, err) != 0)
		return -1;
	return remove_running(store, task, err);
}

/* It was read before. A file that cannot be opened just now waits all the same. */
static void note_given_back(struct task_store *store, int waiting,
			    const struct claimed_task *task)
{
	struct stat st;

	if (fstatat(waiting, task->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    clock_ms(&st.st_mtim) == task->since)
		store_note_task(store, waiting, task->name, &st, &task->task);
	else /* it is another file now */
		store_notice_name(store, waiting, task->name, false);
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
	if (renameat(running, task->name, waiting, task->name) == 0)
		note_given_back(store, waiting, task);
	else if (errno == ENOENT) /* another has recovered it */
		store_notice_name(store, waiting, task->name, false);
	else
		return err_errno(err, "cannot move %s back to waiting/", task->name);
	return 0;
}

int task_store_sync_waiting(struct task_store *store, struct err *err)
{
	AUTO_CLOSE int waiting = store_dir(store, WAITING, err);

	return waiting < 0 ? -1 : store_sync_names(store, WAITING, waiting, err);
}

int task_store_shrink(struct task_store *store, const struct claimed_task *task,
		      const text_list *left, struct err *err)
{
	AUTO_TASK struct task rest = { .project = xstrdup(task->task.project),
				       .uri = xstrdup(task->task.uri),
				       .remote = xstrdup(task->task.remote) };
	bool is_new;

	for (size_t i = 0; i < left->count; i++)
		vec_add(&rest.refs, xstrdup(left->items[i]));
	if (task_store_add(store, &rest, task->since, &is_new, err) != 0)
		return -1;
	return remove_running(store, task, err);
}

void task_store_tidy(struct task_store *store, const char *uri_key)
{
	AUTO_CLOSE int running = store_dir(store, RUNNING, ERR_IGNORED);

	if (running >= 0)
		unlinkat(running, uri_key, AT_REMOVEDIR);
}
/*
 * What Gerrit and old layouts leave where we do not look: flat files in running/, and
 * directories in waiting/. A rename keeps the time; a name says what the task is, so that
 * one that waits already is the same.
 */

enum { DEPTH = 4 };

struct adoption {
	struct task_store *store;
	int waiting; /* directory */
	size_t moved;
};

static void move_files(struct adoption *adoption, int from, const text_list *files)
{
	for (size_t i = 0; i < files->count; i++) {
		const char *name = files->items[i];
		struct err err;
		if (renameat(from, name, adoption->waiting, name) == 0) {
			adoption->moved++;
		} else if (errno != ENOENT) {
			err_errno(&err, "cannot move %s to waiting/", name);
			store_note_trouble(adoption->store, name, &err);
		}
	}
}

static int move_tree(struct adoption *adoption, int above, const char *name, int depth,
		     struct err *err)
{
	AUTO_TEXT_LIST text_list files = { 0 };
	AUTO_TEXT_LIST text_list dirs = { 0 };
	AUTO_CLOSE int dir =
		openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (dir < 0 && errno == ENOENT)
		return 0;
	if (dir < 0)
		return err_errno(err, "cannot open %s", name);
	if (store_list_files(dir, &files, err) != 0 ||
	    store_list_dirs(dir, &dirs, err) != 0)
		return err_prefix(err, "%s", name);
	move_files(adoption, dir, &files);
	for (size_t i = 0; i < dirs.count && depth < DEPTH; i++)
		if (move_tree(adoption, dir, dirs.items[i], depth + 1, err) != 0)
			return -1;
	unlinkat(above, name, AT_REMOVEDIR);
	return 0;
}

/* One that cannot be read is said once, and keeps nobody from the others. */
static void try_tree(struct adoption *adoption, int above, const char *name)
{
	struct err err;

	if (move_tree(adoption, above, name, 0, &err) != 0)
		store_note_trouble(adoption->store, name, &err);
}

static void task_adopt_report(const char *from, size_t moved)
{
	if (moved > 0)
		log_info("task.adopted", LOG_TEXT("from", from),
			 LOG_NUMBER("tasks", moved));
}

int store_adopt_waiting(struct task_store *store, struct err *err)
{
	AUTO_TEXT_LIST text_list dirs = { 0 };
	AUTO_CLOSE int waiting = store_dir(store, WAITING, err);
	struct adoption adoption = { store, waiting, 0 };

	if (waiting < 0 || store_list_dirs(waiting, &dirs, err) != 0)
		return -1;
	for (size_t i = 0; i < dirs.count; i++)
		try_tree(&adoption, waiting, dirs.items[i]);
	task_adopt_report(store->paths[WAITING], adoption.moved);
	return 0;
}

static bool has_files(int running, const char *name)
{
	AUTO_TEXT_LIST text_list files = { 0 };
	AUTO_CLOSE int dir =
		openat(running, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return dir >= 0 && store_list_files(dir, &files, ERR_IGNORED) == 0 &&
	       files.count > 0;
}

int task_store_list_running(struct task_store *store, running_uri_seen running, void *arg,
			    struct err *err)
{
	AUTO_TEXT_LIST text_list files = { 0 };
	AUTO_TEXT_LIST text_list dirs = { 0 };
	AUTO_CLOSE int dir = store_dir(store, RUNNING, err);
	AUTO_CLOSE int waiting = dir < 0 ? -1 : store_dir(store, WAITING, err);
	struct adoption adoption = { store, waiting, 0 };

	if (waiting < 0 || store_list_files(dir, &files, err) != 0 ||
	    store_list_dirs(dir, &dirs, err) != 0)
		return -1;
	move_files(&adoption, dir, &files);
	for (size_t i = 0; i < dirs.count; i++) {
		const char *name = dirs.items[i];
		if (!is_uri_key(name)) {
			try_tree(&adoption, dir, name);
		} else if (running && has_files(dir, name)) {
			running(arg, name);
		}
	}
	task_adopt_report(store->paths[RUNNING], adoption.moved);
	return adoption.moved > 0 ? store_sync_names(store, WAITING, waiting, err) : 0;
}
