#include "git/fence.h"

#include "base/failpoint.h"
#include "base/file.h"
#include "base/str.h"

#define FOLDER "refrelay"
#define PATH FOLDER "/fence"

int fence_read(int dir, uint64_t *fence, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	*fence = 0;
	if (file_read(dir, PATH, 64, &text, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	if (text.len > 0 && text.data[text.len - 1] == '\n')
		str_truncate(&text, text.len - 1);
	if (text_to_uint64(text.data, fence) && *fence <= INT64_MAX)
		return 0;
	*fence = 0;
	err_set(err, ERR_CORRUPT, "%s holds no number", PATH);
	return err_remedy(err, "if no refrelay works on this repository, delete that "
			       "file; it is made again");
}

static int overtaken(uint64_t mine, uint64_t now, struct err *err)
{
	return err_set(err, ERR_LOST,
		       "overtaken: fence %" PRIu64 " is in force, ours is %" PRIu64, now,
		       mine);
}

/* All who read it under the lock see it whole. That it survives a loss of power matters
 * to nobody: whom it would keep out has died with the machine, and refs that were
 * published under it are flushed later, in the same order. A machine that shares the file
 * system may live on. */
static enum file_sync fence_sync(int dir)
{
	return file_system_is_local(dir) ? FILE_WHOLE : FILE_SYNC;
}

static int raise_locked(int dir, uint64_t fence, struct err *err)
{
	uint64_t now;
	char text[32];

	if (fence_read(dir, &now, err) != 0)
		return -1;
	if (now > fence)
		return overtaken(fence, now, err);
	unlinkat(dir, "packed-refs.new", 0); /* under the lock: what a crash left */
	if (now == fence)
		return 0;
	snprintf(text, sizeof(text), "%" PRIu64 "\n", fence);
	return file_overwrite(dir, PATH, text, strlen(text), fence_sync(dir), err);
}

int fence_raise(int dir, uint64_t fence, struct err *err)
{
	struct lock_owner owner;
	struct lock_file lock;
	int result = -1;

	if (dir_make(dir, FOLDER, err) != 0 ||
	    lock_owner_open(dir, FOLDER, &owner, err) != 0)
		return -1;
	if (lock_file_take(&owner, "packed-refs", LOCK_FILE_WAIT_MS, &lock, err) == 0) {
		failpoint("fence.locked");
		result = raise_locked(dir, fence, err);
		lock_file_release(&lock);
	}
	lock_owner_close(&owner);
	return result;
}

/* What stands in the way of the fence, or of its folder. */
static int remove_in_the_way(int dir, struct err *err)
{
	struct stat st;
	const bool is_folder = fstatat(dir, FOLDER, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			       !S_ISDIR(st.st_mode);

	return tree_remove(dir, is_folder ? FOLDER : PATH, err);
}

int fence_raise_anew(int dir, uint64_t fence, struct err *err)
{
	if (fence_raise(dir, fence, err) == 0)
		return 0;
	if (!err_is_of_data(err) || remove_in_the_way(dir, err) != 0)
		return -1;
	return fence_raise(dir, fence, err);
}

int fence_check_locked(int dir, uint64_t fence, struct err *err)
{
	uint64_t now;

	if (fence_read(dir, &now, err) != 0)
		return -1;
	if (now > fence)
		return overtaken(fence, now, err);
	if (now < fence)
		return err_set(err, ERR_LOST,
			       "the fence was taken away: it is %" PRIu64
			       " and should be %" PRIu64,
			       now, fence);
	return 0;
}
