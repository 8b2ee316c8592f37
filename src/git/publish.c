#include "git/publish.h"

#include <assert.h>

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
};

static int64_t wait_ms(const struct publication *publication)
{
	int64_t wait = publication->request->lock_wait_ms;

	return wait ? wait : LOCK_FILE_WAIT_MS;
}

static int lock_one(struct publication *publication, const char *name, struct err *err)
{
	struct lock_file held;

	if (lock_file_take(&publication->writer, name, wait_ms(publication), &held,
			   err) != 0)
		return -1;
	vec_add(&publication->locks, held);
	return 0;
}

/* Git's order: the refs, HEAD, then packed-refs. */
static int take_locks(struct publication *publication, struct err *err)
{
	const struct ref_diff *diff = &publication->diff;

	if (diff->changes.count <= REF_LOCK_LIMIT)
		for (size_t i = 0; i < diff->changes.count; i++)
			if (lock_one(publication, diff->changes.items[i].name, err) != 0)
				return -1;
	if (diff->head_changed && lock_one(publication, "HEAD", err) != 0)
		return -1;
	return lock_file_take(&publication->writer, "packed-refs", wait_ms(publication),
			      &publication->packed_lock, err);
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

/* What is known of peels in `from` and `to` also holds for the same values now. */
static int learn_peels(struct publication *publication, struct err *err)
{
	const struct publish_request *request = publication->request;

	for (size_t i = 0; i < publication->now.refs.count; i++) {
		struct ref *ref = &publication->now.refs.items[i];
		if (ref->target || ref->peel != REF_PEEL_UNKNOWN)
			continue;
		const struct ref *known = ref_snapshot_find(request->to, ref->name);
		if (!known || !oid_equal(&known->oid, &ref->oid))
			known = ref_snapshot_find(request->from, ref->name);
		if (!known || !oid_equal(&known->oid, &ref->oid) ||
		    known->peel == REF_PEEL_UNKNOWN)
			return moved(ref->name, err);
		ref->peel = known->peel;
		ref->peeled = known->peeled;
	}
	return 0;
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
	    state_check(&publication->writer, err) != 0 ||
	    ref_snapshot_read(request->dir, request->oid_len, &publication->now, err) !=
		    0)
		return -1;
	return learn_peels(publication, err);
}

static int change_locked(struct publication *publication, struct err *err)
{
	if (read_locked(publication, err) != 0 || check_values(publication, err) != 0)
		return -1;
	failpoint("publish.checked");
	struct publish_write write = writing(publication);
	return publish_write(&write, err);
}

/* Loose refs go first: as files they could stand where a lock's directory must. */
static int fold(struct publication *publication, struct err *err)
{
	int result = -1;

	if (publication->request->from->has_packed_only)
		return 0;
	if (lock_file_take(&publication->writer, "packed-refs", wait_ms(publication),
			   &publication->packed_lock, err) != 0)
		return -1;
	if (read_locked(publication, err) == 0) {
		struct publish_write write = writing(publication);
		result = publish_fold(&write, err);
	}
	lock_file_release(&publication->packed_lock);
	return result;
}

static int change(struct publication *publication, struct err *err)
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

int publish(const struct publish_request *request, struct err *err)
{
	AUTO_DIFF struct ref_diff diff;
	struct publication publication = { .request = request };
	int result;

	assert(request->fence > 0);
	ref_diff_compute(request->from, request->to, &diff);
	if (ref_diff_is_empty(&diff) && request->from->has_packed_only)
		return 0;
	publication.diff = diff;
	if (state_recover(request->dir, err) != 0 ||
	    state_begin(request->dir, &publication.writer, err) != 0)
		return -1;
	failpoint("publish.pending");
	result = change(&publication, err);
	ref_snapshot_clear(&publication.now);
	failpoint("publish.changed");
	/* After an error as well: some of it may be visible. */
	if (state_end(&publication.writer, result == 0 ? err : ERR_IGNORED) != 0)
		result = -1;
	return result;
}
