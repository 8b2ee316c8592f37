#include "change/repository_flush.h"

#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/file.h"
#include "base/flush.h"
#include "base/vec.h"
#include "store/store.h"

/* ext4 without a journal keeps no order of anything, and is not asked to: after a power
 * cut it needs a repair, and each change would cost it half a dozen flushes. */
static bool has_log_or_no_order(int dir)
{
	struct statfs fs;

	return flush_way_for(dir, 1) == FLUSH_JOURNAL ||
	       (fstatfs(dir, &fs) == 0 && fs.f_type == EXT4_SUPER_MAGIC);
}

static bool is_taken_along(const struct store *store, int dir)
{
	const char *database = store_file(store);
	struct stat ours, theirs;

	return database && stat(database, &ours) == 0 && fstat(dir, &theirs) == 0 &&
	       ours.st_dev == theirs.st_dev && has_log_or_no_order(dir);
}

/* Of what is gone, the folder from which its name went. */
static void add_place(text_list *places, int dir, const char *path)
{
	AUTO_FREE char *place = xstrdup(path);
	char *slash;

	while (faccessat(dir, place, F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
	       (slash = strrchr(place, '/')) != NULL)
		*slash = '\0';
	if (faccessat(dir, place, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		vec_add(places, TAKE(place));
}

/* With the folders above each, and so the repository's own. */
static int flush_places(int dir, const struct ref_diff *diff, struct err *err)
{
	text_list places = { 0 };

	add_place(&places, dir, "HEAD");
	add_place(&places, dir, "packed-refs");
	add_place(&places, dir, "objects/pack");
	for (size_t i = 0; i < diff->changes.count; i++)
		add_place(&places, dir, diff->changes.items[i].name);
	int result =
		flush_present(dir, (const char *const *)places.items, places.count, err);
	text_list_clear(&places);
	return result;
}

/* What cannot be flushed by its name, as it is a link or has just gone, is flushed with
 * all the rest. */
int repository_flush(const struct store *store, int root, const char *path,
		     const struct ref_diff *diff, struct err *err)
{
	AUTO_CLOSE int dir = dir_open(root, path, err);

	if (dir < 0)
		return -1;
	if (is_taken_along(store, dir) ||
	    (diff && flush_places(dir, diff, ERR_IGNORED) == 0))
		return 0;
	return syncfs(dir) == 0 ? 0 : err_errno(err, "cannot sync");
}
