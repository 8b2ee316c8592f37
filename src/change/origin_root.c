#include "change/origin_root.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "replicable/kind.h"
#include "store/site_value.h"

char *identity_of(int dir, const char *path)
{
	struct statx st;

	if (statx(dir, path, AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &st) != 0)
		return NULL;
	if (!(st.stx_mask & STATX_BTIME))
		return xasprintf("%" PRIu64 " %x:%x", (uint64_t)st.stx_ino,
				 st.stx_dev_major, st.stx_dev_minor);
	return xasprintf("%" PRIu64 " %" PRId64 ".%09" PRIu32, (uint64_t)st.stx_ino,
			 (int64_t)st.stx_btime.tv_sec, st.stx_btime.tv_nsec);
}

bool identity_has_birth(const char *identity)
{
	return !strchr(identity, ':');
}

#define KEY_SIZE 64

/* As in earlier versions, which had repositories alone: their keys name no kind. */
static void origin_root_make_key(const char *what, const char *kind, char key[KEY_SIZE])
{
	if (kind_is_repository(kind))
		snprintf(key, KEY_SIZE, "origin.%s", what);
	else
		snprintf(key, KEY_SIZE, "origin.%s.%s", what, kind);
}

struct root_inquiry {
	char key[KEY_SIZE];
	char *identity; /* owned; as it is now */
	bool is_known, is_same;
};

/* The caller frees the identity. */
static int origin_root_inquire(const struct origin_root *root,
			       struct root_inquiry *inquiry, struct err *err)
{
	AUTO_STR struct str known = STR_INIT;

	*inquiry = (struct root_inquiry){ .identity = identity_of(root->fd, "") };
	if (!inquiry->identity)
		return err_errno(err, "cannot look at %s", root->path);
	origin_root_make_key("root", root->kind, inquiry->key);
	int found = site_value_read(root->store, inquiry->key, &known, err);
	inquiry->is_known = found > 0;
	inquiry->is_same = found > 0 && strcmp(known.data, inquiry->identity) == 0;
	return found < 0 ? -1 : 0;
}

static int origin_root_refuse(const struct origin_root *root, struct err *err)
{
	const bool is_blobs = !kind_is_repository(root->kind);

	if (is_blobs)
		err_set(err, ERR_DISK,
			"the directory of the blobs \"%s\" (%s) is not the one that it "
			"was, so what is not there is not taken for deleted",
			root->kind, root->path);
	else
		err_set(err, ERR_DISK,
			"site.repositories (%s) is not the directory that it was, so "
			"what is not there is not taken for deleted",
			root->path);
	return err_remedy(err,
			  "is its file system mounted? If it was moved on purpose: "
			  "the next scan that finds a %s there accepts it",
			  is_blobs ? "file" : "repository");
}

int origin_root_check(const struct origin_root *root, struct err *err)
{
	struct root_inquiry inquiry;
	int result = origin_root_inquire(root, &inquiry, err);

	free(inquiry.identity);
	return result == 0 && !inquiry.is_same ? origin_root_refuse(root, err) : result;
}

int origin_root_check_known(const struct origin_root *root, struct err *err)
{
	struct root_inquiry inquiry;
	int result = origin_root_inquire(root, &inquiry, err);

	free(inquiry.identity);
	return result == 0 && inquiry.is_known && !inquiry.is_same
		       ? origin_root_refuse(root, err)
		       : result;
}

int origin_root_accept(const struct origin_root *root, struct err *err)
{
	struct root_inquiry inquiry;
	int result = origin_root_inquire(root, &inquiry, err);

	if (result == 0 && !inquiry.is_same)
		result =
			site_value_write(root->store, inquiry.key, inquiry.identity, err);
	free(inquiry.identity);
	return result;
}

int origin_root_accept_first(struct store_tx *tx, const char *kind, const char *identity,
			     struct err *err)
{
	AUTO_STR struct str known = STR_INIT;
	char key[KEY_SIZE];

	origin_root_make_key("root", kind, key);
	int found = site_value_get(tx, key, &known, err);
	if (found == 0)
		return site_value_set(tx, key, identity, err);
	return found < 0 ? -1 : 0;
}

static bool mounts_is_away(int root, const char *mount)
{
	AUTO_FREE char *parent = xasprintf("%s/..", mount);
	struct stat st, above;

	return fstatat(root, mount, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(root, parent, &above, 0) == 0 && st.st_dev == above.st_dev &&
	       dir_is_empty(root, mount);
}

const char *mounts_find_away(const json_t *mounts, int root, const char *path)
{
	for (size_t i = 0; i < json_array_size(mounts); i++) {
		const char *mount = json_string_value(json_array_get(mounts, i));
		if (path_is_within(path, mount) && mounts_is_away(root, mount))
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

void mounts_note(json_t **found, int root, const char *path)
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

int origin_root_mounts(const struct origin_root *root, json_t **mounts, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	char key[KEY_SIZE];

	origin_root_make_key("mounts", root->kind, key);
	int found = site_value_read(root->store, key, &text, err);
	*mounts = found > 0 ? json_loads(text.data, 0, NULL) : NULL;
	return found < 0 ? -1 : 0;
}

int origin_root_keep_mounts(const struct origin_root *root, const json_t *found,
			    struct err *err)
{
	json_auto_t *now = found ? json_deep_copy(found) : json_array();
	json_auto_t *known = NULL;
	AUTO_STR struct str text = STR_INIT;
	char key[KEY_SIZE];

	if (origin_root_mounts(root, &known, err) != 0)
		return -1;
	for (size_t i = 0; i < json_array_size(known); i++) {
		const char *mount = json_string_value(json_array_get(known, i));
		if (mounts_find_away(known, root->fd, mount))
			json_array_append_new(now, json_string(mount));
	}
	if (json_equal(known, now) || (!known && json_array_size(now) == 0))
		return 0;
	json_render(now, &text);
	origin_root_make_key("mounts", root->kind, key);
	return site_value_write(root->store, key, text.data, err);
}
