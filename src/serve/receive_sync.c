/*
 * A new ref may have made directories: so all above it count. A deleted one may have
 * taken directories with it: their names went from those above.
 */
#include "serve/receive_sync.h"

#include "base/file.h"

enum { FOLDERS_MAX = 1000 };

void receive_sync_clear(struct receive_sync *sync)
{
	map_clear(&sync->folders);
}

/* Git takes no ref that has ".." in its name, or that is not below refs. */
void receive_sync_add(struct receive_sync *sync, const char *name, size_t len)
{
	AUTO_FREE char *folder = xstrndup(name, len);
	char *slash;

	if (!text_starts_with(folder, "refs/") || strstr(folder, ".."))
		return;
	while ((slash = strrchr(folder, '/')) != NULL) {
		*slash = '\0';
		if (sync->is_all || map_get(&sync->folders, folder))
			return;
		map_put(&sync->folders, folder, sync);
		sync->is_all = sync->folders.count > FOLDERS_MAX;
	}
}

static int sync_if_there(int dir, const char *path, struct err *err)
{
	if (dir_sync(dir, path, err) == 0)
		return 0;
	return err->sys_errno == ENOENT || err->sys_errno == ENOTDIR ? 0 : -1;
}

static bool is_fan_out(const char *name)
{
	return strlen(name) == 2 && strspn(name, "0123456789abcdef") == 2;
}

/* Where nothing is new, that costs next to nothing. */
static int sync_objects(int dir, struct err *err)
{
	AUTO_CLOSEDIR DIR *objects = dir_list(dir, "objects");
	struct dirent *entry;

	if (!objects)
		return err_errno(err, "cannot list objects");
	while ((entry = readdir(objects)) != NULL)
		if (is_fan_out(entry->d_name) &&
		    sync_if_there(dirfd(objects), entry->d_name, err) != 0)
			return -1;
	return dir_sync(dir, "objects/pack", err) == 0 ? dir_sync(dir, "objects", err)
						       : -1;
}

int receive_sync_run(const struct receive_sync *sync, int dir, struct err *err)
{
	const struct map_entry *entry;
	size_t at = 0;

	if (sync->is_all)
		return syncfs(dir) == 0 ? 0 : err_errno(err, "cannot sync");
	if (sync_objects(dir, err) != 0)
		return -1;
	while ((entry = map_next(&sync->folders, &at)) != NULL)
		if (sync_if_there(dir, entry->key, err) != 0)
			return -1;
	return dir_sync(dir, ".", err);
}
