/*
 * A new repository is made beside its place and gets its name when it is whole and on
 * disk. The temporary name follows from the URI, whose lease the caller holds: what a
 * crash left there is nobody's.
 */
#include "base/file.h"
#include "base/str.h"
#include "git/repo.h"
#include "push/target_kinds.h"
#include "replicable/name.h"

static int check_path(const struct destination *destination, struct err *err)
{
	if (destination->path && destination->path[0] == '/' &&
	    destination->path[1] != '\0')
		return 0;
	err_set(err, ERR_CONFIG, "\"%.300s\" is no absolute path of a repository",
		destination->path ? destination->path : "");
	return err_remedy(err, "correct url or adminUrl of the remote");
}

static int git(const struct target_call *call, const char *path, const char *const *args,
	       struct err *err)
{
	struct git_call git_call = {
		.work = call->work,
		.repository = path,
		.args = args,
	};

	if (git_run(&git_call, err) != 0)
		return err_prefix(err, "%.300s", path);
	return 0;
}

static int write_head(const struct target_call *call, const char *path, const char *head,
		      struct err *err)
{
	return git(call, path, (const char *[]){ "symbolic-ref", "HEAD", head, NULL },
		   err);
}

static int target_local_fill_repository(const struct target_call *call, const char *path,
					const char *head, size_t oid_len, struct err *err)
{
	bool stores = call->destination->remote->stores_ref_log;
	const char *const init[] = { "init",
				     "--quiet",
				     "--bare",
				     "--template=",
				     oid_len == 32 ? "--object-format=sha256"
						   : "--object-format=sha1",
				     NULL };
	const char *const config[] = { "config", "core.logAllRefUpdates",
				       stores ? "true" : "false", NULL };

	if (git(call, path, init, err) != 0 || git(call, path, config, err) != 0)
		return -1;
	return head ? write_head(call, path, head, err) : 0;
}

static int sync_file(int dir, const char *name, struct err *err)
{
	AUTO_CLOSE int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 || fsync(fd) != 0)
		return err_errno(err, "cannot sync %s of a new repository", name);
	return 0;
}

static int target_local_sync_all(const char *path, struct err *err)
{
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, path, err);

	if (dir < 0 || sync_file(dir, "HEAD", err) != 0 ||
	    sync_file(dir, "config", err) != 0 || dir_sync(dir, "objects", err) != 0 ||
	    dir_sync(dir, "refs", err) != 0)
		return -1;
	return dir_sync(dir, ".", err);
}

static int target_local_fail_in_the_way(const char *path, struct err *err)
{
	err_set(err, ERR_CONFIG, "something that is no repository stands at %.300s",
		path);
	return err_remedy(err, "move it away, or correct the URL");
}

/* rename() takes the place of an empty directory, too. Whoever was faster made what we
 * wanted, or it is in the way. */
static int put_in_place(const char *made, const char *path, const char *parent,
			struct err *err)
{
	struct repo repo;

	if (rename(made, path) == 0)
		return dir_sync(AT_FDCWD, parent, err);
	if (errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR)
		return err_errno(err, "cannot make repository %.300s", path);
	if (repo_open(AT_FDCWD, path, &repo, ERR_IGNORED) != 0)
		return target_local_fail_in_the_way(path, err);
	repo_close(&repo);
	return 0;
}

static int target_local_make_repository(const struct target_call *call, const char *path,
					const char *head, size_t oid_len, struct err *err)
{
	const char *slash = strrchr(path, '/');
	AUTO_FREE char *parent =
		xstrndup(path, slash == path ? 1 : (size_t)(slash - path));
	AUTO_FREE char *made = xasprintf("%s/" PASSING_PREFIX "new-%s", parent,
					 call->destination->uri_key);
	int result = -1;

	if (dir_make(AT_FDCWD, parent, err) != 0 ||
	    tree_remove(AT_FDCWD, made, err) != 0 || dir_make(AT_FDCWD, made, err) != 0)
		return -1;
	if (target_local_fill_repository(call, made, head, oid_len, err) == 0 &&
	    target_local_sync_all(made, err) == 0)
		result = put_in_place(made, path, parent, err);
	tree_remove(AT_FDCWD, made, ERR_IGNORED);
	return result;
}

static bool is_empty(int dir)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, ".");

	while (list && (entry = readdir(list)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			return false;
	return list != NULL;
}

/* 1: it may be made there; 0: one is there. */
static int may_make(const char *path, struct err *err)
{
	AUTO_CLOSE int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0 && errno == ENOENT)
		return 1;
	if (dir < 0 && errno == ENOTDIR)
		return target_local_fail_in_the_way(path, err);
	if (dir < 0)
		return err_errno(err, "cannot look at %.300s", path);
	if (repo_look_at(dir) == REPO_BARE)
		return 0;
	return is_empty(dir) ? 1 : target_local_fail_in_the_way(path, err);
}

static char *target_local_copy_path(const struct destination *destination)
{
	size_t len = strlen(destination->path);

	while (len > 1 && destination->path[len - 1] == '/')
		len--;
	return xstrndup(destination->path, len);
}

static int target_local_create(const struct target_call *call, const char *head,
			       size_t oid_len, struct err *err)
{
	AUTO_FREE char *path = NULL;
	int may;

	if (check_path(call->destination, err) != 0)
		return -1;
	path = target_local_copy_path(call->destination);
	may = may_make(path, err);
	return may > 0 ? target_local_make_repository(call, path, head, oid_len, err)
		       : may;
}

static int target_local_set_head(const struct target_call *call, const char *head,
				 struct err *err)
{
	const char *path = call->destination->path;
	AUTO_CLOSE int dir = -1;

	if (check_path(call->destination, err) != 0)
		return -1;
	dir = dir_open(AT_FDCWD, path, err);
	if (dir < 0)
		return -1;
	if (repo_look_at(dir) != REPO_BARE)
		return err_set(err, ERR_MISSING, "there is no repository at %.300s",
			       path);
	return write_head(call, path, head, err);
}

static int target_local_destroy(const struct target_call *call, struct err *err)
{
	if (check_path(call->destination, err) != 0)
		return -1;
	return target_local_delete(call, err);
}

const struct target_kind target_local = { target_local_create, target_local_set_head,
					  target_local_destroy };
