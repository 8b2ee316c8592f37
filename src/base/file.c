#include "base/file.h"

#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "base/flush.h"
#include "base/str.h"

#define PATH_LIMIT 1024
#define PART_LIMIT 250

static bool has_control(const char *path)
{
	for (; *path; path++)
		if ((unsigned char)*path < 0x20 || *path == 0x7f)
			return true;
	return false;
}

static const char *part_fault(const char *part, size_t len)
{
	if (len == 0)
		return "a part of it is empty";
	if ((len == 1 && part[0] == '.') ||
	    (len == 2 && part[0] == '.' && part[1] == '.'))
		return "a part of it is \".\" or \"..\"";
	return len > PART_LIMIT ? "a part of it has more than 250 bytes" : NULL;
}

const char *path_fault(const char *path)
{
	const char *fault = NULL;
	size_t len = 0;

	if (!text_is_utf8(path, strlen(path)))
		return "it is not UTF-8";
	if (has_control(path))
		return "it has control characters";
	if (strlen(path) > PATH_LIMIT)
		return "it has more than 1024 bytes";
	do {
		len = strcspn(path, "/");
		fault = part_fault(path, len);
		path += len + 1;
	} while (!fault && path[-1] == '/');
	return fault;
}

/* O_DIRECTORY hides from errno that the last one was a link. */
static int path_open_part(int dir, const char *part)
{
	int fd = openat(dir, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char target[1];

	if (fd < 0 && errno == ENOTDIR)
		errno = readlinkat(dir, part, target, sizeof(target)) < 0 ? ENOTDIR
									  : ELOOP;
	return fd;
}

/* For kernels before Linux 5.6, and containers whose filter does not know the call. */
static int path_open_by_parts(int root, const char *path, int flags)
{
	int fd = openat(root, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0 && strchr(path, '/')) {
		AUTO_CLOSE int parent = fd;
		AUTO_FREE char *part = xstrndup(path, strcspn(path, "/"));
		fd = path_open_part(parent, part);
		path += strlen(part) + 1;
	}
	AUTO_CLOSE int last = fd;
	return last < 0 ? -1 : openat(last, path, flags | O_NOFOLLOW);
}

int path_open_beneath(int root, const char *path, int flags)
{
	const char *name = *path ? path : ".";
	const struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
	};
	long fd = syscall(SYS_openat2, root, name, &how, sizeof(how));

	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return path_open_by_parts(root, name, flags | O_CLOEXEC);
	return (int)fd;
}

static int file_read_all(int fd, const char *path, size_t limit, struct str *out,
			 struct err *err)
{
	size_t start = out->len;

	while (out->len - start <= limit) {
		if (out->capacity - out->len <= 1)
			str_reserve(out, out->len + 4096);
		ssize_t got =
			read(fd, out->data + out->len, out->capacity - out->len - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, "cannot read %s", path);
		if (got == 0)
			return 0;
		out->len += (size_t)got;
		out->data[out->len] = '\0';
	}
	return err_set(err, ERR_CORRUPT, "%s has more than %zu bytes", path, limit);
}

/* A byte more, so that the end is seen. */
static void file_make_room(const struct stat *st, size_t limit, struct str *out)
{
	if (st->st_size > 0 && (uint64_t)st->st_size <= limit)
		str_reserve(out, (size_t)st->st_size + 1);
}

static int read_open(int fd, const char *path, size_t limit, struct str *out,
		     struct err *err)
{
	size_t start = out->len;

	if (file_read_all(fd, path, limit, out, err) != 0) {
		str_truncate(out, start);
		return -1;
	}
	return 0;
}

int file_read_any(int dir, const char *path, size_t limit, struct str *out,
		  struct err *err)
{
	struct stat st;
	AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_errno(err, "cannot open %s", path);
	file_make_room(&st, limit, out);
	return read_open(fd, path, limit, out, err);
}

int file_read(int dir, const char *path, size_t limit, struct str *out, struct err *err)
{
	struct stat st;
	AUTO_CLOSE int fd =
		openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	bool is_open = fd >= 0 && fstat(fd, &st) == 0;
	if ((fd < 0 && errno == ELOOP) || (is_open && !S_ISREG(st.st_mode))) {
		err_set(err, ERR_CONFIG, "%s is not a regular file", path);
		return err_remedy(
			err,
			"put a regular file there; links and devices are not followed");
	}
	if (!is_open)
		return err_errno(err, "cannot open %s", path);
	file_make_room(&st, limit, out);
	return read_open(fd, path, limit, out, err);
}

int file_write_all(int fd, const void *data, size_t len, const char *path,
		   struct err *err)
{
	const char *at = data;

	while (len > 0) {
		ssize_t put = write(fd, at, len);
		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return err_errno(err, "cannot write %s", path);
		at += put;
		len -= (size_t)put;
	}
	return 0;
}

struct content {
	const void *data;
	size_t len;
	mode_t most; /* rights of a new file */
};

int file_sync_parent(int dir, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *parent = NULL;

	if (!slash)
		return dir_sync(dir, ".", err);
	parent = slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
	return dir_sync(dir, parent, err);
}

int file_sync_parents(int dir, const char *path, struct err *err)
{
	AUTO_FREE char *above = xstrdup(path);
	char *slash;

	while ((slash = strrchr(above, '/')) != NULL) {
		*slash = '\0';
		if (dir_sync(dir, above, err) != 0)
			return -1;
	}
	return 0;
}

/* Makes a new file at `temporary` with the mode of the one at `path`, if there is one,
 * but no more than `most`: what was kept from others stays kept from them. It has that
 * mode from the first moment, but for bits that the umask takes away. */
static int create_like(int dir, const char *temporary, const char *path, mode_t most,
		       struct err *err)
{
	struct stat old;
	bool replaces = fstatat(dir, path, &old, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISREG(old.st_mode);
	mode_t mode = replaces ? old.st_mode & (most == 0600 ? 0700 : 0777) : most;
	AUTO_CLOSE int fd =
		openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	if (fd < 0)
		return err_errno(err, "cannot create %s", temporary);
	if (replaces && fchmod(fd, mode) != 0) {
		err_errno(err, "cannot set the mode of %s", temporary);
		unlinkat(dir, temporary, 0);
		return -1;
	}
	return TAKE_FD(fd);
}

/* Leaves errno for what it is called for. */
static int file_flush_content(int fd, enum file_sync sync, struct err *err)
{
	switch (sync) {
	case FILE_NO_SYNC:
		return 0;
	case FILE_ORDERED:
		return flush_in_order(fd, err);
	case FILE_WHOLE:
		return flush_before_names(&fd, 1, err);
	case FILE_SYNC:
		return fsync(fd);
	}
	return 0;
}

static int file_replace_content(int dir, const char *path, const struct content *content,
				enum file_sync sync, struct err *err)
{
	char suffix[17];
	AUTO_FREE char *temporary = NULL;

	random_hex(suffix, 8);
	temporary = xasprintf("%s.tmp-%s", path, suffix);
	AUTO_CLOSE int fd = create_like(dir, temporary, path, content->most, err);
	if (fd < 0)
		return -1;
	if (file_write_all(fd, content->data, content->len, temporary, err) != 0)
		goto undo;
	if (file_flush_content(fd, sync, err) != 0) {
		err_errno(err, "cannot sync %s", temporary);
		goto undo;
	}
	if (renameat(dir, temporary, dir, path) != 0) {
		err_errno(err, "cannot rename %s to %s", temporary, path);
		goto undo;
	}
	return sync == FILE_SYNC ? file_sync_parent(dir, path, err) : 0;
undo:
	unlinkat(dir, temporary, 0);
	return -1;
}

int file_replace(int dir, const char *path, const void *data, size_t len,
		 enum file_sync sync, struct err *err)
{
	return file_replace_content(dir, path, &(struct content){ data, len, 0666 }, sync,
				    err);
}

int file_replace_private(int dir, const char *path, const void *data, size_t len,
			 enum file_sync sync, struct err *err)
{
	return file_replace_content(dir, path, &(struct content){ data, len, 0600 }, sync,
				    err);
}

/* To make a file and to remove one is most of what a small replacement costs. What is
 * whole already stays so without a flush. */
static bool file_write_over(int dir, const char *path, const struct content *content,
			    enum file_sync sync)
{
	enum file_sync as = sync == FILE_WHOLE ? FILE_ORDERED : sync;
	AUTO_CLOSE int fd =
		openat(dir, path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       st.st_nlink == 1 && st.st_size == (off_t)content->len &&
	       file_system_is_local(fd) &&
	       pwrite(fd, content->data, content->len, 0) == (ssize_t)content->len &&
	       file_flush_content(fd, as, ERR_IGNORED) == 0;
}

int file_overwrite(int dir, const char *path, const void *data, size_t len,
		   enum file_sync sync, struct err *err)
{
	const struct content content = { data, len, 0666 };

	return len <= FILE_OVERWRITE_MOST && file_write_over(dir, path, &content, sync)
		       ? 0
		       : file_replace_content(dir, path, &content, sync, err);
}

int dir_open(int dir, const char *path, struct err *err)
{
	int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 ? fd : err_errno(err, "cannot open directory %s", path);
}

DIR *dir_list(int dir, const char *path)
{
	int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (!list && fd >= 0) {
		int saved = errno;
		close(fd);
		errno = saved;
	}
	return list;
}

bool dir_is_absent(int code)
{
	return code == ENOENT || code == ENOTDIR || code == ELOOP;
}

bool file_is_there(int dir, const char *path)
{
	struct stat st;

	return fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

bool file_is_named(int dir, const char *path, int fd)
{
	struct stat named, open;

	return fstat(fd, &open) == 0 &&
	       fstatat(dir, path, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       named.st_ino == open.st_ino && named.st_dev == open.st_dev;
}

bool file_is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
	       a->st_size == b->st_size && clock_same_time(&a->st_mtim, &b->st_mtim) &&
	       clock_same_time(&a->st_ctim, &b->st_ctim);
}

bool file_is_filled(int dir, const char *path)
{
	struct stat st;

	return fstatat(dir, path, &st, 0) == 0 && st.st_size > 0;
}

bool name_is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

bool dir_is_empty(int dir, const char *path)
{
	AUTO_CLOSEDIR DIR *list = dir_list(dir, path);
	const struct dirent *entry;

	while (list && (entry = readdir(list)) != NULL)
		if (!name_is_dots(entry->d_name)) {
			errno = ENOTEMPTY;
			return false;
		}
	return list != NULL;
}

bool dir_entry_is_directory(int dir, const struct dirent *entry)
{
	struct stat st;

	if (entry->d_type != DT_UNKNOWN)
		return entry->d_type == DT_DIR;
	return fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISDIR(st.st_mode);
}

bool path_is_below(const char *path, const char *above)
{
	size_t len = strlen(above);

	return strncmp(path, above, len) == 0 &&
	       (path[len] == '\0' || path[len] == '/' || len == 1);
}

bool path_is_within(const char *path, const char *above)
{
	size_t len = strlen(above);

	return len == 0 || (strncmp(path, above, len) == 0 &&
			    (path[len] == '/' || path[len] == '\0'));
}

/* Of what is not there no link leads anywhere: "..", "." and "//" are what they say. */
static void path_add_rest(struct str *resolved, const char *rest)
{
	while (*rest) {
		size_t len = strcspn(rest, "/");
		const char *up = strrchr(resolved->data, '/');
		if (len == 2 && memcmp(rest, "..", 2) == 0)
			str_truncate(resolved, up ? (size_t)(up - resolved->data) : 0);
		else if (len > 1 || (len == 1 && *rest != '.'))
			str_addf(resolved, "/%.*s", (int)len, rest);
		rest += len + (rest[len] == '/');
	}
	if (resolved->len == 0)
		str_add_char(resolved, '/');
}

char *path_resolve(const char *path)
{
	AUTO_FREE char *there = xstrdup(path);
	AUTO_STR struct str resolved = STR_INIT;
	AUTO_FREE char *found = NULL;
	const char *rest = path;
	char *slash;

	while ((found = realpath(there, NULL)) == NULL && errno == ENOENT &&
	       (slash = strrchr(there, '/')) != NULL && slash != there)
		*slash = '\0';
	if (found)
		rest += strlen(there);
	else if (path[0] != '/' && (found = realpath(".", NULL)) == NULL)
		return xstrdup(path);
	if (found && strcmp(found, "/") != 0)
		str_add(&resolved, found);
	path_add_rest(&resolved, rest);
	return str_take(&resolved);
}

int paths_check_apart(const char *name, const char *path, const char *other_name,
		      const char *other, struct err *err)
{
	AUTO_FREE char *one = path_resolve(path);
	AUTO_FREE char *two = path_resolve(other);

	if (!path_is_below(one, two) && !path_is_below(two, one))
		return 0;
	err_set(err, ERR_CONFIG, "%s %s and %s %s are inside each other", name, path,
		other_name, other);
	return err_remedy(err, "choose directories that do not contain each other, also "
			       "through symbolic links");
}

int dir_sync(int dir, const char *path, struct err *err)
{
	AUTO_CLOSE int fd = dir_open(dir, path, err);

	if (fd < 0)
		return -1;
	return fsync(fd) == 0 ? 0 : err_errno(err, "cannot sync directory %s", path);
}

int file_flush(int dir, const char *path, struct err *err)
{
	AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return err_errno(err, "cannot open %s", path);
	return fsync(fd) == 0 ? 0 : err_errno(err, "cannot sync %s", path);
}

static int file_fail_in_the_way(const char *path, const char *what, struct err *err)
{
	err_set(err, ERR_CONFIG, "cannot make directory %s: %s is in the way", path,
		what);
	return err_remedy(err, "move that file away, or choose another place");
}

int dir_make(int dir, const char *path, struct err *err)
{
	struct stat st;

	if (mkdirat(dir, path, 0777) == 0)
		return 0;
	if (errno == ENOENT) {
		if (dir_make_parents(dir, path, err) != 0)
			return -1;
		if (mkdirat(dir, path, 0777) == 0)
			return 0;
	}
	if (errno == ENOTDIR)
		return file_fail_in_the_way(path, "a file above it", err);
	if (errno != EEXIST)
		return err_errno(err, "cannot make directory %s", path);
	if (fstatat(dir, path, &st, 0) != 0)
		return err_errno(err, "cannot look at %s", path);
	return S_ISDIR(st.st_mode)
		       ? 0
		       : file_fail_in_the_way(path, "a file of that name", err);
}

int dir_make_parents(int dir, const char *path, struct err *err)
{
	AUTO_FREE char *parent = xstrdup(path);
	char *slash;

	while ((slash = strrchr(parent, '/')) != NULL && slash[1] == '\0' &&
	       slash != parent)
		*slash = '\0'; /* trailing slashes */
	if (!slash || slash == parent)
		return 0;
	*slash = '\0';
	return dir_make(dir, parent, err);
}

void dir_remove_above(int dir, const char *path, const char *up_to)
{
	AUTO_FREE char *above = xstrdup(path);
	char *slash;

	while ((!up_to || strcmp(above, up_to) != 0) &&
	       (slash = strrchr(above, '/')) != NULL) {
		*slash = '\0';
		if (unlinkat(dir, above, AT_REMOVEDIR) != 0)
			break;
	}
}

static int remove_tree(int dir, const char *path, struct err *err);

static int remove_below(int fd, const char *path, struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *dir = fdopendir(fd);

	if (!dir) {
		close(fd);
		return err_errno(err, "cannot list %s", path);
	}
	while (errno = 0, (entry = readdir(dir)) != NULL) {
		const char *name = entry->d_name;
		if (name_is_dots(name))
			continue;
		if (unlinkat(dirfd(dir), name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR && errno != EPERM)
			return err_errno(err, "cannot remove %s/%s", path, name);
		if (remove_tree(dirfd(dir), name, err) != 0)
			return err_prefix(err, "%s", path);
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", path);
}

static int open_tree(int dir, const char *path)
{
	return openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* What its owner may not enter, he may still give himself the right to. */
static int open_any_tree(int dir, const char *path)
{
	int fd = open_tree(dir, path);
	struct stat st;

	if (fd >= 0 || errno != EACCES)
		return fd;
	if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISDIR(st.st_mode) ||
	    fchmodat(dir, path, S_IRWXU, 0) != 0) {
		errno = EACCES;
		return -1;
	}
	return open_tree(dir, path);
}

/* Requires a path without a slash at its end: the kernel would follow a link there. */
static int remove_tree(int dir, const char *path, struct err *err)
{
	int fd = open_any_tree(dir, path);
	int flags = AT_REMOVEDIR;

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		flags = 0;
	else if (fd < 0)
		return err_errno(err, "cannot open %s", path);
	else if (remove_below(fd, path, err) != 0)
		return -1;
	if (unlinkat(dir, path, flags) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s", path);
	return 0;
}

int tree_remove(int dir, const char *path, struct err *err)
{
	AUTO_FREE char *name = xstrdup(path);

	for (size_t len = strlen(name); len > 1 && name[len - 1] == '/'; len--)
		name[len - 1] = '\0';
	return remove_tree(dir, name, err);
}

bool file_system_is_local(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) != 0)
		return false;
	switch ((unsigned long)fs.f_type) {
	case NFS_SUPER_MAGIC:
	case SMB_SUPER_MAGIC:
	case 0xff534d42UL: /* cifs */
	case 0xfe534d42UL: /* smb2 */
	case CEPH_SUPER_MAGIC:
	case AFS_SUPER_MAGIC:
	case 0x65735546UL: /* fuse: may be anything */
	case 0x01021997UL: /* 9p */
	case 0x47504653UL: /* gpfs */
	case 0x0bd00bd0UL: /* lustre */
	case 0x01161970UL: /* gfs2 */
	case 0x7461636fUL: /* ocfs2 */
		return false;
	default:
		return true;
	}
}

void random_hex(char *text, size_t bytes)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char raw[64];

	if (bytes > sizeof(raw) || getrandom(raw, bytes, 0) != (ssize_t)bytes)
		abort();
	for (size_t i = 0; i < bytes; i++) {
		text[2 * i] = digits[raw[i] >> 4];
		text[2 * i + 1] = digits[raw[i] & 15];
	}
	text[2 * bytes] = '\0';
}
