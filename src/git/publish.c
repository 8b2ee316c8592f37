#include "git/publish.h"

#include <assert.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/file.h"
#include "git/fence.h"
#include "git/lock_file.h"
#include "git/publish_write.h"
#include "git/ref_diff.h"
#include "git/state.h"

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

/* Where a symbolic ref's file stands or will stand, no directory can be made for the
 * locks of refs below it. packed-refs.lock must do for them. */
static bool is_below_symbolic(const struct ref_diff *diff, const char *name)
{
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

static int lock_refs(struct publication *publication, struct err *err)
{
	const struct ref_diff *diff = &publication->diff;

	if (diff->changes.count > REF_LOCK_LIMIT)
		return 0;
	for (size_t i = 0; i < diff->changes.count; i++) {
		const char *name = diff->changes.items[i].name;
		if (!is_below_symbolic(diff, name) &&
		    lock_one(publication, name, err) != 0)
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
	err_set(err, ERR_CONFLICT, "%s was changed by somebody else meanwhile", name);
	return err_remedy(err, "tried again by itself; let nobody else write to a copy");
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

/* What is known of peels in `from` and `to` also holds for the same values now. */
static void publish_learn_peels(struct publication *publication)
{
	const struct publish_request *request = publication->request;

	for (size_t i = 0; i < publication->now.refs.count; i++) {
		struct ref *ref = &publication->now.refs.items[i];
		if (ref->target || ref->peel != REF_PEEL_UNKNOWN)
			continue;
		const struct ref *known = known_value(request->to, ref);
		if (!known)
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

	if (publication->request->from->has_packed_only)
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

static int publish_change_refs(struct publication *publication, struct err *err)
{
	int result;

	if (fold(publication, err) != 0)
		return -1;
	if (ref_diff_is_empty(&publication->diff))
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
			return err_set(err, ERR_CORRUPT, "%s is no name for a ref",
				       diff->changes.items[i].name);
	return 0;
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
	if (ref_diff_is_empty(&diff) && request->from->has_packed_only)
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
	/* After an error as well: some of it may be visible. */
	if (state_end(&publication.writer, result == 0 ? err : ERR_IGNORED) != 0)
		result = -1;
	return result;
}
