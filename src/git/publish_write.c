#include "git/publish_write.h"

#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "git/state.h"

/* Loose refs that are removed between two signs of life: some seconds where each takes
 * several questions to a file server. */
#define REFS_A_BEAT 256

/* Which part of the change a packed-refs text shows. */
enum phase {
	PHASE_FOLD, /* the present values, nothing changed */
	PHASE_ADD,  /* created and moved refs, nothing deleted */
	PHASE_ALL,
};

/* The value that packed-refs shows in this phase for a name: `ref` is the present one,
 * `change` what happens to it; either may be NULL. NULL: none. */
static const struct ref *value_in(enum phase phase, const struct ref *ref,
				  const struct ref_change *change)
{
	if (!change || phase == PHASE_FOLD)
		return ref;
	if (change->after && !change->after->target)
		return change->after;
	return phase == PHASE_ADD ? ref : NULL;
}

/* Merges the present refs with the changes, both in order of their names. */
static void compose(const struct publish_write *write, enum phase phase,
		    struct ref_snapshot *next)
{
	size_t i = 0, j = 0, refs = write->now->refs.count;
	size_t changes = write->diff->changes.count;

	while (i < refs || j < changes) {
		const struct ref *ref = i < refs ? &write->now->refs.items[i] : NULL;
		const struct ref_change *change =
			j < changes ? &write->diff->changes.items[j] : NULL;
		int order = !ref ? 1 : !change ? -1 : strcmp(ref->name, change->name);
		const struct ref *value = value_in(phase, order <= 0 ? ref : NULL,
						   order >= 0 ? change : NULL);
		if (value)
			vec_add(&next->refs, *value);
		i += order <= 0;
		j += order >= 0;
	}
}

/* The mode stays that of the old file. */
static int write_new_file(int dir, const struct str *text, struct err *err)
{
	struct stat old;
	AUTO_CLOSE int fd = -1;

	/* Under packed-refs.lock this can only be what a crash left. */
	unlinkat(dir, "packed-refs.new", 0);
	fd = openat(dir, "packed-refs.new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
		    0666);
	if (fd < 0)
		return err_errno(err, "cannot create packed-refs.new");
	if (fstatat(dir, "packed-refs", &old, AT_SYMLINK_NOFOLLOW) == 0 &&
	    S_ISREG(old.st_mode) && fchmod(fd, old.st_mode & 0777) != 0)
		return err_errno(err, "cannot set the mode of packed-refs.new");
	if (file_write_all(fd, text->data, text->len, "packed-refs.new", err) != 0)
		return -1;
	return fsync(fd) == 0 ? 0 : err_errno(err, "cannot sync packed-refs.new");
}

static bool is_locked_by_us(const struct publish_write *write, const char *name)
{
	struct stat named, own;
	AUTO_FREE char *path = xasprintf("%s.lock", name);

	return fstatat(write->dir, path, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstat(write->writer->fd, &own) == 0 && named.st_ino == own.st_ino &&
	       named.st_dev == own.st_dev;
}

static int replace_packed(const struct publish_write *write, enum phase phase,
			  struct err *err)
{
	struct ref_snapshot next = REF_SNAPSHOT_INIT;
	AUTO_STR struct str text = STR_INIT;

	compose(write, phase, &next);
	ref_write_packed(&next, &text);
	ref_snapshot_clear(&next);
	if (write_new_file(write->dir, &text, err) != 0) {
		unlinkat(write->dir, "packed-refs.new", 0);
		return -1;
	}
	failpoint("publish.written");
	/* Where flock does not reach, a long pause may have cost us the lock. */
	if (!is_locked_by_us(write, "packed-refs"))
		return err_set(err, ERR_LOST, "packed-refs.lock was taken from us");
	if (renameat(write->dir, "packed-refs.new", write->dir, "packed-refs") != 0)
		return err_errno(err, "cannot rename packed-refs.new to packed-refs");
	failpoint("publish.renamed");
	return dir_sync(write->dir, ".", err);
}

/* The value did not change while it was folded, or the loose file must stay. */
static int remove_loose_locked(const struct publish_write *write, const struct ref *ref,
			       struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	struct oid oid;

	if (file_read(write->dir, ref->name, 4096, &text, err) != 0)
		return err->class == ERR_MISSING ? 0 : -1;
	if (!oid_parse(text.data, ref->oid.len, &oid) || !oid_equal(&oid, &ref->oid)) {
		err_set(err, ERR_CONFLICT, "%s was changed by somebody else meanwhile",
			ref->name);
		return err_remedy(err, "tried again by itself; let nobody else write to "
				       "a copy");
	}
	if (unlinkat(write->dir, ref->name, 0) != 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s", ref->name);
	return 0;
}

/* Others take refs first and packed-refs second; we hold packed-refs, so never wait. */
static int remove_loose(const struct publish_write *write, const struct ref *ref,
			struct err *err)
{
	struct lock_file held = { 0 };
	int result;

	if (!is_locked_by_us(write, ref->name) &&
	    lock_file_take(write->writer, ref->name, 0, &held, err) != 0)
		return -1;
	result = remove_loose_locked(write, ref, err);
	lock_file_release(&held);
	return result;
}

static bool is_loose(const struct ref *ref)
{
	return ref->is_loose && !ref->target;
}

/* A loose file that came back after a crash of the machine would hide what packed-refs
 * says by then. Its directory may be gone; the next one above knows that. */
static int sync_removals(const struct publish_write *write, struct err *err)
{
	AUTO_FREE char *synced = NULL;

	for (size_t i = 0; i < write->now->refs.count; i++) {
		if (!is_loose(&write->now->refs.items[i]))
			continue;
		char *parent = xstrdup(write->now->refs.items[i].name);
		do
			*strrchr(parent, '/') = '\0';
		while (strchr(parent, '/') &&
		       faccessat(write->dir, parent, F_OK, 0) != 0);
		bool is_new = !synced || strcmp(parent, synced) != 0;
		free(synced);
		synced = parent;
		if (is_new && dir_sync(write->dir, parent, err) != 0)
			return -1;
	}
	return 0;
}

int publish_fold(const struct publish_write *write, struct err *err)
{
	bool any = false;

	for (size_t i = 0; i < write->now->refs.count; i++) {
		any = any || is_loose(&write->now->refs.items[i]);
	}
	if (!any)
		return 0;
	if (replace_packed(write, PHASE_FOLD, err) != 0)
		return -1;
	failpoint("publish.folded");
	for (size_t i = 0; i < write->now->refs.count; i++) {
		const struct ref *ref = &write->now->refs.items[i];
		if (i % REFS_A_BEAT == 0 && state_beat(write->writer, err) != 0)
			return -1;
		if (is_loose(ref) && remove_loose(write, ref, err) != 0)
			return -1;
	}
	return sync_removals(write, err);
}

/* Directories that an old loose ref left may stand where a file must go. */
static void remove_empty_directories(int dir, const char *path)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(dir, path);

	if (!list)
		return;
	while ((entry = readdir(list)) != NULL)
		if (entry->d_name[0] != '.')
			remove_empty_directories(dirfd(list), entry->d_name);
	unlinkat(dir, path, AT_REMOVEDIR);
}

/* Under the lock of `name`, whose own file only says who holds it. */
static int write_file_ref(int dir, const char *name, const char *target,
			  const struct oid *oid, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;

	if (target)
		str_addf(&text, "ref: %s", target);
	else
		oid_add_text(oid, &text);
	str_add_char(&text, '\n');
	remove_empty_directories(dir, name);
	if (dir_make_parents(dir, name, err) != 0 ||
	    file_replace(dir, "refrelay/ref", text.data, text.len, FILE_SYNC, err) != 0)
		return -1;
	if (renameat(dir, "refrelay/ref", dir, name) != 0)
		return err_errno(err, "cannot rename refrelay/ref to %s", name);
	return 0;
}

static int publish_write_sync_parent(int dir, const char *name, struct err *err)
{
	const char *slash = strrchr(name, '/');
	AUTO_FREE char *parent = slash ? xstrndup(name, (size_t)(slash - name)) : NULL;

	return dir_sync(dir, parent ? parent : ".", err);
}

static int move_symbolic(const struct publish_write *write, struct err *err)
{
	for (size_t i = 0; i < write->diff->changes.count; i++) {
		const struct ref_change *change = &write->diff->changes.items[i];
		if (!change->after || !change->after->target)
			continue;
		if (write_file_ref(write->dir, change->name, change->after->target, NULL,
				   err) != 0 ||
		    publish_write_sync_parent(write->dir, change->name, err) != 0)
			return -1;
	}
	return 0;
}

static int move_head(const struct publish_write *write, struct err *err)
{
	if (!write->diff->head_changed)
		return 0;
	if (write_file_ref(write->dir, "HEAD", write->to->head_target,
			   &write->to->head_oid, err) != 0)
		return -1;
	failpoint("publish.head");
	return dir_sync(write->dir, ".", err);
}

/* A symbolic ref will need this one's name for a directory, or the other way round. */
static bool publish_write_is_in_the_way(const struct publish_write *write,
					const char *name)
{
	for (size_t i = 0; i < write->diff->changes.count; i++) {
		const struct ref_change *change = &write->diff->changes.items[i];
		if (change->after && change->after->target &&
		    (ref_name_is_below(name, change->name) ||
		     ref_name_is_below(change->name, name)))
			return true;
	}
	return false;
}

enum removal {
	REMOVE_IN_THE_WAY,
	REMOVE_ALL,
};

/* A symbolic ref that was deleted, or became a plain one: its file would hide it. */
static int remove_symbolic(const struct publish_write *write, enum removal removal,
			   struct err *err)
{
	for (size_t i = 0; i < write->diff->changes.count; i++) {
		const struct ref_change *change = &write->diff->changes.items[i];
		if (!change->before || !change->before->target ||
		    (change->after && change->after->target) ||
		    (removal == REMOVE_IN_THE_WAY &&
		     !publish_write_is_in_the_way(write, change->name)))
			continue;
		if (unlinkat(write->dir, change->name, 0) != 0) {
			if (errno == ENOENT || errno == ENOTDIR || errno == EISDIR)
				continue; /* it was in the way, and is gone */
			return err_errno(err, "cannot remove %s", change->name);
		}
		if (publish_write_sync_parent(write->dir, change->name, err) != 0)
			return -1;
	}
	return 0;
}

/* One rename is enough when nothing but packed-refs changes, or nothing goes from it that
 * HEAD may still name. */
static bool needs_two_renames(const struct publish_write *write)
{
	const struct ref_diff *diff = write->diff;

	return diff->symbolic_changed || (diff->head_changed && diff->deletions > 0);
}

int publish_write(const struct publish_write *write, struct err *err)
{
	enum phase first = needs_two_renames(write) ? PHASE_ADD : PHASE_ALL;

	if (publish_fold(write, err) != 0)
		return -1;
	if (write->diff->changes.count > 0 && replace_packed(write, first, err) != 0)
		return -1;
	if (remove_symbolic(write, REMOVE_IN_THE_WAY, err) != 0 ||
	    move_symbolic(write, err) != 0 || move_head(write, err) != 0 ||
	    remove_symbolic(write, REMOVE_ALL, err) != 0)
		return -1;
	return first == PHASE_ADD ? replace_packed(write, PHASE_ALL, err) : 0;
}
