#include "lease/local_files.h"

#include <sys/file.h>
#include <sys/inotify.h>

#include "base/file.h"
#include "base/hash.h"

static char *alive_path(const struct local_files *files, const char *name)
{
	return xasprintf("%s/alive/%s", files->directory, name);
}

/* Keys hold slashes and worse, and may be longer than a file's name. */
static char *guard_path(const struct local_files *files, const char *key)
{
	AUTO_STR struct str path = STR_INIT;

	str_addf(&path, "%s/guard/", files->directory);
	hash_add_hex(HASH_SHA256, key, strlen(key), hash_size(HASH_SHA256), &path);
	return str_take(&path);
}

static int check_is_local(const char *directory, struct err *err)
{
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, directory, err);

	if (fd < 0)
		return -1;
	if (file_system_is_local(fd))
		return 0;
	err_set(err, ERR_CONFIG,
		"leases cannot be kept in %s: other hosts may write there, and this "
		"kernel's locks do not reach them",
		directory);
	return err_remedy(err, "put it on a local disk, or set another lease.backend");
}

int local_files_open(struct local_files *files, const char *directory, struct err *err)
{
	AUTO_FREE char *alive = xasprintf("%s/alive", directory);
	AUTO_FREE char *guard = xasprintf("%s/guard", directory);

	*files = (struct local_files){ .alive_fd = -1 };
	if (dir_make(AT_FDCWD, alive, err) != 0 || dir_make(AT_FDCWD, guard, err) != 0 ||
	    check_is_local(directory, err) != 0)
		return -1;
	files->directory = realpath(directory, NULL);
	return files->directory ? 0 : err_errno(err, "cannot find %s", directory);
}

void local_files_close(struct local_files *files)
{
	if (files->alive_fd >= 0) {
		AUTO_FREE char *path = alive_path(files, files->alive_name);
		unlink(path);
		close(files->alive_fd);
	}
	free(files->directory);
	*files = (struct local_files){ .alive_fd = -1 };
}

/* Of a file in our directories: what is missing there was removed under us. */
static int file_error(const char *what, const char *path, struct err *err)
{
	err_errno(err, "cannot %s %s", what, path);
	if (err->class != ERR_MISSING)
		return -1;
	err->class = ERR_CONFIG;
	return err_remedy(err, "its directory was moved or removed: restart refrelay");
}

/* A new file, ours alone, with its lock. Whoever sweeps may look at it this moment. */
static int local_files_make_locked(const char *path, struct err *err)
{
	AUTO_CLOSE int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	int locked = -1;

	while (fd >= 0 && (locked = flock(fd, LOCK_EX)) != 0 && errno == EINTR)
		;
	if (locked != 0)
		return file_error("make and lock", path, err);
	return TAKE_FD(fd);
}

int alive_start(struct local_files *files, struct err *err)
{
	char random[17];

	if (files->alive_fd >= 0)
		return 0;
	random_hex(random, 8);
	snprintf(files->alive_name, sizeof(files->alive_name), "%d-%s", (int)getpid(),
		 random);
	AUTO_FREE char *path = alive_path(files, files->alive_name);
	files->alive_fd = local_files_make_locked(path, err);
	return files->alive_fd < 0 ? -1 : 0;
}

/* A shared lock: several who look do not take each other for the owner. */
enum alive_state alive_probe_path(const char *path)
{
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return ALIVE_UNKNOWN;
	return flock(fd, LOCK_SH | LOCK_NB) == 0 ? ALIVE_NO : ALIVE_YES;
}

enum alive_state alive_probe(const struct local_files *files, const char *name)
{
	AUTO_FREE char *path = alive_path(files, name);

	return alive_probe_path(path);
}

int alive_sweep(const struct local_files *files,
		int (*forget)(const char *name, void *arg, struct err *err), void *arg,
		struct err *err)
{
	AUTO_FREE char *path = alive_path(files, "");
	AUTO_CLOSEDIR DIR *dir = opendir(path);
	struct dirent *entry;

	if (!dir)
		return file_error("list", path, err);
	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.' ||
		    alive_probe(files, entry->d_name) != ALIVE_NO)
			continue;
		int result = forget(entry->d_name, arg, err);
		if (result < 0)
			return -1;
		if (result > 0)
			unlinkat(dirfd(dir), entry->d_name, 0);
	}
	return 0;
}

bool guard_is_busy(const struct local_files *files, const char *key)
{
	AUTO_FREE char *path = guard_path(files, key);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0;
}

int guard_take(const struct local_files *files, const char *key, struct err *err)
{
	AUTO_FREE char *path = guard_path(files, key);

	if (unlink(path) != 0 && errno != ENOENT)
		return file_error("remove", path, err);
	return local_files_make_locked(path, err);
}

bool guard_mark(int guard_fd, const char *nonce)
{
	ssize_t len = (ssize_t)strlen(nonce);
	struct stat st;

	return guard_fd >= 0 && fstat(guard_fd, &st) == 0 && st.st_nlink > 0 &&
	       pwrite(guard_fd, nonce, (size_t)len, 0) == len;
}

bool guard_is_marked(const struct local_files *files, const char *key, const char *nonce)
{
	AUTO_FREE char *path = guard_path(files, key);
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	char mark[64];
	ssize_t len = fd >= 0 ? read(fd, mark, sizeof(mark)) : 0;

	return len > 0 && (size_t)len == strlen(nonce) &&
	       memcmp(mark, nonce, (size_t)len) == 0;
}

void guard_drop(const struct local_files *files, const char *key)
{
	AUTO_FREE char *path = guard_path(files, key);

	unlink(path);
}

int guard_open(const struct local_files *files, const char *key)
{
	AUTO_FREE char *path = guard_path(files, key);

	return open(path, O_WRONLY | O_CLOEXEC);
}

/* Absent, or no watches left: those who wait ask again by themselves. */
static void local_files_watch_path(int hint_fd, const char *path, uint32_t events)
{
	if (hint_fd >= 0)
		inotify_add_watch(hint_fd, path, events);
}

void local_files_watch(const struct local_files *files, const char *key,
		       const char *alive_name, int hint_fd)
{
	AUTO_FREE char *alive = alive_path(files, alive_name);
	AUTO_FREE char *guard = guard_path(files, key);

	local_files_watch_path(hint_fd, alive, IN_CLOSE_WRITE);
	local_files_watch_path(hint_fd, guard, IN_CLOSE_WRITE);
}

void local_files_watch_self(const struct local_files *files, int hint_fd)
{
	AUTO_FREE char *path = alive_path(files, files->alive_name);

	local_files_watch_path(hint_fd, path, IN_ATTRIB);
}

void alive_touch(const struct local_files *files, const char *name)
{
	AUTO_FREE char *path = alive_path(files, name);

	if (name[0])
		utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
}

bool local_files_drain_hints(int hint_fd)
{
	char events[4096];
	bool has_any = false;

	while (hint_fd >= 0 && read(hint_fd, events, sizeof(events)) > 0)
		has_any = true;
	return has_any;
}
