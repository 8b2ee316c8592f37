#include "git/publish.h"

#include <assert.h>
#include <limits.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "base/flush.h"
#include "base/log.h"
#include "base/str.h"
#include "git/cuts.h"
#include "git/fence.h"
#include "git/lock_file.h"
#include "git/refs.h"
#include "git/state.h"

struct publish_write {
	int dir;
	const struct lock_owner *writer;
	const struct ref_snapshot *now; /* the refs as they are, all peels known */
	const struct ref_snapshot *to;
	const struct ref_diff *diff;
};

static int publish_write(const struct publish_write *write, struct err *err);

/* Loose refs that are removed between two signs of life: some seconds where each takes
 * several questions to a file server. */
#define LOCK_ENDING ".lock"
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
	return flush_before_names(&fd, 1, err);
}

static bool is_locked_by_us(const struct publish_write *write, const char *name)
{
	AUTO_FREE char *path = xasprintf("%s.lock", name);

	return file_is_named(write->dir, path, write->writer->fd);
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
		err_set(err, ERR_CONFLICT, "%s was changed by another program meanwhile",
			ref->name);
		return err_remedy(
			err, "retried automatically; nothing else may write to copies");
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

/* Moves the values of loose refs into packed-refs; no value changes. Needs only
 * packed-refs.lock; `to` and `diff` are not looked at. */
static int publish_fold(const struct publish_write *write, struct err *err)
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
	    file_replace(dir, "refrelay/ref", text.data, text.len, FILE_WHOLE, err) != 0)
		return -1;
	if (renameat(dir, "refrelay/ref", dir, name) != 0)
		return err_errno(err, "cannot rename refrelay/ref to %s", name);
	return 0;
}

static bool becomes_symbolic(const struct ref_change *change)
{
	return change->after && change->after->target;
}

static bool ends_symbolic(const struct ref_change *change)
{
	return change->before && change->before->target && !becomes_symbolic(change);
}

static int move_symbolic(const struct publish_write *write, struct err *err)
{
	for (size_t i = 0; i < write->diff->changes.count; i++) {
		const struct ref_change *change = &write->diff->changes.items[i];
		if (!becomes_symbolic(change))
			continue;
		if (write_file_ref(write->dir, change->name, change->after->target, NULL,
				   err) != 0)
			return -1;
		failpoint("publish.symbolic");
		if (file_sync_parent(write->dir, change->name, err) != 0)
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
static bool is_in_the_way(const struct ref_diff *diff, const char *name)
{
	for (size_t i = 0; i < diff->changes.count; i++) {
		const struct ref_change *change = &diff->changes.items[i];
		if (becomes_symbolic(change) && (ref_name_is_below(name, change->name) ||
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
		if (!ends_symbolic(change) || (removal == REMOVE_IN_THE_WAY &&
					       !is_in_the_way(write->diff, change->name)))
			continue;
		if (unlinkat(write->dir, change->name, 0) != 0) {
			if (errno == ENOENT || errno == ENOTDIR || errno == EISDIR)
				continue; /* it was in the way, and is gone */
			return err_errno(err, "cannot remove %s", change->name);
		}
		failpoint("publish.symbolic");
		if (file_sync_parent(write->dir, change->name, err) != 0)
			return -1;
	}
	return 0;
}

/* One rename is enough when nothing but packed-refs changes, or nothing goes from it that
 * HEAD may still name. */
static bool needs_two_renames(const struct ref_diff *diff)
{
	return diff->symbolic_changed || (diff->head_changed && diff->deletions > 0);
}

static int publish_write_loose(const struct publish_write *write, struct err *err)
{
	const struct ref *ref = write->diff->changes.items[0].after;

	if (!is_locked_by_us(write, ref->name))
		return err_set(err, ERR_LOST, "%s.lock was taken from us", ref->name);
	if (write_file_ref(write->dir, ref->name, NULL, &ref->oid, err) != 0)
		return -1;
	return file_sync_parents(write->dir, ref->name, err);
}

static int publish_write_refs(const struct publish_write *write, struct err *err)
{
	enum phase first = needs_two_renames(write->diff) ? PHASE_ADD : PHASE_ALL;

	if (write->diff->changes.count > 0 && replace_packed(write, first, err) != 0)
		return -1;
	if (remove_symbolic(write, REMOVE_IN_THE_WAY, err) != 0 ||
	    move_symbolic(write, err) != 0 || move_head(write, err) != 0 ||
	    remove_symbolic(write, REMOVE_ALL, err) != 0)
		return -1;
	return first == PHASE_ADD ? replace_packed(write, PHASE_ALL, err) : 0;
}

/* What publish_write_refs() passes through. */
struct way {
	struct checksum now;
	struct checksum *sums;
	size_t count, most;
};

/* Where there is no room for all, the last ones have the last place: of these, the very
 * last state lasts longest, while packed-refs is written again. */
static void way_add(struct way *way)
{
	if (way->most > 0)
		way->sums[way->count < way->most ? way->count : way->most - 1] = way->now;
	way->count++;
}

/* NULL: there is none on that side. */
static void way_change(struct way *way, const char *name, const struct ref *before,
		       const struct ref *after)
{
	if (before)
		checksum_take(&way->now, name, before->target, &before->oid);
	if (after)
		checksum_put(&way->now, name, after->target, &after->oid);
}

/* The file of a symbolic ref hides what packed-refs has by then. */
static void way_pass_first_rename(struct way *way, const struct ref_diff *diff)
{
	bool is_any = false;

	for (size_t i = 0; i < diff->changes.count; i++) {
		const struct ref_change *change = &diff->changes.items[i];
		if (!change->after || change->after->target || ends_symbolic(change))
			continue;
		way_change(way, change->name, change->before, change->after);
		is_any = true;
	}
	if (is_any)
		way_add(way);
}

static void way_remove_symbolic(struct way *way, const struct ref_diff *diff,
				bool is_in_way)
{
	for (size_t i = 0; i < diff->changes.count; i++) {
		const struct ref_change *change = &diff->changes.items[i];
		if (!ends_symbolic(change) ||
		    is_in_the_way(diff, change->name) != is_in_way)
			continue;
		way_change(way, change->name, change->before, change->after);
		way_add(way);
	}
}

size_t publish_steps(const struct ref_snapshot *from, const struct ref_snapshot *to,
		     const struct ref_diff *diff, struct checksum *sums, size_t most)
{
	struct way way = { .sums = sums, .most = most };

	if (!diff->symbolic_changed && !diff->head_changed)
		return 0;
	checksum_of_refs(from, &way.now);
	way_pass_first_rename(&way, diff);
	way_remove_symbolic(&way, diff, true);
	for (size_t i = 0; i < diff->changes.count; i++) {
		const struct ref_change *change = &diff->changes.items[i];
		if (!becomes_symbolic(change))
			continue;
		way_change(&way, change->name, change->before, change->after);
		way_add(&way);
	}
	if (diff->head_changed) {
		checksum_take(&way.now, "HEAD", from->head_target, &from->head_oid);
		checksum_put(&way.now, "HEAD", to->head_target, &to->head_oid);
		way_add(&way);
	}
	way_remove_symbolic(&way, diff, false);
	return way.count;
}

/* Folds loose refs, then changes packed-refs, HEAD and symbolic refs in the order that
 * publish.h describes, between the two halves of a change of the cuts (git/cuts.h).
 * Durable when it returns 0. */
static int publish_write(const struct publish_write *write, struct err *err)
{
	bool cuts = write->diff->cuts_changed || write->now->is_cutting;

	if (!cuts && publish_is_loose(write->now, write->diff))
		return publish_write_loose(write, err);
	if (publish_fold(write, err) != 0)
		return -1;
	if (cuts && cuts_begin(write->dir, &write->now->cuts, &write->to->cuts, err) != 0)
		return -1;
	if (publish_write_refs(write, err) != 0)
		return -1;
	return cuts ? cuts_end(write->dir, &write->to->cuts, err) : 0;
}

/* Above this many, packed-refs.lock alone is held, and the loose refs are listed again
 * under it: a thousand lock files cost more than they are worth. */
#define REF_LOCK_LIMIT 1000

struct publication {
	const struct publish_request *request;
	struct ref_diff diff;
	struct lock_owner writer;
	VEC(struct lock_file) locks;
	struct lock_file packed_lock;
	struct ref_snapshot now; /* the refs as they are under the locks */
	int64_t locks_until;     /* clock_boot_ms() by which all locks must be had */
	bool may_have_changed;   /* something was written, perhaps */
};

static int64_t publish_wait_ms(const struct publication *publication)
{
	int64_t left = publication->locks_until - clock_boot_ms();

	return left > 0 ? left : 0;
}

static int lock_one(struct publication *publication, const char *name, struct err *err)
{
	struct lock_file held;

	if (lock_file_take(&publication->writer, name, publish_wait_ms(publication),
			   &held, err) != 0)
		return -1;
	vec_add(&publication->locks, held);
	return 0;
}

static bool has_symbolic_parent(const struct ref_snapshot *refs, const char *name)
{
	AUTO_FREE char *parent = xstrdup(name);
	bool is_found = false;
	char *slash;

	while (!is_found && (slash = strrchr(parent, '/')) != NULL) {
		const struct ref *ref;
		*slash = '\0';
		ref = ref_snapshot_find(refs, parent);
		is_found = ref && ref->target;
	}
	return is_found;
}

/* Where a symbolic ref's file stands or will stand, no directory can be made for the
 * locks of refs below it. packed-refs.lock must do for them. It may stand there already,
 * beside a value below it that a crash before the second rename has left. */
static bool is_below_symbolic(const struct ref_snapshot *from,
			      const struct ref_diff *diff, const char *name)
{
	if (has_symbolic_parent(from, name))
		return true;
	if (!diff->symbolic_changed)
		return false;
	for (size_t i = 0; i < diff->changes.count; i++) {
		const struct ref_change *change = &diff->changes.items[i];
		if (((change->before && change->before->target) ||
		     (change->after && change->after->target)) &&
		    ref_name_is_below(name, change->name))
			return true;
	}
	return false;
}

/* Whether it can be a file, with its lock beside it. What is too long for that is in
 * packed-refs alone, here and for git. */
static bool publish_fits_file(const char *name)
{
	const char *part = name, *slash;

	if (strlen(name) + strlen(LOCK_ENDING) >= PATH_MAX)
		return false;
	for (; (slash = strchr(part, '/')) != NULL; part = slash + 1)
		if (slash - part > NAME_MAX)
			return false;
	return strlen(part) + strlen(LOCK_ENDING) <= NAME_MAX;
}

static int lock_refs(struct publication *publication, struct err *err)
{
	const struct ref_diff *diff = &publication->diff;

	if (diff->changes.count > REF_LOCK_LIMIT)
		return 0;
	for (size_t i = 0; i < diff->changes.count; i++) {
		const char *name = diff->changes.items[i].name;
		if (!is_below_symbolic(publication->request->from, diff, name) &&
		    publish_fits_file(name) && lock_one(publication, name, err) != 0)
			return -1;
	}
	return 0;
}

/* Git's order: the refs, HEAD, then packed-refs. */
static int take_locks(struct publication *publication, struct err *err)
{
	const struct ref_diff *diff = &publication->diff;

	if (lock_refs(publication, err) != 0)
		return -1;
	if (diff->head_changed && lock_one(publication, "HEAD", err) != 0)
		return -1;
	return lock_file_take(&publication->writer, "packed-refs",
			      publish_wait_ms(publication), &publication->packed_lock,
			      err);
}

static void release_locks(struct publication *publication)
{
	lock_file_release(&publication->packed_lock);
	while (publication->locks.count > 0)
		lock_file_release(&publication->locks.items[--publication->locks.count]);
	vec_clear(&publication->locks);
}

static int moved(const char *name, struct err *err)
{
	err_set(err, ERR_CONFLICT, "%s was changed by another program meanwhile", name);
	return err_remedy(err, "retried automatically; nothing else may write to copies");
}

/* Each ref to be changed still has the value that the caller worked from. */
static int check_values(struct publication *publication, struct err *err)
{
	for (size_t i = 0; i < publication->diff.changes.count; i++) {
		const struct ref_change *change = &publication->diff.changes.items[i];
		if (!ref_same_value(ref_snapshot_find(&publication->now, change->name),
				    change->before))
			return moved(change->name, err);
	}
	if (publication->diff.head_changed &&
	    !ref_same_head(publication->request->from, &publication->now))
		return moved("HEAD", err);
	if (!cuts_equal(&publication->request->from->cuts, &publication->now.cuts))
		return moved(CUTS_FILE, err);
	return 0;
}

static const struct ref *known_value(const struct ref_snapshot *snapshot,
				     const struct ref *ref)
{
	const struct ref *known = ref_snapshot_find(snapshot, ref->name);
	bool is_known = known && !known->target && known->peel != REF_PEEL_UNKNOWN &&
			oid_equal(&known->oid, &ref->oid);

	return is_known ? known : NULL;
}

/* What is known of peels in `from` and `to` also holds for the same values now. `to` was
 * asked for, and knows it better than the packed-refs that is there. */
static void publish_learn_peels(struct publication *publication)
{
	const struct publish_request *request = publication->request;

	for (size_t i = 0; i < publication->now.refs.count; i++) {
		struct ref *ref = &publication->now.refs.items[i];
		if (ref->target)
			continue;
		const struct ref *known = known_value(request->to, ref);
		if (!known && ref->peel == REF_PEEL_UNKNOWN)
			known = known_value(request->from, ref);
		if (known) {
			ref->peel = known->peel;
			ref->peeled = known->peeled;
		}
	}
}

static struct publish_write writing(const struct publication *publication)
{
	return (struct publish_write){
		.dir = publication->request->dir,
		.writer = &publication->writer,
		.now = &publication->now,
		.to = publication->request->to,
		.diff = &publication->diff,
	};
}

/* The refs as they are now, for one who is still entitled to change them. */
static int read_locked(struct publication *publication, struct err *err)
{
	const struct publish_request *request = publication->request;

	ref_snapshot_clear(&publication->now);
	if (fence_check_locked(request->dir, request->fence, err) != 0 ||
	    state_beat(&publication->writer, err) != 0 ||
	    ref_snapshot_read(request->dir, request->oid_len, &publication->now, err) !=
		    0)
		return -1;
	publish_learn_peels(publication);
	return 0;
}

static int change_locked(struct publication *publication, struct err *err)
{
	if (read_locked(publication, err) != 0 || check_values(publication, err) != 0)
		return -1;
	failpoint("publish.checked");
	struct publish_write write = writing(publication);
	publication->may_have_changed = true;
	return publish_write(&write, err);
}

/* Loose refs go first: as files they could stand where a lock's directory must. */
static int fold(struct publication *publication, struct err *err)
{
	int result = -1;

	if (publication->request->from->has_packed_only ||
	    publish_is_loose(publication->request->from, &publication->diff))
		return 0;
	if (lock_file_take(&publication->writer, "packed-refs",
			   publish_wait_ms(publication), &publication->packed_lock,
			   err) != 0)
		return -1;
	if (read_locked(publication, err) == 0) {
		struct publish_write write = writing(publication);
		publication->may_have_changed = true;
		result = publish_fold(&write, err);
	}
	lock_file_release(&publication->packed_lock);
	return result;
}

/* But for loose refs, that are folded. */
static bool publish_is_done(const struct publish_request *request,
			    const struct ref_diff *diff)
{
	return ref_diff_is_empty(diff) && !request->from->is_cutting;
}

static int publish_change_refs(struct publication *publication, struct err *err)
{
	int result;

	if (fold(publication, err) != 0)
		return -1;
	if (publish_is_done(publication->request, &publication->diff))
		return 0;
	result = take_locks(publication, err);
	failpoint("publish.locked");
	if (result == 0)
		result = change_locked(publication, err);
	release_locks(publication);
	return result;
}

/* Names become paths: whoever gave them, nothing outside refs/ is ever written. */
static int check_names(const struct ref_diff *diff, struct err *err)
{
	for (size_t i = 0; i < diff->changes.count; i++)
		if (!ref_name_is_valid(diff->changes.items[i].name))
			return err_set(err, ERR_CORRUPT, "invalid ref name %s",
				       diff->changes.items[i].name);
	return 0;
}

bool publish_is_to_fold(const struct ref_snapshot *from)
{
	return !from->has_packed_only && (from->refs.count <= PUBLISH_LOOSE_FROM ||
					  from->loose_count > PUBLISH_LOOSE_MOST);
}

bool publish_is_loose(const struct ref_snapshot *from, const struct ref_diff *diff)
{
	return from->refs.count > PUBLISH_LOOSE_FROM &&
	       from->loose_count < PUBLISH_LOOSE_MOST && diff->changes.count == 1 &&
	       diff->deletions == 0 && !diff->symbolic_changed && !diff->head_changed &&
	       !diff->cuts_changed && !from->is_cutting &&
	       publish_fits_file(diff->changes.items[0].name);
}

int publish(const struct publish_request *request, struct err *err)
{
	AUTO_DIFF struct ref_diff diff;
	int64_t wait = request->lock_wait_ms ? request->lock_wait_ms : LOCK_FILE_WAIT_MS;
	struct publication publication = { .request = request,
					   .locks_until = clock_boot_ms() + wait };
	int result;

	assert(request->fence > 0);
	ref_diff_compute(request->from, request->to, &diff);
	if (check_names(&diff, err) != 0 || state_recover(request->dir, err) != 0)
		return -1;
	if (publish_is_done(request, &diff) && !publish_is_to_fold(request->from))
		return 0;
	publication.diff = diff;
	if (state_begin(request->dir, &publication.writer, err) != 0)
		return -1;
	failpoint("publish.pending");
	result = publish_change_refs(&publication, err);
	ref_snapshot_clear(&publication.now);
	failpoint("publish.changed");
	if (!publication.may_have_changed) {
		state_abandon(&publication.writer);
		return result;
	}
	/* Some of it may be visible, and is to be on disk before that is forgotten. */
	if (result != 0 && syncfs(request->dir) != 0)
		state_leave(&publication.writer);
	else if (state_end(&publication.writer, result == 0 ? err : ERR_IGNORED) != 0)
		result = -1;
	return result;
}
