#include "store/data_lock.h"

#include "base/file.h"

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

int data_lock_take(const char *data, int *fd, struct err *err)
{
	AUTO_CLOSE int lock = open_lock(data, O_RDWR | O_CREAT);
	struct flock wish = whole_file();

	if (lock < 0)
		return err_errno(err, "cannot open %s/" LOCK_NAME, data);
	if (fcntl(lock, F_OFD_SETLK, &wish) != 0) {
		if (errno != EAGAIN && errno != EACCES)
			return err_errno(err, "cannot lock %s/" LOCK_NAME, data);
		err_set(err, ERR_BUSY, "another node already works on %s", data);
		return err_remedy(err, "one node a data directory: stop the other one, "
				       "or give this one a site.data of its own");
	}
	*fd = TAKE_FD(lock);
	return 0;
}

bool data_lock_is_held(const char *data)
{
	AUTO_CLOSE int lock = open_lock(data, O_RDWR);
	struct flock wish = whole_file();

	return lock >= 0 && fcntl(lock, F_OFD_GETLK, &wish) == 0 &&
	       wish.l_type != F_UNLCK;
}
