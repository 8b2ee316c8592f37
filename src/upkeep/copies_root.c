/*
 * Once accepted, a directory counts until a node is started on another one. So what runs
 * while a file system is away fails, row by row, and is tried again; and a tree that may
 * be older than the rows is compared before any of it is called synced.
 */
#include "upkeep/copies_root.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "change/origin_root.h"
#include "replicable/discover.h"
#include "replicable/kind.h"
#include "replicable/registry.h"
#include "store/site_value.h"

#define ROOT_KEY "copies.root"

struct root {
	const char *kind;
	const char *key;   /* in the configuration */
	const char *value; /* the key in site_value */
	const char *path;
	const char *identity; /* NULL: it cannot be looked at */
	int64_t asked;        /* rows, since it is another one */
};

static int expect_nothing(struct store_tx *tx, void *arg, struct err *err)
{
	const struct root *root = arg;
	bool is_blobs = !kind_is_repository(root->kind);
	int64_t count;

	if (registry_count_here(tx, root->kind, &count, err) != 0)
		return -1;
	if (count == 0)
		return 0;
	err_set(err, ERR_DISK, "%s (%s) is empty, but %" PRId64 " cop%s should be there",
		root->key, root->path, count, count == 1 ? "y" : "ies");
	return err_remedy(err,
			  "is its file system not mounted? If the copies are lost: "
			  "refrelay %s%s --all%s",
			  is_blobs ? "blob resync --type " : "repository resync",
			  is_blobs ? root->kind : "",
			  is_blobs ? ", and restart the node" : "");
}

static int check_emptiness(struct store *store, struct root *root, struct err *err)
{
	int is_empty = discover_is_empty(root->path, err);

	if (is_empty <= 0)
		return is_empty;
	return store_read(store, expect_nothing, root, err);
}

static int copies_root_ask_row(struct store_tx *tx, const struct registry_row *row,
			       void *arg, struct err *err)
{
	struct root *root = arg;
	const struct registry_move move = { .id = row->id,
					    .event = REGISTRY_ASKED,
					    .wishes = REGISTRY_WISH_RECHECK };

	if (row->is_gone)
		return 0;
	root->asked++;
	return registry_move_in(tx, &move, err) < 0 ? -1 : 0;
}

static int copies_root_ask_all(struct store_tx *tx, struct root *root, struct err *err)
{
	const struct registry_filter all = { .kind = root->kind, .state = REGISTRY_ANY };

	root->asked = 0;
	return registry_each_in(tx, &all, copies_root_ask_row, root, err);
}

/* 1: there is one that counts, and this is not it; 0; -1. */
static int copies_root_is_another(struct store_tx *tx, const struct root *root,
				  struct err *err)
{
	AUTO_STR struct str known = STR_INIT;
	int found = site_value_get(tx, root->value, &known, err);

	if (found <= 0)
		return found;
	return !root->identity || strcmp(known.data, root->identity) != 0;
}

static int accept(struct store_tx *tx, void *arg, struct err *err)
{
	struct root *root = arg;
	int another = copies_root_is_another(tx, root, err);

	if (another < 0 || (another > 0 && copies_root_ask_all(tx, root, err) != 0))
		return -1;
	return site_value_set(tx, root->value, root->identity, err);
}

/* Calls it with the root of a kind's copies. As in earlier versions, which had
 * repositories alone: the value of theirs names no kind. */
static int copies_root_with(struct store *store, const char *kind, const char *path,
			    int (*look)(struct store *store, struct root *root,
					struct err *err),
			    struct err *err)
{
	const bool is_blobs = !kind_is_repository(kind);
	AUTO_FREE char *key =
		is_blobs ? xasprintf("blob.%s.path", kind) : xstrdup("site.repositories");
	AUTO_FREE char *value =
		is_blobs ? xasprintf(ROOT_KEY ".%s", kind) : xstrdup(ROOT_KEY);
	struct root root = { .kind = kind, .key = key, .value = value, .path = path };

	return look(store, &root, err);
}

static int copies_root_open_directory(struct store *store, struct root *root,
				      struct err *err)
{
	if (check_emptiness(store, root, err) != 0 ||
	    dir_make(AT_FDCWD, root->path, err) != 0)
		return -1;
	AUTO_FREE char *identity = identity_of(AT_FDCWD, root->path);
	if (!identity)
		return err_errno(err, "cannot look at %s (%s)", root->key, root->path);
	root->identity = identity;
	if (store_write(store, accept, root, err) != 0)
		return -1;
	if (root->asked > 0)
		log_warn("root.changed", LOG_TEXT("path", root->path),
			 LOG_NUMBER("rows", root->asked));
	return 0;
}

int copies_root_open(struct store *store, const char *kind, const char *path,
		     struct err *err)
{
	return copies_root_with(store, kind, path, copies_root_open_directory, err);
}

int copies_root_doubt(struct store_tx *tx, struct err *err)
{
	return store_exec(tx,
			  "UPDATE site_value SET value = '' WHERE key = '" ROOT_KEY
			  "' OR key LIKE '" ROOT_KEY ".%'",
			  err);
}

static int copies_root_check_identity(struct store_tx *tx, void *arg, struct err *err)
{
	const struct root *root = arg;
	int another = copies_root_is_another(tx, root, err);

	if (another <= 0)
		return another;
	err_set(err, ERR_DISK, "%s (%s) is %s", root->key, root->path,
		root->identity ? "not the directory that it was" : "not there");
	return err_remedy(err, "is its file system mounted? If it was moved on purpose: "
			       "restart the node, which then compares everything");
}

static int copies_root_check_directory(struct store *store, struct root *root,
				       struct err *err)
{
	AUTO_FREE char *identity = identity_of(AT_FDCWD, root->path);

	root->identity = identity;
	return store_read(store, copies_root_check_identity, root, err);
}

int copies_root_check(struct store *store, const char *kind, const char *path,
		      struct err *err)
{
	return copies_root_with(store, kind, path, copies_root_check_directory, err);
}

static int copies_root_check_all(struct store *store, struct root *root, struct err *err)
{
	if (check_emptiness(store, root, err) != 0)
		return -1;
	return copies_root_check_directory(store, root, err);
}

/* Blanks and backslashes are three octal digits there. In place. */
static void mountinfo_unescape(char *text)
{
	unsigned value;
	char *to = text;

	while (*text) {
		bool is_escaped = sscanf(text, "\\%3o", &value) == 1;
		*to++ = is_escaped ? (char)value : *text;
		text += is_escaped ? 4 : 1;
	}
	*to = '\0';
}

/* proc(5), mountinfo: a secondary lists no directories of blobs, and so meets none. */
static void copies_root_find_mounts(int root, FILE *file, const char *path,
				    json_t **found)
{
	AUTO_FREE char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, file) > 0) {
		AUTO_FREE char *point = NULL;
		if (sscanf(line, "%*s %*s %*s %*s %ms", &point) != 1)
			continue;
		mountinfo_unescape(point);
		if (path_is_within(point, path) && strcmp(point, path) != 0)
			mounts_note(found, root, point + strlen(path) + 1);
	}
}

int copies_root_keep_mounts(struct store *store, const char *kind, const char *path,
			    struct err *err)
{
	if (copies_root_check(store, kind, path, err) != 0)
		return -1;
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, path, err);
	AUTO_FREE char *whole = realpath(path, NULL);
	FILE *file = whole ? fopen("/proc/self/mountinfo", "re") : NULL;
	json_auto_t *found = NULL;

	if (fd < 0 || !file)
		return err_errno(err, "cannot find what is mounted below %s", path);
	copies_root_find_mounts(fd, file, whole, &found);
	fclose(file);
	return origin_root_keep_mounts(&(struct origin_root){ store, kind, path, fd },
				       found, err);
}

int copies_root_read_mounts(struct store *store, const char *kind, json_t **mounts,
			    struct err *err)
{
	return origin_root_mounts(&(struct origin_root){ store, kind, "", -1 }, mounts,
				  err);
}

int copies_root_say_away(const char *mount, struct err *err)
{
	err_set(err, ERR_DISK,
		"the file system of the folder %s is not mounted: nothing is copied or "
		"removed there",
		mount);
	return err_remedy(err, "mount it; if it was given up on purpose, remove the "
			       "empty folder, or put a file into it if it is to stay");
}

int copies_root_check_mounts(const json_t *mounts, const char *path, const char *name,
			     struct err *err)
{
	const char *away;

	if (json_array_size(mounts) == 0)
		return 0;
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, path, err);
	if (fd < 0)
		return -1;
	away = name ? mounts_find_away(mounts, fd, name) : NULL;
	for (size_t i = 0; !name && !away && i < json_array_size(mounts); i++)
		away = mounts_find_away(mounts, fd,
					json_string_value(json_array_get(mounts, i)));
	return away ? copies_root_say_away(away, err) : 0;
}

int copies_root_check_copy(struct store *store, const char *kind, const char *path,
			   const char *name, struct err *err)
{
	json_auto_t *mounts = NULL;

	if (copies_root_check(store, kind, path, err) != 0 ||
	    copies_root_read_mounts(store, kind, &mounts, err) != 0)
		return -1;
	return copies_root_check_mounts(mounts, path, name, err);
}

static int copies_root_check_used(const struct origin_root *root, const json_t *mounts,
				  const char *name, struct err *err)
{
	for (size_t i = 0; i < json_array_size(mounts); i++) {
		const char *mount = json_string_value(json_array_get(mounts, i));
		if ((name && !path_is_within(name, mount)) ||
		    mounts_find_away(mounts, root->fd, mount) != mount)
			continue;
		int used = registry_has_copies_below(root->store, root->kind, mount, err);
		if (used != 0)
			return used < 0 ? -1 : copies_root_say_away(mount, err);
	}
	return 0;
}

int copies_root_check_place(struct store *store, const char *kind, const char *path,
			    const char *name, struct err *err)
{
	json_auto_t *mounts = NULL;

	if (copies_root_check(store, kind, path, err) != 0 ||
	    copies_root_read_mounts(store, kind, &mounts, err) != 0)
		return -1;
	if (json_array_size(mounts) == 0)
		return 0;
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, path, err);
	if (fd < 0)
		return -1;
	return copies_root_check_used(&(struct origin_root){ store, kind, path, fd },
				      mounts, name, err);
}

int copies_root_judge(struct store *store, const char *kind, const char *path,
		      struct err *err)
{
	if (copies_root_with(store, kind, path, copies_root_check_all, err) != 0)
		return -1;
	return copies_root_check_place(store, kind, path, NULL, err);
}
