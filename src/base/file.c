#include "base/file.h"

#include <linux/magic.h>
#include <sys/random.h>
#include <sys/vfs.h>

int file_read(int dir, const char *path, size_t limit, struct str *out, struct err *err)
{
	struct stat st;
	size_t start = out->len;
	AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) != 0)
		return err_errno(err, "cannot open %s", path);
	str_reserve(out, st.st_size > 0 && (size_t)st.st_size <= limit
				 ? (size_t)st.st_size + 1
				 : 4096);
	for (;;) {
		size_t room = out->capacity - out->len - 1;
		ssize_t got = read(fd, out->data + out->len, room);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, "cannot read %s", path);
		if (got == 0)
			break;
		out->len += (size_t)got;
		out->data[out->len] = '\0';
		if (out->len - start > limit)
			return err_set(err, ERR_CORRUPT, "%s has more than %zu bytes",
				       path, limit);
		if (out->capacity - out->len - 1 == 0)
			str_reserve(out, out->capacity);
	}
	return 0;
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

/* Makes the name `path`, not what it points to, durable. */
static int sync_parent(int dir, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *parent = NULL;

	if (!slash)
		return dir_sync(dir, ".", err);
	parent = slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
	return dir_sync(dir, parent, err);
}

static int fill_and_rename(int dir, const char *temporary, const char *path,
			   struct str *data, enum file_sync sync, struct err *err)
{
	AUTO_CLOSE int fd =
		openat(dir, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (fd < 0)
		return err_errno(err, "cannot create %s", temporary);
	if (file_write_all(fd, data->data, data->len, temporary, err) != 0)
		return -1;
	if (sync == FILE_SYNC && fsync(fd) != 0)
		return err_errno(err, "cannot sync %s", temporary);
	if (renameat(dir, temporary, dir, path) != 0)
		return err_errno(err, "cannot rename %s to %s", temporary, path);
	return 0;
}

int file_replace(int dir, const char *path, const void *data, size_t len,
		 enum file_sync sync, struct err *err)
{
	char suffix[17];
	AUTO_FREE char *temporary = NULL;
	AUTO_STR struct str content = STR_INIT;

	random_hex(suffix, 8);
	temporary = xasprintf("%s.tmp-%s", path, suffix);
	str_add_bytes(&content, data, len);
	if (fill_and_rename(dir, temporary, path, &content, sync, err) != 0) {
		unlinkat(dir, temporary, 0);
		return -1;
	}
	return sync == FILE_SYNC ? sync_parent(dir, path, err) : 0;
}

int dir_open(int dir, const char *path, struct err *err)
{
	int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 ? fd : err_errno(err, "cannot open directory %s", path);
}

int dir_sync(int dir, const char *path, struct err *err)
{
	AUTO_CLOSE int fd = dir_open(dir, path, err);

	if (fd < 0)
		return -1;
	return fsync(fd) == 0 ? 0 : err_errno(err, "cannot sync directory %s", path);
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
	if (errno != EEXIST)
		return err_errno(err, "cannot make directory %s", path);
	if (fstatat(dir, path, &st, 0) != 0)
		return err_errno(err, "cannot look at %s", path);
	if (!S_ISDIR(st.st_mode)) {
		err_set(err, ERR_CONFIG, "%s is in the way: a directory is needed there",
			path);
		return err_remedy(err, "move that file away, or choose another place");
	}
	return 0;
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
		if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
			continue;
		if (unlinkat(dirfd(dir), name, 0) == 0 || errno == ENOENT)
			continue;
		if (errno != EISDIR && errno != EPERM)
			return err_errno(err, "cannot remove %s/%s", path, name);
		if (tree_remove(dirfd(dir), name, err) != 0)
			return -1;
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", path);
}

int tree_remove(int dir, const char *path, struct err *err)
{
	int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
		return unlinkat(dir, path, 0) == 0
			       ? 0
			       : err_errno(err, "cannot remove %s", path);
	if (fd < 0)
		return err_errno(err, "cannot open %s", path);
	if (remove_below(fd, path, err) != 0)
		return -1;
	if (unlinkat(dir, path, AT_REMOVEDIR) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s", path);
	return 0;
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
