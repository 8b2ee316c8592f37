/*
 * The same rules as in discover.c, or a scan would find what a hook's hint cannot, and
 * the other way round: no symbolic links, nothing inside a repository, nothing whose
 * copy would lie inside another's copy, NAME.git before NAME.
 */
#include "replicable/locate.h"

#include <limits.h>

#include "base/file.h"
#include "base/str.h"
#include "git/repo.h"

/* 1: *fd is open; 0: no directory of that name. */
static int locate_open_part(int parent, const char *part, int *fd, struct err *err)
{
	*fd = openat(parent, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd >= 0)
		return 1;
	if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
		return 0;
	return err_errno(err, "cannot open directory %s", part);
}

static int locate_is_repository(int parent, const char *part, struct err *err)
{
	AUTO_CLOSE int fd = -1;
	int found = locate_open_part(parent, part, &fd, err);

	return found > 0 ? repo_look_at(fd) != REPO_NOTHING : found;
}

/* A copy of `a` would be a.git, and hold what lies in the folder a.git here. */
static int locate_is_inside_copy(int parent, const char *part, struct err *err)
{
	char other[NAME_MAX + 1];
	size_t len = strlen(part);

	if (len <= 4 || !text_ends_with(part, ".git"))
		return 0;
	memcpy(other, part, len - 4);
	other[len - 4] = '\0';
	return locate_is_repository(parent, other, err);
}

/* Goes down into a folder: *fd is replaced. 0: no repository can stand there. */
static int locate_enter_folder(int *fd, const char *part, struct err *err)
{
	int below = -1;
	int hidden = locate_is_inside_copy(*fd, part, err);
	int found = hidden == 0 ? locate_open_part(*fd, part, &below, err) : -hidden;

	if (hidden > 0)
		return 0;
	if (found <= 0)
		return found;
	close(*fd);
	*fd = below;
	return repo_look_at(below) == REPO_NOTHING;
}

static int look_for(int parent, const char *last, const char *name, char **path,
		    struct err *err)
{
	char usual[NAME_MAX + 1];
	int found;

	snprintf(usual, sizeof(usual), "%s.git", last);
	found = locate_is_repository(parent, usual, err);
	if (found > 0)
		*path = xasprintf("%s.git", name);
	if (found != 0)
		return found;
	found = locate_is_repository(parent, last, err);
	if (found > 0)
		*path = xstrdup(name);
	return found;
}

int locate_repository(int root, const char *name, char **path, struct err *err)
{
	AUTO_CLOSE int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const char *part = name, *slash;
	char text[NAME_MAX + 1];

	*path = NULL;
	if (fd < 0)
		return err_errno(err, "cannot open the directory of repositories");
	for (; (slash = strchr(part, '/')) != NULL; part = slash + 1) {
		snprintf(text, sizeof(text), "%.*s", (int)(slash - part), part);
		int found = locate_enter_folder(&fd, text, err);
		if (found <= 0)
			return found;
	}
	return look_for(fd, part, name, path, err);
}
