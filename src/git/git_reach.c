#include "git/git_reach.h"

#include <fcntl.h>

#include "base/file.h"
#include "base/proc.h"
#include "base/str.h"

enum {
	ALTERNATES_LIMIT = 1 << 20,
	ALTERNATES_DEPTH = 5,           /* git's own */
	REACH_MOST = PROC_READS_MAX / 2 /* the rest is for what the caller adds */
};

enum git_reach git_reach_of(const struct repo *repo)
{
	return repo->has_includes ? GIT_REACH_READS_ALL : GIT_REACH_READS;
}

static void add_link(int repository, const char *name, git_reach_paths *paths)
{
	struct stat st;

	if (fstatat(repository, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISLNK(st.st_mode))
		vec_add(paths, xstrdup(name));
}

/* Of what is right below it. */
static void add_links_below(int repository, const char *folder, git_reach_paths *paths)
{
	int fd = openat(repository, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	AUTO_CLOSEDIR DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	while (dir && paths->count <= REACH_MOST && (entry = readdir(dir)) != NULL) {
		AUTO_FREE char *path = NULL;
		if (entry->d_type != DT_LNK && entry->d_type != DT_UNKNOWN)
			continue;
		path = xasprintf("%s/%s", folder, entry->d_name);
		add_link(repository, path, paths);
	}
}

/* Those that `objects` names, a directory with this path below the repository, and those
 * that they name in turn. */
static void add_alternates(int repository, const char *objects, int depth,
			   git_reach_paths *paths)
{
	AUTO_FREE char *file = xasprintf("%s/info/alternates", objects);
	AUTO_STR struct str text = STR_INIT;
	char *rest = NULL, *line;

	if (depth > ALTERNATES_DEPTH ||
	    file_read(repository, file, ALTERNATES_LIMIT, &text, ERR_IGNORED) != 0)
		return;
	rest = text.data;
	while ((line = strsep(&rest, "\n")) != NULL && paths->count <= REACH_MOST) {
		if (!*line || *line == '#')
			continue;
		char *path = *line == '"'   ? xstrdup("/") /* a name with quotes */
			     : *line == '/' ? xstrdup(line)
					    : xasprintf("%s/%s", objects, line);
		vec_add(paths, path);
		if (*line != '"')
			add_alternates(repository, path, depth + 1, paths);
	}
}

void git_reach_list_alternates(int repository, git_reach_paths *paths)
{
	add_alternates(repository, "objects", 1, paths);
	if (paths->count > REACH_MOST)
		vec_add(paths, xstrdup("/"));
}

/* A directory of which "commondir" names the rest is a linked working tree's. */
void git_reach_find(int repository, git_reach_paths *paths)
{
	static const char *const names[] = { "HEAD",         "config",       "info",
					     "objects",      "packed-refs",  "refs",
					     "objects/info", "objects/pack", "shallow" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		add_link(repository, names[i], paths);
	add_links_below(repository, "objects/pack", paths);
	add_links_below(repository, "refs", paths);
	add_alternates(repository, "objects", 1, paths);
	if (paths->count <= REACH_MOST &&
	    faccessat(repository, "commondir", F_OK, AT_SYMLINK_NOFOLLOW) != 0)
		return;
	vec_clear_owned(paths);
	vec_add(paths, xstrdup("/"));
}
