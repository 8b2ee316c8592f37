/*
 * A file, a link or a directory where something else must be: left by a damaged file
 * system, or by somebody who should write elsewhere. What has a row, or is a directory
 * with such, goes only in its turn, as the primary says.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/path.h"
#include "blob/place.h"
#include "pull/blob_work.h"

enum { OPEN_FOLDER = O_PATH | O_DIRECTORY };

static bool blob_way_has_row(const struct blob_work *work, const char *path)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct err err;

	return registry_get(work->pull->options.store, work->kind->type, path, &row,
			    &err) == 0 ||
	       err.class != ERR_MISSING;
}

static bool has_rows_below(const struct blob_work *work, const char *path)
{
	AUTO_FREE char *folder = xasprintf("%s/", path);
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	const struct registry_filter next = { .kind = work->kind->type,
					      .after = folder,
					      .limit = 1,
					      .state = REGISTRY_ANY };

	if (registry_list(work->pull->options.store, &next, &rows, ERR_IGNORED) != 0)
		return true;
	return rows.count > 0 && text_starts_with(rows.items[0].name, folder);
}

static void move_away(const struct blob_work *work, int dir, const char *path)
{
	char random[17];
	struct err err;

	random_hex(random, 8);
	AUTO_FREE char *place = xasprintf(PLACE_TRASH "/%" PRId64 "-%s/%s",
					  clock_wall_ms(), random, place_name(path));
	AUTO_CLOSE int trash = place_open_parent(work->root, place, &err);
	if (trash >= 0 && renameat(dir, place_name(path), trash, place_name(path)) == 0)
		log_warn("blob.moved_away", LOG_TEXT("kind", work->kind->type),
			 LOG_TEXT("path", path), LOG_TEXT("to", place));
}

/* One of the folders above it, or its own place. False: what is there stays. */
static bool blob_way_clear_one(const struct blob_work *work, const char *path,
			       bool is_folder)
{
	const char *name = place_name(path);
	AUTO_FREE char *above =
		xstrndup(path, name > path ? (size_t)(name - path - 1) : 0);
	AUTO_CLOSE int dir = path_open_beneath(work->root, above, OPEN_FOLDER);
	struct stat st;

	if (dir < 0 || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return false;
	if (is_folder && S_ISDIR(st.st_mode))
		return (st.st_mode & S_IRWXU) == S_IRWXU ||
		       fchmodat(dir, name, (st.st_mode & 07777) | S_IRWXU, 0) == 0;
	if (!is_folder && S_ISREG(st.st_mode))
		return true;
	if (is_folder ? blob_way_has_row(work, path) : has_rows_below(work, path))
		return false;
	move_away(work, dir, path);
	return false;
}

void blob_clear_way(struct blob_work *work, const struct blob_item *item)
{
	const char *id = item->row->name;

	for (const char *at = strchr(id, '/'); at; at = strchr(at + 1, '/')) {
		AUTO_FREE char *path = xstrndup(id, (size_t)(at - id));
		if (!blob_way_clear_one(work, path, true))
			return;
	}
	blob_way_clear_one(work, id, false);
}
