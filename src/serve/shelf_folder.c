#include "serve/shelf_folder.h"

#include "base/file.h"

#define DIGITS "0123456789abcdef"
#define TEMPORARY "tmp-"

enum {
	FOLDERS = 256,
	FILE_DIGITS = GENERATION_NAME_SIZE - 1 - 2,
	TEMPORARY_DIGITS = 16,
	FOLDER_FLAGS = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
};

static int disk_cache_folder_make_directory(const char *directory, struct err *err)
{
	if (dir_make_parents(AT_FDCWD, directory, err) != 0)
		return -1;
	if (mkdir(directory, 0700) != 0 && errno != EEXIST)
		return err_errno(err, "cannot make directory %s", directory);
	return 0;
}

/* Who can write there decides what clients are told. */
static int disk_cache_folder_check_mode(int dir, const char *directory, struct err *err)
{
	struct stat st;

	if (fstat(dir, &st) != 0)
		return err_errno(err, "cannot look at %s", directory);
	if (!(st.st_mode & S_IWOTH))
		return 0;
	err_set(err, ERR_CONFIG, "everybody may write to the cache's directory %s",
		directory);
	return err_remedy(err, "chmod o-w %s", directory);
}

int shelf_directory_open(const char *directory, struct err *err)
{
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, directory, err);

	if (dir < 0 && err->sys_errno == ENOENT) {
		if (disk_cache_folder_make_directory(directory, err) != 0)
			return -1;
		dir = dir_open(AT_FDCWD, directory, err);
	}
	if (dir < 0 || disk_cache_folder_check_mode(dir, directory, err) != 0)
		return -1;
	return TAKE_FD(dir);
}

static int copy_mode(int from, int to, mode_t mask, struct err *err)
{
	struct stat st;

	if (fstat(from, &st) != 0 || fchmod(to, st.st_mode & mask) != 0)
		return err_errno(err, "cannot set the mode of a cache file");
	return 0;
}

int shelf_folder_open(int dir, const char *name, struct err *err)
{
	const char folder[3] = { name[0], name[1] };
	int fd = openat(dir, folder, FOLDER_FLAGS);

	return fd >= 0 ? fd : err_errno(err, "cannot open the cache's folder %s", folder);
}

int shelf_folder_make(int dir, const char *name, struct err *err)
{
	const char folder[3] = { name[0], name[1] };
	bool is_new = mkdirat(dir, folder, 0700) == 0;

	if (!is_new && errno != EEXIST)
		return err_errno(err, "cannot make the cache's folder %s", folder);
	AUTO_CLOSE int fd = shelf_folder_open(dir, name, err);
	if (fd < 0 || (is_new && copy_mode(dir, fd, 07777, err) != 0))
		return -1;
	return TAKE_FD(fd);
}

int shelf_temporary(int folder, char name[SHELF_TEMPORARY_SIZE], struct err *err)
{
	char digits[TEMPORARY_DIGITS + 1];

	random_hex(digits, TEMPORARY_DIGITS / 2);
	snprintf(name, SHELF_TEMPORARY_SIZE, TEMPORARY "%s", digits);
	AUTO_CLOSE int fd =
		openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(err, "cannot create a cache file");
	if (copy_mode(folder, fd, 0666, err) != 0) {
		unlinkat(folder, name, 0);
		return -1;
	}
	return TAKE_FD(fd);
}

int64_t shelf_mtime_ms(const struct stat *st)
{
	return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

int shelf_now(int dir, int64_t *now_ms, struct err *err)
{
	char name[SHELF_TEMPORARY_SIZE];
	struct stat st;
	AUTO_CLOSE int fd = shelf_temporary(dir, name, err);

	if (fd < 0)
		return -1;
	unlinkat(dir, name, 0);
	if (fstat(fd, &st) != 0)
		return err_errno(err, "cannot look at a cache file");
	*now_ms = shelf_mtime_ms(&st);
	return 0;
}

static bool is_digits(const char *text, size_t len)
{
	return strlen(text) == len && strspn(text, DIGITS) == len;
}

static bool shelf_folder_is_temporary(const char *file)
{
	return text_starts_with(file, TEMPORARY) &&
	       is_digits(file + strlen(TEMPORARY), TEMPORARY_DIGITS);
}

/* prefix: the folder's two digits; "" in the directory itself, where no generation is. */
static void disk_cache_folder_show_file(const struct shelf_walk *walk, int folder,
					const char *prefix, const char *file)
{
	char name[GENERATION_NAME_SIZE];
	bool is_generation = prefix[0] && is_digits(file, FILE_DIGITS);
	struct stat st;

	if ((!is_generation && !shelf_folder_is_temporary(file)) ||
	    fstatat(folder, file, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
		return;
	if (is_generation)
		snprintf(name, sizeof(name), "%s%s", prefix, file);
	walk->show(walk->arg, &(struct shelf_found){ .folder = folder,
						     .file = file,
						     .name = is_generation ? name : NULL,
						     .st = &st });
}

/* What was removed since, or is no folder, is passed over. */
static int walk_folder(int dir, const struct shelf_walk *walk, const char *prefix,
		       struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, prefix[0] ? prefix : ".");

	if (!list && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP))
		return 0;
	if (!list)
		return err_errno(err, "cannot list the cache's folder %s", prefix);
	while (errno = 0, (entry = readdir(list)) != NULL) {
		if (walk->stop && stop_is_requested(walk->stop))
			return err_set(err, ERR_CANCELED, "stopped");
		disk_cache_folder_show_file(walk, dirfd(list), prefix, entry->d_name);
	}
	if (errno != 0)
		return err_errno(err, "cannot list the cache's folder %s", prefix);
	if (walk->stop && stop_wait(walk->stop, walk->rest_ms))
		return err_set(err, ERR_CANCELED, "stopped");
	return 0;
}

int shelf_walk(int dir, const struct shelf_walk *walk, struct err *err)
{
	if (walk_folder(dir, walk, "", err) != 0)
		return -1;
	for (unsigned i = 0; i < FOLDERS; i++) {
		char prefix[3];
		snprintf(prefix, sizeof(prefix), "%02x", i);
		if (walk_folder(dir, walk, prefix, err) != 0)
			return -1;
	}
	return 0;
}
