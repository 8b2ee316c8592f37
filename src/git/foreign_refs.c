#include "git/foreign_refs.h"

#include <sys/file.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/str.h"
#include "git/lock_file.h"

#define LOOSE_LIMIT 4096

bool foreign_refs_recover(int dir, const char *owner)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	AUTO_CLOSE int fd = openat(dir, owner, flags);

	if (fd < 0)
		return errno == ENOENT;
	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		return false;
	lock_file_bury_of(dir, fd);
	return unlinkat(dir, owner, 0) == 0;
}

static bool look_at_packed(int dir, struct stat *st)
{
	return fstatat(dir, "packed-refs", st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool is_packed_as_seen(const struct foreign_refs *refs)
{
	struct stat st;
	bool has_packed = look_at_packed(refs->dir, &st);

	if (has_packed != refs->has_packed)
		return false;
	return !has_packed || file_is_same(&st, &refs->packed);
}

int foreign_refs_read(int dir, const char *owner, struct ref_snapshot *seen,
		      struct foreign_refs *refs, struct err *err)
{
	*refs = (struct foreign_refs){ .dir = dir, .owner = owner, .seen = seen };
	if (!foreign_refs_recover(dir, owner))
		return err_set(err, ERR_CONFLICT, "another writer is at work");
	refs->has_packed = look_at_packed(dir, &refs->packed);
	if (ref_snapshot_read(dir, 20, seen, err) != 0)
		return -1;
	return is_packed_as_seen(refs)
		       ? 0
		       : err_set(err, ERR_CONFLICT, "packed-refs changed meanwhile");
}

/* Whether no ref is where a directory must be, or the other way round. What is loose
 * shows when the directories are made and the lock is renamed. */
static bool has_place(const struct foreign_refs *refs, const char *name)
{
	for (size_t i = 0; i < refs->seen->refs.count; i++) {
		const char *other = refs->seen->refs.items[i].name;
		if (ref_name_is_below(name, other) || ref_name_is_below(other, name))
			return false;
	}
	return true;
}

static bool is_value(const struct str *text, const struct oid *value)
{
	struct oid oid;

	return oid_parse(text->data, 20, &oid) && oid_equal(&oid, value) &&
	       strspn(text->data + 40, " \t\r\n") == strlen(text->data + 40);
}

/* Under its lock. The file counts before packed-refs. */
static bool is_as_seen(const struct foreign_refs *refs, const char *name)
{
	const struct ref *seen = ref_snapshot_find(refs->seen, name);
	AUTO_STR struct str text = STR_INIT;
	struct err err;

	if (seen && seen->target)
		return false;
	if (file_read(refs->dir, name, LOOSE_LIMIT, &text, &err) == 0)
		return seen && is_value(&text, &seen->oid);
	if (err.class != ERR_MISSING || (seen && seen->is_loose))
		return false;
	return is_packed_as_seen(refs) && (seen || has_place(refs, name));
}

/* A whole file that has no name yet, flocked; -1: that cannot be had here. */
static int make_unnamed(int dir, const struct oid *value)
{
	AUTO_CLOSE int fd = openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	AUTO_STR struct str text = STR_INIT;

	oid_add_text(value, &text);
	str_add_char(&text, '\n');
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) != 0 ||
	    file_write_all(fd, text.data, text.len, "a ref", ERR_IGNORED) != 0 ||
	    fsync(fd) != 0)
		return -1;
	return TAKE_FD(fd);
}

static bool give_name(int fd, int dir, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW) == 0;
}

static bool replace(const struct foreign_refs *refs, const char *name, const char *lock)
{
	failpoint("foreign_ref.locked");
	if (is_as_seen(refs, name) && renameat(refs->dir, lock, refs->dir, name) == 0) {
		failpoint("foreign_ref.written");
		return true;
	}
	unlinkat(refs->dir, lock, 0);
	return false;
}

bool foreign_refs_write(const struct foreign_refs *refs, const char *name,
			const struct oid *value)
{
	AUTO_FREE char *lock = xasprintf("%s.lock", name);
	AUTO_CLOSE int fd = make_unnamed(refs->dir, value);
	bool is_written = false;

	if (fd < 0 || !give_name(fd, refs->dir, refs->owner))
		return false;
	if (dir_make_parents(refs->dir, lock, ERR_IGNORED) == 0 &&
	    give_name(fd, refs->dir, lock))
		is_written = replace(refs, name, lock);
	unlinkat(refs->dir, refs->owner, 0);
	return is_written;
}

/* What stands above a new one may be as new. */
int foreign_refs_sync(const struct foreign_refs *refs, const char *name, struct err *err)
{
	return ref_snapshot_find(refs->seen, name)
		       ? file_sync_parent(refs->dir, name, err)
		       : file_sync_parents(refs->dir, name, err);
}
