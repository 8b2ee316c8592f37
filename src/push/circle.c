/*
 * A destination among the repositories that are pushed from here would be pushed in turn:
 * to itself under other names, or to mirror/a, mirror/mirror/a and so on, without end.
 * Only places on this machine can be told.
 */
#include "push/circle.h"

#include "base/file.h"
#include "replicable/name.h"

/* What the place is called among the repositories; NULL: it is not there. The caller
 * frees. */
static char *name_here(const char *root, const struct destination *destination)
{
	AUTO_FREE char *above = path_resolve(root);
	AUTO_FREE char *path = path_resolve(destination->path);
	size_t len = strlen(above), end = strlen(path);

	while (end > 0 && path[end - 1] == '/')
		path[--end] = '\0';
	if (!path_is_below(path, above) || end <= len + 1)
		return NULL;
	return name_of_path(path + len + (len > 1));
}

int destination_check_circle(const struct push_settings *settings, const char *root,
			     const struct destination *destination, struct err *err)
{
	AUTO_FREE char *name = NULL;

	if (destination->kind != URL_LOCAL)
		return 0;
	name = name_here(root, destination);
	for (size_t i = 0; name && i < settings->remotes.count; i++) {
		const struct push_remote *remote = &settings->remotes.items[i];
		if (!push_remote_takes(remote, name))
			continue;
		err_set(err, ERR_CONFIG,
			"%.300s is below site.repositories, and remote %.80s pushes "
			"what stands there: there would be no end",
			destination->uri, remote->name);
		return err_remedy(err,
				  "give remote %.80s a place outside, or leave %.200s "
				  "out with excludeProjects",
				  destination->remote->name, name);
	}
	return 0;
}
