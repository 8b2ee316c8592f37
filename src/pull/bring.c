#include "pull/bring.h"

#include "base/failpoint.h"
#include "base/file.h"
#include "git/objects.h"
#include "git/packs.h"
#include "git/publish.h"
#include "pull/copy_record.h"
#include "pull/hold.h"

/* What the new refs name and the old ones of the same name did not. */
static void wanted_objects(const struct ref_diff *diff, const struct source_view *view,
			   oid_list *wanted)
{
	for (size_t i = 0; i < diff->changes.count; i++) {
		const struct ref *after = diff->changes.items[i].after;
		if (after && !after->target)
			vec_add(wanted, after->oid);
	}
	if (diff->head_changed && !view->refs.head_target)
		vec_add(wanted, view->refs.head_oid);
	oid_list_tidy(wanted);
}

static int fetch_missing(const struct bring_request *request, const oid_list *wanted,
			 struct err *err)
{
	return objects_fetch(&request->job->work, request->copy, request->view->url,
			     wanted, NULL, err);
}

/* What is left after the packs: usually nothing, so that git only checks that all is
 * complete. What the packs hold of the tips is told to the other side; if that promises
 * too much (a parent that was loose), git says so, and all is fetched. */
static int fetch_rest(const struct bring_request *request, const oid_list *wanted,
		      struct err *err)
{
	oid_list have = { 0 };
	int result =
		objects_present(&request->job->work, request->copy, wanted, &have, err);

	if (result == 0)
		result = objects_fetch(&request->job->work, request->copy,
				       request->view->url, wanted, &have, err);
	vec_clear(&have);
	if (result == 0 || (err->class != ERR_CORRUPT && err->class != ERR_INTERNAL &&
			    err->class != ERR_NETWORK))
		return result;
	return fetch_missing(request, wanted, err);
}

/* Small repositories gain nothing by it. */
#define PACKS_WORTH_COPYING ((uint64_t)1 << 20)

static int fetch_all(const struct bring_request *request, const oid_list *wanted,
		     struct err *err)
{
	AUTO_CLOSE int source = -1;

	if (!request->is_new || !request->view->has_packs)
		return fetch_missing(request, wanted, err);
	source = dir_open(AT_FDCWD, request->view->url, err);
	if (source < 0)
		return -1;
	if (packs_size(source) < PACKS_WORTH_COPYING)
		return fetch_missing(request, wanted, err);
	if (packs_copy(&request->job->work, source, request->copy, err) != 0)
		return -1;
	return fetch_rest(request, wanted, err);
}

/* Git names the object that is missing, a person wants to know which ref names it. */
static void name_culprit(const struct bring_request *request, struct err *err)
{
	struct err why;
	AUTO_REPO struct repo source = REPO_INIT;

	if (repo_open(AT_FDCWD, request->view->url, &source, &why) == 0 &&
	    objects_check_tips(&request->job->work, &source, &request->view->refs,
			       &why) != 0 &&
	    why.class == ERR_CORRUPT)
		*err = why;
}

static int fetch(const struct bring_request *request, const struct ref_diff *diff,
		 struct sync_result *result, struct err *err)
{
	oid_list wanted = { 0 };
	uint64_t before = packs_size(request->copy->fd), after;
	int done = 0;

	wanted_objects(diff, request->view, &wanted);
	if (wanted.count > 0)
		done = fetch_all(request, &wanted, err);
	vec_clear(&wanted);
	if (done != 0 && err->class == ERR_CORRUPT && request->view->is_local)
		name_culprit(request, err);
	after = packs_size(request->copy->fd);
	result->bytes += after > before ? after - before : 0;
	return done;
}

/* What one side knows of the same object also holds for the other. */
static void share_peels(const struct ref_snapshot *knows, struct ref_snapshot *learns)
{
	for (size_t i = 0; i < learns->refs.count; i++) {
		struct ref *ref = &learns->refs.items[i];
		const struct ref *known;
		if (ref->target || ref->peel != REF_PEEL_UNKNOWN)
			continue;
		known = ref_snapshot_find(knows, ref->name);
		if (known && oid_equal(&known->oid, &ref->oid)) {
			ref->peel = known->peel;
			ref->peeled = known->peeled;
		}
	}
}

/* packed-refs says of each ref what its tag finally names, of those too that stay. */
static int learn_peels(const struct bring_request *request, struct ref_snapshot *from,
		       struct err *err)
{
	share_peels(from, &request->view->refs);
	share_peels(&request->view->refs, from);
	if (objects_peel(&request->job->work, request->copy, &request->view->refs, err) !=
	    0)
		return -1;
	share_peels(&request->view->refs, from);
	return from->has_packed_only
		       ? 0
		       : objects_peel(&request->job->work, request->copy, from, err);
}

static bool is_ours(const struct repo *copy, const struct ref_snapshot *from)
{
	AUTO_RECORD struct copy_record record = { 0 };
	struct checksum sum;

	copy_record_read(copy->fd, &record);
	checksum_of(from, &sum);
	return record.is_there && checksum_equal(&record.sum, &sum);
}

static int change_refs(const struct bring_request *request, struct ref_snapshot *from,
		       const struct ref_diff *diff, struct sync_result *result,
		       struct err *err)
{
	int held = 0;

	if (!request->is_forced)
		held = hold_decide(&request->job->work, request->copy, from,
				   request->view, diff, is_ours(request->copy, from),
				   &result->held_reason, err);
	if (held != 0) {
		result->outcome = SYNC_HELD;
		return held < 0 ? -1 : 0;
	}
	if (learn_peels(request, from, err) != 0 ||
	    lease_check(request->job->lease, err) != 0)
		return -1;
	result->outcome = SYNC_UPDATED;
	result->refs_changed = diff->changes.count + diff->head_changed;
	return publish(&(struct publish_request){ .dir = request->copy->fd,
						  .oid_len = request->copy->oid_len,
						  .from = from,
						  .to = &request->view->refs,
						  .fence = request->job->fence },
		       err);
}

int bring(const struct bring_request *request, struct sync_result *result,
	  struct err *err)
{
	AUTO_SNAPSHOT struct ref_snapshot from = REF_SNAPSHOT_INIT;
	AUTO_DIFF struct ref_diff diff = { 0 };

	if (ref_snapshot_read(request->copy->fd, request->copy->oid_len, &from, err) !=
	    0) {
		err_prefix(err, "the copy");
		return -1;
	}
	ref_diff_compute(&from, &request->view->refs, &diff);
	result->outcome = SYNC_UNCHANGED;
	if (ref_diff_is_empty(&diff) && from.has_packed_only)
		return objects_check_tips(&request->job->work, request->copy, &from, err);
	if (fetch(request, &diff, result, err) != 0)
		return -1;
	failpoint("sync.fetched");
	return change_refs(request, &from, &diff, result, err);
}
