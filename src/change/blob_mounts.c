#include <sys/stat.h>

#include "base/file.h"
#include "change/blob_notice_parts.h"
#include "change/mounts.h"

#define MOUNTS_KEY "origin.mounts.%s"

static void blob_mounts_make_key(const struct blob_kind *kind, char key[64])
{
	snprintf(key, 64, MOUNTS_KEY, kind->type);
}

int blob_mounts_read(struct blob_notice *notice, const struct blob_kind *kind,
		     json_t **known, struct err *err)
{
	char key[64];

	blob_mounts_make_key(kind, key);
	return mounts_read(notice->options.store, key, known, err);
}

/* One that is on another file system than what it stands in. */
void blob_mounts_note(json_t **found, int root, const char *path)
{
	AUTO_FREE char *parent = xasprintf("%s/..", path);
	struct stat own, top, above;

	if (!*path || fstatat(root, path, &own, AT_SYMLINK_NOFOLLOW) != 0 ||
	    fstat(root, &top) != 0 || own.st_dev == top.st_dev ||
	    fstatat(root, parent, &above, 0) != 0 || own.st_dev == above.st_dev)
		return;
	if (!*found)
		*found = json_array();
	json_array_append_new(*found, json_string(path));
}

int blob_mounts_keep(struct blob_notice *notice, const struct blob_kind *kind, int root,
		     const json_t *found, struct err *err)
{
	json_auto_t *now = found ? json_deep_copy(found) : json_array();
	json_auto_t *known = NULL;
	char key[64];

	if (blob_mounts_read(notice, kind, &known, err) != 0)
		return -1;
	for (size_t i = 0; i < json_array_size(known); i++) {
		const char *mount = json_string_value(json_array_get(known, i));
		if (mounts_find_away(known, root, mount))
			json_array_append_new(now, json_string(mount));
	}
	if (json_equal(known, now) || (!known && json_array_size(now) == 0))
		return 0;
	blob_mounts_make_key(kind, key);
	return mounts_write(notice->options.store, key, now, err);
}
