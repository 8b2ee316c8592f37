#include "git/object_files.h"

#include <fcntl.h>

#include "base/file.h"
#include "base/str.h"

/* Git writes objects/info/packs anew for readers that only know files. */
static bool object_files_is_passing(const char *name)
{
	return name[0] == '.' || text_starts_with(name, "tmp_") ||
	       strcmp(name, "packs") == 0;
}

static int take_folder(int dir, const char *folder, object_files *files, struct err *err)
{
	struct dirent *entry;
	struct object_file file;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, folder);

	if (!list)
		return errno == ENOENT ? 0 : err_errno(err, "cannot list %s", folder);
	while (errno = 0, (entry = readdir(list)) != NULL) {
		if (object_files_is_passing(entry->d_name) ||
		    fstatat(dirfd(list), entry->d_name, &file.stat,
			    AT_SYMLINK_NOFOLLOW) != 0 ||
		    !S_ISREG(file.stat.st_mode))
			continue;
		file.path = xasprintf("%s/%s", folder, entry->d_name);
		vec_add(files, file);
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", folder);
}

int object_files_take(int dir, object_files *files, struct err *err)
{
	*files = (object_files){ 0 };
	if (take_folder(dir, "objects/pack", files, err) != 0)
		return -1;
	return take_folder(dir, "objects/info", files, err);
}

void object_files_clear(object_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		free(files->items[i].path);
	vec_clear(files);
}

static bool object_files_same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Nobody can set ctime back. */
static bool object_files_is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_mode == b->st_mode &&
	       a->st_size == b->st_size &&
	       object_files_same_time(&a->st_mtim, &b->st_mtim) &&
	       object_files_same_time(&a->st_ctim, &b->st_ctim);
}

const char *object_files_changed(const object_files *files, int dir, bool may_be_gone)
{
	struct stat now;

	for (size_t i = 0; i < files->count; i++) {
		const struct object_file *file = &files->items[i];
		if (fstatat(dir, file->path, &now, AT_SYMLINK_NOFOLLOW) != 0) {
			if (!may_be_gone || errno != ENOENT)
				return file->path;
		} else if (!object_files_is_same(&file->stat, &now)) {
			return file->path;
		}
	}
	return NULL;
}
