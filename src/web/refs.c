/*
 * The refs of a primary's repository, for a secondary: all of them, or what has changed
 * since a generation that it has, with the objects that came with that. One that has
 * nothing yet is given all objects with the refs, if they are few.
 *
 * The objects of a delta are found in this process (git/new_objects.h), which costs a
 * fiftieth of what the processes of a fetch do. It is for small changes; for all else,
 * and whenever anything is not as expected, the secondary is told to fetch.
 */
#include "base/metrics.h"
#include "change/event_log.h"
#include "change/pushed.h"
#include "git/new_objects.h"
#include "git/packs.h"
#include "git/small_pack.h"
#include "replicable/name.h"
#include "web/answer.h"
#include "web/api.h"
#include "web/packs.h"
#include "web/web_metrics.h"
#include "wire/wire_delta.h"
#include "wire/wire_refs.h"

/* A larger change is brought sooner by Git. */
#define DELTA_GENERATIONS 1000
#define DELTA_OBJECTS 1000
#define DELTA_BYTES ((uint64_t)1 << 20)
#define DELTA_REFS_KNOWN 100
#define DELTA_MS 10000

/* What a repository is at one moment. */
struct refs_picture {
	struct noticed noticed;
	struct pushed pushed;
	struct event_ends ends;
};

/* False: there is none, and the response says why; or *err does, for the frame. */
static bool refs_take_picture(const struct web_request *request,
			      struct refs_picture *picture, struct web_response *response,
			      int *result, struct err *err)
{
	struct notice *notice = request->services->notice;
	struct pushed before;

	*result = 0;
	if (!api_needs_role(request, SITE_PRIMARY, response))
		return false;
	*result = -1;
	if (name_check(request->name, err) != 0 ||
	    pushed_read(notice, request->name, &before, err) != 0)
		return false;
	if (notice_compare(notice, request->name, &picture->noticed, err) != 0) {
		if (picture->noticed.why.class == ERR_NONE) /* it is not to blame */
			return false;
		*result = 0;
		if (err->class == ERR_CORRUPT || err->class == ERR_CONFLICT ||
		    err->class == ERR_CONFIG)
			api_unreadable(response, err);
		else
			*result = api_repository_failed(response, err);
		return false;
	}
	if (pushed_read(notice, request->name, &picture->pushed, err) != 0)
		return false;
	picture->pushed.settled = before.settled; /* read before the refs */
	if (event_log_look(request->services->store, &picture->ends, err) != 0)
		return false;
	*result = 0;
	return true;
}

/* Borrows from the picture. */
static struct wire_refs refs_of_picture(const struct refs_picture *picture)
{
	const struct noticed *noticed = &picture->noticed;
	struct wire_refs refs = { .refs = noticed->refs,
				  .oid_len = noticed->oid_len,
				  .generation = noticed->row.generation,
				  .changed_at = noticed->row.changed_at,
				  .description = noticed->description,
				  .settings = noticed->settings,
				  .pushed_settled = picture->pushed.settled,
				  .pushed_announced = picture->pushed.announced };

	memcpy(refs.timeline, noticed->row.timeline, sizeof(refs.timeline));
	memcpy(refs.log, picture->ends.timeline, sizeof(refs.log));
	snprintf(refs.checksum, sizeof(refs.checksum), "%s", noticed->row.checksum);
	return refs;
}

static void refs_answer(const struct web_request *request,
			const struct refs_picture *picture, struct web_response *response)
{
	struct wire_refs refs = refs_of_picture(picture);

	refs.pack_bytes = web_packs_size(request->services, request->name);
	web_packs_list_lenders(request->services, request->name, &refs.lenders);
	response->content_type = WIRE_REFS_TYPE;
	wire_refs_render(&refs, &response->body);
	text_list_clear(&refs.lenders);
}

static int refs_get(const struct web_request *request, struct web_response *response,
		    struct err *err)
{
	struct refs_picture picture = { 0 };
	int result;

	if (refs_take_picture(request, &picture, response, &result, err))
		refs_answer(request, &picture, response);
	noticed_clear(&picture.noticed);
	return result;
}

/* A delta while it is put together. */
struct refs_delta {
	const struct web_request *request;
	struct wire_delta_question question;
	struct refs_picture picture;
	wire_ref_changes changes; /* since the generation of the question */
	struct str pack;
};

static void refs_delta_clear(struct refs_delta *delta)
{
	noticed_clear(&delta->picture.noticed);
	wire_ref_changes_clear(&delta->changes);
	str_clear(&delta->pack);
}

static int refs_delta_refuse(struct err *err, const char *why)
{
	return err_set(err, ERR_CONFLICT, "there is no delta: %s", why);
}

/* That the secondary has just what was recorded of that generation, and what has become
 * of it is what is here now, follows from both checksums and the changes alone. */
static int refs_delta_prove(const struct refs_delta *delta, struct err *err)
{
	char text[CHECKSUM_TEXT_SIZE];
	struct checksum sum;

	if (!checksum_parse(delta->question.checksum, &sum))
		return refs_delta_refuse(err, "that is no checksum");
	wire_ref_changes_apply(&delta->changes, &sum);
	checksum_format(&sum, text);
	return strcmp(text, delta->picture.noticed.row.checksum) == 0
		       ? 0
		       : refs_delta_refuse(err, "the refs there are others");
}

static bool refs_delta_is_first(const struct refs_delta *delta)
{
	return delta->question.checksum[0] && !delta->question.timeline[0];
}

static void refs_delta_add_change(struct refs_delta *delta, const char *name,
				  const char *target, struct oid oid)
{
	const struct wire_ref_change change = {
		.name = xstrdup(name),
		.after = { .oid = target ? (struct oid){ 0 } : oid,
			   .target = target ? xstrdup(target) : NULL }
	};

	vec_add(&delta->changes, change);
}

/* All that is there. A larger repository's packs are copied as they are, or it is git's.
 */
static int refs_delta_find_all(struct refs_delta *delta, struct err *err)
{
	const struct ref_snapshot *refs = &delta->picture.noticed.refs;

	if (refs->cuts.count > 0 || refs->refs.count > DELTA_OBJECTS ||
	    web_packs_size(delta->request->services, delta->request->name) >=
		    PACKS_WORTH_COPYING)
		return refs_delta_refuse(err, "the repository is too large");
	if (!refs->head_target)
		refs_delta_add_change(delta, "HEAD", NULL, refs->head_oid);
	for (size_t i = 0; i < refs->refs.count; i++)
		refs_delta_add_change(delta, refs->refs.items[i].name,
				      refs->refs.items[i].target,
				      refs->refs.items[i].oid);
	return 0;
}

static int refs_delta_find_changes(struct refs_delta *delta, struct err *err)
{
	const struct noticed *noticed = &delta->picture.noticed;
	const struct event_span span = { .name = delta->request->name,
					 .timeline = noticed->row.timeline,
					 .after = delta->question.generation,
					 .until = noticed->row.generation,
					 .most = DELTA_GENERATIONS };
	AUTO_TEXT_LIST text_list texts = { 0 };
	int found;

	if (refs_delta_is_first(delta))
		return refs_delta_find_all(delta, err);
	if (strcmp(delta->question.timeline, noticed->row.timeline) != 0)
		return refs_delta_refuse(err, "it is of another timeline");
	found = event_log_changes(delta->request->services->store, &span, &texts, err);
	if (found <= 0)
		return found < 0 ? -1
				 : refs_delta_refuse(err, "what changed is not known");
	for (size_t i = 0; i < texts.count; i++)
		if (wire_ref_changes_add(&delta->changes, texts.items[i],
					 noticed->oid_len, err) != 0)
			return -1;
	wire_ref_changes_fold(&delta->changes);
	return refs_delta_prove(delta, err);
}

static void refs_delta_add_head(const struct ref_snapshot *refs, oid_list *known)
{
	struct oid head;

	if (ref_snapshot_head(refs, &head))
		vec_add(known, head);
}

/* What the changed refs name now, and what the secondary has: what they named before, and
 * refs that have not changed. */
static void refs_delta_add_ends(const struct refs_delta *delta, oid_list *tips,
				oid_list *known)
{
	const struct ref_snapshot *refs = &delta->picture.noticed.refs;
	bool has_head = false;
	size_t next = 0;

	for (size_t i = 0; i < delta->changes.count; i++) {
		const struct wire_ref_change *change = &delta->changes.items[i];
		if (change->before.oid.len > 0)
			vec_add(known, change->before.oid);
		if (change->after.oid.len > 0)
			vec_add(tips, change->after.oid);
		has_head = has_head || (refs->head_target &&
					strcmp(change->name, refs->head_target) == 0);
	}
	if (!has_head && refs->head_target)
		refs_delta_add_head(refs, known);
	for (size_t i = 0; i < refs->refs.count && known->count < DELTA_REFS_KNOWN; i++) {
		const struct ref *ref = &refs->refs.items[i];
		while (next < delta->changes.count &&
		       strcmp(delta->changes.items[next].name, ref->name) < 0)
			next++;
		bool is_changed = next < delta->changes.count &&
				  strcmp(delta->changes.items[next].name, ref->name) == 0;
		if (!is_changed && !ref->target)
			vec_add(known, ref->oid);
	}
	oid_list_tidy(tips);
	oid_list_tidy(known);
}

/* 1: the pack has all; 0: it is for Git. */
static int refs_delta_pack_in(struct refs_delta *delta, struct object_store *store,
			      struct err *err)
{
	oid_list tips = { 0 }, known = { 0 }, list = { 0 };
	uint64_t most =
		delta->question.limit < DELTA_BYTES ? delta->question.limit : DELTA_BYTES;
	int result;

	refs_delta_add_ends(delta, &tips, &known);
	result = new_objects_list(&(struct new_objects_request){ .store = store,
								 .tips = &tips,
								 .known = &known,
								 .most = DELTA_OBJECTS,
								 .most_bytes = most },
				  &list, err);
	if (result > 0 && list.count > 0)
		result = small_pack_make(store, &list, most, &delta->pack, err);
	vec_clear(&tips);
	vec_clear(&known);
	vec_clear(&list);
	return result;
}

static int refs_delta_pack(struct refs_delta *delta, struct err *err)
{
	AUTO_FREE char *path = xasprintf("%s/%s", delta->request->services->root,
					 delta->picture.noticed.row.path);
	AUTO_REPO struct repo repo = REPO_INIT;
	const struct git_work work = git_work_for(delta->request->stop, DELTA_MS);
	struct object_store *store;
	int result;

	if (repo_open(AT_FDCWD, path, &repo, err) != 0 ||
	    object_store_open(&repo, &store, err) != 0)
		return -1;
	object_store_obey(store, &work);
	result = refs_delta_pack_in(delta, store, err);
	object_store_close(store);
	return result == 0  ? refs_delta_refuse(err, "the change is too large")
	       : result < 0 ? -1
			    : 0;
}

static void refs_delta_answer(const struct refs_delta *delta,
			      struct web_response *response)
{
	struct wire_refs refs = refs_of_picture(&delta->picture);
	text_list names = { 0 }; /* borrowed */

	for (size_t i = 0; i < delta->changes.count; i++)
		if (strcmp(delta->changes.items[i].name, "HEAD") != 0)
			vec_add(&names, delta->changes.items[i].name);
	response->content_type = WIRE_DELTA_TYPE;
	wire_delta_render(&refs, &names, &delta->pack, &response->body);
	vec_clear(&names);
}

static struct metric *refs_deltas(void)
{
	return metric_counter(
		"refrelay_deltas_total",
		"Changes and first copies that secondaries asked for in one request.",
		"state");
}

static void refs_delta_count(bool is_given)
{
	metric_add(metric_at(refs_deltas(), is_given ? "given" : "refused"), 1);
}

void web_refs_begin_metrics(void)
{
	metric_begin(refs_deltas(), METRIC_LIST("given", "refused"), NULL);
}

/* Whatever went wrong, a fetch may do; and says what is wrong if it does not. */
static void refs_delta_try(struct refs_delta *delta, struct web_response *response)
{
	struct err why;
	bool is_given = wire_delta_read_question(delta->request->body, &delta->question,
						 &why) == 0 &&
			refs_delta_find_changes(delta, &why) == 0 &&
			refs_delta_pack(delta, &why) == 0;

	refs_delta_count(is_given);
	if (is_given)
		refs_delta_answer(delta, response);
	else if (refs_delta_is_first(delta))
		refs_answer(delta->request, &delta->picture, response);
	else
		web_answer_problem(response, 409, WIRE_DELTA_UNAVAILABLE, why.text,
				   "take the refs and fetch");
}

static int refs_post_delta(const struct web_request *request,
			   struct web_response *response, struct err *err)
{
	struct refs_delta delta = { .request = request, .pack = STR_INIT };
	int result;

	if (refs_take_picture(request, &delta.picture, response, &result, err))
		refs_delta_try(&delta, response);
	refs_delta_clear(&delta);
	return result;
}

const struct web_route web_refs_routes[] = {
	{ "GET", "/api/v1/repositories/{name}/refs", WEB_SITE, WEB_BODY_NONE, refs_get },
	{ "POST", "/api/v1/repositories/{name}/delta", WEB_SITE, WEB_BODY_MEMORY,
	  refs_post_delta },
	{ 0 },
};
