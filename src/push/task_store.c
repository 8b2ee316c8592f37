#include "push/task_store.h"

#include <fcntl.h>
#include <sys/inotify.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/flush.h"
#include "base/log.h"
#include "base/thread.h"
#include "push/store_file.h"
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

int task_store_claim(struct task_store *store, const char *uri, claimed_tasks *tasks,
		     struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	claimed_tasks claimed = { 0 };

	if (store_list_if_due(store, err) != 0)
		return -1;
	task_index_names(&store->index, uri, &names);
	if (names.count == 0)
		return 0;
	if (claim_names(store, uri, &names, &claimed, err) != 0) {
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
	if (adding->store->is_local) {
		found = task_add_find_synced(adding, adding->key, &later, err);
		if (found == 0)
			found = task_add_find_synced(adding, json, &later, err);
	}
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

enum { TORN_AGE_MS = 10 * 60 * 1000 };

#define CLOCK ".clock"
#define NEWS (IN_CREATE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_CLOSE_WRITE)
#define SELF (IN_MOVE_SELF | IN_ONLYDIR)
#define REQUEST_NEWS (IN_CREATE | IN_MOVED_TO | IN_DELETE | SELF)

static const char *const places[STORE_PLACES] = {
	[BUILDING] = "ref-updates/building",  [WAITING] = "ref-updates/waiting",
	[RUNNING] = "ref-updates/running",    [STATES] = "refrelay",
	[REQUESTS] = "refrelay/requests",     [FAILED] = "refrelay/failed",
	[UNREADABLE] = "refrelay/unreadable", [SEEN] = "refrelay/seen",
	[NODES] = "refrelay/nodes",           [DISCARDED] = "refrelay/discarded",
};

static int make_place(const char *path, struct err *err)
{
	if (dir_make_parents(AT_FDCWD, path, err) != 0)
		return -1;
	if (mkdir(path, 0700) != 0 && errno != EEXIST)
		return err_errno(err, "cannot make directory %s", path);
	return 0;
}

/* What rename and link need: the same file system, by the same mount. */
static int check_mounts(const struct task_store *store, struct err *err)
{
	struct statx first, here;

	for (size_t i = 0; i < STORE_PLACES; i++) {
		if (statx(AT_FDCWD, store->paths[i], 0, STATX_BASIC_STATS | STATX_MNT_ID,
			  &here) != 0)
			return err_errno(err, "cannot look at %s", store->paths[i]);
		if (i == 0)
			first = here;
		if (here.stx_dev_major == first.stx_dev_major &&
		    here.stx_dev_minor == first.stx_dev_minor &&
		    here.stx_mnt_id == first.stx_mnt_id)
			continue;
		err_set(err, ERR_CONFIG, "%s and %s are on different file systems",
			store->paths[0], store->paths[i]);
		return err_remedy(err, "mount one file system at the directory that "
				       "holds both");
	}
	return 0;
}

static int make_places(struct task_store *store, struct err *err)
{
	AUTO_FREE char *flat = xasprintf("%s/ref-updates", store->directory);

	if (make_place(store->directory, err) != 0 || make_place(flat, err) != 0)
		return -1;
	for (size_t i = 0; i < STORE_PLACES; i++)
		if (make_place(store->paths[i], err) != 0)
			return -1;
	return check_mounts(store, err);
}

/* By ctime, which nobody can set: a task may be given an old mtime. */
static int sweep_place(struct task_store *store, enum store_place place, const char *end,
		       struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	AUTO_CLOSE int dir = store_dir(store, place, err);
	struct stat st;
	int64_t now = 0;

	if (dir < 0 || task_store_now(store, &now, err) != 0 ||
	    store_list_files(dir, &names, err) != 0)
		return -1;
	for (size_t i = 0; i < names.count; i++) {
		const char *name = names.items[i];
		if (text_ends_with(name, end) &&
		    fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    now - (int64_t)st.st_ctim.tv_sec * 1000 > TORN_AGE_MS)
			unlinkat(dir, name, 0);
	}
	return 0;
}

int task_store_sweep(struct task_store *store, struct err *err)
{
	return sweep_place(store, BUILDING, ".tmp", err) == 0
		       ? sweep_place(store, DISCARDED, "", err)
		       : -1;
}

static struct task_store *new_store(const char *directory)
{
	struct task_store *store = xcalloc(1, sizeof(*store));

	store->directory = xstrdup(directory);
	store->watch = store->request_watch = -1;
	for (size_t i = 0; i < STORE_PLACES; i++)
		store->paths[i] = xasprintf("%s/%s", directory, places[i]);
	task_index_init(&store->index);
	mutex_init(&store->listing_mutex);
	return store;
}

static int fail_open(struct task_store *store, struct err *err)
{
	task_store_close(store);
	return err_prefix(err, "task store");
}

int task_store_open(const char *directory, struct task_store **out, struct err *err)
{
	struct task_store *store = new_store(directory);

	if (make_places(store, err) != 0 || task_store_sweep(store, err) != 0 ||
	    store_identity_open(store, err) != 0)
		return fail_open(store, err);
	AUTO_CLOSE int fd = store_dir(store, WAITING, err);
	store->is_local = fd >= 0 && file_system_is_local(fd);
	store_watch_again(store);
	*out = store;
	return 0;
}

int task_store_open_to_read(const char *directory, const char *data,
			    struct task_store **out, struct err *err)
{
	struct task_store *store;

	if (task_store_recognize(directory, data, err) != 0)
		return err_prefix(err, "task store");
	store = new_store(directory);
	store->is_reading = true;
	*out = store;
	return 0;
}

void task_store_close(struct task_store *store)
{
	if (!store)
		return;
	if (store->watch >= 0)
		close(store->watch);
	if (store->request_watch >= 0)
		close(store->request_watch);
	for (size_t i = 0; i < STORE_PLACES; i++)
		free(store->paths[i]);
	task_index_clear(&store->index);
	pthread_mutex_destroy(&store->listing_mutex);
	store_identity_close(store);
	free(store->directory);
	free(store);
}

/* A pipe would have us wait for a reader, a link lead us out of the store. */
static int open_clock(int dir)
{
	const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	struct stat st;

	if (fstatat(dir, CLOCK, &st, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(st.st_mode))
		unlinkat(dir, CLOCK, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
	return openat(dir, CLOCK, flags, 0600);
}

int store_clock(const struct task_store *store, struct err *err)
{
	AUTO_CLOSE int dir = store_dir(store, BUILDING, err);
	int fd = dir < 0 ? -1 : open_clock(dir);

	if (dir >= 0 && fd < 0)
		err_errno(err, "cannot open %s/" CLOCK, store->paths[BUILDING]);
	return fd;
}

static int read_clock(const struct task_store *store, int64_t *now_ms, struct err *err)
{
	AUTO_CLOSE int fd = store_clock(store, err);
	struct stat st;

	if (fd < 0)
		return -1;
	if (futimens(fd, NULL) != 0 || fstat(fd, &st) != 0)
		return err_errno(err, "cannot read the time of %s/" CLOCK,
				 store->paths[BUILDING]);
	*now_ms = clock_ms(&st.st_mtim);
	return 0;
}

static bool has_clock(const struct task_store *store)
{
	AUTO_FREE char *path = xasprintf("%s/" CLOCK, store->paths[BUILDING]);

	return access(path, W_OK) == 0;
}

int task_store_now(struct task_store *store, int64_t *now_ms, struct err *err)
{
	if (!store->is_reading)
		return read_clock(store, now_ms, err);
	if (!has_clock(store) || read_clock(store, now_ms, err) != 0)
		*now_ms = clock_wall_ms(); /* only ages are told by it */
	return 0;
}

int task_store_watch_fd(const struct task_store *store)
{
	return store->watch;
}

bool task_store_is_watched(const struct task_store *store)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->identity->mutex);

	return store->identity->watched >= 0 && store->requests_watched >= 0;
}

/* The watch's number; -1: there is none, as the directory is missing or the user has too
 * many. */
static int task_store_watch(int *fd, const char *path, uint32_t what)
{
	if (*fd < 0)
		*fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	return *fd < 0 ? -1 : inotify_add_watch(*fd, path, what);
}

void store_watch_requests(struct task_store *store)
{
	store->requests_watched = task_store_watch(&store->request_watch,
						   store->paths[REQUESTS], REQUEST_NEWS);
}

void store_watch_again(struct task_store *store)
{
	store_watch_requests(store);

	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->identity->mutex);
	store->identity->watched =
		task_store_watch(&store->watch, store->paths[WAITING], NEWS | SELF);
}

/* Whether one event says that all must be read again. */
static bool hear_one(struct task_store *store, int dir, const struct inotify_event *event)
{
	if (event->mask & IN_MOVE_SELF)
		inotify_rm_watch(store->watch, event->wd);
	if (event->mask & (IN_IGNORED | IN_MOVE_SELF | IN_Q_OVERFLOW | IN_ISDIR))
		return true;
	if (event->len > 0 && dir >= 0)
		/* Somebody may just be writing what was created: IN_CLOSE_WRITE will
		 * come. */
		store_notice_name(store, dir, event->name, event->mask & IN_CREATE);
	return dir < 0;
}

void task_store_report(struct task_store *store, waiting_uri_seen seen, void *arg)
{
	task_index_report(&store->index, seen, arg);
}

bool task_store_hear(struct task_store *store, waiting_uri_seen seen, void *arg)
{
	enum { BUFFERS_AT_ONCE = 16 };
	char buffer[65536] __attribute__((aligned(__alignof__(struct inotify_event))));
	AUTO_CLOSE int dir = store_dir(store, WAITING, ERR_IGNORED);
	bool all = false;

	for (int i = 0; i < BUFFERS_AT_ONCE && store->watch >= 0; i++) {
		ssize_t got = read(store->watch, buffer, sizeof(buffer));
		if (got <= 0)
			break;
		for (char *at = buffer; at < buffer + got;) {
			const struct inotify_event *event = (const void *)at;
			all |= hear_one(store, dir, event);
			at += sizeof(*event) + event->len;
		}
	}
	task_store_report(store, seen, arg);
	return all;
}
