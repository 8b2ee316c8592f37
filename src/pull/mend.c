#include "pull/mend.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "git/cuts.h"
#include "git/fence.h"
#include "git/lock_file.h"
#include "git/refs.h"
#include "git/repo.h"
#include "pull/copy_record.h"
#include "pull/decisions.h"
#include "replicable/name.h"
#include "upkeep/trash.h"
#include "verify/verify_objects.h"

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

#define TRIES 5

int place_is_cleared(const char *staging, struct err *err)
{
	if (access(staging, F_OK) == 0 || errno != ENOENT)
		return -1;
	return err_set(err, ERR_LOST, "a later lease holder cleared %s away", staging);
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
		err_set(err, ERR_CONFIG, "its place is inside the repository %s", above);
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

/* Folders above it may be as new. */
static int place_sync(const char *root_path, const char *below, struct err *err)
{
	AUTO_CLOSE int root = dir_open(AT_FDCWD, root_path, err);

	return root >= 0 && file_sync_parents(root, below, err) == 0
		       ? dir_sync(root, ".", err)
		       : -1;
}

int place_sync_left(const char *root, const char *below, struct err *err)
{
	if (place_sync(root, below, err) == 0 || err->class == ERR_MISSING)
		return 0; /* where nothing stands, none was moved */
	return -1;
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
	return place_sync(placing->root, placing->below, err);
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
		return err_is_of_data(err) ? 1 : -1;
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
	if (fence_raise_anew(old, placing->job->fence, err) != 0)
		return err_is_of_data(err) ? 1 : -1;
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
	if (file_sync_parent(AT_FDCWD, path, err) != 0)
		return -1;
	return dir_sync(root, OWN_FOLDER "/trash", err);
}

#define OWN "refrelay"

static bool is_usable(int dir, const char *path, mode_t type)
{
	int mode = type == S_IFDIR ? R_OK | W_OK | X_OK : R_OK | W_OK;

	return faccessat(dir, path, mode, AT_EACCESS) == 0;
}

/* As the repository itself may be used. */
static bool give_rights(int dir, const char *path, mode_t type)
{
	struct stat st;
	mode_t most = type == S_IFDIR ? 0777 : 0666;

	return fstat(dir, &st) == 0 && fchmodat(dir, path, st.st_mode & most, 0) == 0 &&
	       is_usable(dir, path, type);
}

static int mend_discard_file(int dir, const char *path, struct err *err)
{
	if (tree_remove(dir, path, err) != 0)
		return -1;
	log_warn("copy.own_file_removed", LOG_TEXT("path", path));
	return 0;
}

static int mend_one(int dir, const char *path, mode_t type, struct err *err)
{
	struct stat st;

	if (fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot look at %s", path);
	if ((st.st_mode & S_IFMT) == type &&
	    (is_usable(dir, path, type) || give_rights(dir, path, type)))
		return 0;
	return mend_discard_file(dir, path, err);
}

int mend_own_files(int dir, struct err *err)
{
	static const char *const folders[] = { OWN, OWN "/state", OWN "/state/pending" };
	static const char *const files[] = { OWN "/fence",    OWN "/copy",
					     OWN "/intent",   OWN "/held",
					     OWN "/compared", OWN "/state/key",
					     CUTS_MARK };
	uint64_t fence;

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (mend_one(dir, folders[i], S_IFDIR, err) != 0)
			return -1;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (mend_one(dir, files[i], S_IFREG, err) != 0)
			return -1;
	if (fence_read(dir, &fence, err) == 0)
		return 0;
	return err->class == ERR_CORRUPT ? mend_discard_file(dir, OWN "/fence", err) : -1;
}

/* Through no link: it is not ours to remove what stands elsewhere. */
static int open_folder_of(int dir, const char *path, struct err *err)
{
	int fd = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	const char *slash;

	for (; fd >= 0 && (slash = strchr(path, '/')) != NULL; path = slash + 1) {
		AUTO_CLOSE int parent = fd;
		AUTO_FREE char *name = xstrndup(path, (size_t)(slash - path));
		fd = openat(parent, name,
			    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
			return err_set(err, ERR_CORRUPT, "%s is not a directory", name);
	}
	return fd < 0 ? err_errno(err, "cannot open the folder of %s", path) : fd;
}

static int remove_diversion(int dir, const char *path, struct err *err)
{
	const char *slash = strrchr(path, '/');
	AUTO_CLOSE int folder = open_folder_of(dir, path, err);

	if (folder < 0 || tree_remove(folder, slash ? slash + 1 : path, err) != 0)
		return -1;
	log_warn("copy.own_file_removed", LOG_TEXT("path", path));
	return 1;
}

int mend_diversions(int dir, struct err *err)
{
	AUTO_RECORD struct copy_record record = { 0 };
	int result = 0;

	if (repo_check_diversions(dir, err) == 0)
		return 0;
	copy_record_read(dir, &record);
	if (!record.is_there)
		return -1;
	for (const char *const *path = repo_diversions; *path && result >= 0; path++)
		if (repo_is_diverted_by(dir, *path))
			result = remove_diversion(dir, *path, err);
	return result < 0 ? -1 : 1;
}

enum oddity { ODDITY_GOES, ODDITY_IS_REPORTED };

static int meet_oddity(int dir, const char *name, enum oddity oddity, struct err *err)
{
	if (oddity == ODDITY_IS_REPORTED)
		return err_set(err, ERR_CORRUPT, "%s below refs is not a regular file",
			       name);
	if (unlinkat(dir, name, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s below refs", name);
	log_warn("copy.own_file_removed", LOG_TEXT("path", name));
	return 0;
}

/* No deeper than repo_check_files() lets git go: what somebody nests without end must not
 * take the stack of a thread. */
static int walk_refs(int parent, const char *name, enum oddity oddity, unsigned depth,
		     struct err *err)
{
	struct dirent *entry;
	struct stat st;
	int result = 0;
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_CLOSEDIR DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (!list && fd >= 0)
		close(fd);
	if (!list)
		return errno == ELOOP || errno == ENOTDIR
			       ? meet_oddity(parent, name, oddity, err)
			       : 0; /* what cannot be read says so when refs are read */
	while (result == 0 && depth < REFS_DEPTH && (entry = readdir(list)) != NULL) {
		if (entry->d_name[0] == '.' || entry->d_type == DT_REG ||
		    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
		    S_ISREG(st.st_mode))
			continue;
		result = S_ISDIR(st.st_mode)
				 ? walk_refs(fd, entry->d_name, oddity, depth + 1, err)
				 : meet_oddity(fd, entry->d_name, oddity, err);
	}
	return result;
}

int mend_refs(int dir, struct err *err)
{
	static const char *const folders[] = { "refs", "refs/heads", "refs/tags" };
	AUTO_RECORD struct copy_record record = { 0 };

	copy_record_read(dir, &record);
	if (walk_refs(dir, "refs", record.is_there ? ODDITY_GOES : ODDITY_IS_REPORTED, 0,
		      err) != 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (mkdirat(dir, folders[i], 0777) != 0 && errno != EEXIST)
			return err_errno(err, "cannot make directory %s", folders[i]);
	return 0;
}

int mend_check_refs(int dir, struct err *err)
{
	return walk_refs(dir, "refs", ODDITY_IS_REPORTED, 0, err);
}

int mend_check_config(const struct repo *copy, struct err *err)
{
	if (faccessat(copy->fd, "config", F_OK, 0) != 0)
		return err_set(err, ERR_CORRUPT, "it has no config");
	if (copy->is_partial)
		return err_set(
			err, ERR_CORRUPT,
			"its config lets it lack objects, as a partial clone does");
	if (copy->has_work_tree)
		return err_set(err, ERR_CORRUPT, "its config names a work tree");
	return 0;
}

void mend_locks(int dir)
{
	lock_file_bury_dead(dir);
	lock_file_bury_strangers(dir, LOCK_FILE_OLD_S);
}

int mend_look_through(const struct git_work *work, const struct repo *copy,
		      struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot refs = REF_SNAPSHOT_INIT;

	if (repo_check_files(copy, err) != 0 || mend_check_config(copy, err) != 0 ||
	    mend_check_refs(copy->fd, err) != 0 || verify_derived(work, copy, err) != 0 ||
	    ref_snapshot_read(copy->fd, copy->oid_len, &refs, err) != 0)
		return -1;
	return verify_objects(work, copy, &refs, err);
}

int mend_make_durable(int dir, bool is_doubtful, struct err *err)
{
	AUTO_RECORD struct copy_record record = { 0 };

	copy_record_read(dir, &record);
	if (record.is_there && !is_doubtful)
		return 0;
	return syncfs(dir) == 0 ? 0 : err_errno(err, "cannot sync the copy");
}
