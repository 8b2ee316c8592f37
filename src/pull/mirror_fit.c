#include "pull/mirror_fit.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "git/cuts.h"

#define OBJECTS "objects"
#define DEPTH_MOST 64
#define FILE_MOST ((size_t)256 << 20)

static const char clone_anew[] = "clone it anew, if the mirror is to use it";

static int mirror_fit_refuse(struct err *err, const char *what, const char *remedy)
{
	err_set(err, ERR_CONFIG, "%s", what);
	return err_remedy(err, "%s", remedy);
}

/* What is not ours could not be moved, or not be written to later. */
static int mirror_fit_check_access(int dir, const char *path, struct err *err)
{
	if (faccessat(dir, path, R_OK | W_OK | X_OK, AT_EACCESS) == 0)
		return 0;
	err_errno(err, "cannot change directory %s", path);
	return err_remedy(err, "give it to the user of refrelay");
}

/*
 * Its objects.
 */

/* What is on another file system cannot be renamed, and behind a link are others'
 * objects. */
static int mirror_fit_check_folder(int dir, const char *name, dev_t device,
				   struct err *err)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return err_errno(err, "cannot look at %s", name);
	if (S_ISLNK(st.st_mode) || (S_ISDIR(st.st_mode) && st.st_dev != device)) {
		err_set(err, ERR_CONFIG,
			"among its objects, %s is a link or on another disk", name);
		return err_remedy(err, "put a plain directory there");
	}
	return S_ISDIR(st.st_mode) ? mirror_fit_check_access(dir, name, err) : 0;
}

int mirror_fit_check_objects(int root, int dir, struct err *err)
{
	struct stat st;
	struct dirent *entry;

	if (fstat(root, &st) != 0)
		return err_errno(err, "cannot look at site.repositories");
	if (mirror_fit_check_folder(dir, OBJECTS, st.st_dev, err) != 0)
		return -1;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, OBJECTS);
	while (list && (errno = 0, entry = readdir(list)) != NULL)
		if (!name_is_dots(entry->d_name) &&
		    mirror_fit_check_folder(dirfd(list), entry->d_name, st.st_dev, err) !=
			    0 &&
		    err->class != ERR_MISSING) /* gone meanwhile */
			return -1;
	return errno == 0 ? 0 : err_errno(err, "cannot list its " OBJECTS);
}

/*
 * The rest of .git.
 */

static int mirror_fit_read_cuts(int dot_git, struct mirror_fit *fit, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	if (file_read(dot_git, CUTS_FILE, FILE_MOST, &text, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	return cuts_parse(text.data, fit->repo.oid_len, &fit->cuts, err) == 0
		       ? 0
		       : err_remedy(err, "%s", clone_anew);
}

/* All of it must be here, and no other working tree needs it. */
static int mirror_fit_check_parts(int dot_git, const struct repo *repo, struct err *err)
{
	if (file_is_there(dot_git, "commondir") || repo->has_alternates)
		return mirror_fit_refuse(err, "some of its objects are in another clone",
					 clone_anew);
	if (repo->is_partial)
		return mirror_fit_refuse(err, "it is a partial clone", clone_anew);
	if (file_is_there(dot_git, "worktrees"))
		return mirror_fit_refuse(err, "it has other working trees",
					 "remove them: git worktree list, git worktree "
					 "remove");
	return repo_check_files(repo, err);
}

int mirror_fit_read(int root, int dot_git, struct mirror_fit *fit, struct err *err)
{
	struct stat one, other;

	if (fstat(root, &one) != 0 || fstat(dot_git, &other) != 0)
		return err_errno(err, "cannot look at .git");
	if (one.st_dev != other.st_dev)
		return mirror_fit_refuse(err, "it is on another disk",
					 "move it, if the mirror is to use it");
	return mirror_fit_check_objects(root, dot_git, err) != 0 ||
			       repo_open(dot_git, ".", &fit->repo, err) != 0 ||
			       mirror_fit_check_parts(dot_git, &fit->repo, err) != 0 ||
			       ref_snapshot_read(dot_git, fit->repo.oid_len, &fit->refs,
						 err) != 0
		       ? -1
		       : mirror_fit_read_cuts(dot_git, fit, err);
}

void mirror_fit_clear(struct mirror_fit *fit)
{
	repo_close(&fit->repo);
	ref_snapshot_clear(&fit->refs);
	vec_clear(&fit->cuts);
}

int mirror_fit_check(int root, const char *name, struct err *err)
{
	AUTO_FREE char *below = xasprintf("%s/.git", name);
	AUTO_CLOSE int dot_git = path_open_beneath(root, below, O_RDONLY | O_DIRECTORY);
	AUTO_MIRROR_FIT struct mirror_fit fit = MIRROR_FIT_INIT;

	if (dot_git < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 1;
	if (dot_git < 0)
		return err_errno(err, "cannot open %s", below);
	return mirror_fit_check_access(root, name, err) != 0 ||
			       mirror_fit_check_access(root, below, err) != 0
		       ? -1
		       : mirror_fit_read(root, dot_git, &fit, err);
}

/*
 * The working tree.
 */

static int mirror_fit_refuse_others(struct err *err)
{
	return mirror_fit_refuse(
		err, "other repositories are in its working tree, or what cannot be read",
		"move the repositories in this clone's working tree elsewhere");
}

/* What cannot be read for good may be one. */
static int mirror_fit_fail_to_list(const char *name, struct err *err)
{
	err_errno(err, "cannot list %s", name);
	return mirror_fit_is_final(err) ? mirror_fit_refuse_others(err) : -1;
}

/* But for the tree's own. */
static int mirror_fit_check_others(int parent, const char *name, unsigned depth,
				   struct err *err)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(parent, name);
	struct dirent *entry;

	if (!dir)
		return errno == ENOENT ? 0 : mirror_fit_fail_to_list(name, err);
	if (depth == DEPTH_MOST ||
	    (depth > 0 && repo_look_at(dirfd(dir)) != REPO_NOTHING))
		return mirror_fit_refuse_others(err);
	while ((errno = 0, entry = readdir(dir)) != NULL)
		if (dir_entry_is_directory(dirfd(dir), entry) &&
		    !name_is_dots(entry->d_name) && strcmp(entry->d_name, ".git") != 0 &&
		    mirror_fit_check_others(dirfd(dir), entry->d_name, depth + 1, err) !=
			    0)
			return -1;
	return errno == 0 ? 0 : mirror_fit_fail_to_list(name, err);
}

int mirror_fit_check_tree(int root, const char *name, struct err *err)
{
	return mirror_fit_check_others(root, name, 0, err);
}

bool mirror_fit_is_final(const struct err *why)
{
	return err_is_of_data(why) &&
	       (why->class == ERR_CONFIG || why->class == ERR_CORRUPT ||
		why->class == ERR_MISSING);
}
