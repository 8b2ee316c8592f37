#include "git/lock_file.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

/* How often a directory may vanish between making it and making a lock in it. */
#define PARENTS_LIMIT 100

/* Of directories in each other; no ref that git can read is deeper. */
#define DEPTH_MAX 256

/* Under its flock, which `fd` holds, nobody else can be doing the same, and nobody but
 * its owner or a burier removes such a lock: what stands at path is what was probed. */
static bool bury(int dir, const char *path, int fd, const char *proof)
{
	if (!file_is_named(dir, path, fd) || unlinkat(dir, path, 0) != 0)
		return false;
	log_warn("lock.stale_removed", LOG_TEXT("path", path), LOG_TEXT("proof", proof));
	return true;
}

/* Removes the lock at path if that is right. */
static void examine(const struct lock_owner *owner, const char *path)
{
	AUTO_CLOSE int fd = -1;
	int dir = owner->dir;

	switch (lock_owner_probe(dir, path, &fd)) {
	case LOCK_OWNER_DEAD:
		bury(dir, path, fd, "its owner is dead");
		break;
	case LOCK_OWNER_FOREIGN:
	case LOCK_OWNER_UNKNOWN:
		if (lock_owner_is_old(fd, lock_owner_beat(owner)))
			bury(dir, path, fd, "unknown owner, too old");
		break;
	case LOCK_OWNER_ALIVE:
	case LOCK_OWNER_GONE:
		break;
	}
}

/* Whose locks are to go. */
struct burial {
	int owner_fd; /* those of this dead owner; -1: ... */
	bool strangers;
	int64_t until; /* ... strangers' that were made before this; or of all dead */
};

static bool is_strange(int fd, int64_t until)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && (int64_t)st.st_mtime <= until;
}

static bool bury_if_right(int dir, const char *path, const struct burial *burial)
{
	AUTO_CLOSE int fd = -1;

	if (burial->owner_fd >= 0)
		return bury(dir, path, burial->owner_fd, "its owner is dead");
	enum lock_owner_state state = lock_owner_probe(dir, path, &fd);
	if (burial->strangers)
		return state == LOCK_OWNER_FOREIGN && is_strange(fd, burial->until) &&
		       bury(dir, path, fd, "nobody else may change refs here");
	return state == LOCK_OWNER_DEAD && bury(dir, path, fd, "its owner is dead");
}

static size_t bury_below(int dir, const char *folder, const struct burial *burial,
			 unsigned depth)
{
	size_t buried = 0;
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, folder);

	while (list && depth < DEPTH_MAX && (entry = readdir(list)) != NULL) {
		const char *name = entry->d_name;
		if (name[0] == '.')
			continue;
		if (text_ends_with(name, ".lock"))
			buried += bury_if_right(dirfd(list), name, burial);
		else if (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)
			buried += bury_below(dirfd(list), name, burial, depth + 1);
	}
	return buried;
}

/* As long as the dead one's lock stands, packed-refs.new can only be its work; left
 * there, it would hinder git. */
static bool bury_packed(int dir, int owner_fd)
{
	AUTO_CLOSE int fd = -1;

	if (owner_fd < 0 &&
	    lock_owner_probe(dir, "packed-refs.lock", &fd) != LOCK_OWNER_DEAD)
		return false;
	if (owner_fd < 0)
		owner_fd = fd;
	if (!file_is_named(dir, "packed-refs.lock", owner_fd))
		return false;
	unlinkat(dir, "packed-refs.new", 0);
	return bury(dir, "packed-refs.lock", owner_fd, "its owner is dead");
}

static size_t bury_all(int dir, int owner_fd)
{
	const struct burial burial = { .owner_fd = owner_fd };

	return bury_below(dir, "refs", &burial, 0) +
	       bury_if_right(dir, "HEAD.lock", &burial) + bury_packed(dir, owner_fd);
}

size_t lock_file_bury_strangers(int dir, int64_t age_s)
{
	const struct burial burial = { .owner_fd = -1,
				       .strangers = true,
				       .until = clock_wall_ms() / 1000 - age_s };

	return bury_below(dir, "refs", &burial, 0) +
	       bury_if_right(dir, "HEAD.lock", &burial) +
	       bury_if_right(dir, "packed-refs.lock", &burial);
}

size_t lock_file_bury_dead(int dir)
{
	return bury_all(dir, -1);
}

size_t lock_file_bury_of(int dir, int owner_fd)
{
	struct stat st;

	if (fstat(owner_fd, &st) == 0 && st.st_nlink <= 1)
		return 0; /* its locks would be further links */
	return bury_all(dir, owner_fd);
}

/* The process that our own owner files name; 0: it is not one of ours. */
static uint64_t owner_pid(int dir, const char *path)
{
	struct lock_owner_line line;
	AUTO_CLOSE int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	lock_owner_read(fd, &line);
	return line.pid;
}

static int still_locked(int dir, const char *path, struct err *err)
{
	uint64_t pid = owner_pid(dir, path);

	if (pid > 0) {
		err_set(err, ERR_CONFLICT,
			"%s is held by process %" PRIu64 ", a refrelay that "
			"is at work or paused",
			path, pid);
		return err_remedy(err,
				  "let that process go on (kill -CONT %" PRIu64
				  ") or end "
				  "it; then repeat",
				  pid);
	}
	err_set(err, ERR_CONFLICT, "%s exists: another process is changing this", path);
	return err_remedy(err, "repeat later; if no git process works in this "
			       "repository, remove that file");
}

static int lost(const struct lock_owner *owner, struct err *err)
{
	return err_set(err, ERR_LOST, "this change was taken for dead: %s is gone",
		       owner->name);
}

static int lock_file_fail_in_the_way(const char *name, struct err *err)
{
	err_set(err, ERR_CONFLICT,
		"cannot make %s: a file stands where a directory must "
		"be",
		name);
	return err_remedy(err, "retried automatically; nothing else may write to copies");
}

static void pause_briefly(int round)
{
	unsigned jitter = (unsigned)clock_wall_ns() / 1000 % 5000;
	unsigned step = round < 10 ? 2000 : 20000;

	usleep(step + jitter);
}

/* After linkat() failed; keeps errno. */
static bool is_ours_already(const struct lock_owner *owner, const char *name)
{
	const int why = errno;
	const bool is_ours = why == EEXIST && file_is_named(owner->dir, name, owner->fd);

	errno = why;
	return is_ours;
}

/* After linkat() failed. 0: try again at once; 1: it is locked. */
static int look_why(const struct lock_owner *owner, const char *name, int *parents_made,
		    struct err *err)
{
	switch (errno) {
	case EEXIST:
		examine(owner, name);
		return 1;
	case ENOENT:
		if (!lock_owner_stands(owner))
			return lost(owner, err);
		/* Whoever releases a lock also removes directories that are empty then.
		 */
		if (++*parents_made <= PARENTS_LIMIT)
			return dir_make_parents(owner->dir, name, err);
		break;
	case ENOTDIR:
		return lock_file_fail_in_the_way(name, err);
	default:
		break;
	}
	return err_errno(err, "cannot make %s", name);
}

int lock_file_take(const struct lock_owner *owner, const char *path, int64_t wait_ms,
		   struct lock_file *lock, struct err *err)
{
	int64_t until = clock_boot_ms() + wait_ms;
	AUTO_FREE char *name = xasprintf("%s.lock", path);
	int parents_made = 0;

	*lock = (struct lock_file){ 0 };
	for (int round = 0;; round++) {
		if (linkat(owner->dir, owner->name, owner->dir, name, 0) == 0)
			break;
		if (is_ours_already(owner, name))
			return 0;
		int why = look_why(owner, name, &parents_made, err);
		if (why < 0)
			return -1;
		if (why == 0)
			continue;
		if (round > 0 && clock_boot_ms() >= until)
			return still_locked(owner->dir, name, err);
		if (round > 0)
			pause_briefly(round);
	}
	*lock = (struct lock_file){ .owner = owner, .path = TAKE(name) };
	return 0;
}

/* refs/heads and the like stay, even if empty. */
static void lock_file_remove_empty_parents(int dir, char *path)
{
	char *slash;

	while ((slash = strrchr(path, '/')) != NULL) {
		*slash = '\0';
		char *first = strchr(path, '/');
		if (!first || !strchr(first + 1, '/'))
			break;
		if (unlinkat(dir, path, AT_REMOVEDIR) != 0)
			break;
	}
}

void lock_file_release(struct lock_file *lock)
{
	if (!lock->owner)
		return;
	/* Not ours any more: it was taken for too old, where nobody can tell who lives.
	 */
	if (file_is_named(lock->owner->dir, lock->path, lock->owner->fd))
		unlinkat(lock->owner->dir, lock->path, 0);
	lock_file_remove_empty_parents(lock->owner->dir, lock->path);
	free(lock->path);
	*lock = (struct lock_file){ 0 };
}
