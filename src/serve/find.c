/*
 * The kernel walks the way, so that no link that comes into it meanwhile leads elsewhere.
 * Whether a repository is on the way is asked upwards from the directory that was found,
 * by "..": of the folders in which it really lies. Not the other way round: that costs
 * as much for each name that is not there.
 */
#include "serve/find.h"

#include "base/file.h"
#include "base/path.h"
#include "git/repo.h"
#include "replicable/name.h"

/* Whether one of the folders above it, up to the root, is a repository itself. 1: yes;
 * 0: no; -1: that cannot be told. */
static int lies_in_another(int dir, const char *path)
{
	int fd = openat(dir, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0) {
		AUTO_CLOSE int folder = fd;
		if (repo_look_at(folder) != REPO_NOTHING)
			return 1;
		path = strchr(path, '/');
		if (!path)
			return 0;
		path++;
		fd = openat(folder, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
	}
	return -1;
}

/* Whether errno says that nothing that could be served is there. */
static bool find_is_absent(void)
{
	return errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV ||
	       errno == EACCES || errno == ENAMETOOLONG;
}

static int open_at(int root, const char *below, struct err *err)
{
	AUTO_CLOSE int fd = path_open_beneath(root, below, O_RDONLY | O_DIRECTORY);
	int hidden = fd < 0 ? -1 : lies_in_another(fd, below);

	if (hidden < 0 && !find_is_absent())
		return err_errno(err, "cannot open directory %s", below);
	if (hidden != 0 || repo_look_at(fd) == REPO_NOTHING)
		return err_set(err, ERR_MISSING, "no repository is there");
	return TAKE_FD(fd);
}

bool find_is_plain(const char *path)
{
	return !text_ends_with(path, ".git");
}

int find_repository(const char *root, const char *name, char **path, struct err *err)
{
	int fd;

	*path = NULL;
	if (name_check(name, err) != 0) {
		err->class = ERR_MISSING; /* a name that no repository can have */
		return err_remedy(err, "give its path below site.repositories");
	}
	AUTO_CLOSE int top = dir_open(AT_FDCWD, root, err);
	if (top < 0)
		return -1;
	AUTO_FREE char *usual = name_to_path(name);
	const char *below = usual;
	fd = open_at(top, below, err);
	/* What stands at x.git is called x. */
	if (fd < 0 && err->class == ERR_MISSING && find_is_plain(name)) {
		below = name;
		fd = open_at(top, below, err);
	}
	if (fd >= 0)
		*path = xasprintf("%s/%s", root, below);
	else if (err->class == ERR_MISSING)
		err_set(err, ERR_MISSING, "there is no repository \"%s\"", name);
	return fd;
}
