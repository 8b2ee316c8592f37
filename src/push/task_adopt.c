/*
 * What Gerrit and old layouts leave where we do not look: flat files in running/, and
 * directories in waiting/. A rename keeps the time; a name says what the task is, so that
 * one that waits already is the same.
 */
#include "base/log.h"
#include "push/task_parts.h"

enum { DEPTH = 4 };

struct adoption {
	struct task_store *store;
	int waiting; /* directory */
	size_t moved;
};

static void move_files(struct adoption *adoption, int from, const store_names *files)
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
	AUTO_NAMES store_names files = { 0 };
	AUTO_NAMES store_names dirs = { 0 };
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
	AUTO_NAMES store_names dirs = { 0 };
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
	AUTO_NAMES store_names files = { 0 };
	AUTO_CLOSE int dir =
		openat(running, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return dir >= 0 && store_list_files(dir, &files, ERR_IGNORED) == 0 &&
	       files.count > 0;
}

int store_adopt_running(struct task_store *store, running_uri_seen running, void *arg,
			struct err *err)
{
	AUTO_NAMES store_names files = { 0 };
	AUTO_NAMES store_names dirs = { 0 };
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
	return 0;
}
