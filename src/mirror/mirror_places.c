/*
 * Only directories are listed that a mirror's name leads through, in whatever case, each
 * once.
 */
#include "mirror/mirror_places.h"

#include <dirent.h>
#include <limits.h>

#include "base/conf.h"
#include "base/file.h"
#include "base/map.h"
#include "git/repo.h"
#include "net/uri_text.h"
#include "replicable/name.h"

#define CONFIG_MOST ((size_t)1 << 20)

struct mirror_places {
	struct map names; /* in small letters: const struct mirror *, or, of a list,
			     struct mirror_place * */
	struct map above; /* of folders that they lead through, likewise: any pointer */
	/* Of a list alone; else NULL: */
	const char *root;
	mirror_place_list *wanted;
	char *(*source)(int clone);
	struct err *unseen; /* the first folder that could not be looked at */
};

/* What may be there must not be taken for free. */
static void mirror_places_note_unseen(const struct mirror_places *places,
				      const char *path)
{
	if (places->unseen && places->unseen->class == ERR_NONE)
		err_errno(places->unseen, "cannot look at %s/%s", places->root, path);
}

static void mirror_places_add(struct mirror_places *places, const char *mirror,
			      const void *value)
{
	AUTO_FREE char *name = text_fold(mirror);

	map_put(&places->names, name, (void *)(uintptr_t)value);
	for (char *slash = strrchr(name, '/'); slash; slash = strrchr(name, '/')) {
		*slash = '\0';
		map_put(&places->above, name, places);
	}
}

static void mirror_places_fill(struct mirror_places *places,
			       const struct mirrors *mirrors)
{
	for (size_t i = 0; i < mirrors->sections.count; i++) {
		const struct mirror *mirror = mirrors->sections.items[i];
		mirror_places_add(places, mirror->name, mirror);
	}
}

static bool mirror_places_is_repository(int dir, const char *entry)
{
	AUTO_CLOSE int fd =
		openat(dir, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && repo_look_at(fd) != REPO_NOTHING;
}

static bool mirror_places_is_same_path(const char *one, const char *other)
{
	AUTO_FREE char *name = mirror_usual_name(one);
	AUTO_FREE char *own = mirror_usual_name(other);

	return strcmp(name, own) == 0;
}

/* By whatever protocol, port and user. */
static bool mirror_places_is_same_upstream(const char *one, const char *other)
{
	AUTO_URI struct uri_text uri = { 0 }, own = { 0 };

	return uri_text_read(one, &uri, ERR_IGNORED) == 0 &&
	       uri_text_read(other, &own, ERR_IGNORED) == 0 &&
	       strcasecmp(uri.host ? uri.host : "", own.host ? own.host : "") == 0 &&
	       uri.path && own.path && mirror_places_is_same_path(uri.path, own.path);
}

static bool mirror_places_has_origin(int clone, const char *url)
{
	struct str text = STR_INIT;
	AUTO_CONF struct conf *conf = NULL;
	const struct conf_entry *entry = NULL;

	if (file_read(clone, "config", CONFIG_MOST, &text, ERR_IGNORED) == 0 &&
	    conf_load_text("config", text.data, text.len, &conf, ERR_IGNORED) == 0)
		entry = conf_get(conf, "remote", "origin", "url");
	str_wipe(&text);
	return entry && entry->value && mirror_places_is_same_upstream(entry->value, url);
}

/* As refrelay records it, or whoever made the clone. */
static bool mirror_places_is_clone(const struct mirror_places *places, int clone,
				   const char *url)
{
	AUTO_FREE char *source = places->source(clone);

	return (source && mirror_places_is_same_upstream(source, url)) ||
	       mirror_places_has_origin(clone, url);
}

/* A folder is no matter; a clone with a working tree may be taken over. */
static bool mirror_places_is_free(const struct mirror_places *places, int dir,
				  const char *entry, const char *url)
{
	AUTO_CLOSE int fd = openat(dir, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return true;
	if (repo_look_at(fd) != REPO_NOTHING)
		return false;
	AUTO_CLOSE int git =
		openat(fd, ".git", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return git < 0 || mirror_places_is_clone(places, git, url);
}

static void mirror_places_judge_wanted(const struct mirror_places *places,
				       struct mirror_place *wanted, int dir,
				       const char *entry, const char *path)
{
	AUTO_FREE char *own = name_to_path(wanted->name);
	bool is_free;

	if (wanted->other)
		return;
	if (strcmp(own, path) == 0) {
		AUTO_CLOSE int fd = openat(
			dir, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		is_free = fd >= 0 && mirror_places_is_clone(places, fd, wanted->url);
	} else {
		is_free = mirror_places_is_free(places, dir, entry, wanted->url);
	}
	if (!is_free)
		wanted->other = xstrdup(path);
}

/* Of what stands at `path` below the root. */
static int mirror_places_judge(const struct mirror_places *places, int dir,
			       const char *entry, const char *path, struct err *err)
{
	AUTO_FREE char *name = name_of_path(path);
	AUTO_FREE char *folded = text_fold(path);
	AUTO_FREE char *base = name_of_path(folded);
	void *found = map_get(&places->names, base);

	if (places->wanted && found)
		mirror_places_judge_wanted(places, found, dir, entry, path);
	if (places->wanted)
		return 0;
	const struct mirror *mirror = found;
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

/* All below it would be at another name, too, or inside a repository. */
static void mirror_places_take_below(const struct mirror_places *places, const char *path)
{
	const size_t len = strlen(path);

	for (size_t i = 0; i < places->wanted->count; i++) {
		struct mirror_place *wanted = &places->wanted->items[i];
		if (!wanted->other && strncasecmp(wanted->name, path, len) == 0 &&
		    wanted->name[len] == '/')
			wanted->other = xstrdup(path);
	}
}

/* -1: nothing is to be looked at there. For a list links are followed, but not to what is
 * below the root. */
static int mirror_places_enter(const struct mirror_places *places, int dir,
			       const char *entry, const char *path)
{
	int fd = openat(dir, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && errno != ELOOP && errno != ENOTDIR && errno != ENOENT)
		mirror_places_note_unseen(places, path);
	if (!places->wanted || (fd < 0 && errno != ELOOP && errno != ENOTDIR))
		return fd;
	if (fd >= 0 && repo_look_at(fd) == REPO_NOTHING)
		return fd;
	if (fd >= 0) {
		close(fd);
		mirror_places_take_below(places, path);
		return -1;
	}
	AUTO_FREE char *whole = xasprintf("%s/%s", places->root, path);
	AUTO_FREE char *real = path_resolve(whole);
	AUTO_FREE char *top = path_resolve(places->root);
	if (!real || !top || !path_is_below(real, top))
		return openat(dir, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	mirror_places_take_below(places, path);
	return -1;
}

/* Takes fd, of the folder at `path`, "" or with a slash at its end. */
static int mirror_places_look(const struct mirror_places *places, int fd,
			      const char *path, struct err *err)
{
	AUTO_CLOSEDIR DIR *dir = fdopendir(fd);
	struct dirent *entry;
	int result = 0;

	if (!dir) {
		mirror_places_note_unseen(places, path);
		close(fd);
		return 0;
	}
	while (result == 0 && (errno = 0, entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		AUTO_FREE char *below = xasprintf("%s%s", path, entry->d_name);
		AUTO_FREE char *folded = text_fold(below);
		AUTO_FREE char *inner = xasprintf("%s/", below);
		result = mirror_places_judge(places, dirfd(dir), entry->d_name, below,
					     err);
		if (result != 0 || !map_get(&places->above, folded))
			continue;
		int inside =
			mirror_places_enter(places, dirfd(dir), entry->d_name, below);
		if (inside >= 0)
			result = mirror_places_look(places, inside, inner, err);
	}
	if (result == 0 && errno != 0)
		mirror_places_note_unseen(places, path);
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

int mirror_places_find_taken(mirror_place_list *wanted, const char *root,
			     char *(*source)(int clone), struct err *err)
{
	struct mirror_places places = {
		.root = root, .wanted = wanted, .source = source, .unseen = err
	};
	int fd = dir_open(AT_FDCWD, root, err);

	if (fd < 0)
		return -1;
	err->class = ERR_NONE;
	for (size_t i = 0; i < wanted->count; i++)
		mirror_places_add(&places, wanted->items[i].name, &wanted->items[i]);
	mirror_places_look(&places, fd, "", ERR_IGNORED);
	map_clear(&places.names);
	map_clear(&places.above);
	return err->class == ERR_NONE ? 0 : -1;
}

void mirror_place_list_clear(mirror_place_list *wanted)
{
	for (size_t i = 0; i < wanted->count; i++)
		free(wanted->items[i].other);
	vec_clear(wanted);
}
