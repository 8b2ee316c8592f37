#include "lease/directory_next.h"

#include <sys/file.h>

#include "base/file.h"

/*
 * How a generation is made: a directory of our own is finished, with locked guard and
 * owner, and then renamed to the next number. What is there under that number is never
 * empty but while it is being removed, and a rename replaces nothing that is not empty:
 * of all who saw 41 end, one makes 42, and it is complete from its first moment. A
 * contender killed on the way leaves a directory that nobody waits for.
 *
 * When the reply to an NFS rename gets lost, its own sender may be told ENOENT: it looks
 * whose the number is.
 */

/* How flock says that it does not work on this file system. */
static bool has_no_locks(int code)
{
	return code == ENOLCK || code == EOPNOTSUPP || code == ENOSYS;
}

/* Nobody can prove our death, or our children's, by a guard that is not there. */
static int make_guard(struct next *next)
{
	AUTO_CLOSE int guard =
		openat(next->fd, "guard", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (guard < 0)
		return -1;
	if (flock(guard, LOCK_EX | LOCK_NB) == 0) {
		next->guard_fd = TAKE_FD(guard);
		return 0;
	}
	return has_no_locks(errno) ? unlinkat(next->fd, "guard", 0) : -1;
}

int next_prepare(struct next *next, int key_fd, const struct owner *owner)
{
	char id[33];

	random_hex(id, 16);
	*next = NO_NEXT;
	snprintf(next->name, sizeof(next->name), ".new-%s", id);
	if (mkdirat(key_fd, next->name, 0700) != 0)
		return -1;
	next->fd = openat(key_fd, next->name,
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (next->fd < 0)
		return -1;
	if (owner->forced)
		return owner_write(next->fd, owner) == 0 ? key_stamp_released(next->fd)
							 : -1;
	if (flock(next->fd, LOCK_EX | LOCK_NB) != 0 && !has_no_locks(errno) &&
	    errno != EBADF)
		return -1;
	return make_guard(next) == 0 ? owner_write(next->fd, owner) : -1;
}

void next_drop(struct next *next, int key_fd)
{
	int saved = errno;

	if (next->may_be_latest)
		key_stamp_released(next->fd);
	else
		key_remove_entry(key_fd, next->name);
	if (next->fd >= 0)
		close(TAKE_FD(next->fd));
	if (next->guard_fd >= 0)
		close(TAKE_FD(next->guard_fd));
	errno = saved;
}

bool next_came_late(int code)
{
	return code == ENOTEMPTY || code == EEXIST || code == ENOENT;
}

/* A listing from before may have shown an old number as the latest, and ours is one that
 * was removed since. */
static int check_latest(int key_fd, uint64_t number, int64_t at_ns)
{
	key_entries entries = { 0 };
	uint64_t latest;
	int result = key_list(key_fd, &entries, &latest);

	if (result == 0)
		key_sweep(key_fd, &entries, number, at_ns);
	vec_clear(&entries);
	return result < 0 ? -1 : latest != number;
}

int next_publish(struct next *next, int key_fd, const struct key_view *view)
{
	char before[ENTRY_NAME_SIZE];

	memcpy(before, next->name, sizeof(before));
	snprintf(next->name, sizeof(next->name), "%" PRIu64, view->number + 1);
	if (renameat(key_fd, before, key_fd, next->name) != 0 &&
	    !(errno == ENOENT && file_is_named(key_fd, next->name, next->fd))) {
		bool late = next_came_late(errno);
		memcpy(next->name, before, sizeof(before));
		return late ? 1 : -1;
	}
	int late = check_latest(key_fd, view->number + 1, view->at_ns);
	next->may_be_latest = late <= 0;
	return late;
}
