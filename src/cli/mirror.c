/*
 * `refrelay mirror`: what is kept equal to foreign upstreams. `sync` waits for the node
 * that does it.
 */
#include "cli/cli.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/hook_wire.h"
#include "base/json.h"
#include "cli/site.h"
#include "lease/manager.h"
#include "mirror/checked.h"
#include "mirror/checkouts.h"
#include "mirror/lfs_lack.h"
#include "mirror/listed.h"
#include "mirror/marks.h"
#include "mirror/requests.h"
#include "mirror/then_queue.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "report/report.h"
#include "upkeep/checkout.h"
#include "upkeep/maintenance.h"
#include "upkeep/removal.h"

#define LOOK_MS 50
/* A node with a free worker takes a request up within moments. After them, and as often,
 * it is looked at whether others have the mirror. */
#define LATE_MS 1000

struct mirror_call {
	const char *watcher;
	int64_t wait_ms; /* -1: as set */
	bool is_forced, is_json, is_quiet;
	bool is_whole;    /* also what is as it should be is told of */
	const char *word; /* NAME */
	struct site site;
	struct site_data data;
	struct mirrors mirrors;
	const struct mirror *mirror; /* of that name; NULL: the configuration has none */
	bool is_partly; /* one was done; or was brought, its working tree not made */
	bool is_noted;  /* that it waits for a free worker */
	/* Boot ms: when the lease is looked at next; since when each look saw it held, 0:
	 * the last one did not; and when the node was told of the request, or was last
	 * asked why nobody works on it. */
	int64_t look_at, held_since, asked_at;
	struct stop stop;
};

#define AT(kind, member) CLI_AT(kind, struct mirror_call, member)

static const struct cli_option rows[] = {
	{ "as", 0, "WATCHER", "sync: use only the credential of that [watcher]",
	  AT(TEXT, watcher), .verbs = "sync" },
	{ "wait", 0, "TIME",
	  "sync: how long to wait while others work on the mirror\n(default: lease.wait, "
	  "60s)",
	  AT(DURATION, wait_ms), .verbs = "sync" },
	{ "no-progress", 0, NULL, "accepted for scripts: no progress is shown",
	  AT(FLAG, is_quiet), .verbs = "sync" },
	{ "force", 0, NULL,
	  "sync: also carry out what is held, such as many ref deletions",
	  AT(FLAG, is_forced), .verbs = "sync" },
	CLI_JSON(struct mirror_call),
	{ 0 },
};

enum { LIST, SHOW, SYNC, REMOVE };

static const struct cli_verb verbs[] = {
	[LIST] = { .name = "list" },
	[SHOW] = { "show", 1, 1, .operands = "NAME" },
	[SYNC] = { "sync", 1, 1, .operands = "NAME" },
	[REMOVE] = { "remove", 1, CLI_ANY_NUMBER, .operands = "NAME..." },
	{ 0 },
};

const struct cli_options mirror_options = {
	.rows = rows,
	.verbs = verbs,
	.takes = "list, show NAME, sync NAME, or remove NAME...",
	.column = 18,
};

/* What is told of one: its section, or what its list says; its row; or both. */
struct mirror_shown {
	const struct mirror_call *call;
	const char *name;
	const struct mirror *mirror;    /* NULL: it has neither any more */
	const struct registry_row *row; /* NULL: no node has begun with it */
	int64_t checked_at;
	bool has_lfs;         /* its objects of LFS are brought */
	struct lfs_lack lack; /* then */
};

static bool mirror_is_lacking(const struct mirror_shown *shown)
{
	return shown->has_lfs && shown->row &&
	       report_mirror_is_lacking(shown->row, &shown->lack);
}

static int64_t mirror_last_equal(const struct mirror_shown *shown)
{
	return report_mirror_equal_at(clock_wall_ms(), shown->checked_at,
				      shown->row ? shown->row->last_success_at : 0);
}

static json_t *mirror_watcher_json(const struct mirror_shown *shown,
				   const struct watcher *watcher)
{
	json_t *object = json_object();
	AUTO_FREE char *message = NULL;
	int64_t refused_at = 0;

	if (credential_mark_read(shown->call->data.store, shown->name, watcher->name,
				 &refused_at, &message, ERR_IGNORED) != 0)
		refused_at = 0;
	json_put_text(object, "name", watcher->name);
	json_put_time(object, "refused_at", refused_at);
	json_put_text(object, "failure", message);
	return object;
}

static json_t *mirror_watchers_json(const struct mirror_shown *shown)
{
	json_t *array = json_array();
	const struct watcher *watcher;

	for (size_t at = 0;
	     shown->mirror &&
	     (watcher = mirrors_next_watcher(&shown->call->mirrors, shown->mirror, &at));)
		json_array_append_new(array, mirror_watcher_json(shown, watcher));
	return array;
}

/* false: nobody is told of what it brings. */
static bool mirror_look_at_then(const struct mirror_shown *shown, struct then_look *look)
{
	*look = (struct then_look){ 0 };
	return shown->mirror && shown->mirror->then &&
	       then_queue_look(shown->call->site.data, shown->name, look, ERR_IGNORED) ==
		       0;
}

static json_t *mirror_then_json(const struct mirror_shown *shown)
{
	json_t *object = json_object();
	struct then_look look;

	if (!mirror_look_at_then(shown, &look)) {
		json_decref(object);
		return json_null();
	}
	json_put_number(object, "waiting", (int64_t)look.waiting);
	json_put_time(object, "failing_since", look.since);
	json_put_time(object, "next_at", look.next_at);
	json_put_text(object, "class", look.class);
	json_put_text(object, "message", look.message);
	json_put_text(object, "remedy", look.remedy);
	then_look_clear(&look);
	return object;
}

static void mirror_put_message(json_t *object, const char *key, const char *message)
{
	if (message)
		json_put_message(object, key, message);
	else
		json_put_text(object, key, NULL);
}

static json_t *mirror_lfs_json(const struct mirror_shown *shown)
{
	json_t *object;

	if (!shown->has_lfs)
		return json_null();
	object = json_object();
	json_put_number(object, "absent", shown->lack.absent);
	json_put_number(object, "missing", shown->lack.missing);
	json_put_time(object, "retry_at",
		      shown->lack.next_at > 0 ? shown->lack.next_at : 0);
	json_put_text(object, "class", shown->lack.class);
	mirror_put_message(object, "message", shown->lack.message);
	json_put_text(object, "remedy", shown->lack.remedy);
	return object;
}

/* false: never. */
static bool mirror_read_maintenance(const struct mirror_shown *shown,
				    struct maintenance_last *last)
{
	AUTO_FREE char *path = name_to_copy(shown->call->site.repositories, shown->name);
	AUTO_CLOSE int dir = dir_open(AT_FDCWD, path, ERR_IGNORED);

	return dir >= 0 && maintenance_read_last(dir, last);
}

static json_t *mirror_maintenance_json(const struct mirror_shown *shown)
{
	struct maintenance_last last;
	json_t *object;

	if (!mirror_read_maintenance(shown, &last))
		return json_null();
	object = json_object();
	json_put_time(object, "at", last.at);
	json_put_seconds(object, "took", last.took_ms);
	json_put_number(object, "packs", (int64_t)last.packs);
	return object;
}

static json_t *mirror_json(const struct mirror_shown *shown)
{
	AUTO_FREE char *path = name_to_copy(shown->call->site.repositories, shown->name);
	json_t *object =
		shown->row ? report_row_json(shown->row, clock_wall_ms()) : json_object();

	json_put_text(object, "name", shown->name);
	json_put_text(object, "url", shown->mirror ? shown->mirror->url : NULL);
	json_put_text(object, "path", path);
	json_put_text(object, "list",
		      shown->mirror && shown->mirror->list ? shown->mirror->list->name
							   : NULL);
	json_put_number(object, "depth",
			shown->mirror ? (int64_t)shown->mirror->depth : 0);
	json_put(object, "watchers", mirror_watchers_json(shown));
	json_put_time(object, "checked_at", mirror_last_equal(shown));
	json_put(object, "then", mirror_then_json(shown));
	json_put(object, "checkout",
		 mirror_checkout_json(shown->call->data.store,
				      shown->call->site.repositories, shown->name,
				      shown->mirror));
	json_put(object, "lfs", mirror_lfs_json(shown));
	json_put(object, "maintenance", mirror_maintenance_json(shown));
	if (mirror_is_lacking(shown))
		report_mirror_put_lacking(&shown->lack, object);
	return object;
}

static const char *mirror_word(const struct mirror_shown *shown)
{
	if (!shown->mirror && !(shown->row && shown->row->is_gone))
		return "not configured";
	if (mirror_is_lacking(shown))
		return report_mirror_lacking_state(&shown->lack);
	return shown->row ? report_row_word(shown->row) : "not begun";
}

static void mirror_print_refused(const struct mirror_shown *shown)
{
	const struct watcher *watcher;

	for (size_t at = 0;
	     shown->mirror && (watcher = mirrors_next_watcher(&shown->call->mirrors,
							      shown->mirror, &at));) {
		AUTO_FREE char *message = NULL;
		int64_t refused_at;
		char text[CLOCK_TEXT_SIZE];
		if (credential_mark_read(shown->call->data.store, shown->name,
					 watcher->name, &refused_at, &message,
					 ERR_IGNORED) != 0 ||
		    refused_at == 0)
			continue;
		clock_format(refused_at, text);
		cli_print("  watcher %s: credential refused since %s: %s", watcher->name,
			  text, message);
	}
}

static void mirror_print_then(const struct mirror_shown *shown)
{
	struct then_look look;
	char since[CLOCK_TEXT_SIZE];

	if (!mirror_look_at_then(shown, &look))
		return;
	if (look.waiting > 0)
		printf("  then: %zu change%s not delivered yet\n", look.waiting,
		       look.waiting == 1 ? " is" : "s are");
	if (look.message) {
		clock_format(look.since, since);
		cli_print("  then: failing since %s (%s): %s", since,
			  look.class ? look.class : "", look.message);
		if (look.remedy && look.remedy[0])
			printf("  hint: %s\n", look.remedy);
	}
	then_look_clear(&look);
}

static void mirror_print_checkout(const struct mirror_shown *shown)
{
	AUTO_MIRROR_CHECKOUT struct mirror_checkout row = { 0 };
	AUTO_FREE char *path = checkout_path(shown->call->site.repositories, shown->name);
	char since[CLOCK_TEXT_SIZE];

	mirror_checkout_read(shown->call->data.store, shown->name, &row, ERR_IGNORED);
	clock_format(row.made_at, since);
	if (row.commit && row.branch && shown->call->is_whole)
		cli_print("  checkout: %s (%.12s of %s, since %s)", path, row.commit,
			  row.branch, since);
	else if (row.commit)
		cli_print("  checkout: %s (%.12s)", path, row.commit);
	else if (shown->mirror && shown->mirror->has_checkout)
		puts("  checkout: none yet");
	if (row.failing_since == 0)
		return;
	clock_format(row.failing_since, since);
	cli_print("  checkout: failing since %s (%s): %s", since,
		  row.class ? row.class : "", row.message ? row.message : "");
	if (row.remedy)
		printf("  hint: %s\n", row.remedy);
}

static void mirror_print_lfs(const struct mirror_shown *shown)
{
	char at[CLOCK_TEXT_SIZE];

	if (!shown->has_lfs)
		return;
	if (shown->lack.next_at < 0) {
		if (shown->call->is_whole)
			puts("  LFS: all objects present");
		return;
	}
	if (!shown->lack.message) {
		puts("  LFS: objects are still to be copied");
		return;
	}
	cli_print("  LFS fails: %s", shown->lack.message);
	if (shown->call->is_whole && shown->lack.next_at > 0) {
		clock_format(shown->lack.next_at, at);
		printf("  LFS: next attempt %s\n", at);
	}
	if (shown->lack.remedy)
		printf("  hint: %s\n", shown->lack.remedy);
}

static void mirror_print_store(const struct mirror_shown *shown)
{
	struct maintenance_last last;
	char at[CLOCK_TEXT_SIZE];

	if (shown->mirror && shown->mirror->depth > 0)
		printf("  depth: %" PRIu64 "\n", shown->mirror->depth);
	if (!mirror_read_maintenance(shown, &last))
		return;
	clock_format(last.at, at);
	printf("  maintained: %s (%zu pack%s)\n", at, last.packs,
	       last.packs == 1 ? "" : "s");
}

static void mirror_print(const struct mirror_shown *shown)
{
	AUTO_STR struct str line = STR_INIT;
	char at[CLOCK_TEXT_SIZE];
	int64_t equal_at = mirror_last_equal(shown);

	str_addf(&line, "%-18s  %s", mirror_word(shown), shown->name);
	if (shown->mirror)
		str_addf(&line, "  %s", shown->mirror->url);
	if (equal_at > 0) {
		clock_format(equal_at, at);
		str_addf(&line, "  (as of %s)", at);
	}
	cli_print("%s", line.data);
	mirror_print_refused(shown);
	mirror_print_lfs(shown);
	mirror_print_then(shown);
	mirror_print_checkout(shown);
	if (shown->call->is_whole)
		mirror_print_store(shown);
	if (!shown->row || (!shown->row->failure && !shown->row->held_reason))
		return;
	if (shown->row->held_reason)
		cli_print("  held: %s", shown->row->held_reason);
	else
		cli_print("  fails: %s", shown->row->failure);
	if (shown->row->remedy)
		printf("  hint: %s\n", shown->row->remedy);
}

static int mirror_tell(const struct mirror_call *call, const char *name,
		       const struct mirror *mirror, json_t *array, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct mirror_shown shown = { .call = call, .name = name, .mirror = mirror };

	if (registry_get(call->data.store, KIND_MIRROR, name, &row, err) == 0)
		shown.row = &row;
	else if (err->class != ERR_MISSING)
		return -1;
	int found = mirror_checked_at(call->data.store, name, &shown.checked_at, err);
	if (found == 0)
		found = lfs_lack_get(call->data.store, name, &shown.lack, err);
	shown.has_lfs = found > 0;
	if (found >= 0 && call->is_json)
		json_array_append_new(array, mirror_json(&shown));
	else if (found >= 0)
		mirror_print(&shown);
	lfs_lack_clear(&shown.lack);
	return found < 0 ? -1 : 0;
}

/* Rows whose section is gone. */
static int mirror_list_others(const struct mirror_call *call, json_t *array,
			      struct err *err)
{
	const struct registry_filter all = { .kind = KIND_MIRROR,
					     .state = REGISTRY_ANY,
					     .limit = INT32_MAX };
	AUTO_REGISTRY_ROWS registry_rows found = { 0 };

	if (registry_list(call->data.store, &all, &found, err) != 0)
		return -1;
	for (size_t i = 0; i < found.count; i++)
		if (!mirrors_find(&call->mirrors, found.items[i].name) &&
		    mirror_tell(call, found.items[i].name, NULL, array, err) != 0)
			return -1;
	return 0;
}

static json_t *mirror_list_json(const struct mirror_list *list,
				const struct listed_state *state)
{
	json_t *object = json_object();

	json_put_text(object, "name", list->name);
	json_put_text(object, "from", upstream_from_words[list->source.from]);
	json_put_text(object, "url", list->source.url);
	json_put_number(object, "mirrors", state->count);
	json_put_time(object, "read_at", state->read_at);
	json_put_time(object, "failed_at", state->failed_at);
	json_put_text(object, "failure_class", state->class);
	json_put_text(object, "failure", state->message);
	json_put_text(object, "remedy", state->remedy);
	return object;
}

static void mirror_list_print(const struct mirror_list *list,
			      const struct listed_state *state)
{
	AUTO_STR struct str line = STR_INIT;
	char at[CLOCK_TEXT_SIZE];

	if (state->read_at > 0) {
		clock_format(state->read_at, at);
		str_addf(&line, "%" PRId64 " (as of %s)", state->count, at);
	} else {
		str_add(&line, "not read yet");
	}
	cli_print("list %s  %s  %s  %s", list->name,
		  upstream_from_words[list->source.from], list->source.url, line.data);
	if (!state->message)
		return;
	cli_print("  fails: %s", state->message);
	if (state->remedy)
		printf("  hint: %s\n", state->remedy);
}

static int mirror_list_lists(const struct mirror_call *call, json_t *array,
			     struct err *err)
{
	for (size_t i = 0; i < call->mirrors.lists.count; i++) {
		const struct mirror_list *list = call->mirrors.lists.items[i];
		AUTO_LISTED_STATE struct listed_state state = { 0 };
		if (listed_read_state(call->data.store, list, &state, err) != 0)
			return -1;
		if (call->is_json)
			json_array_append_new(array, mirror_list_json(list, &state));
		else
			mirror_list_print(list, &state);
	}
	return 0;
}

static int mirror_list(struct mirror_call *call, struct err *err)
{
	json_auto_t *object = json_object();
	json_t *array = json_array(), *lists = json_array();
	int result = 0;

	store_read_at_once(call->data.store);
	json_put(object, "mirrors", array);
	json_put(object, "lists", lists);
	for (const struct mirror *mirror = NULL;
	     result == 0 && (mirror = mirrors_next(&call->mirrors, mirror)) != NULL;)
		result = mirror_tell(call, mirror->name, mirror, array, err);
	if (result == 0)
		result = mirror_list_others(call, array, err);
	if (result == 0)
		result = mirror_list_lists(call, lists, err);
	if (result == 0 && call->is_json)
		json_write(stdout, object);
	return result;
}

static int mirror_refuse_unknown(const struct mirror_call *call, struct err *err)
{
	err_set(err, ERR_MISSING, "no such mirror: \"%s\"", call->word);
	return err_remedy(err, "see refrelay mirror list; to add one, write a [mirror "
			       "\"NAME\"] or [mirrors \"NAME\"] section");
}

/* One that has no section has perhaps a row. */
static int mirror_show(struct mirror_call *call, struct err *err)
{
	AUTO_FREE char *name = mirror_usual_name(call->word);
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	json_auto_t *array = json_array();

	if (!call->mirror &&
	    registry_get(call->data.store, KIND_MIRROR, name, &row, err) != 0)
		return err->class == ERR_MISSING ? mirror_refuse_unknown(call, err) : -1;
	call->is_whole = true;
	if (mirror_tell(call, name, call->mirror, array, err) != 0)
		return -1;
	if (call->is_json)
		json_write(stdout, json_array_get(array, 0));
	return 0;
}

static int mirror_give_up(const struct mirror_call *call,
			  const struct mirror_request *request, const struct err *why,
			  struct err *err)
{
	int result = mirror_request_give_up(call->data.store, request->id, why, err);

	if (result > 0)
		*err = *why;
	return result > 0 ? -1 : result;
}

static int mirror_say_alone(const struct mirror_request *request, struct err *why)
{
	err_set(why, ERR_CONFLICT, "no node is running here that could bring %s",
		request->mirror);
	return err_remedy(why, "start it: refrelay serve");
}

/* Also if it cannot be told. */
static bool mirror_may_be_held(const struct mirror_call *call,
			       const struct mirror_request *request,
			       struct lease_holder *holder)
{
	char key[LEASE_KEY_SIZE];
	struct err err;
	bool is_known;

	*holder = (struct lease_holder){ 0 };
	lease_key_for(call->data.leases, KIND_REPOSITORY,
		      replicable_id(KIND_REPOSITORY, request->mirror), request->mirror,
		      key);
	is_known = lease_inspect(call->data.leases, key, holder, &err) == 0;
	if (is_known && holder->held && !holder->is_dead)
		return true;
	holder->node[0] = '\0';
	return !is_known && err.class != ERR_MISSING;
}

/* Why nobody works on it. 1: it waits for a worker, for as long as that takes; 0: *why
 * says what else it is. An older node does not tell whether it takes mirrors, nor does
 * one that is too slow to answer. */
static int mirror_ask_node(struct mirror_call *call, const struct mirror_request *request,
			   struct err *why)
{
	char answer[sizeof(HOOK_NO_MIRRORS)] = "";

	if (site_wake_to_hear(call->site.data, answer, sizeof(answer)) == 0) {
		mirror_say_alone(request, why);
	} else if (strcmp(answer, HOOK_NO_WORKERS) == 0) {
		err_set(why, ERR_CONFIG,
			"the node updates no mirrors: sync.repositoryCapacity is 0");
		err_remedy(why, "raise it, and reload the node");
	} else if (strcmp(answer, HOOK_NO_MIRRORS) == 0) {
		err_set(why, ERR_CONFIG,
			"the node updates no mirrors: it had none when it started");
		err_remedy(why, "restart it");
	} else if (strcmp(answer, HOOK_MIRRORS) != 0) {
		lease_say_timeout(request->mirror, &(struct lease_holder){ 0 }, why);
	} else {
		if (!call->is_noted)
			cli_note("the node has no free worker for %s yet, see "
				 "sync.repositoryCapacity",
				 request->mirror);
		call->is_noted = true;
		call->asked_at = clock_boot_ms();
		return 1;
	}
	return 0;
}

/* 1: it goes on; 0: *why says why not. */
static int mirror_look(struct mirror_call *call, const struct mirror_request *request,
		       struct err *why)
{
	struct lease_holder holder;
	bool is_held = mirror_may_be_held(call, request, &holder);
	int64_t now = clock_boot_ms();

	call->look_at = now + LATE_MS;
	if (!is_held) {
		call->held_since = 0;
		return now - call->asked_at <= call->wait_ms + LATE_MS
			       ? 1
			       : mirror_ask_node(call, request, why);
	}
	if (call->held_since == 0)
		call->held_since = now;
	if (now - call->held_since < call->wait_ms)
		return 1;
	lease_say_timeout(request->mirror, &holder, why);
	return 0;
}

/* 1: it goes on. */
static int mirror_check_patience(struct mirror_call *call,
				 const struct mirror_request *request, struct err *err)
{
	struct err why;

	if (stop_is_requested(&call->stop))
		err_set(&why, ERR_CANCELED, "interrupted");
	else if (request->state != MIRROR_REQUEST_WAITING ||
		 clock_boot_ms() < call->look_at || mirror_look(call, request, &why) > 0)
		return 1;
	if (mirror_give_up(call, request, &why, err) != 0)
		return -1;
	*err = why; /* the node has it, and brings it to its end */
	return why.class == ERR_CANCELED ? -1 : 1;
}

/* Until it has ended. */
static int mirror_wait_for(struct mirror_call *call, struct mirror_request *request,
			   struct err *err)
{
	AUTO_FREE char *id = xstrdup(request->id);

	for (;;) {
		mirror_request_clear(request);
		if (mirror_request_get(call->data.store, id, request, err) != 0)
			return -1;
		if (request->state == MIRROR_REQUEST_DONE ||
		    request->state == MIRROR_REQUEST_FAILED)
			return 0;
		if (mirror_check_patience(call, request, err) < 0)
			return -1;
		stop_wait(&call->stop, LOOK_MS);
	}
}

static void mirror_print_done(const struct mirror_call *call,
			      const struct mirror_request *request)
{
	AUTO_FREE char *path = name_to_copy(call->site.repositories, request->mirror);

	printf("%s %s %s\n", path, request->branch ? request->branch : "-",
	       request->commit ? request->commit : "-");
}

static void mirror_write_job(const struct mirror_call *call,
			     const struct mirror_request *request)
{
	json_auto_t *object = mirror_request_json(request, call->site.repositories);

	json_write(stdout, object);
}

/* 0: done; else the error that the node met. */
static int mirror_end_sync(struct mirror_call *call, const struct mirror_request *request,
			   struct err *err)
{
	if (call->is_json)
		mirror_write_job(call, request);
	else if (request->state == MIRROR_REQUEST_DONE)
		mirror_print_done(call, request);
	if (request->state == MIRROR_REQUEST_DONE && !request->class)
		return 0;
	call->is_partly = request->state == MIRROR_REQUEST_DONE;
	err_set(err, err_class_of_name(request->class), "%s", request->message);
	err_because(err, err_reason_of_name(request->reason));
	return request->remedy ? err_remedy(err, "%s", request->remedy) : -1;
}

/* What became of one that was not waited for to its end. Returns -1. */
static int mirror_leave_sync(const struct mirror_call *call, const char *id)
{
	AUTO_MIRROR_REQUEST struct mirror_request left = { 0 };

	if (call->is_json &&
	    mirror_request_get(call->data.store, id, &left, ERR_IGNORED) == 0)
		mirror_write_job(call, &left);
	return -1;
}

static int mirror_sync(struct mirror_call *call, struct err *err)
{
	AUTO_MIRROR_REQUEST struct mirror_request request = { 0 };
	const struct watcher *watcher = NULL;
	struct err why;

	if (!call->mirror)
		return mirror_refuse_unknown(call, err);
	if (call->watcher && mirrors_find_watcher(&call->mirrors, call->mirror,
						  call->watcher, &watcher, err) != 0)
		return -1;
	if (call->wait_ms < 0)
		call->wait_ms = lease_manager_wait_ms(call->data.leases);
	request.mirror = xstrdup(call->mirror->name);
	request.watcher = call->watcher ? xstrdup(call->watcher) : NULL;
	request.wait_ms = call->wait_ms;
	request.is_once = true;
	request.wishes = call->is_forced ? REGISTRY_WISH_FORCE : 0;
	call->asked_at = clock_boot_ms();
	call->look_at = call->asked_at + LATE_MS;
	if (mirror_request_add(call->data.store, &request, err) != 0)
		return -1;
	if (site_wake(call->site.data) == 0) {
		mirror_say_alone(&request, &why);
		if (mirror_give_up(call, &request, &why, err) != 0)
			return mirror_leave_sync(call, request.id);
	}
	return mirror_wait_for(call, &request, err) != 0
		       ? mirror_leave_sync(call, request.id)
		       : mirror_end_sync(call, &request, err);
}

static int mirror_refuse_wanted(const struct mirror *mirror, struct err *err)
{
	if (mirror->list) {
		err_set(err, ERR_CONFLICT, "the list %s has %s", mirror->list->name,
			mirror->name);
		return err_remedy(err,
				  "put exclude = %s into [mirrors \"%s\"], restart the "
				  "node: it goes when the list was read twice",
				  mirror->name, mirror->list->name);
	}
	err_set(err, ERR_CONFLICT, "%s has a section [mirror] in the configuration",
		mirror->name);
	return err_remedy(err,
			  "remove the section, restart the node, then remove the mirror");
}

static int mirror_discard(struct mirror_call *call, const char *name, struct err *err)
{
	return removal_run(&(struct removal_request){ .store = call->data.store,
						      .leases = call->data.leases,
						      .root = call->site.repositories,
						      .kind = KIND_MIRROR,
						      .name = name,
						      .wait_ms = lease_manager_wait_ms(
							      call->data.leases),
						      .stop = &call->stop,
						      .is_ordered = true },
			   err);
}

/* By a person's word, under the mirror's lease. */
static int mirror_remove(struct mirror_call *call, struct err *err)
{
	AUTO_FREE char *name = mirror_usual_name(call->word);
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct registry_move gone = { .event = REGISTRY_GONE };

	if (call->mirror)
		return mirror_refuse_wanted(call->mirror, err);
	if (registry_get(call->data.store, KIND_MIRROR, name, &row, err) != 0)
		return err->class == ERR_MISSING ? mirror_refuse_unknown(call, err) : -1;
	gone.id = row.id;
	if (!row.is_gone && registry_move(call->data.store, &gone, err) != 0)
		return -1;
	if (mirror_discard(call, name, err) == 0)
		return listed_forget(call->data.store, name, err);
	return err->class != ERR_LOCK_TIMEOUT
		       ? -1
		       : err_remedy(err,
				    "it stays marked for removal: a node removes it when "
				    "the lease is free, or run the command again");
}

typedef int (*mirror_verb)(struct mirror_call *call, struct err *err);

static int mirror_open(const struct cli *cli, struct mirror_call *call, bool writes,
		       struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;

	if (cli_load_config(cli, &conf, err) != 0 ||
	    site_from_conf(conf, &call->site, err) != 0 ||
	    mirrors_read(conf, &call->mirrors, err) != 0)
		return -1;
	if (writes && site_data_check_owner(call->site.data, err) != 0)
		return -1;
	if (!writes)
		site_note_if_alone(&call->site);
	if ((writes ? site_data_open(&call->site, &call->data, err)
		    : site_data_open_to_read(call->site.data, &call->data, err)) != 0)
		return -1;
	return listed_load(call->data.store, &call->mirrors, err);
}

/* Each, also after one that failed. */
static int mirror_run_each(struct mirror_call *call, const struct cli_operands *operands,
			   mirror_verb run)
{
	int status = EXIT_DONE;
	struct err err;

	for (size_t i = 0; i == 0 || i < operands->count; i++) {
		call->word = operands->items[i];
		call->mirror =
			call->word ? mirrors_find(&call->mirrors, call->word) : NULL;
		if (run(call, &err) >= 0) {
			call->is_partly = true;
			continue;
		}
		int failed = cli_fail(&err);
		if (stop_is_requested(&call->stop))
			return failed;
		if (status == EXIT_DONE)
			status = failed;
	}
	return status != EXIT_DONE && call->is_partly ? EXIT_PARTLY : status;
}

int cli_mirror(struct cli *cli, char **argv)
{
	static const mirror_verb runs[] = { [LIST] = mirror_list,
					    [SHOW] = mirror_show,
					    [SYNC] = mirror_sync,
					    [REMOVE] = mirror_remove };
	struct mirror_call call = { .wait_ms = -1 };
	struct cli_operands operands;
	struct err err;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	if (status >= 0)
		return status;
	cli_catch_signals(&call.stop);
	if (mirror_open(cli, &call, operands.verb_at >= SYNC, &err) == 0)
		status = mirror_run_each(&call, &operands, runs[operands.verb_at]);
	else
		status = cli_fail(&err);
	cli_end_signals(&call.stop);
	site_data_close(&call.data);
	mirrors_clear(&call.mirrors);
	site_clear(&call.site);
	return status;
}
