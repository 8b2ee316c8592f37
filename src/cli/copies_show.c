#include "base/clock.h"
#include "base/json.h"
#include "change/inventory.h"
#include "cli/cli.h"
#include "cli/copies.h"
#include "git/object_store.h"
#include "job/job.h"
#include "pull/copy_kind.h"
#include "pull/pull.h"
#include "replicable/name.h"
#include "report/report.h"
#include "report/report_blobs.h"
#include "serve/find.h"
#include "store/site_value.h"
#include "upkeep/copies_root.h"
#include "upkeep/removal.h"

#define AT(kind, member) CLI_AT(kind, struct copies_call, member)

enum { ANY = CLI_ANY_NUMBER };

static const char *const failed[] = { "failed", NULL };
static const char asking[] = "sync resync reverify remove";
static const char waiting[] = "sync resync reverify";
static const char takes[] = "list, show, sync, resync, reverify or remove";
static const char list_help[] = "list all, or those selected by --state or --failed";
static const char show_help[] = "everything known about each";
static const char sync_help[] = "copy now instead of at the next retry";
static const char wait_help[] =
	"sync, resync, reverify: wait for the result; exit status 1 if it\nfailed";

static const struct cli_option blob_rows[] = {
	{ "state", 0, "S",
	  "pending, started, synced, failed, missing_on_primary, or held, gone",
	  AT(CHOICE, state), .words = copies_states, .excludes = "all",
	  .heading = "\nWhich blobs: ID..., or\n" },
	{ "failed", 0, NULL, "the same as --state failed", AT(CHOICE, state),
	  .words = failed, .excludes = "all" },
	{ "all", 0, NULL, "all", AT(FLAG, takes_all) },
	{ "type", 0, "T", "of this kind only; needed with ID if there are several",
	  AT(TEXT, type), .heading = "\n" },
	{ "wait", 0, NULL, wait_help, AT(FLAG, waits), .verbs = waiting },
	{ "no-progress", 0, NULL, "no progress line, not even on a terminal",
	  AT(FLAG, is_quiet), .verbs = waiting, .needs = "wait" },
	{ "dry-run", 0, NULL, "only print what would be done", AT(FLAG, is_dry),
	  .verbs = asking },
	CLI_JSON(struct copies_call),
	{ 0 },
};

static const struct cli_verb blob_verbs[] = {
	{ "list", 0, ANY, .help = list_help },
	{ "show", 1, ANY, "at least one ID", "ID...", show_help },
	{ "sync", 0, ANY, .help = sync_help },
	{ "resync", 0, ANY, .help = "copy now, ignoring records: compare and verify" },
	{ "reverify", 0, ANY,
	  .help = "read the file again and compare it with the primary" },
	{ "remove", 0, ANY,
	  .help = "move the copy to the trash and forget it; if the primary still\nhas "
		  "the blob, it is copied again" },
	{ 0 },
};

const struct cli_options blob_options = {
	.rows = blob_rows,
	.verbs = blob_verbs,
	.takes = takes,
	.column = 17,
	.intro = "At a primary: list, show, reverify ID...\n\n",
};

static const struct cli_option repository_rows[] = {
	{ "state", 0, "S",
	  "pending, started, synced, failed, missing_on_primary, or held, gone",
	  AT(CHOICE, state), .words = copies_states, .excludes = "all",
	  .heading = "\nWhich repositories: NAME..., or\n" },
	{ "failed", 0, NULL, "the same as --state failed", AT(CHOICE, state),
	  .words = failed, .excludes = "all" },
	{ "all", 0, NULL, "all", AT(FLAG, takes_all) },
	{ "force", 0, NULL,
	  "sync, resync: carry out what is held (deletes refs, drops commits)",
	  AT(FLAG, is_forced), .verbs = "sync resync", .heading = "\n" },
	{ "wait", 0, NULL, wait_help, AT(FLAG, waits), .verbs = waiting },
	{ "no-progress", 0, NULL, "accepted for scripts: no progress is shown",
	  AT(FLAG, is_quiet), .verbs = waiting, .needs = "wait" },
	{ "dry-run", 0, NULL, "only print what would be done", AT(FLAG, is_dry),
	  .verbs = asking },
	CLI_JSON(struct copies_call),
	{ 0 },
};

static const struct cli_verb repository_verbs[] = {
	{ "list", 0, ANY, .help = list_help },
	{ "show", 1, ANY, "at least one NAME", "NAME...", show_help },
	{ "sync", 0, ANY, .help = sync_help },
	{ "resync", 0, ANY,
	  .help = "copy now, ignoring records: compare and verify everything" },
	{ "reverify", 0, ANY,
	  .help = "read the copy again and compare it with the primary" },
	{ "remove", 0, ANY,
	  .help = "move the copy to the trash and forget it; if the primary still\nhas "
		  "the repository, it is copied again" },
	{ 0 },
};

const struct cli_options repository_options = {
	.rows = repository_rows, .verbs = repository_verbs, .takes = takes, .column = 17
};

struct discarding {
	struct copies_call *call;
	const struct registry_row *row;
};

static int discard_it(void *arg, const struct removal_copy *copy, struct err *err)
{
	const struct discarding *this = arg;
	const struct kind *kind = kinds_find(&this->call->types, this->row->kind);

	if (copies_root_check_copy(this->call->data.store, kind->type, kind->path,
				   copy->name, err) != 0)
		return -1;
	return kind->copies->discard(kind, copy->name, err);
}

static int cli_blob_remove(struct job *job, void *arg, struct err *err)
{
	struct discarding *this = arg;
	struct removal_copy copy = { .name = this->row->name };
	const struct removal_batch removal = { .store = this->call->data.store,
					       .kind = this->row->kind,
					       .copies = &copy,
					       .count = 1,
					       .is_ordered = true,
					       .takes_wanted = !this->row->is_gone,
					       .discard = discard_it,
					       .arg = this };

	(void)job;
	if (removal_run_batch(&removal, err) != 0)
		return -1;
	*err = copy.why;
	return copy.why.class == ERR_NONE ? 0 : -1;
}

static int cli_blob_discard_copy(struct copies_call *call, const struct registry_row *row,
				 const struct stop *stop, struct err *err)
{
	struct discarding this = { .call = call, .row = row };

	return job_run(&(struct job_request){ .leases = call->data.leases,
					      .kind = row->kind,
					      .name = row->name,
					      .operation = "remove",
					      .wait_ms = lease_manager_wait_ms(
						      call->data.leases),
					      .stop = stop,
					      .run = cli_blob_remove,
					      .arg = &this },
		       err);
}

static char *cli_blob_read_id(const char *word)
{
	return xstrdup(word);
}

int cli_blob(struct cli *cli, char **argv)
{
	static const struct copies_command command = { .name = "blob",
						       .one = "blob",
						       .all = "blobs",
						       .word = "ID",
						       .has_types = true,
						       .name_of = cli_blob_read_id,
						       .discard = cli_blob_discard_copy };

	return copies_run(cli, &command, argv);
}

static int cli_repository_discard_copy(struct copies_call *call,
				       const struct registry_row *row,
				       const struct stop *stop, struct err *err)
{
	return removal_run(&(struct removal_request){ .store = call->data.store,
						      .leases = call->data.leases,
						      .root = call->site.repositories,
						      .kind = KIND_REPOSITORY,
						      .name = row->name,
						      .wait_ms = lease_manager_wait_ms(
							      call->data.leases),
						      .stop = stop,
						      .is_ordered = true,
						      .takes_wanted = !row->is_gone },
			   err);
}

int cli_repository(struct cli *cli, char **argv)
{
	static const struct copies_command command = {
		.name = "repository",
		.one = "repository",
		.all = "repositories",
		.word = "NAME",
		.name_of = name_of_path,
		.discard = cli_repository_discard_copy
	};

	return copies_run(cli, &command, argv);
}

struct line {
	const char *kind, *name, *word;
	const char *rest;   /* NULL: nothing more is said */
	const char *remedy; /* for that; may be NULL */
	int64_t size;
};

static void print_line(const struct copies_call *call, const struct line *said)
{
	AUTO_STR struct str line = STR_INIT;
	AUTO_STR struct str size = STR_INIT;

	str_addf(&line, "%-18s  ", said->word);
	if (call->command->has_types) {
		report_size(said->size, &size);
		str_addf(&line, "%-8s  %10s  ", said->kind, size.data);
	}
	str_add_printable(&line, said->name);
	if (said->rest) {
		str_add(&line, "  (");
		str_add_printable(&line, said->rest);
		if (said->remedy && *said->remedy) {
			str_add(&line, "; hint: ");
			str_add_printable(&line, said->remedy);
		}
		str_add(&line, ")");
	}
	puts(line.data);
}

static int add_row(struct copies_call *call, struct registry_row *row, void *arg,
		   struct err *err)
{
	(void)err;
	if (call->is_json)
		json_array_append_new(arg, report_row_json(row, call->now));
	else
		print_line(call,
			   &(struct line){ .kind = row->kind,
					   .name = row->name,
					   .word = report_row_word(row),
					   .rest = row->held_reason ? row->held_reason
								    : row->failure,
					   .remedy = row->remedy,
					   .size = (int64_t)row->size });
	return 0;
}

/* Lags are told by the clock that the changes were stamped with: the primary's. */
static int copies_read_now(struct copies_call *call, struct err *err)
{
	AUTO_STR struct str skew_ms = STR_INIT;

	if (site_value_read(call->data.store, PULL_SKEW, &skew_ms, err) < 0)
		return -1;
	call->now = clock_wall_ms() + strtoll(skew_ms.data, NULL, 10);
	return 0;
}

int copies_list(struct copies_call *call, struct err *err)
{
	json_auto_t *object = json_object();
	json_t *array = json_array();
	int status;

	json_put(object, call->command->all, array);
	if (copies_read_now(call, err) != 0)
		return -1;
	status = copies_walk(call, add_row, array, err);
	if (status >= 0 && call->is_json)
		json_write(stdout, object);
	return status;
}

/* All members of the JSON object that say something, a line each. */
static void print_members(const json_t *object)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)object, key, value)
	{
		AUTO_STR struct str text = STR_INIT;
		if (json_is_null(value))
			continue;
		if (json_is_string(value))
			str_add(&text, json_string_value(value));
		else
			json_render(value, &text);
		cli_print("%-26s %s", key, text.data);
	}
}

/* Of several, JSON is one object all the same: copies_show_end() prints it. */
static void print_object(struct copies_call *call, json_t *object)
{
	if (call->shown) {
		json_array_append(call->shown, object);
	} else if (call->is_json) {
		json_write(stdout, object);
	} else {
		if (call->shown_count++ > 0)
			puts("");
		print_members(object);
	}
}

static void copies_show_begin(struct copies_call *call)
{
	if (call->is_json && call->name_count > 1)
		call->shown = json_array();
}

static int copies_show_end(struct copies_call *call, int status)
{
	json_auto_t *object = json_object();

	if (!call->shown)
		return status;
	json_put(object, call->command->all, TAKE(call->shown));
	if (status >= 0)
		json_write(stdout, object);
	return status;
}

/* Why its changes are fetched by Git, as far as this site's own repository decides it. */
static void put_fetched_by_git(const char *root, const char *name, json_t *object)
{
	AUTO_FREE char *path = NULL;
	AUTO_REPO struct repo repo = REPO_INIT;
	struct err err;
	AUTO_CLOSE int dir = find_repository(root, name, &path, ERR_IGNORED);

	if (dir < 0 || repo_open(dir, ".", &repo, ERR_IGNORED) != 0)
		return;
	json_put_text(object, "fetched_by_git",
		      object_store_check(&repo, &err) == 0 ? NULL : err.text);
}

/* What it names of Git LFS, and how it travels. */
static int put_repository(const struct copies_call *call, const char *kind,
			  const char *name, json_t *object, struct err *err)
{
	if (!kind_is_repository(kind))
		return 0;
	put_fetched_by_git(call->site.repositories, name, object);
	return report_lfs_put(call->data.store, name, object, err);
}

static int show_row(struct copies_call *call, struct registry_row *row, void *arg,
		    struct err *err)
{
	json_auto_t *object = report_row_json(row, call->now);

	(void)arg;
	if (put_repository(call, row->kind, row->name, object, err) != 0)
		return -1;
	print_object(call, object);
	return 0;
}

int copies_show(struct copies_call *call, struct err *err)
{
	if (copies_read_now(call, err) != 0)
		return -1;
	copies_show_begin(call);
	return copies_show_end(call, copies_walk(call, show_row, NULL, err));
}

/* A blob that was not read yet is there, but nobody knows what is in it. */
static const char *word_of_origin(const struct copies_call *call, const json_t *row)
{
	if (json_is_string(json_object_get(row, "failure")))
		return "failing";
	if (!call->command->has_types)
		return "readable";
	return json_is_string(json_object_get(row, "verified_at")) ? "read"
								   : "not read yet";
}

static void list_origin_row(const struct copies_call *call, const char *kind, json_t *row,
			    json_t *array)
{
	const char *failure = json_string_value(json_object_get(row, "failure"));

	if (call->state && !failure)
		return;
	if (!call->is_json) {
		print_line(call, &(struct line){ .kind = kind,
						 .name = json_string_value(
							 json_object_get(row, "name")),
						 .word = word_of_origin(call, row),
						 .rest = failure,
						 .remedy = json_string_value(
							 json_object_get(row, "remedy")),
						 .size = json_integer_value(
							 json_object_get(row, "size")) });
		return;
	}
	if (call->command->has_types)
		json_put_text(row, "kind", kind);
	json_array_append(array, row);
}

static int list_origin_named(struct copies_call *call, const char *name, void *array,
			     struct err *err)
{
	const char *kind = call->kinds.items[0];
	json_auto_t *row = inventory_row(call->data.store, kind, name, err);

	if (row)
		list_origin_row(call, kind, row, array);
	return row ? 0 : -1;
}

static int list_origin_kind(struct copies_call *call, const char *kind, json_t *array,
			    struct err *err)
{
	struct page_question question = { .limit = 1000 };
	struct inventory_page page;
	AUTO_FREE char *after = NULL;

	do {
		question.after = after;
		if (inventory_read(call->data.store, kind, &question, &page, err) != 0)
			return -1;
		for (size_t i = 0; i < page.items.count; i++) {
			json_auto_t *row =
				wire_inventory_item_json(kind, &page.items.items[i]);
			list_origin_row(call, kind, row, array);
		}
		free(TAKE(after));
		after = TAKE(page.next);
		inventory_page_clear(&page);
	} while (after);
	return 0;
}

static int list_origin_all(struct copies_call *call, json_t *array, struct err *err)
{
	for (size_t i = 0; i < call->kinds.count; i++)
		if (list_origin_kind(call, call->kinds.items[i], array, err) != 0)
			return -1;
	return EXIT_DONE;
}

static int list_origin(struct copies_call *call, struct err *err)
{
	json_auto_t *object = json_object();
	json_t *array = json_array();
	int status;

	json_put(object, call->command->all, array);
	status = call->name_count > 0
			 ? copies_walk_names(call, list_origin_named, array, err)
			 : list_origin_all(call, array, err);
	if (status >= 0 && call->is_json)
		json_write(stdout, object);
	return status;
}

static int show_origin_named(struct copies_call *call, const char *name, void *arg,
			     struct err *err)
{
	const char *kind = call->kinds.items[0];
	json_auto_t *row = inventory_row(call->data.store, kind, name, err);

	(void)arg;
	if (!row || put_repository(call, kind, name, row, err) != 0)
		return -1;
	if (call->command->has_types)
		json_put_text(row, "kind", kind);
	print_object(call, row);
	return 0;
}

/* A primary has no copies: nothing to sync or to remove. */
int copies_origin(struct copies_call *call, struct err *err)
{
	if (strcmp(call->verb, "list") == 0) {
		if (call->state && strcmp(call->state, "failed") != 0)
			return cli_usage(
				call->command->name,
				"at a primary, only --state failed is supported");
		return list_origin(call, err);
	}
	if (strcmp(call->verb, "show") == 0) {
		copies_show_begin(call);
		return copies_show_end(
			call, copies_walk_names(call, show_origin_named, NULL, err));
	}
	if (strcmp(call->verb, "reverify") != 0 || call->name_count == 0) {
		err_set(err, ERR_CONFIG, "%s works only at secondaries: this site is %s",
			call->verb,
			call->site.role == SITE_PRIMARY ? "the primary" : "standalone");
		return err_remedy(err, "it supports list, show and reverify %s...",
				  call->command->word);
	}
	return copies_reverify_origin(call, err);
}
