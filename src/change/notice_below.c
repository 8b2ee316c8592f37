#include <limits.h>

#include "base/str.h"
#include "change/notice.h"
#include "replicable/name.h"

/* What follows root and a slash in path, or NULL. */
static const char *below(const char *root, const char *path)
{
	size_t len = strlen(root);

	while (len > 0 && root[len - 1] == '/')
		len--;
	if (strncmp(path, root, len) != 0 || path[len] != '/')
		return NULL;
	return path + len + strspn(path + len, "/");
}

/* With links followed, as git names a repository to its hooks; one that is gone is found
 * by its text alone. */
static char *path_below(const char *root, const char *path)
{
	AUTO_FREE char *real_root = realpath(root, NULL);
	AUTO_FREE char *real_path = realpath(path, NULL);
	const char *found = NULL;

	if (real_root && real_path)
		found = below(real_root, real_path);
	if (!found && !real_path)
		found = below(root, path);
	if (!found && !real_path && real_root)
		found = below(real_root, path);
	return found ? xstrdup(found) : NULL;
}

char *notice_name_below(const char *root, const char *path_or_name, struct err *err)
{
	AUTO_FREE char *path = path_or_name[0] == '/' ? path_below(root, path_or_name)
						      : xstrdup(path_or_name);

	if (!path) {
		err_set(err, ERR_CONFIG, "%s is not below site.repositories (%s)",
			path_or_name, root);
		err_remedy(err, "name a repository that is");
		return NULL;
	}
	for (size_t len = strlen(path); len > 0 && path[len - 1] == '/'; len--)
		path[len - 1] = '\0';
	AUTO_FREE char *name = name_of_path(path);
	return name_check(name, err) == 0 ? TAKE(name) : NULL;
}
