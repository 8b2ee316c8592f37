#include "pull/bring_cuts.h"

#include "base/file.h"
#include "base/log.h"
#include "git/cut_fetch.h"
#include "git/cuts.h"
#include "git/objects.h"
#include "git/packs.h"
#include "pull/copy_record.h"

/* Below the copy, with the fence behind it: another holder's is another folder. */
#define OWN "refrelay"
#define SCRATCH "fetch."

bool bring_cuts_are_any(const struct bring_request *request,
			const struct ref_snapshot *from)
{
	const struct source_view *view = request->view;

	return view->depth > 0 || view->refs.cuts.count > 0 || from->cuts.count > 0 ||
	       from->is_cutting;
}

static char *bring_cuts_scratch(const struct bring_request *request)
{
	return xasprintf(OWN "/" SCRATCH "%" PRIu64, request->job->fence);
}

/* "fetch.17", "fetch.17.new". A later holder's stay: he may be at work. */
static bool bring_cuts_may_clear(const struct bring_request *request, const char *name)
{
	AUTO_FREE char *number = NULL;
	uint64_t fence;

	if (!text_starts_with(name, SCRATCH))
		return false;
	name += strlen(SCRATCH);
	number = xstrndup(name, strcspn(name, "."));
	return text_to_uint64(number, &fence) && fence <= request->job->fence;
}

void bring_cuts_clear(const struct bring_request *request)
{
	struct dirent *entry;
	AUTO_CLOSEDIR DIR *list = dir_list(request->copy->fd, OWN);

	while (list && (entry = readdir(list)) != NULL)
		if (bring_cuts_may_clear(request, entry->d_name))
			tree_remove(dirfd(list), entry->d_name, ERR_IGNORED);
}

/* *file: below the copy; the caller frees. */
static int bring_cuts_write(const struct bring_request *request, const char *name,
			    const oid_list *cuts, char **file, struct err *err)
{
	AUTO_FREE char *scratch = bring_cuts_scratch(request);
	AUTO_FREE char *path = xasprintf("%s.%s", scratch, name);
	AUTO_STR struct str text = STR_INIT;

	cuts_format(cuts, &text);
	if (file_replace(request->copy->fd, path, text.data, text.len, FILE_NO_SYNC,
			 err) != 0)
		return -1;
	*file = TAKE(path);
	return 0;
}

int bring_cuts_for_both(const struct bring_request *request,
			const struct ref_snapshot *from, char **file, struct err *err)
{
	oid_list all = { 0 };
	int result = 0;

	*file = NULL;
	cuts_unite(&from->cuts, &request->view->refs.cuts, &all);
	if (all.count > 0)
		result = bring_cuts_write(request, "both", &all, file, err);
	vec_clear(&all);
	return result;
}

/* Whether the copy's cuts are those of the depth, by its record. An upstream's refs alone
 * do not tell. */
static bool bring_cuts_have_depth(const struct bring_cuts *cuts)
{
	AUTO_RECORD struct copy_record record = { 0 };

	copy_record_read(cuts->request->copy->fd, &record);
	return record.is_there &&
	       strcmp(record.timeline, cuts->request->view->timeline) == 0;
}

static bool bring_cuts_are_here(const struct bring_cuts *cuts)
{
	const struct ref_diff *diff = cuts->diff;

	if (!cuts->is_sure || cuts->request->is_new || cuts->from->is_cutting ||
	    diff->changes.count > 0 || diff->head_changed)
		return false;
	return cuts->request->view->hides_cuts ? bring_cuts_have_depth(cuts)
					       : !diff->cuts_changed;
}

static void bring_cuts_take(const struct bring_request *request, const oid_list *cuts)
{
	oid_list *own = &request->view->refs.cuts;

	own->count = 0;
	for (size_t i = 0; i < cuts->count; i++)
		vec_add(own, cuts->items[i]);
}

/* What an upstream has cut off itself, no depth brings. */
static int bring_cuts_check_upstream(const struct source_view *view, const oid_list *got,
				     struct err *err)
{
	return view->hides_cuts && view->depth == 0 && got->count > 0
		       ? source_refuse_shallow(err)
		       : 0;
}

static int bring_cuts_fetch(const struct bring_cuts *cuts, const oid_list *tips,
			    const struct ref_snapshot *have, struct err *err)
{
	const struct bring_request *request = cuts->request;
	AUTO_FREE char *scratch = bring_cuts_scratch(request);
	const struct source_want want = { .work = &request->job->work,
					  .copy = request->copy,
					  .view = request->view,
					  .oids = tips };
	const uint64_t depth = request->view->depth;
	oid_list got = { 0 };
	int result = 0;

	bring_cuts_clear(request);
	if (tips->count > 0)
		result = source_fetch_cut(
			&(struct source_cut_want){ .want = &want,
						   .have = have,
						   .depth = depth > 0 ? (unsigned)depth
								      : CUT_FETCH_ALL,
						   .scratch = scratch },
			&got, err);
	if (result == 0)
		result = bring_cuts_check_upstream(request->view, &got, err);
	if (result == 0 && request->view->hides_cuts)
		bring_cuts_take(request, &got);
	vec_clear(&got);
	return result;
}

/* All that the refs reach is here, up to the view's cuts. */
static int bring_cuts_check(const struct bring_cuts *cuts, const oid_list *tips,
			    struct err *err)
{
	const struct bring_request *request = cuts->request;
	struct repo copy = *request->copy;
	AUTO_FREE char *file = NULL;

	if (tips->count == 0)
		return 0;
	if (bring_cuts_write(request, "new", &request->view->refs.cuts, &file, err) != 0)
		return -1;
	copy.shallow_file = file;
	return objects_are_complete(&request->job->work, &copy, tips, err) > 0 ? 0 : -1;
}

/* A primary that has gone on serves the cuts of its newer generation, with which what the
 * older one names may not be had any more. */
static bool bring_cuts_are_outdated(const struct bring_request *request)
{
	const struct source_view *view = request->view;
	AUTO_VIEW struct source_view now = { 0 };

	return !view->hides_cuts && !view->is_local &&
	       source_read(request->source, request->name, &now, ERR_IGNORED) == 0 &&
	       (strcmp(now.timeline, view->timeline) != 0 ||
		now.generation != view->generation);
}

/* What is not known to be here is not told to the other side. */
static int bring_cuts_try(const struct bring_cuts *cuts, const oid_list *tips,
			  struct err *err)
{
	const struct bring_request *request = cuts->request;
	bool has_more = cuts->is_ours && !request->is_suspect && !request->is_new;

	if (has_more && bring_cuts_fetch(cuts, tips, cuts->from, err) == 0 &&
	    ((cuts->is_sure && request->view->hides_cuts) ||
	     bring_cuts_check(cuts, tips, err) == 0))
		return 0;
	if (has_more && !source_lacked_objects(request->view, err))
		return -1;
	if (has_more)
		log_warn("sync.incomplete", LOG_ERR(err));
	return bring_cuts_fetch(cuts, tips, NULL, err) == 0
		       ? bring_cuts_check(cuts, tips, err)
		       : -1;
}

int bring_cuts(const struct bring_cuts *cuts, struct sync_result *result, struct err *err)
{
	const struct bring_request *request = cuts->request;
	uint64_t before = packs_size(request->copy->fd), after;
	oid_list tips = { 0 };
	int done;

	if (bring_cuts_are_here(cuts)) {
		bring_cuts_take(request, &cuts->from->cuts);
		return 0;
	}
	oid_list_add_tips(&tips, &request->view->refs);
	done = bring_cuts_try(cuts, &tips, err);
	vec_clear(&tips);
	after = packs_size(request->copy->fd);
	result->bytes += after > before ? after - before : 0;
	if (done != 0 && bring_cuts_are_outdated(request))
		err_because(err, REASON_NOT_OUR_REF);
	return done;
}
