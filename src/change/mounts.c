#include "change/mounts.h"

#include <sys/stat.h>

#include "base/file.h"
#include "store/site_value.h"

bool mounts_is_empty(int dir, const char *path)
{
	AUTO_CLOSEDIR DIR *list = dir_list(dir, path);
	const struct dirent *entry;

	while (list && (entry = readdir(list)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			return false;
	return list != NULL;
}

static bool mounts_is_away(int root, const char *mount)
{
	AUTO_FREE char *parent = xasprintf("%s/..", mount);
	struct stat st, above;

	return fstatat(root, mount, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(root, parent, &above, 0) == 0 && st.st_dev == above.st_dev &&
	       mounts_is_empty(root, mount);
}

const char *mounts_find_away(const json_t *mounts, int root, const char *path)
{
	for (size_t i = 0; i < json_array_size(mounts); i++) {
		const char *mount = json_string_value(json_array_get(mounts, i));
		size_t len = strlen(mount);
		if (strncmp(path, mount, len) == 0 &&
		    (path[len] == '/' || path[len] == '\0') &&
		    mounts_is_away(root, mount))
			return mount;
	}
	return NULL;
}

int mounts_say_away(const char *mount, struct err *err)
{
	err_set(err, ERR_DISK,
		"the file system of the folder %s is not mounted, so what was there is "
		"not taken for deleted",
		mount);
	return err_remedy(err, "mount it; if it was given up on purpose, remove the "
			       "empty folder");
}

struct value {
	const char *key;
	json_t *mounts;
};

static int mounts_read_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	struct value *value = arg;
	int found = site_value_get(tx, value->key, &text, err);

	json_decref(value->mounts);
	value->mounts = found > 0 ? json_loads(text.data, 0, NULL) : NULL;
	return found < 0 ? -1 : 0;
}

int mounts_read(struct store *store, const char *key, json_t **mounts, struct err *err)
{
	struct value value = { .key = key };
	int result = store_read(store, mounts_read_work, &value, err);

	*mounts = value.mounts;
	return result;
}

static int write_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	const struct value *value = arg;

	json_render(value->mounts, &text);
	return site_value_set(tx, value->key, text.data, err);
}

int mounts_write(struct store *store, const char *key, json_t *mounts, struct err *err)
{
	struct value value = { key, mounts };

	return store_write(store, write_work, &value, err);
}
