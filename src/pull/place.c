/*
 * The exchange is made where it is safe: the old copy's fence is ours, and is kept so by
 * its packed-refs.lock, which everybody who raises a fence or publishes must have. So a
 * worker that was paused for long finds a higher fence and gives up, or holds the lock of
 * a copy that nobody else can change meanwhile.
 *
 * The new copy first takes the name in the trash that the old one will have: then one
 * rename puts each where it belongs, and at no moment does the old one stand in staging,
 * where it would be cleared away.
 */
#include "pull/place.h"

#include <fcntl.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "git/fence.h"
#include "git/lock_file.h"
#include "git/repo.h"
#include "pull/decisions.h"
#include "replicable/name.h"
#include "upkeep/trash.h"

#define TRIES 5

int place_is_cleared(const char *staging, struct err *err)
{
	if (access(staging, F_OK) == 0 || errno != ENOENT)
		return -1;
	return err_set(err, ERR_LOST, "a later lease holder cleared %s away", staging);
}

static int pull_place_sync_parent(const char *path, struct err *err)
{
	AUTO_FREE char *parent = xstrndup(path, (size_t)(strrchr(path, '/') - path));

	return dir_sync(AT_FDCWD, parent, err);
}

/* With the names "a" and "a.git/b" the second copy would stand inside the first. */
static int check_above(const struct placing *placing, struct err *err)
{
	AUTO_FREE char *above = xstrdup(placing->below);
	AUTO_CLOSE int root = dir_open(AT_FDCWD, placing->root, err);
	char *slash;

	if (root < 0)
		return -1;
	while ((slash = strrchr(above, '/')) != NULL) {
		*slash = '\0';
		AUTO_CLOSE int fd = dir_open(root, above, ERR_IGNORED);
		if (fd < 0 || repo_look_at(fd) == REPO_NOTHING)
			continue;
		err_set(err, ERR_CONFIG, "its place lies inside the repository %s",
			above);
		return err_remedy(err, "rename one of them");
	}
	return 0;
}

static int move_in(const struct placing *placing, const char *path, struct err *err)
{
	if (dir_make_parents(AT_FDCWD, path, err) != 0)
		return -1;
	failpoint("sync.staged");
	if (rename(placing->staging, path) == 0) /* refuses one that is there: never
						    empty */
		return 0;
	err_errno(err, "cannot move the new copy to %s", path);
	return place_is_cleared(placing->staging, err);
}

int place_new(const struct placing *placing, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/%s", placing->root, placing->below);
	int done = -1;

	if (check_above(placing, err) != 0 || lease_check(placing->job->lease, err) != 0)
		return -1;
	/* The removal of a neighbour takes folders away that are empty for a moment. */
	for (int tries = 0; done != 0 && tries < TRIES; tries++) {
		done = move_in(placing, path, err);
		if (done != 0 && err->class != ERR_MISSING)
			return -1;
	}
	if (done != 0)
		return -1;
	failpoint("sync.placed");
	return pull_place_sync_parent(path, err);
}

/* A fence that cannot be read stops all others, and would stop this for ever. */
static int pull_place_raise_fence(int old, uint64_t fence, struct err *err)
{
	if (fence_raise(old, fence, err) == 0)
		return 0;
	if (err->class != ERR_CORRUPT)
		return -1;
	if (unlinkat(old, "refrelay/fence", 0) != 0)
		return err_errno(err, "cannot remove the damaged fence");
	return fence_raise(old, fence, err);
}

/* For file systems that cannot exchange. After a crash in between the old copy is in the
 * trash, and the new one is made again. */
static int move_both(const struct placing *placing, int root, const char *trash,
		     struct err *err)
{
	if (renameat(root, trash, AT_FDCWD, placing->staging) != 0 ||
	    renameat(root, placing->below, root, trash) != 0)
		return err_errno(err, "cannot move %s to the trash", placing->below);
	if (renameat(AT_FDCWD, placing->staging, root, placing->below) != 0)
		return err_errno(err, "cannot move the new copy to %s", placing->below);
	return 0;
}

static int pull_place_exchange_copies(const struct placing *placing, int root,
				      const char *trash, struct err *err)
{
	if (renameat(AT_FDCWD, placing->staging, root, trash) != 0) {
		err_errno(err, "cannot move %s", placing->staging);
		return place_is_cleared(placing->staging, err);
	}
	failpoint("sync.staged");
	if (renameat2(root, trash, root, placing->below, RENAME_EXCHANGE) == 0) {
		failpoint("sync.placed");
		return 0;
	}
	if (errno == EINVAL || errno == ENOSYS)
		return move_both(placing, root, trash, err);
	err_errno(err, "cannot exchange %s", placing->below);
	renameat(root, trash, AT_FDCWD, placing->staging);
	return -1;
}

static int exchange_locked(const struct placing *placing, int root, int old,
			   const char *trash, struct err *err)
{
	struct lock_owner owner;
	struct lock_file lock;
	int result = -1;

	if (lock_owner_open(old, "refrelay", &owner, err) != 0)
		return copy_is_at_fault(err) ? 1 : -1;
	if (lock_file_take(&owner, "packed-refs", LOCK_FILE_WAIT_MS, &lock, err) == 0) {
		if (fence_check_locked(old, placing->job->fence, err) == 0 &&
		    lease_check(placing->job->lease, err) == 0)
			result = pull_place_exchange_copies(placing, root, trash, err);
		lock_file_release(&lock);
	}
	lock_owner_close(&owner);
	return result;
}

/* 1: the old one is so damaged that it can have neither fence nor lock. Then nobody can
 * publish into it, and what a worker that was paused still does in the directory that it
 * has open ends in the trash with that. */
static int exchange_fenced(const struct placing *placing, int root, int old,
			   const char *trash, struct err *err)
{
	if (old < 0)
		return 1;
	if (pull_place_raise_fence(old, placing->job->fence, err) != 0)
		return copy_is_at_fault(err) ? 1 : -1;
	return exchange_locked(placing, root, old, trash, err);
}

/* A directory is only moved by who may write in it. */
static int make_movable(int root, const char *below, struct err *err)
{
	struct stat st;

	if (fstatat(root, below, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return err_errno(err, "cannot look at %s", below);
	if (!S_ISDIR(st.st_mode) || (st.st_mode & S_IRWXU) == S_IRWXU ||
	    fchmodat(root, below, (st.st_mode & 07777) | S_IRWXU, 0) == 0)
		return 0;
	return err_errno(err, "cannot set the mode of %s", below);
}

int place_instead(const struct placing *placing, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/%s", placing->root, placing->below);
	AUTO_CLOSE int root = dir_open(AT_FDCWD, placing->root, err);

	if (root < 0 || make_movable(root, placing->below, err) != 0)
		return -1;
	AUTO_CLOSE int old = openat(root, placing->below,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FREE char *trash = trash_make_place(placing->job, root, placing->below, err);
	if (!trash)
		return -1;
	int done = exchange_fenced(placing, root, old, trash, err);
	if (done > 0 && lease_check(placing->job->lease, err) == 0)
		done = pull_place_exchange_copies(placing, root, trash, err);
	if (done != 0)
		return -1;
	log_info("sync.rebuilt", LOG_TEXT("path", placing->below), LOG_TEXT("to", trash));
	if (pull_place_sync_parent(path, err) != 0)
		return -1;
	return dir_sync(root, OWN_FOLDER "/trash", err);
}
