#include "store/data_lock.h"

#include <limits.h>
#include <sys/file.h>

#include "base/file.h"

/* flock, since it needs no file to write into: of a primary's tree only repositories are
 * anybody's business. Some network file systems lock files only that are open for
 * writing, which a directory never is. */
int root_lock_take(const char *key, const char *root, enum root_lock_mode mode, int *fd,
		   struct err *err)
{
	const bool is_shared = mode == ROOT_LOCK_SHARED;

	if (*fd >= 0)
		return 0;
	AUTO_CLOSE int lock = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (lock < 0)
		return 0; /* whoever needs it says what is wrong */
	if (flock(lock, (is_shared ? LOCK_SH : LOCK_EX) | LOCK_NB) == 0) {
		*fd = TAKE_FD(lock);
		return 0;
	}
	if (errno != EWOULDBLOCK)
		return 0;
	err_set(err, ERR_BUSY, "another refrelay node works on %s (%s) already", key,
		root);
	if (is_shared)
		return err_remedy(err, "this one is a secondary's, or a primary's whose "
				       "lease.backend is local: such a directory is not "
				       "shared");
	return err_remedy(
		err,
		"use a separate directory for each site: a secondary never shares its "
		"primary's, and primaries share one only if lease.backend is not local");
}

#define LOCK_NAME "node.lock"

static int open_lock(const char *data, int flags)
{
	AUTO_FREE char *path = xasprintf("%s/" LOCK_NAME, data);

	return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

/* Locks of the open file description: other than POSIX locks they do not go when some
 * other descriptor of the file is closed; other than flock they can be asked about
 * without being taken. */
static struct flock whole_file(void)
{
	return (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET };
}

/* For people only: the lock itself names nobody. */
static void write_holder(int lock)
{
	char host[HOST_NAME_MAX + 1] = "";
	char text[HOST_NAME_MAX + 64];

	gethostname(host, sizeof(host) - 1);
	snprintf(text, sizeof(text), "process %d on %s\n", (int)getpid(), host);
	if (ftruncate(lock, 0) != 0 || pwrite(lock, text, strlen(text), 0) < 0)
		return; /* a full disk: then "another node" must do */
}

static int data_lock_refuse(int lock, const char *data, struct err *err)
{
	char holder[HOST_NAME_MAX + 64] = "";

	if (pread(lock, holder, sizeof(holder) - 1, 0) < 0)
		holder[0] = '\0';
	holder[strcspn(holder, "\n")] = '\0';
	err_set(err, ERR_BUSY, "another node%s%s%s already works on %s",
		holder[0] ? ", " : "", holder, holder[0] ? "," : "", data);
	return err_remedy(err, "stop the other node, or give this one its own site.data");
}

int data_lock_take(const char *data, int *fd, struct err *err)
{
	AUTO_CLOSE int lock = open_lock(data, O_RDWR | O_CREAT);
	struct flock wish = whole_file();

	if (lock < 0)
		return err_errno(err, "cannot open %s/" LOCK_NAME, data);
	if (fcntl(lock, F_OFD_SETLK, &wish) != 0) {
		if (errno != EAGAIN && errno != EACCES)
			return err_errno(err, "cannot lock %s/" LOCK_NAME, data);
		return data_lock_refuse(lock, data, err);
	}
	write_holder(lock);
	*fd = TAKE_FD(lock);
	return 0;
}

bool data_lock_is_held(const char *data)
{
	AUTO_CLOSE int lock = open_lock(data, O_RDONLY); /* the disk may be read-only */
	struct flock wish = whole_file();

	return lock >= 0 && fcntl(lock, F_OFD_GETLK, &wish) == 0 &&
	       wish.l_type != F_UNLCK;
}
