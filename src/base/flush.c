/*
 * FLUSH_JOURNAL, for ext4 with a journal and XFS: both write changes of names, sizes and
 * extents to one log, in the order in which they were made. sync_file_range() has the
 * pages written and waits for them; when it returns, the changes that belong to these
 * pages (size, extents) are in the log's running transaction or an earlier one. fsync()
 * of a file commits the log up to the last change of *that file*, and empties the
 * device's cache. So that this is not an older transaction than the others' changes are
 * in, the file is touched first, after all waits. Then nothing of the others can be
 * missing. The same holds for the rename that was made last: its directory's last
 * change is not older than any rename before.
 *
 * So a file whose pages were waited for, and which gets its name after that, is never
 * seen by that name with less in it: what is in the log of the name comes later than what
 * is in it of the file, and before a part of the log counts as written the device has
 * emptied its cache. That is what flush_before_names() does, without a flush of its own.
 *
 * It is assumed that the log is on the file system's own device, as it is unless somebody
 * has made it otherwise: ext4 does not tell.
 *
 * The log must be there: ext4 also drives file systems without one (and those of ext2,
 * which look the same to statfs). The kernel tells in sysfs; where it does not, there is
 * none for us.
 *
 * syncfs() needs no such argument, but writes what strangers have to write, too.
 */
#include "base/flush.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"

/* From so many files on one flush of everything is cheaper than one for each. */
#define MANY 16

/* How long it is taken for granted that a file system has its log still. */
#define LOG_KNOWN_MS 10000
#define LOGS_KNOWN 8

#ifndef XFS_SUPER_MAGIC
#define XFS_SUPER_MAGIC 0x58465342
#endif

/* /sys/fs/ext4/<device>/journal_task has a thread's number, or "<none>". */
static bool ext4_has_journal(dev_t device)
{
	AUTO_FREE char *link =
		xasprintf("/sys/dev/block/%u:%u", major(device), minor(device));
	AUTO_FREE char *block = realpath(link, NULL);
	const char *name = block ? strrchr(block, '/') : NULL;
	AUTO_STR struct str text = STR_INIT;

	if (!name)
		return false;
	AUTO_FREE char *path = xasprintf("/sys/fs/ext4%s/journal_task", name);
	return file_read(AT_FDCWD, path, 64, &text, ERR_IGNORED) == 0 &&
	       text.data[0] >= '0' && text.data[0] <= '9';
}

/* A file system of ext4, as far as it is known. Another one may be mounted from the same
 * device. */
struct known_log {
	dev_t device;
	fsid_t id;
	int64_t until; /* boot ms; 0: nothing is known */
	bool has_log;
};

static struct {
	pthread_mutex_t mutex;
	struct known_log logs[LOGS_KNOWN]; /* guarded by mutex */
	size_t next;                       /* likewise: whose place is taken next */
} known = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static bool flush_find_log(const struct known_log *asked, bool *has_log)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&known.mutex);

	for (size_t i = 0; i < LOGS_KNOWN; i++) {
		const struct known_log *one = &known.logs[i];
		if (one->until < asked->until || one->device != asked->device ||
		    memcmp(&one->id, &asked->id, sizeof(one->id)) != 0)
			continue;
		*has_log = one->has_log;
		return true;
	}
	return false;
}

static void flush_keep_log(struct known_log found)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&known.mutex);

	found.until += LOG_KNOWN_MS;
	known.logs[known.next++ % LOGS_KNOWN] = found;
}

/* The question costs more than a flush of a small file may. */
static bool ext4_has_known_journal(dev_t device, fsid_t id)
{
	struct known_log log = { .device = device, .id = id, .until = clock_boot_ms() };
	bool has_log;

	if (flush_find_log(&log, &has_log))
		return has_log;
	log.has_log = ext4_has_journal(device);
	flush_keep_log(log);
	return log.has_log;
}

/* Files on a device of their own have nothing to do with the log's. */
static bool xfs_is_realtime(int fd)
{
	struct fsxattr attributes;

	return ioctl(fd, FS_IOC_FSGETXATTR, &attributes) != 0 ||
	       (attributes.fsx_xflags & (FS_XFLAG_REALTIME | FS_XFLAG_RTINHERIT)) != 0;
}

static bool has_one_log(int fd)
{
	struct statfs fs;
	struct stat st;

	if (fstatfs(fd, &fs) != 0 || fstat(fd, &st) != 0)
		return false;
	if ((unsigned long)fs.f_type == EXT4_SUPER_MAGIC)
		return ext4_has_known_journal(st.st_dev, fs.f_fsid);
	return (unsigned long)fs.f_type == XFS_SUPER_MAGIC && !xfs_is_realtime(fd);
}

enum flush_way flush_way_for(int fd, size_t files)
{
	if (has_one_log(fd))
		return FLUSH_JOURNAL;
	return files >= MANY ? FLUSH_SYSTEM : FLUSH_EACH;
}

static int flush_fail(const char *what, struct err *err)
{
	int result = err_errno(err, "cannot %s", what);

	if (err->class == ERR_INTERNAL)
		err->class = ERR_DISK;
	return result;
}

static int flush_each(const int *files, size_t count, struct err *err)
{
	for (size_t i = 0; i < count; i++)
		if (fsync(files[i]) != 0)
			return flush_fail("bring a file to disk", err);
	return 0;
}

/* All begin before the first is waited for. */
static int flush_write_pages(const int *files, size_t count, struct err *err)
{
	const unsigned wait = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
			      SYNC_FILE_RANGE_WAIT_AFTER;

	for (size_t i = 0; i < count; i++)
		if (sync_file_range(files[i], 0, 0, SYNC_FILE_RANGE_WRITE) != 0)
			return flush_fail("write a file to disk", err);
	for (size_t i = 0; i < count; i++)
		if (sync_file_range(files[i], 0, 0, wait) != 0)
			return flush_fail("write a file to disk", err);
	return 0;
}

static int flush_by_log(const int *files, size_t count, struct err *err)
{
	int last = files[count - 1];

	if (flush_write_pages(files, count, err) != 0)
		return -1;
	if (futimens(last, NULL) != 0 || fsync(last) != 0)
		return flush_fail("bring files to disk", err);
	return 0;
}

int flush_data(const int *files, size_t count, enum flush_way way, struct err *err)
{
	if (way == FLUSH_EACH)
		return flush_each(files, count, err);
	if (way == FLUSH_JOURNAL)
		return flush_by_log(files, count, err);
	return syncfs(files[0]) == 0 ? 0 : flush_fail("bring files to disk", err);
}

int flush_before_names(const int *files, size_t count, struct err *err)
{
	if (count == 0)
		return 0;
	return has_one_log(files[0]) ? flush_write_pages(files, count, err)
				     : flush_each(files, count, err);
}

int flush_in_order(int file, struct err *err)
{
	if (has_one_log(file))
		return flush_write_pages(&file, 1, err);
	if (sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE) == 0 || errno != EIO)
		return 0; /* not all file systems have it */
	return flush_fail("write a file to disk", err);
}

/* Those above it too: who made them may not have come to flush them. */
static int flush_above(int root, const char *id, struct err *err)
{
	AUTO_FREE char *path = xstrdup(id);
	char *slash;

	do {
		slash = strrchr(path, '/');
		path[slash ? slash - path : 0] = '\0';
		AUTO_CLOSE int dir =
			path_open_beneath(root, path, O_RDONLY | O_DIRECTORY);
		if (dir < 0 || fsync(dir) != 0)
			return flush_fail("bring a directory to disk", err);
	} while (slash);
	return 0;
}

int flush_name(int root, const char *id, enum flush_way way, struct err *err)
{
	const char *slash = strrchr(id, '/');

	if (way == FLUSH_EACH)
		return flush_above(root, id, err);
	AUTO_FREE char *path = xstrndup(id, slash ? (size_t)(slash - id) : 0);
	AUTO_CLOSE int dir = path_open_beneath(root, path, O_RDONLY | O_DIRECTORY);
	if (dir < 0 || (way == FLUSH_SYSTEM ? syncfs(dir) : fsync(dir)) != 0)
		return flush_fail("bring names to disk", err);
	return 0;
}

/* `synced` is the file system that was flushed last; 0: none. */
static int flush_one_present(int root, const char *id, enum flush_way way, dev_t *synced,
			     struct err *err)
{
	AUTO_CLOSE int fd = path_open_beneath(root, id, O_RDONLY | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) != 0)
		return flush_fail("open what is there", err);
	if (way == FLUSH_SYSTEM && st.st_dev == *synced)
		return 0;
	*synced = st.st_dev;
	if (flush_data(&fd, 1, way, err) != 0)
		return -1;
	return way == FLUSH_SYSTEM ? 0 : flush_name(root, id, way, err);
}

/* Not by the log: that would need one of them to be touched. */
int flush_present(int root, const char *const *ids, size_t count, struct err *err)
{
	enum flush_way way = count >= MANY ? FLUSH_SYSTEM : FLUSH_EACH;
	dev_t synced = 0;

	for (size_t i = 0; i < count; i++)
		if (flush_one_present(root, ids[i], way, &synced, err) != 0)
			return -1;
	return 0;
}
