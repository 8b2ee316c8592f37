#include "pull/copy_folders.h"

#include "base/file.h"

struct folder {
	struct inotify_watch *watch;
	uint64_t epoch;
	uint64_t scan; /* the last that met it */
	bool is_watched;
};

static void copy_folders_drop_folder(struct folder *folder)
{
	inotify_disarm(folder->watch);
	free(folder);
}

static struct folder *folder_of(struct copy_folders *folders, const char *path)
{
	struct folder *folder = map_get(&folders->folders, path);

	if (folder)
		return folder;
	folder = xcalloc(1, sizeof(*folder));
	map_put(&folders->folders, path, folder);
	return folder;
}

/* Another directory may stand there by now: inotify_arm_folder() looks. What cannot be
 * watched is left to the scans, which meet every copy. */
static void copy_folders_note_folder(struct copy_folders *folders, const char *path,
				     uint64_t scan)
{
	struct folder *folder = folder_of(folders, path);
	AUTO_FREE char *full = xasprintf("%s/%s", folders->root, path);

	if (folder->scan == scan && folder->is_watched)
		return;
	folder->scan = scan;
	if (folder->is_watched && inotify_epoch(folder->watch) != folder->epoch)
		return; /* to be heard of first */
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, full, ERR_IGNORED);
	folder->is_watched =
		dir >= 0 && inotify_arm_folder(folders->inotify, dir, &folder->watch,
					       &folder->epoch, ERR_IGNORED) == 0;
}

void copy_folders_meet(struct copy_folders *folders, const char *below, uint64_t scan)
{
	AUTO_FREE char *path = xstrdup(below);
	char *slash;

	while (folders->inotify && (slash = strrchr(path, '/')) != NULL) {
		*slash = '\0';
		copy_folders_note_folder(folders, path, scan);
	}
}

void copy_folders_hear(struct copy_folders *folders, copy_folder_list *changed)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(&folders->folders, &at)) != NULL) {
		struct folder *folder = entry->value;
		if (!folder->is_watched || inotify_epoch(folder->watch) == folder->epoch)
			continue;
		folder->is_watched = false;
		vec_add(changed, xstrdup(entry->key));
	}
}

bool copy_folders_has(const copy_folder_list *list, const char *below)
{
	for (size_t i = 0; i < list->count; i++)
		if (text_starts_with(below, list->items[i]) &&
		    below[strlen(list->items[i])] == '/')
			return true;
	return false;
}

void copy_folder_list_clear(copy_folder_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->items[i]);
	vec_clear(list);
}

void copy_folders_drop_unmet(struct copy_folders *folders, uint64_t scan)
{
	const struct map_entry *entry;
	copy_folder_list unmet = { 0 };
	size_t at = 0;

	while ((entry = map_next(&folders->folders, &at)) != NULL)
		if (((struct folder *)entry->value)->scan != scan)
			vec_add(&unmet, xstrdup(entry->key));
	for (size_t i = 0; i < unmet.count; i++)
		copy_folders_drop_folder(map_remove(&folders->folders, unmet.items[i]));
	copy_folder_list_clear(&unmet);
}

void copy_folders_clear(struct copy_folders *folders)
{
	const struct map_entry *entry;
	size_t at = 0;

	while ((entry = map_next(&folders->folders, &at)) != NULL)
		copy_folders_drop_folder(entry->value);
	map_clear(&folders->folders);
}
