#include "store/root_lock.h"

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
		return err_remedy(err, "only standalone nodes share a directory: this "
				       "one is a primary's or a secondary's");
	return err_remedy(err, "give each site a directory of its own: a secondary's "
			       "copies never stand where its primary's originals do");
}
