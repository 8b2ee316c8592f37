/*
 * Only directories are listed that a mirror's name leads through, in whatever case, each
 * once.
 */
#include "mirror/mirror_places.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>

#include "base/file.h"
#include "base/map.h"
#include "git/repo.h"
#include "replicable/name.h"

struct mirror_places {
	struct map names; /* of all mirrors, in small letters: const struct mirror * */
	struct map above; /* of folders that they lead through, likewise: any pointer */
};

static char *mirror_places_fold(const char *text)
{
	char *folded = xstrdup(text);

	for (char *at = folded; *at; at++)
		*at = (char)tolower((unsigned char)*at);
	return folded;
}

static void mirror_places_fill(struct mirror_places *places,
			       const struct mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->sections.count; i++) {
		const struct mirror *mirror = mirrors->sections.items[i];
		AUTO_FREE char *name = mirror_places_fold(mirror->name);
		map_put(&places->names, name, (void *)(uintptr_t)mirror);
		for (char *slash = strrchr(name, '/'); slash;
		     slash = strrchr(name, '/')) {
			*slash = '\0';
			map_put(&places->above, name, places);
		}
	}
}

static bool mirror_places_is_repository(int dir, const char *entry)
{
	AUTO_CLOSE int fd =
		openat(dir, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && repo_look_at(fd) != REPO_NOTHING;
}

/* Of what stands at `path` below the root. */
static int mirror_places_judge(const struct mirror_places *places, int dir,
			       const char *entry, const char *path, struct err *err)
{
	AUTO_FREE char *name = name_of_path(path);
	AUTO_FREE char *folded = mirror_places_fold(path);
	AUTO_FREE char *base = name_of_path(folded);
	const struct mirror *mirror = map_get(&places->names, base);
	AUTO_FREE char *own = mirror ? name_to_path(mirror->name) : NULL;

	if (!mirror || strcmp(own, path) == 0 || !mirror_places_is_repository(dir, entry))
		return 0;
	err_set(err, ERR_CONFIG,
		"the mirror \"%s\" and the repository %s below site.repositories would "
		"be "
		"one on some file system",
		mirror->name, path);
	return strcmp(name, mirror->name) == 0
		       ? err_remedy(
				 err,
				 "move the repository to %s, where the mirror takes it "
				 "over if its upstream has all its commits, or give "
				 "the mirror another name",
				 own)
		       : err_remedy(err, "give one of them another name");
}

/* Takes fd, of the folder at `path`, "" or with a slash at its end. */
static int mirror_places_look(const struct mirror_places *places, int fd,
			      const char *path, struct err *err)
{
	AUTO_CLOSEDIR DIR *dir = fdopendir(fd);
	struct dirent *entry;
	int result = 0;

	if (!dir) {
		close(fd);
		return 0;
	}
	while (result == 0 && (entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		AUTO_FREE char *below = xasprintf("%s%s", path, entry->d_name);
		AUTO_FREE char *folded = mirror_places_fold(below);
		AUTO_FREE char *inner = xasprintf("%s/", below);
		result = mirror_places_judge(places, dirfd(dir), entry->d_name, below,
					     err);
		if (result != 0 || !map_get(&places->above, folded))
			continue;
		int inside = openat(dirfd(dir), entry->d_name,
				    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (inside >= 0)
			result = mirror_places_look(places, inside, inner, err);
	}
	return result;
}

static int mirror_places_refuse_link(const struct mirror *mirror, const char *what,
				     const char *other, struct err *err)
{
	err_set(err, ERR_CONFIG,
		"the mirror \"%s\" and the %s %s are one directory, by a symbolic link",
		mirror->name, what, other);
	return err_remedy(err, "remove the link, or give one of them another name");
}

/* What the link says; NULL: it is none. The caller frees. */
static char *mirror_places_read_link(const char *path)
{
	char target[PATH_MAX];
	ssize_t len = readlink(path, target, sizeof(target));

	return len < 0 ? NULL : xstrndup(target, (size_t)len);
}

/* A folder of mirrors may be a link to another disk, where nothing else of ours is. */
static int mirror_places_follow(struct map *seen, const struct mirror *mirror,
				const char *root, struct err *err)
{
	AUTO_FREE char *path = name_to_copy(root, mirror->name);
	AUTO_FREE char *expected = name_to_path(mirror->name);
	AUTO_FREE char *real = path_resolve(path);
	AUTO_FREE char *top = path_resolve(root);
	AUTO_FREE char *target = mirror_places_read_link(path);
	const char *below;

	if (!real || !top)
		return 0;
	below = path_is_below(real, top) && strcmp(real, top) != 0
			? real + strlen(top) + 1
			: NULL;
	const struct mirror *other = map_put(seen, real, (void *)(uintptr_t)mirror);
	if (other)
		return mirror_places_refuse_link(mirror, "mirror", other->name, err);
	if (below && strcmp(below, expected) != 0)
		return mirror_places_refuse_link(mirror, "repository", below, err);
	return target ? mirror_places_refuse_link(mirror, "repository", target, err) : 0;
}

static int mirror_places_follow_all(const struct mirrors *mirrors, const char *root,
				    struct err *err)
{
	struct map seen = { 0 };
	int result = 0;

	for (size_t i = 0; i < mirrors->sections.count && result == 0; i++)
		result = mirror_places_follow(&seen, mirrors->sections.items[i], root,
					      err);
	map_clear(&seen);
	return result;
}

int mirrors_check_places(const struct mirrors *mirrors, const char *root, struct err *err)
{
	struct mirror_places places = { 0 };
	int result = mirror_places_follow_all(mirrors, root, err), fd;

	if (result != 0 || mirrors->sections.count == 0)
		return result;
	mirror_places_fill(&places, mirrors);
	fd = dir_open(AT_FDCWD, root, ERR_IGNORED);
	if (fd >= 0)
		result = mirror_places_look(&places, fd, "", err);
	map_clear(&places.names);
	map_clear(&places.above);
	return result;
}
