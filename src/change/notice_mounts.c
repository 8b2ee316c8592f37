/*
 * File systems that are mounted on folders below the root. Each scan writes down which
 * there are (site value origin.mounts, a JSON array of paths). A folder that was one, is
 * empty now, and lies on the file system of what it stands in, is not mounted: what was
 * below it is not deleted. It is forgotten when it is removed, or holds something itself.
 */
#include <sys/stat.h>

#include "base/file.h"
#include "base/json.h"
#include "change/notice_parts.h"
#include "store/site_value.h"

#define MOUNTS_KEY "origin.mounts"

bool notice_is_empty(int dir, const char *path)
{
	AUTO_CLOSEDIR DIR *list = dir_list(dir, path);
	const struct dirent *entry;

	while (list && (entry = readdir(list)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			return false;
	return list != NULL;
}

static bool is_away(int root, const char *mount)
{
	AUTO_FREE char *parent = xasprintf("%s/..", mount);
	struct stat st, above;

	return fstatat(root, mount, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(root, parent, &above, 0) == 0 && st.st_dev == above.st_dev &&
	       notice_is_empty(root, mount);
}

/* The mount point at this path or above it that is away, or NULL. */
static const char *find_away(const json_t *mounts, int root, const char *path)
{
	for (size_t i = 0; i < json_array_size(mounts); i++) {
		const char *mount = json_string_value(json_array_get(mounts, i));
		size_t len = strlen(mount);
		if (strncmp(path, mount, len) == 0 &&
		    (path[len] == '/' || path[len] == '\0') && is_away(root, mount))
			return mount;
	}
	return NULL;
}

static int say_away(const char *mount, struct err *err)
{
	err_set(err, ERR_DISK,
		"the file system of the folder %s is not mounted, so what was there is "
		"not taken for deleted",
		mount);
	return err_remedy(err, "mount it; if it was given up on purpose, remove the "
			       "empty folder");
}

static int read_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	json_t **mounts = arg;
	int found = site_value_get(tx, MOUNTS_KEY, &text, err);

	json_decref(*mounts);
	*mounts = found > 0 ? json_loads(text.data, 0, NULL) : NULL;
	return found < 0 ? -1 : 0;
}

int notice_check_mounts(struct notice *notice, int root, const char *path,
			struct err *err)
{
	json_auto_t *known = NULL;

	if (store_read(notice->options.store, read_work, &known, err) != 0)
		return -1;
	const char *away = find_away(known, root, path);
	return away ? say_away(away, err) : 0;
}

static int write_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	json_render(arg, &text);
	return site_value_set(tx, MOUNTS_KEY, text.data, err);
}

static void add_finding(struct discovery *discovery, const char *mount)
{
	struct discover_finding finding = { .path = xstrdup(mount), .hides_names = true };

	say_away(mount, &finding.err);
	vec_add(&discovery->findings, finding);
}

/* What is mounted, and what was and is away, or below such a one. */
static json_t *list_mounts(const json_t *known, int root, struct discovery *discovery)
{
	json_t *now = json_array();

	for (size_t i = 0; i < discovery->mounts.count; i++)
		json_array_append_new(now, json_string(discovery->mounts.items[i]));
	for (size_t i = 0; i < json_array_size(known); i++) {
		const char *mount = json_string_value(json_array_get(known, i));
		const char *away = find_away(known, root, mount);
		if (away == mount)
			add_finding(discovery, mount);
		if (away)
			json_array_append_new(now, json_string(mount));
	}
	return now;
}

int notice_note_mounts(struct notice *notice, int root, struct discovery *discovery,
		       struct err *err)
{
	json_auto_t *known = NULL;

	if (store_read(notice->options.store, read_work, &known, err) != 0)
		return -1;
	json_auto_t *now = list_mounts(known, root, discovery);
	/* A root that has nothing may be away itself: it says nothing of what is below.
	 */
	if (discovery->found.count == 0 || json_equal(known, now) ||
	    (!known && json_array_size(now) == 0))
		return 0;
	return store_write(notice->options.store, write_work, now, err);
}
