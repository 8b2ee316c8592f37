#include <fcntl.h>
#include <sys/sendfile.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/path.h"
#include "base/seen_time.h"
#include "blob/flush.h"
#include "blob/incoming.h"
#include "blob/place.h"

#define TRASH_TIME OWN_FOLDER "/" TRASH_CLOCK

/* "<when>-<random>/<id>", as upkeep/trash.c reads the time. */
static char *blob_discard_make_trash_path(int root, const char *id)
{
	char random[17];

	random_hex(random, 8);
	return xasprintf(PLACE_TRASH "/%" PRId64 "-%s/%s", seen_time_ms(root, TRASH_TIME),
			 random, id);
}

static int blob_discard_check_file(int dir, const char *id, struct err *err)
{
	struct stat st;

	if (dir < 0 || fstatat(dir, place_name(id), &st, AT_SYMLINK_NOFOLLOW) != 0)
		return err_errno(err, "cannot find %s", id);
	if (S_ISREG(st.st_mode))
		return 0;
	return err_set(err, ERR_MISSING, "what stands at %s is no regular file: it stays",
		       id);
}

static int copy_to_end(int from, int to, const char *id, struct err *err)
{
	ssize_t sent;

	while ((sent = sendfile(to, from, NULL, (size_t)1 << 24)) > 0 ||
	       (sent < 0 && errno == EINTR))
		;
	if (sent != 0 || fsync(to) != 0)
		return err_errno(err, "cannot copy %s to the trash", id);
	return 0;
}

/* From another file system than the trash is on. */
static int copy_over(int from, int to, const char *id, struct err *err)
{
	const char *name = place_name(id);
	AUTO_CLOSE int old =
		openat(from, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	AUTO_CLOSE int new =
		old < 0 ? -1
			: openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);

	if (new < 0)
		return err_errno(err, "cannot copy %s to the trash", id);
	if (copy_to_end(old, new, id, err) != 0) {
		unlinkat(to, name, 0);
		return -1;
	}
	return 0;
}

/* There first, and only then no longer here. */
static int flush_both(int root, const char *place, int from, struct err *err)
{
	enum flush_way way = flush_way_for(root, 1);

	if (flush_name(root, place, way, err) != 0)
		return -1;
	if (way == FLUSH_EACH && fsync(from) != 0)
		return err_errno(err, "cannot sync the directory of what is deleted");
	return 0;
}

static int blob_discard_move_to_trash(int root, const char *id, const char *place,
				      struct err *err)
{
	const char *name = place_name(id);
	AUTO_FREE char *parent = xstrndup(id, name > id ? (size_t)(name - id - 1) : 0);
	AUTO_CLOSE int from = path_open_beneath(root, parent, O_RDONLY | O_DIRECTORY);

	if (blob_discard_check_file(from, id, err) != 0)
		return -1;
	AUTO_CLOSE int to = place_open_parent(root, place, err);
	if (to < 0)
		return -1;
	if (renameat(from, name, to, name) == 0)
		return flush_both(root, place, from, err);
	if (errno != EXDEV)
		return err_errno(err, "cannot move %s to the trash", id);
	if (copy_over(from, to, id, err) != 0 ||
	    flush_name(root, place, FLUSH_EACH, err) != 0)
		return -1;
	if (unlinkat(from, name, 0) != 0)
		return err_errno(err, "cannot remove %s", id);
	return fsync(from) == 0 ? 0
				: err_errno(err, "cannot sync the directory of %s", id);
}

int blob_discard(int root, const char *id, struct err *err)
{
	AUTO_FREE char *place = blob_discard_make_trash_path(root, id);
	int result = blob_discard_move_to_trash(root, id, place, err);

	if (result == 0)
		failpoint("blob.discarded");
	if (result == 0 && faccessat(root, TRASH_TIME, F_OK, 0) != 0)
		seen_time_keep(root, TRASH_TIME, 0);
	/* also what somebody left who died just here */
	if (result == 0 || err->class == ERR_MISSING)
		place_remove_empty(root, id);
	return result;
}
