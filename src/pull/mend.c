#include "pull/mend.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "git/fence.h"
#include "git/lock_file.h"
#include "git/refs.h"
#include "pull/copy_record.h"
#include "verify/verify_derived.h"
#include "verify/verify_objects.h"

/* A publication holds its locks for moments, and a person's git for not much longer. */
#define LOCK_AGE_S 10

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
	static const char *const files[] = { OWN "/fence", OWN "/copy", OWN "/intent",
					     OWN "/state/key" };
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
			return err_set(err, ERR_CORRUPT, "%s is no directory", name);
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
	struct stat st;
	int result = 0;

	if (repo_check_diversions(dir, err) == 0)
		return 0;
	copy_record_read(dir, &record);
	if (!record.is_there)
		return -1;
	for (const char *const *path = repo_diversions; *path && result >= 0; path++)
		if (fstatat(dir, *path, &st, AT_SYMLINK_NOFOLLOW) == 0)
			result = remove_diversion(dir, *path, err);
	return result < 0 ? -1 : 1;
}

enum oddity { ODDITY_GOES, ODDITY_IS_TOLD };

static int meet_oddity(int dir, const char *name, enum oddity oddity, struct err *err)
{
	if (oddity == ODDITY_IS_TOLD)
		return err_set(err, ERR_CORRUPT, "%s below refs is no plain file", name);
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
	if (walk_refs(dir, "refs", record.is_there ? ODDITY_GOES : ODDITY_IS_TOLD, 0,
		      err) != 0)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(folders); i++)
		if (mkdirat(dir, folders[i], 0777) != 0 && errno != EEXIST)
			return err_errno(err, "cannot make directory %s", folders[i]);
	return 0;
}

int mend_check_refs(int dir, struct err *err)
{
	return walk_refs(dir, "refs", ODDITY_IS_TOLD, 0, err);
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
	lock_file_bury_strangers(dir, LOCK_AGE_S);
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
