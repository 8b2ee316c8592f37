#include "pull/bring.h"

#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "git/objects.h"
#include "git/packs.h"
#include "git/publish.h"
#include "git/read_settings.h"
#include "pull/bring_cuts.h"
#include "pull/copy_record.h"
#include "pull/hold.h"
#include "pull/rewritten.h"

struct bring_state {
	const struct bring_request *request;
	struct ref_snapshot from;  /* the copy's refs as they are */
	struct ref_diff diff;      /* to the view's */
	struct copy_record record; /* that it has of itself; owned */
	bool is_untouched;         /* the disk is as it was proved last */
	bool is_ours;              /* `from` is what we published last */
};

/* What a copy's refs name is complete in it, if it was we who wrote them. */
static void drop_complete(const struct ref_snapshot *from, oid_list *wanted)
{
	oid_list tips = { 0 };
	size_t kept = 0;

	oid_list_add_tips(&tips, from);
	for (size_t i = 0; i < wanted->count; i++)
		if (!oid_list_has(&tips, &wanted->items[i]))
			wanted->items[kept++] = wanted->items[i];
	wanted->count = kept;
	vec_clear(&tips);
}

/* What the new refs name and the copy may lack. */
static void wanted_objects(const struct bring_state *state, oid_list *wanted)
{
	const struct ref_snapshot *refs = &state->request->view->refs;

	for (size_t i = 0; i < state->diff.changes.count; i++) {
		const struct ref *after = state->diff.changes.items[i].after;
		if (after && !after->target)
			vec_add(wanted, after->oid);
	}
	if (state->diff.head_changed && !refs->head_target)
		vec_add(wanted, refs->head_oid);
	oid_list_tidy(wanted);
	if (state->is_ours)
		drop_complete(&state->from, wanted);
}

/* Of the copy's refs: those that change first, then some that do not. */
#define KNOWN_MOST 100

static void bring_known(const struct bring_state *state, oid_list *known)
{
	struct oid head;

	for (size_t i = 0; i < state->diff.changes.count; i++) {
		const struct ref *before = state->diff.changes.items[i].before;
		if (before && !before->target)
			vec_add(known, before->oid);
	}
	if (ref_snapshot_head(&state->from, &head))
		vec_add(known, head);
	for (size_t i = 0; i < state->from.refs.count && known->count < KNOWN_MOST; i++)
		if (!state->from.refs.items[i].target)
			vec_add(known, state->from.refs.items[i].oid);
	oid_list_tidy(known);
}

static int bring_fetch_objects(const struct bring_state *state,
			       struct sync_result *result, struct err *err)
{
	const struct bring_request *request = state->request;
	oid_list wanted = { 0 }, known = { 0 };
	const bool is_small = request->view->pack.len > 0;
	uint64_t arrived = 0;
	const struct source_want want = { .work = &request->job->work,
					  .name = request->name,
					  .copy = request->copy,
					  .view = request->view,
					  .oids = &wanted,
					  .known = state->is_ours || request->is_new
							   ? &known
							   : NULL,
					  .is_by_pack = &result->is_by_pack,
					  .arrived = &arrived,
					  .refs = &request->view->refs,
					  .is_new = request->is_new };
	/* a look at all packs costs more than a small change */
	uint64_t before = is_small ? 0 : packs_size(request->copy->fd), after;
	int done = 0;

	wanted_objects(state, &wanted);
	bring_known(state, &known);
	if (wanted.count > 0)
		done = source_bring(request->source, &want, err);
	vec_clear(&wanted);
	vec_clear(&known);
	after = is_small ? arrived : packs_size(request->copy->fd);
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

/* packed-refs says of each ref what its tag finally names. What the copy's own says
 * counts as long as nobody has touched it. */
static int bring_learn_peels(const struct bring_state *state, struct err *err)
{
	const struct bring_request *request = state->request;

	if (state->is_untouched)
		share_peels(&state->from, &request->view->refs);
	return objects_peel(&request->job->work, request->copy, &request->view->refs,
			    err);
}

static bool bring_is_recorded(int dir, const struct copy_record *record,
			      const struct ref_snapshot *from, const char *checksum)
{
	struct checksum sum, refs_sum, proved;

	checksum_of(from, &sum);
	checksum_of_refs(from, &refs_sum);
	return (record->is_there && checksum_equal(&record->refs_sum, &refs_sum)) ||
	       copy_intent_is(dir, record, &refs_sum) ||
	       (checksum && checksum_parse(checksum, &proved) &&
		checksum_equal(&proved, &sum));
}

bool bring_is_ours(int dir, const struct ref_snapshot *from, const char *checksum)
{
	AUTO_RECORD struct copy_record record = { 0 };

	copy_record_read(dir, &record);
	return bring_is_recorded(dir, &record, from, checksum);
}

/* Whether the copy's disk is as it was when we last proved it; and whether the refs are
 * ours: by that, if it was old enough to tell then, else by their checksum. */
static void bring_look(struct bring_state *state)
{
	const struct bring_request *request = state->request;
	const struct copy_record *record = &state->record;
	struct fingerprint fingerprint;

	copy_record_read(request->copy->fd, &state->record);
	state->is_untouched = request->is_as_left ||
			      (!request->is_suspect &&
			       fingerprint_take(request->copy->fd, FINGERPRINT_COPY,
						&fingerprint, ERR_IGNORED) == 0 &&
			       copy_record_has_copy(record, &fingerprint));
	state->is_ours = (state->is_untouched && record->is_settled) ||
			 bring_is_recorded(request->copy->fd, record, &state->from,
					   request->checksum);
}

/* How many refs pushes have deleted at the primary since the copy was proved. */
static uint64_t pushed_since(const struct copy_record *record,
			     const struct source_view *view)
{
	if (!record->is_there || !view->timeline[0] ||
	    strcmp(record->timeline, view->timeline) != 0 ||
	    view->pushed_announced < record->pushed)
		return 0;
	return view->pushed_announced - record->pushed;
}

/* A forced sync may be tried again for long. What was held is permitted, but neither what
 * others wrote to the copy since nor more deletions. 1: everything is, as nothing was
 * held; 0: what *question says now; -1. */
static int bring_permit(const struct bring_state *state, struct hold_question *question,
			struct err *err)
{
	const struct bring_request *request = state->request;
	struct copy_held held;
	struct checksum now;

	if (!request->is_forced)
		return 0;
	int found = request->mends ? copy_held_read(request->copy->fd, &held, err) : 0;
	if (found <= 0)
		return found < 0 ? -1 : 1;
	checksum_of_refs(&state->from, &now);
	question->is_ours |= checksum_equal(&now, &held.refs_sum);
	question->permitted = held.deletions;
	return 0;
}

static int bring_hold(const struct bring_state *state,
		      const struct hold_question *question, struct sync_result *result,
		      struct err *err)
{
	struct copy_held held = { .deletions = hold_deletions(question),
				  .has_commits = !question->is_ours };

	checksum_of_refs(&state->from, &held.refs_sum);
	/* a forced sync may be repeated before anybody has read this */
	if (state->request->mends && !state->request->is_forced &&
	    copy_held_write(state->request->copy->fd, &held, err) != 0)
		return -1;
	result->outcome = SYNC_HELD;
	return 0;
}

/* Earlier versions do not tell the log: where a copy's record lacks it, only the same
 * timeline is of the same log. A primary that does not tell it may have the address. */
bool bring_is_of_other_log(const struct copy_record *record,
			   const struct source_view *view)
{
	if (!record->is_there || !record->timeline[0] || !view->timeline[0])
		return false;
	if (strcmp(record->timeline, view->timeline) == 0 &&
	    view->generation < record->generation)
		return true; /* it went back, and has not found that out yet */
	if (record->log[0] && view->log[0])
		return strcmp(record->log, view->log) != 0;
	return strcmp(record->timeline, view->timeline) != 0 &&
	       (view->log[0] || strcmp(record->source, view->url) != 0);
}

/* What the copy has is as another primary had it, or this one before a restore: what it
 * lacks now, it may never have dropped. An upstream has no log; and where history is cut,
 * nobody can tell what is lacking. */
static bool bring_may_lack(const struct bring_state *state)
{
	const struct source_view *view = state->request->view;

	return !view->is_foreign && state->from.cuts.count == 0 &&
	       view->refs.cuts.count == 0 && bring_is_of_other_log(&state->record, view);
}

/* It was asked about commits of these refs, and nobody has answered yet: they are not
 * the source's, whatever address that has by now; unless it is the very one that they
 * were copied from. 1, 0, or -1. */
static int bring_is_held_for_commits(const struct bring_state *state, struct err *err)
{
	const struct bring_request *request = state->request;
	struct copy_held held;
	struct checksum now;
	bool is_copy_of_it = state->is_ours && state->record.timeline[0] &&
			     strcmp(state->record.timeline, request->view->timeline) == 0;
	int found = request->mends && !is_copy_of_it
			    ? copy_held_read(request->copy->fd, &held, err)
			    : 0;

	if (found <= 0 || !held.has_commits)
		return found < 0 ? -1 : 0;
	checksum_of_refs(&state->from, &now);
	return checksum_equal(&now, &held.refs_sum);
}

/* SYNC_HELD is an outcome, not an error. */
static int bring_check_hold(const struct bring_state *state, struct sync_result *result,
			    struct err *err)
{
	const struct bring_request *request = state->request;
	struct repo copy = *request->copy;
	struct hold_question question = {
		.work = &request->job->work,
		.copy = &copy,
		.from = &state->from,
		.view = request->view,
		.diff = &state->diff,
		.is_ours = state->is_ours && !bring_may_lack(state),
		.pushed = pushed_since(&state->record, request->view),
		.delete_share = request->delete_share,
	};
	AUTO_FREE char *cuts = NULL;
	int is_held = bring_is_held_for_commits(state, err);

	if (is_held < 0)
		return -1;
	question.is_ours &= !is_held;
	int permitted = bring_permit(state, &question, err);
	if (permitted != 0)
		return permitted < 0 ? -1 : 0;
	if (bring_cuts_for_both(request, &state->from, &cuts, err) != 0)
		return -1;
	copy.shallow_file = cuts;
	int held = hold_decide(&question, &result->held_reason, err);
	if (held > 0)
		return bring_hold(state, &question, result, err);
	return held;
}

int bring_settings(const struct repo *copy, const struct source_view *view,
		   struct err *err)
{
	return view->settings ? read_settings_put(copy->fd, view->settings, err) : 0;
}

/* What is held, or cannot be brought, must not keep the copy showing what its source
 * hides by now. What that shows by now waits for its refs. */
static int bring_hide(struct bring_state *state, struct err *err)
{
	const struct bring_request *request = state->request;
	const int copy = request->copy->fd;
	AUTO_OBJECT_FILES object_files found = { 0 };
	AUTO_STR struct str settings = STR_INIT;

	if (request->is_new || !request->view->settings)
		return 0;
	int hides =
		read_settings_find_hiding(copy, request->view->settings, &settings, err);
	if (hides <= 0)
		return hides;
	if (object_files_take(copy, &found, err) != 0)
		return -1;
	bool was_ours = copy_record_look(&state->record, copy) == COPY_STAMPS_SAME;
	if (lease_check(request->job->lease, err) != 0 ||
	    read_settings_put(copy, settings.data, err) != 0)
		return -1;
	/* else all objects would be read at the next try */
	if (was_ours && !object_files_changed(&found, copy, true) &&
	    lease_check(request->job->lease, ERR_IGNORED) == 0)
		copy_record_renew(copy, &state->record);
	return 0;
}

/* What an upstream gave up is kept before it is: nothing else names it then. */
static int bring_publish(const struct bring_state *state, struct err *err)
{
	const struct bring_request *request = state->request;
	AUTO_REWRITTEN struct rewritten rewritten = { 0 };

	if (request->view->is_foreign &&
	    rewritten_keep(&(struct rewritten_request){ .work = &request->job->work,
							.copy = request->copy,
							.from = &state->from,
							.to = &request->view->refs,
							.diff = &state->diff },
			   &rewritten, err) != 0)
		return -1;
	if (publish(&(struct publish_request){ .dir = request->copy->fd,
					       .oid_len = request->copy->oid_len,
					       .from = &state->from,
					       .to = &request->view->refs,
					       .fence = request->job->fence },
		    err) != 0)
		return -1;
	rewritten_report(&rewritten);
	return 0;
}

/* The final refs; what they are now, which may be a step of a way that did not end; and
 * the steps between both. If several symbolic refs change at once, there may be more
 * steps than have room: some are not recognized then. */
static int bring_write_intent(const struct bring_state *state, struct err *err)
{
	const struct bring_request *request = state->request;
	const struct ref_snapshot *from = &state->from, *to = &request->view->refs;
	struct checksum sums[COPY_INTENTS_MOST];
	size_t steps;

	checksum_of_refs(to, &sums[0]);
	checksum_of_refs(state->is_ours ? from : to, &sums[1]);
	steps = publish_steps(from, to, &state->diff, sums + 2, COPY_INTENTS_MOST - 2);
	return copy_intent_write(
		request->copy->fd, sums,
		steps + 2 < COPY_INTENTS_MOST ? steps + 2 : COPY_INTENTS_MOST, err);
}

static int change_refs(struct bring_state *state, struct sync_result *result,
		       struct err *err)
{
	const struct bring_request *request = state->request;

	if ((!publish_is_loose(&state->from, &state->diff) &&
	     bring_learn_peels(state, err) != 0) ||
	    lease_check(request->job->lease, err) != 0)
		return -1;
	if (bring_write_intent(state, err) != 0 ||
	    bring_settings(request->copy, request->view, err) != 0)
		return -1;
	result->outcome = SYNC_UPDATED;
	result->refs_changed = state->diff.changes.count + state->diff.head_changed;
	return bring_publish(state, err);
}

/* Nobody has proved yet that the copy's objects are complete, or its disk has changed
 * since: packs may be gone. What is missing is brought again. */
static int make_complete(const struct bring_request *request, struct sync_result *result,
			 struct err *err)
{
	const struct git_work *work = &request->job->work;
	uint64_t before = packs_size(request->copy->fd), after;
	oid_list tips = { 0 };
	const struct source_want want = { .work = work,
					  .copy = request->copy,
					  .view = request->view,
					  .oids = &tips,
					  .is_anew = true };
	int complete;

	oid_list_add_tips(&tips, &request->view->refs);
	complete =
		tips.count == 0 || objects_are_complete(work, request->copy, &tips, err);
	if (complete == 0) {
		log_warn("sync.incomplete", LOG_ERR(err));
		complete = source_bring(request->source, &want, err) == 0
				   ? objects_are_complete(work, request->copy, &tips, err)
				   : -1;
		result->outcome = SYNC_UPDATED;
		after = packs_size(request->copy->fd);
		result->bytes += after > before ? after - before : 0;
	}
	vec_clear(&tips);
	if (complete == 0)
		err_remedy(err, "move the copy away; it is then copied again");
	return complete > 0 ? 0 : -1;
}

/* Which commits are cut may only be known now. */
static int bring_cut_objects(struct bring_state *state, bool is_sure,
			     struct sync_result *result, struct err *err)
{
	const struct bring_request *request = state->request;

	if (bring_cuts(&(struct bring_cuts){ .request = request,
					     .from = &state->from,
					     .diff = &state->diff,
					     .is_ours = state->is_ours,
					     .is_sure = is_sure },
		       result, err) != 0)
		return -1;
	ref_diff_clear(&state->diff);
	ref_diff_compute(&state->from, &request->view->refs, &state->diff);
	return 0;
}

/* Only what somebody else may have touched is looked through as a whole: that reads
 * every commit and tree. */
static int bring_objects(struct bring_state *state, struct sync_result *result,
			 struct err *err)
{
	const struct bring_request *request = state->request;
	bool is_sure = request->is_new || state->is_untouched;
	int done;

	if (bring_cuts_are_any(request, &state->from))
		return bring_cut_objects(state, is_sure, result, err);
	done = bring_fetch_objects(state, result, err);

	if (!is_sure && (done == 0 || source_lacked_objects(request->view, err)))
		done = make_complete(request, result, err);
	return done;
}

static int carry_over(struct bring_state *state, struct sync_result *result,
		      struct err *err)
{
	result->outcome = SYNC_UNCHANGED;
	bring_look(state);
	if (bring_hide(state, err) != 0 || bring_objects(state, result, err) != 0)
		return -1;
	failpoint("sync.fetched");
	if (ref_diff_is_empty(&state->diff) && !publish_is_to_fold(&state->from) &&
	    !state->from.is_cutting)
		return 0;
	if (bring_check_hold(state, result, err) != 0 || result->outcome == SYNC_HELD)
		return result->outcome == SYNC_HELD ? 0 : -1;
	return change_refs(state, result, err);
}

int bring_repository(const struct bring_request *request, struct sync_result *result,
		     struct err *err)
{
	struct bring_state state = { .request = request };
	int done = -1;

	if (ref_snapshot_read(request->copy->fd, request->copy->oid_len, &state.from,
			      err) != 0)
		return err_prefix(err, "the copy");
	ref_diff_compute(&state.from, &request->view->refs, &state.diff);
	done = carry_over(&state, result, err);
	bring_cuts_clear(request);
	copy_record_clear(&state.record);
	ref_diff_clear(&state.diff);
	ref_snapshot_clear(&state.from);
	return done;
}
