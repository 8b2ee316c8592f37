#include "serve/find.h"

#include "base/file.h"
#include "git/repo.h"
#include "replicable/name.h"

/* Down one part. -1 with errno 0: what is there is a repository already. */
static int enter(int parent, const char *part)
{
	if (repo_look_at(parent) != REPO_NOTHING) {
		errno = 0;
		return -1;
	}
	return openat(parent, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Whether errno says that nothing that could be served is there. */
static bool is_absent(void)
{
	return errno == 0 || errno == ENOENT || errno == ENOTDIR || errno == ELOOP ||
	       errno == EACCES || errno == ENAMETOOLONG;
}

/* Opens the directory at path below root; -1: none is there (ERR_MISSING), or it cannot
 * be told. */
static int descend(const char *root, const char *path, struct err *err)
{
	const char *rest = path;
	int fd = dir_open(AT_FDCWD, root, err);

	if (fd < 0)
		return -1;
	while (fd >= 0 && *rest) {
		AUTO_CLOSE int parent = fd;
		AUTO_FREE char *part = xstrndup(rest, strcspn(rest, "/"));
		fd = enter(parent, part);
		rest += strlen(part);
		rest += *rest == '/';
	}
	if (fd >= 0 && repo_look_at(fd) != REPO_NOTHING)
		return fd;
	if (fd >= 0)
		close(fd);
	if (fd >= 0 || is_absent())
		return err_set(err, ERR_MISSING, "no repository is there");
	return err_errno(err, "cannot open directory %s", path);
}

static int open_at(const char *root, const char *below, char **path, struct err *err)
{
	int fd = descend(root, below, err);

	if (fd >= 0)
		*path = xasprintf("%s/%s", root, below);
	return fd;
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
	AUTO_FREE char *usual = name_to_path(name);
	fd = open_at(root, usual, path, err);
	/* What stands at x.git is called x. */
	if (fd < 0 && err->class == ERR_MISSING && find_is_plain(name))
		fd = open_at(root, name, path, err);
	if (fd < 0 && err->class == ERR_MISSING)
		err_set(err, ERR_MISSING, "there is no repository \"%s\"", name);
	return fd;
}
