#include "web/rows.h"

#include "base/clock.h"
#include "change/inventory.h"
#include "replicable/name.h"
#include "report/report_blobs.h"
#include "web/api.h"

#define REVERIFY_AT_LEAST_MS 60000
#define RELEASE_BODY_MAX (1u << 16)

static const char *rows_get_kind(const struct web_request *request)
{
	return request->kind ? request->kind : KIND_REPOSITORY;
}

static bool rows_is_repository(const struct web_request *request)
{
	return kind_is_repository(rows_get_kind(request));
}

/* False, with the answer made: the site has no such kind. */
static bool has_kind(const struct web_request *request, struct web_response *response)
{
	if (!request->kind)
		return true;
	return api_kind(request, response) != NULL;
}

/* A row that is not there is answered. */
static int row_failed(const struct web_request *request, struct web_response *response,
		      const struct err *err)
{
	if (rows_is_repository(request))
		return api_repository_failed(response, err);
	if (err->class != ERR_MISSING)
		return -1;
	web_answer_problem(response, 404, WIRE_BLOB_NOT_FOUND, err->text, err->remedy);
	return 0;
}

/* Ages are told by the clock that the changes were stamped with. */
static int64_t now_of(const struct web_services *services)
{
	return services->primary ? primary_now_ms(services->primary) : clock_wall_ms();
}

/* The header may list several tags, also weak ones; ours has quotes around it. */
static bool has_this_etag(const struct web_request *request, const char *etag)
{
	const char *header = web_header(request, "If-None-Match");

	return header && strstr(header, etag);
}

static int list_inventory(const struct web_request *request, size_t limit,
			  struct web_response *response, struct err *err)
{
	struct inventory_tags *tags = request->services->inventory_tags;
	struct store *store = request->services->store;
	const char *kind = rows_get_kind(request);
	const char *state = web_query(request, "state");
	const struct page_question question = {
		.after = web_query(request, "after"),
		.limit = limit,
		.search = web_query(request, "search"),
		.is_failing_only = state && strcmp(state, "failed") == 0,
	};
	struct inventory_page page;
	struct inventory_tag tag;

	if (!inventory_tags_now(tags, kind, &tag) &&
	    inventory_tags_look(tags, kind, &tag, err) != 0)
		return -1;
	if (tag.scanned == SCANNED_NOTHING) {
		web_answer_problem(
			response, 503, WIRE_NOT_SCANNED,
			rows_is_repository(request)
				? "the first scan of the repositories is not finished"
				: "the first scan of these blobs is not finished",
			"wait: it is tried again by itself");
		return 0;
	}
	if (!question.search && !question.is_failing_only &&
	    has_this_etag(request, tag.etag)) {
		web_add_header(response, "ETag", "%s", tag.etag);
		response->status = 304;
		return 0;
	}
	if (inventory_read(store, kind, &question, &page, err) != 0)
		return -1;
	if (!question.search && !question.is_failing_only)
		web_add_header(response, "ETag", "%s", page.etag);
	web_answer_json(response, 200, wire_inventory_json(kind, &page));
	inventory_page_clear(&page);
	return 0;
}

/* A state's name, or one of the words for rows that wait for a person or are to go. */
static int rows_read_state(const char *word, struct registry_filter *filter,
			   struct err *err)
{
	filter->state = REGISTRY_ANY;
	if (!word)
		return 0;
	for (int i = 0; i < REGISTRY_STATES; i++)
		if (strcmp(word, registry_state_name((enum registry_state)i)) == 0)
			filter->state = i;
	filter->with_unverifiable = filter->state == REGISTRY_FAILED;
	filter->held_only = strcmp(word, "held") == 0;
	filter->gone_only = strcmp(word, "gone") == 0;
	filter->unheld_only = strcmp(word, "waiting") == 0;
	if (filter->unheld_only)
		filter->state = REGISTRY_PENDING;
	if (filter->state != REGISTRY_ANY || filter->held_only || filter->gone_only)
		return 0;
	return err_set(err, ERR_CONFIG,
		       "unknown state \"%s\"; use pending, started, synced, failed, "
		       "missing_on_primary, held, waiting or gone",
		       word);
}

/* One row more than is answered tells whether there is a next page. */
static int list_registry(const struct web_request *request, size_t limit,
			 struct web_response *response, struct err *err)
{
	const struct web_services *services = request->services;
	struct registry_filter filter = {
		.kind = rows_get_kind(request),
		.after = web_query(request, "after"),
		.limit = limit + 1,
		.search = web_query(request, "search"),
	};
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	int64_t now = now_of(services);

	if (rows_read_state(web_query(request, "state"), &filter, err) != 0 ||
	    registry_list(services->store, &filter, &rows, err) != 0)
		return -1;
	json_t *page = json_object(), *array = json_array();
	for (size_t i = 0; i < rows.count && i < limit; i++)
		json_array_append_new(array, report_row_json(&rows.items[i], now));
	json_put(page, wire_inventory_member(filter.kind), array);
	if (rows.count > limit)
		json_put_text(page, "next", rows.items[limit - 1].name);
	web_answer_json(response, 200, page);
	return 0;
}

/* A primary's, or the LFS objects of a site that stands alone. */
static bool rows_are_origin(const struct web_request *request)
{
	const enum site_role role = request->services->role;

	return role == SITE_PRIMARY ||
	       (role == SITE_STANDALONE && !rows_is_repository(request));
}

static int refuse_standalone(struct web_response *response)
{
	api_wrong_role(response, "a standalone site replicates nothing");
	return 0;
}

/* A secondary that compares everything asks for no events meanwhile. */
static void rows_note_follower(const struct web_request *request)
{
	struct followers *followers = request->services->followers;

	if (request->site[0] && followers)
		followers_seen(followers, request->site, NULL);
}

int rows_list(const struct web_request *request, struct web_response *response,
	      struct err *err)
{
	struct registry_filter ignored;
	size_t limit;

	if (!has_kind(request, response))
		return 0;
	/* A primary's rows have no such states; but what is wrong everywhere is no state.
	 */
	if (api_limit(request, &limit, err) != 0 ||
	    rows_read_state(web_query(request, "state"), &ignored, err) != 0)
		return -1;
	rows_note_follower(request);
	if (rows_are_origin(request))
		return list_inventory(request, limit, response, err);
	if (request->services->role == SITE_SECONDARY)
		return list_registry(request, limit, response, err);
	return refuse_standalone(response);
}

/* The row as this site's role keeps it. */
int rows_get(const struct web_request *request, struct web_response *response,
	     struct err *err)
{
	const struct web_services *services = request->services;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	json_t *object = NULL;

	if (services->role == SITE_STANDALONE && rows_is_repository(request))
		return refuse_standalone(response);
	if (!has_kind(request, response))
		return 0;
	if (rows_are_origin(request))
		object = inventory_row(services->store, rows_get_kind(request),
				       request->name, err);
	else if (registry_get(services->store, rows_get_kind(request), request->name,
			      &row, err) == 0)
		object = report_row_json(&row, now_of(services));
	if (!object)
		return row_failed(request, response, err);
	if (rows_is_repository(request) &&
	    report_lfs_put(services->store, request->name, object, err) != 0) {
		json_decref(object);
		return -1;
	}
	web_answer_json(response, 200, object);
	return 0;
}

/* That the copy is deleted, too, is decided at the machine that has it. */
static int rows_remedy_deleted(const struct registry_row *row, struct err *err)
{
	const bool is_blob = !kind_is_repository(row->kind);
	AUTO_FREE char *command =
		xasprintf("if that is right, run on this machine: refrelay %s%s",
			  is_blob ? "blob remove --type " : "repository remove",
			  is_blob ? row->kind : "");

	return name_remedy(err, command, row->name);
}

static int rows_refuse_deleted(const struct registry_row *row, struct err *err)
{
	err_set(err, ERR_CONFLICT, "%s: the primary deleted it", row->name);
	return rows_remedy_deleted(row, err);
}

/* What is asked of a row. With `may` only of one that it takes: -1 with *err else. */
struct wish {
	const char *kind, *name;
	unsigned wishes;
	int (*may)(const struct wish *wish, const struct registry_row *row,
		   struct err *err);
	const char *held_reason; /* that is to be let go; borrowed */
	bool is_retry;           /* of what failed last: the copy, or its verification */
};

static int ask_for(struct store_tx *tx, void *arg, struct err *err)
{
	const struct wish *wish = arg;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	int found = registry_get_in(tx, wish->kind, wish->name, &row, err);

	if (found < 0)
		return -1;
	if (found == 0)
		return err_set(err, ERR_MISSING, "no such %s: \"%s\"",
			       kind_noun(wish->kind), wish->name);
	if (wish->may && wish->may(wish, &row, err) != 0)
		return -1;
	/* It would be wanted again, and go to the trash when the primary shows it not. */
	if (row.is_gone)
		return rows_refuse_deleted(&row, err);
	const struct registry_move move = {
		.id = row.id,
		.event = wish->is_retry && row.state == REGISTRY_SYNCED
				 ? REGISTRY_REVERIFY
				 : REGISTRY_ASKED, /* whatever there is: at once */
		.wishes = wish->wishes,
	};
	return registry_move_in(tx, &move, err) < 0 ? -1 : 0;
}

static int ask_registry(const struct web_request *request, const struct wish *asked,
			struct web_response *response, struct err *err)
{
	const struct web_services *services = request->services;
	struct wish wish = *asked;

	if (!api_needs_role(request, SITE_SECONDARY, response) ||
	    !has_kind(request, response))
		return 0;
	wish.kind = rows_get_kind(request);
	wish.name = request->name;
	if (store_write(services->store, ask_for, &wish, err) != 0)
		return row_failed(request, response, err);
	pull_wake(services->pull);
	return rows_get(request, response, err);
}

int rows_sync(const struct web_request *request, struct web_response *response,
	      struct err *err)
{
	return ask_registry(request, &(struct wish){ 0 }, response, err);
}

int rows_resync(const struct web_request *request, struct web_response *response,
		struct err *err)
{
	return ask_registry(request, &(struct wish){ .wishes = REGISTRY_WISHES_RESYNC },
			    response, err);
}

static int may_retry(const struct wish *wish, const struct registry_row *row,
		     struct err *err)
{
	const bool is_unverifiable = row->state == REGISTRY_SYNCED && row->failure_class;

	(void)wish;
	if (!row->is_gone && !row->held_reason &&
	    (row->state == REGISTRY_FAILED || is_unverifiable ||
	     row->state == REGISTRY_MISSING_ON_PRIMARY))
		return 0;
	return err_set(err, ERR_CONFLICT, "%s does not fail: it is %s", row->name,
		       report_row_word(row));
}

int rows_retry(const struct web_request *request, struct web_response *response,
	       struct err *err)
{
	return ask_registry(request, &(struct wish){ .may = may_retry, .is_retry = true },
			    response, err);
}

/* What is let go is what somebody has read: the reason of a row may be another by now. */
static int may_release(const struct wish *wish, const struct registry_row *row,
		       struct err *err)
{
	if (!row->held_reason)
		return err_set(err, ERR_CONFLICT, "%s is not held: it is %s", row->name,
			       report_row_word(row));
	if (strcmp(row->held_reason, wish->held_reason) != 0) {
		err_set(err, ERR_CONFLICT, "%s is held for another reason: %s", row->name,
			row->held_reason);
		return err_remedy(err, "read the row again, then decide");
	}
	if (!row->is_gone)
		return 0;
	err_set(err, ERR_CONFLICT,
		"the primary deleted %s: releasing it would delete the copy", row->name);
	return rows_remedy_deleted(row, err);
}

/* {"held_reason": TEXT} */
int rows_release(const struct web_request *request, struct web_response *response,
		 struct err *err)
{
	struct wish wish = { .wishes = REGISTRY_WISH_FORCE, .may = may_release };
	json_auto_t *body = json_parse_object(request->body->data, request->body->len,
					      RELEASE_BODY_MAX, err);

	if (!body) {
		err->class = ERR_CONFIG;
		return -1;
	}
	wish.held_reason = json_string_value(json_object_get(body, "held_reason"));
	if (!wish.held_reason)
		return err_set(
			err, ERR_CONFIG,
			"send {\"held_reason\": TEXT} with the reason that the row "
			"shows");
	return ask_registry(request, &wish, response, err);
}

/* One that was verified a moment ago is not verified again: its row is the answer. */
static int reverify_origin(const struct web_request *request,
			   struct web_response *response, struct err *err)
{
	const struct web_services *services = request->services;

	if (verify_origin_ask_kind(services->store, rows_get_kind(request), request->name,
				   REVERIFY_AT_LEAST_MS, err) == 0)
		verify_origin_wake(services->verify_origin);
	else if (err->class != ERR_BUSY)
		return row_failed(request, response, err);
	return rows_get(request, response, err);
}

static int reverify_copy(const struct web_request *request, struct web_response *response,
			 struct err *err)
{
	const struct web_services *services = request->services;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct registry_move move = { .event = REGISTRY_REVERIFY };

	if (registry_get(services->store, rows_get_kind(request), request->name, &row,
			 err) != 0)
		return row_failed(request, response, err);
	if (row.is_gone)
		return rows_refuse_deleted(&row, err);
	move.id = row.id;
	if (registry_move(services->store, &move, err) != 0)
		return row_failed(request, response, err);
	pull_wake(services->pull);
	return rows_get(request, response, err);
}

/* Between sites it is asked of primaries only: what a secondary does is its operator's.
 */
int rows_reverify(const struct web_request *request, struct web_response *response,
		  struct err *err)
{
	if (!has_kind(request, response))
		return 0;
	if (rows_are_origin(request))
		return reverify_origin(request, response, err);
	if (!api_needs_role(request, SITE_SECONDARY, response))
		return 0;
	if (!request->site[0])
		return reverify_copy(request, response, err);
	web_answer_problem(response, 403, "FORBIDDEN",
			   "only an operator may ask for this",
			   "send an operator's token");
	return 0;
}
