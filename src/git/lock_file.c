#include "git/lock_file.h"

#include <sys/file.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

#define MARK "refrelay lock "

/* Gitaly's figure for locks whose owner nobody knows. */
#define UNKNOWN_OWNER_AGE_S 3600

/* 1: somebody who looks for dead owners came between create and flock, and has taken
 * the file for one. */
static int make_owner(struct lock_owner *owner, struct err *err)
{
	char text[128];

	snprintf(text, sizeof(text), MARK "boot=%s pid=%ld\n", clock_boot_id(),
		 (long)getpid());
	owner->fd = openat(owner->dir, owner->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
			   0666);
	if (owner->fd < 0)
		return err_errno(err, "cannot create %s", owner->name);
	if (flock(owner->fd, LOCK_EX | LOCK_NB) != 0) {
		if (errno == EWOULDBLOCK)
			return 1;
		return err_errno(err, "cannot lock %s", owner->name);
	}
	return file_write_all(owner->fd, text, strlen(text), owner->name, err);
}

int lock_owner_open(int dir, const char *folder, struct lock_owner *owner,
		    struct err *err)
{
	char nonce[33];
	int result = 1;

	for (int tries = 0; tries < 10 && result > 0; tries++) {
		random_hex(nonce, 16);
		*owner = (struct lock_owner){ .dir = dir, .fd = -1 };
		snprintf(owner->name, sizeof(owner->name), "%s/%s", folder, nonce);
		result = make_owner(owner, err);
		if (result != 0)
			lock_owner_close(owner);
	}
	if (result > 0)
		err_set(err, ERR_CONFLICT, "%s: owner files vanish as they are made",
			folder);
	return result == 0 ? 0 : -1;
}

void lock_owner_close(struct lock_owner *owner)
{
	if (owner->fd < 0)
		return;
	unlinkat(owner->dir, owner->name, 0);
	close(TAKE_FD(owner->fd));
}

static bool is_same_file(int dir, const char *path, int fd)
{
	struct stat named, open_one;

	return fstatat(dir, path, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(fd, &open_one) == 0 && named.st_ino == open_one.st_ino &&
	       named.st_dev == open_one.st_dev;
}

bool lock_owner_stands(const struct lock_owner *owner)
{
	return is_same_file(owner->dir, owner->name, owner->fd);
}

static bool has_mark(int fd)
{
	char text[sizeof(MARK)] = "";

	return pread(fd, text, sizeof(MARK) - 1, 0) == (ssize_t)(sizeof(MARK) - 1) &&
	       memcmp(text, MARK, sizeof(MARK) - 1) == 0;
}

enum lock_owner_state lock_owner_probe(int dir, const char *path, int *fd)
{
	*fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd < 0)
		return errno == ENOENT ? LOCK_OWNER_GONE : LOCK_OWNER_UNKNOWN;
	if (!has_mark(*fd)) {
		close(TAKE_FD(*fd));
		return LOCK_OWNER_UNKNOWN;
	}
	if (flock(*fd, LOCK_EX | LOCK_NB) != 0) {
		close(TAKE_FD(*fd));
		return errno == EWOULDBLOCK ? LOCK_OWNER_ALIVE : LOCK_OWNER_UNKNOWN;
	}
	return LOCK_OWNER_DEAD;
}

/* Under the dead owner's flock nobody else can be doing the same, and nobody but its
 * owner or a burier removes such a lock: what stands at path is what was probed. */
static bool bury(int dir, const char *path, int fd)
{
	if (!is_same_file(dir, path, fd) || unlinkat(dir, path, 0) != 0)
		return false;
	log_warn("lock.stale_removed", LOG_TEXT("path", path),
		 LOG_TEXT("proof", "its owner is dead"));
	return true;
}

static void bury_if_old(int dir, const char *path)
{
	struct stat st;
	int64_t age;

	if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return;
	age = clock_wall_ms() / 1000 - (int64_t)st.st_mtime;
	if (age < UNKNOWN_OWNER_AGE_S || unlinkat(dir, path, 0) != 0)
		return;
	log_warn("lock.stale_removed", LOG_TEXT("path", path),
		 LOG_TEXT("proof", "unknown owner, too old"), LOG_NUMBER("age_s", age));
}

/* Removes the lock at path if that is right. */
static void examine(int dir, const char *path)
{
	AUTO_CLOSE int fd = -1;

	switch (lock_owner_probe(dir, path, &fd)) {
	case LOCK_OWNER_DEAD:
		bury(dir, path, fd);
		break;
	case LOCK_OWNER_UNKNOWN:
		bury_if_old(dir, path);
		break;
	case LOCK_OWNER_ALIVE:
	case LOCK_OWNER_GONE:
		break;
	}
}

static bool bury_if_dead(int dir, const char *path)
{
	AUTO_CLOSE int fd = -1;

	return lock_owner_probe(dir, path, &fd) == LOCK_OWNER_DEAD && bury(dir, path, fd);
}

static size_t bury_below(int dir, const char *folder)
{
	size_t buried = 0;
	struct dirent *entry;
	int fd = openat(dir, folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_CLOSEDIR DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (!list && fd >= 0)
		close(fd);
	while (list && (entry = readdir(list)) != NULL) {
		const char *name = entry->d_name;
		if (name[0] == '.')
			continue;
		if (text_ends_with(name, ".lock"))
			buried += bury_if_dead(fd, name);
		else if (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)
			buried += bury_below(fd, name);
	}
	return buried;
}

size_t lock_file_bury_dead(int dir)
{
	return bury_below(dir, "refs") + bury_if_dead(dir, "HEAD.lock") +
	       bury_if_dead(dir, "packed-refs.lock");
}

static int still_locked(const char *path, struct err *err)
{
	err_set(err, ERR_CONFLICT, "%s exists: another process is changing this", path);
	return err_remedy(err, "tried again by itself; if no git process works in this "
			       "repository, remove that file");
}

static void pause_briefly(int round)
{
	unsigned jitter = (unsigned)clock_wall_ns() / 1000 % 5000;
	unsigned step = round < 10 ? 2000 : 20000;

	usleep(step + jitter);
}

int lock_file_take(const struct lock_owner *owner, const char *path, int64_t wait_ms,
		   struct lock_file *lock, struct err *err)
{
	int64_t until = clock_boot_ms() + wait_ms;
	char *name = xasprintf("%s.lock", path);

	*lock = (struct lock_file){ 0 };
	for (int round = 0;; round++) {
		if (linkat(owner->dir, owner->name, owner->dir, name, 0) == 0) {
			*lock = (struct lock_file){ .owner = owner, .path = name };
			return 0;
		}
		if (errno == ENOENT && round < 3 && lock_owner_stands(owner)) {
			if (dir_make_parents(owner->dir, name, err) != 0)
				break;
			continue;
		}
		if (errno != EEXIST) {
			err_errno(err, "cannot lock %s", path);
			break;
		}
		examine(owner->dir, name);
		if (round > 0 && clock_boot_ms() >= until) {
			still_locked(name, err);
			break;
		}
		if (round > 0)
			pause_briefly(round);
	}
	free(name);
	return -1;
}

/* refs/heads and the like stay, even if empty. */
static void remove_empty_parents(int dir, char *path)
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
	unlinkat(lock->owner->dir, lock->path, 0);
	remove_empty_parents(lock->owner->dir, lock->path);
	free(lock->path);
	*lock = (struct lock_file){ 0 };
}
