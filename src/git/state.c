#include "git/state.h"

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"

#define KEY "refrelay/state/key"
#define PENDING "refrelay/state/pending"

static int new_key(int dir, struct err *err)
{
	char key[33];

	random_hex(key, 16);
	return file_replace(dir, KEY, key, 32, FILE_NO_SYNC, err);
}

int state_prepare(int dir, struct err *err)
{
	if (dir_make(dir, PENDING, err) != 0)
		return -1;
	return faccessat(dir, KEY, F_OK, 0) == 0 ? 0 : new_key(dir, err);
}

int state_begin(int dir, struct lock_owner *writer, struct err *err)
{
	if (lock_owner_open(dir, PENDING, writer, err) == 0)
		return 0;
	if (err->class != ERR_MISSING)
		return -1;
	if (state_prepare(dir, err) != 0) /* the first change ever */
		return -1;
	return lock_owner_open(dir, PENDING, writer, err);
}

int state_check(const struct lock_owner *writer, struct err *err)
{
	if (lock_owner_stands(writer))
		return 0;
	return err_set(err, ERR_LOST, "this change was taken for dead: %s is gone",
		       writer->name);
}

int state_end(struct lock_owner *writer, struct err *err)
{
	if (new_key(writer->dir, err) != 0) {
		close(TAKE_FD(writer->fd)); /* recovery will find a dead writer */
		return -1;
	}
	failpoint("state.key");
	lock_owner_close(writer);
	return 0;
}

void state_abandon(struct lock_owner *writer)
{
	lock_owner_close(writer);
}

/* The flock of the dead writer is held, so that only one of us cleans up. */
static int recover_one(int dir, const char *path, int fd, struct err *err)
{
	if (new_key(dir, err) != 0)
		return -1;
	failpoint("state.recover");
	lock_file_bury_of(dir, fd);
	failpoint("state.buried");
	if (unlinkat(dir, path, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s", path);
	log_warn("state.recovered", LOG_TEXT("path", path));
	return 0;
}

/* The folder is ours alone: what is not marked there was not marked in time. */
static int recover_if_dead(int dir, const char *path, struct err *err)
{
	AUTO_CLOSE int fd = -1;

	switch (lock_owner_probe(dir, path, &fd)) {
	case LOCK_OWNER_UNKNOWN:
		if (!lock_owner_is_old(fd))
			return 0;
		return recover_one(dir, path, fd, err);
	case LOCK_OWNER_DEAD:
	case LOCK_OWNER_FOREIGN:
		return recover_one(dir, path, fd, err);
	case LOCK_OWNER_ALIVE:
	case LOCK_OWNER_GONE:
		break;
	}
	return 0;
}

int state_recover(int dir, struct err *err)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, PENDING);

	if (!list && errno == ENOENT)
		return 0;
	if (!list)
		return err_errno(err, "cannot list %s", PENDING);
	while (errno = 0, (entry = readdir(list)) != NULL) {
		AUTO_FREE char *path = xasprintf(PENDING "/%s", entry->d_name);
		if (entry->d_name[0] == '.')
			continue;
		if (recover_if_dead(dir, path, err) != 0)
			return -1;
	}
	return errno == 0 ? 0 : err_errno(err, "cannot list %s", PENDING);
}
