/*
 * <directory>/view-<random>, made whole by repo_make, and in it:
 *	lock		locked (flock) by who made it: without, it is a dead one's
 *	shallow		a copy of the repository's
 *	packed-refs	the refs
 * The objects are found by GIT_OBJECT_DIRECTORY: the view's own stay empty.
 */
#include "push/view.h"

#include <sys/file.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "git/repo.h"
#include "push/outcome.h"

#define PREFIX "view-"
#define SHALLOW_LIMIT ((size_t)256 << 20)
#define LEFT_AFTER_MS ((int64_t)10 * 60 * 1000) /* making one takes less */

static int take_lock(const char *path)
{
	AUTO_FREE char *name = xasprintf("%s/lock", path);
	AUTO_CLOSE int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0)
		return -1;
	return TAKE_FD(fd);
}

static int copy_shallow(const char *from, const char *to, struct err *err)
{
	AUTO_FREE char *source = xasprintf("%s/shallow", from);
	AUTO_FREE char *copy = xasprintf("%s/shallow", to);
	AUTO_STR struct str text = STR_INIT;

	if (file_read(AT_FDCWD, source, SHALLOW_LIMIT, &text, err) != 0) {
		if (err->class == ERR_MISSING)
			return 0;
		return outcome_is_local(err, from);
	}
	return file_replace(AT_FDCWD, copy, text.data, text.len, FILE_NO_SYNC, err);
}

int view_create(const char *directory, const char *repository, size_t oid_len,
		struct view *view, struct err *err)
{
	char random[17];

	*view = (struct view)VIEW_INIT;
	if (dir_make(AT_FDCWD, directory, err) != 0)
		return -1;
	random_hex(random, 8);
	view->path = xasprintf("%s/" PREFIX "%s", directory, random);
	if (repo_make(AT_FDCWD, view->path, oid_len, err) != 0)
		return -1;
	view->lock = take_lock(view->path);
	if (view->lock < 0)
		return err_errno(err, "cannot lock %s", view->path);
	return copy_shallow(repository, view->path, err);
}

int view_fill(struct view *view, const struct ref_snapshot *refs, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/packed-refs", view->path);
	AUTO_STR struct str text = STR_INIT;

	ref_write_packed(refs, &text);
	return file_replace(AT_FDCWD, path, text.data, text.len, FILE_NO_SYNC, err);
}

static void remove_path(const char *path)
{
	struct err err;

	if (tree_remove(AT_FDCWD, path, &err) != 0)
		log_warn("push.view_left", LOG_TEXT("path", path), LOG_ERR(&err));
}

void view_remove(struct view *view)
{
	if (view->path)
		remove_path(view->path);
	if (view->lock >= 0)
		close(view->lock);
	free(view->path);
	*view = (struct view)VIEW_INIT;
}

static bool view_is_old(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
	       clock_wall_ms() - (int64_t)st.st_mtim.tv_sec * 1000 > LEFT_AFTER_MS;
}

static void sweep_one(const char *path)
{
	AUTO_CLOSE int lock = view_is_old(path) ? take_lock(path) : -1;

	if (lock >= 0)
		remove_path(path);
}

void view_sweep(const char *directory)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(AT_FDCWD, directory);

	while (list && (entry = readdir(list)) != NULL) {
		if (!text_starts_with(entry->d_name, PREFIX))
			continue;
		AUTO_FREE char *path = xasprintf("%s/%s", directory, entry->d_name);
		sweep_one(path);
	}
}
