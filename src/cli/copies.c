#include "cli/copies.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "base/thread.h"
#include "blob/file.h"
#include "blob/incoming.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "pull/copy_kind.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "verify/verify_origin.h"

#define LOOK_EACH_MS 50
#define PAGE_ROWS 1000

struct asked {
	const char *kind; /* borrowed from the call */
	char *name;       /* owned */
	uint64_t size;    /* of a blob */
	int64_t failures; /* of a primary's own, when it was asked for */
};

struct asking {
	size_t done, failed;
	VEC(struct asked) rows; /* with --wait or --json */
	/* Not yet written, up to PAGE_ROWS; each of `moving` is of the same move. */
	VEC(struct registry_move) moves;
	VEC(struct asked) moving;
	struct stop stop;
	struct progress progress; /* of waiting */
};

static unsigned wishes_of(const struct copies_call *call)
{
	unsigned wishes = call->is_forced ? REGISTRY_WISH_FORCE : 0;

	return strcmp(call->verb, "resync") == 0 ? wishes | REGISTRY_WISHES_RESYNC
						 : wishes;
}

static int is_deleted(const struct registry_row *row, struct err *err)
{
	return err_set(err, ERR_CONFLICT,
		       "%s: the primary deleted it; to delete it here, too, use remove",
		       row->name);
}

/* Takes its name. */
static void add_asked(const struct copies_call *call, struct asking *asking,
		      struct asked asked)
{
	asking->done++;
	if (call->waits || call->is_json)
		vec_add(&asking->rows, asked);
	else
		free(asked.name);
}

static void copies_ask_fail(struct asking *asking, const struct err *err)
{
	cli_fail(err);
	asking->failed++;
}

static void copies_ask_end_move(const struct copies_call *call, struct asking *asking,
				size_t i, enum registry_result result)
{
	struct err err;

	if (result == REGISTRY_MOVED) {
		add_asked(call, asking, asking->moving.items[i]);
		asking->moving.items[i].name = NULL;
		return;
	}
	registry_move_fail(asking->moves.items[i].id, result, &err);
	copies_ask_fail(asking, &err);
}

/* In one transaction, since the end of each waits for the disk. */
static void copies_ask_write_page(const struct copies_call *call, struct asking *asking)
{
	enum registry_result results[PAGE_ROWS];
	struct err err;

	if (registry_move_many(call->data.store, asking->moves.items, asking->moves.count,
			       results, &err) != 0) {
		cli_fail(&err);
		asking->failed += asking->moves.count;
	} else {
		for (size_t i = 0; i < asking->moves.count; i++)
			copies_ask_end_move(call, asking, i, results[i]);
	}
	vec_clear(&asking->moves);
	vec_clear_members(&asking->moving, name);
}

static struct asked copies_ask_note(const struct copies_call *call,
				    const struct registry_row *row)
{
	struct asked asked = { .name = xstrdup(row->name), .size = row->size };

	for (size_t i = 0; i < call->kinds.count; i++)
		if (strcmp(call->kinds.items[i], row->kind) == 0)
			asked.kind = call->kinds.items[i];
	return asked;
}

/* A deletion is what --force of a row that is gone means; for that there is remove. */
static int copies_ask_move(const struct copies_call *call, struct asking *asking,
			   const struct registry_row *row, struct err *err)
{
	const bool is_reverify = strcmp(call->verb, "reverify") == 0;
	const struct registry_move move = {
		.id = row->id,
		.event = is_reverify ? REGISTRY_REVERIFY : REGISTRY_ASKED,
		.wishes = is_reverify ? 0 : wishes_of(call),
	};

	if (row->is_gone)
		return is_deleted(row, err);
	vec_add(&asking->moves, move);
	vec_add(&asking->moving, copies_ask_note(call, row));
	if (asking->moves.count == PAGE_ROWS)
		copies_ask_write_page(call, asking);
	return 0;
}

static int copies_ask_may_remove(const struct copies_call *call,
				 const struct registry_row *row, struct err *err)
{
	const struct kind *kind = kinds_find(&call->types, row->kind);

	if (!call->command->has_types || (kind->copies && kind->copies->discard))
		return 0;
	err_set(err, ERR_CONFIG, "%s: copies of kind %s are not removed by hand",
		row->name, row->kind);
	return err_remedy(err, "remove it at the primary: the copy follows");
}

/* One that cannot be had done does not stop the others. */
static int copies_ask_row(struct copies_call *call, struct registry_row *row, void *arg,
			  struct err *err)
{
	struct asking *asking = arg;

	if (stop_is_requested(&asking->stop))
		return err_set(err, ERR_CANCELED, "interrupted");
	if (call->is_dry) {
		if (!call->is_json)
			cli_print("would %s %s", call->verb, row->name);
		add_asked(call, asking, copies_ask_note(call, row));
	} else if (strcmp(call->verb, "remove") != 0) {
		if (copies_ask_move(call, asking, row, err) != 0)
			copies_ask_fail(asking, err);
	} else if (copies_ask_may_remove(call, row, err) == 0 &&
		   call->command->discard(call, row, &asking->stop, err) == 0) {
		add_asked(call, asking, copies_ask_note(call, row));
	} else {
		copies_ask_fail(asking, err);
	}
	return 0;
}

static void report_ask_failed(struct asking *asking, const char *name, const char *why,
			      const char *remedy)
{
	asking->failed++;
	asking->done--;
	AUTO_STR struct str line = STR_INIT;
	AUTO_STR struct str masked = STR_INIT;

	str_add_printable(&line, name);
	str_add(&line, ": ");
	log_redact(why, &masked);
	str_add_printable(&line, masked.data);
	fprintf(stderr, "%srefrelay: %s\n", asking->progress.is_shown ? "\r\033[K" : "",
		line.data);
	if (remedy && remedy[0]) {
		str_reset(&line);
		str_add_printable(&line, remedy);
		fprintf(stderr, "  hint: %s\n", line.data);
	}
}

/* 1: it has come to an end, good or bad. */
static int copies_ask_has_ended(struct copies_call *call, struct asking *asking,
				const struct asked *one, struct err *err)
{
	const char *name = one->name;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	if (registry_get(call->data.store, one->kind, name, &row, err) != 0) {
		if (err->class != ERR_MISSING)
			return -1;
		report_ask_failed(asking, name, "the primary deleted it meanwhile", NULL);
		return 1;
	}
	/* Asking forgot the failures of before. */
	const bool is_hindered =
		row.verification == VERIFICATION_PENDING && row.failure_class;
	if (row.state == REGISTRY_SYNCED && !is_hindered)
		return row.verification == VERIFICATION_SUCCEEDED;
	if (row.state == REGISTRY_PENDING && !row.held_reason)
		return 0;
	if (row.state == REGISTRY_STARTED)
		return 0;
	report_ask_failed(asking, name,
			  row.held_reason ? row.held_reason
			  : row.failure   ? row.failure
					  : registry_state_name(row.state),
			  row.remedy);
	return 1;
}

/* Asked for, it is pending, or still failed and due. One that was put off is pending, or
 * has failed no more often than before. */
static bool is_verified_anew(const struct origin_row *row, const struct asked *one)
{
	return row->verification != VERIFICATION_PENDING &&
	       row->verification_due_at > clock_wall_ms() &&
	       (row->verification != VERIFICATION_FAILED ||
		row->verification_retry_count != one->failures);
}

static int has_ended_origin(struct copies_call *call, struct asking *asking,
			    const struct asked *one, struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	int found = origin_row_read(call->data.store, one->kind, one->name, &row, err);

	if (found < 0)
		return -1;
	if (found > 0 && !is_verified_anew(&row, one))
		return 0;
	if (found == 0)
		report_ask_failed(asking, one->name, "it was deleted meanwhile", NULL);
	else if (row.failure)
		report_ask_failed(asking, one->name, row.failure, row.remedy);
	return 1;
}

typedef int (*has_ended_check)(struct copies_call *call, struct asking *asking,
			       const struct asked *one, struct err *err);

/* Of large ones, how much of them has arrived, too. */
static void count_bytes(struct copies_call *call, struct asking *asking, uint64_t ended)
{
	uint64_t bytes = ended;

	for (size_t i = 0; asking->progress.is_shown && i < call->kinds.count; i++) {
		const struct kind *kind = kinds_find(&call->types, call->kinds.items[i]);
		AUTO_CLOSE int root =
			kind->blobs ? blob_root_open(kind->blobs, ERR_IGNORED) : -1;
		bytes += root < 0 ? 0 : blob_incoming_bytes(root);
	}
	atomic_store(&asking->progress.bytes, bytes < asking->progress.total_bytes
						      ? bytes
						      : asking->progress.total_bytes);
}

static int wait_for_each(struct copies_call *call, struct asking *asking,
			 has_ended_check check, struct err *err)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < asking->rows.count; i++) {
		int ended;
		while ((ended = check(call, asking, &asking->rows.items[i], err)) == 0) {
			count_bytes(call, asking, bytes);
			if (stop_wait(&asking->stop, LOOK_EACH_MS))
				return err_set(err, ERR_CANCELED,
					       "interrupted; the work goes on");
		}
		if (ended < 0)
			return -1;
		bytes += asking->rows.items[i].size;
	}
	return 0;
}

static int copies_ask_wait_for_all(struct copies_call *call, struct asking *asking,
				   has_ended_check check, struct err *err)
{
	uint64_t total = 0;
	int result;

	for (size_t i = 0; i < asking->rows.count; i++)
		total += asking->rows.items[i].size;
	progress_start(&asking->progress, 0, total,
		       total > 0 && !call->is_json && !call->is_quiet);
	result = wait_for_each(call, asking, check, err);
	progress_stop(&asking->progress);
	return result;
}

/* "synced and verified 2 repositories, 1 failed", "asked for sync of 1 blob". */
static void copies_ask_print_summary(const struct copies_call *call,
				     const struct asking *asking)
{
	const bool is_removed = strcmp(call->verb, "remove") == 0;
	const char *noun = asking->done == 1 ? call->command->one : call->command->all;

	if (call->is_dry)
		printf("dry run: %zu %s", asking->done, noun);
	else if (is_removed)
		printf("removed %zu %s", asking->done, noun);
	else if (!call->waits)
		printf("asked for %s of %zu %s", call->verb, asking->done, noun);
	else if (strcmp(call->verb, "reverify") == 0)
		printf("verified %zu %s", asking->done, noun);
	else
		printf("%sed and verified %zu %s", call->verb, asking->done, noun);
	if (asking->failed > 0)
		printf(", %zu failed", asking->failed);
	puts("");
}

static void copies_ask_print_result(const struct copies_call *call,
				    const struct asking *asking)
{
	json_auto_t *object = json_object();
	json_t *array = json_array();

	if (!call->is_json) {
		copies_ask_print_summary(call, asking);
		json_decref(array);
		return;
	}
	for (size_t i = 0; i < asking->rows.count; i++)
		json_array_append_new(array, json_string(asking->rows.items[i].name));
	json_put_text(object, "verb", call->verb);
	json_put_bool(object, "dry_run", call->is_dry);
	json_put(object, call->command->all, array);
	json_put_number(object, "failed", (int64_t)asking->failed);
	json_write(stdout, object);
}

static void wake_node(const struct copies_call *call)
{
	if (site_wake(call->site.data) == 0)
		cli_note("no node is running here; the work starts when one does");
}

/* What was asked for is told, and with --wait what became of it. */
static int end_asking(struct copies_call *call, struct asking *asking,
		      has_ended_check check, struct err *err)
{
	if (!call->is_dry && asking->done > 0 && strcmp(call->verb, "remove") != 0)
		wake_node(call);
	if (call->waits && !call->is_dry &&
	    copies_ask_wait_for_all(call, asking, check, err) != 0)
		return -1;
	copies_ask_print_result(call, asking);
	return 0;
}

static int ask_origin(struct copies_call *call, const char *name, int64_t *failures,
		      struct err *err)
{
	const char *kind = call->kinds.items[0];
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	int found = origin_row_read(call->data.store, kind, name, &row, err);

	*failures = row.verification_retry_count;
	if (found == 0)
		return err_set(err, ERR_MISSING, "no such %s: \"%s\"", kind_noun(kind),
			       name);
	if (found > 0 && !call->is_dry)
		return verify_origin_ask_kind(call->data.store, kind, name, 0, err);
	if (found > 0 && !call->is_json)
		cli_print("would %s %s", call->verb, name);
	return found > 0 ? 0 : -1;
}

static int copies_ask_name_origin(struct copies_call *call, const char *name, void *arg,
				  struct err *err)
{
	int64_t failures;

	if (ask_origin(call, name, &failures, err) != 0)
		return -1;
	add_asked(call, arg,
		  (struct asked){ .kind = call->kinds.items[0],
				  .name = xstrdup(name),
				  .failures = failures });
	return 0;
}

/* Of copies, or of a primary's own. */
static int copies_ask(struct copies_call *call, bool is_origin, struct err *err)
{
	struct asking asking = { 0 };
	int status;

	cli_catch_signals(&asking.stop);
	status = is_origin ? copies_walk_names(call, copies_ask_name_origin, &asking, err)
			   : copies_walk(call, copies_ask_row, &asking, err);
	copies_ask_write_page(call, &asking);
	if (status >= 0 &&
	    end_asking(call, &asking, is_origin ? has_ended_origin : copies_ask_has_ended,
		       err) != 0)
		status = -1;
	if (status >= 0 && asking.failed > 0)
		status = asking.done > 0 ? EXIT_PARTLY : EXIT_FAILED;
	cli_end_signals(&asking.stop);
	vec_clear_members(&asking.rows, name);
	return status;
}

int copies_reverify_origin(struct copies_call *call, struct err *err)
{
	return copies_ask(call, true, err);
}

const char *const copies_states[] = {
	"pending", "started", "synced", "failed", "missing_on_primary",
	"held",    "gone",    NULL
};

/* -1: go on. */
static int copies_check_call(const struct copies_call *call)
{
	const char *command = call->command->name, *word = call->command->word;

	if (call->name_count > 0 && (call->state || call->takes_all))
		return cli_usage(command, "%s... or --state, --failed or --all, not both",
				 word);
	if (strcmp(call->verb, "list") != 0 && call->name_count == 0 && !call->state &&
	    !call->takes_all)
		return cli_usage(command, "%s takes %s..., --state, --failed or --all",
				 call->verb, word);
	return -1;
}

/* The kinds that the call is about. */
static int choose_kinds(struct copies_call *call, struct err *err)
{
	const struct kind *kind = NULL;

	if (!call->command->has_types) {
		vec_add(&call->kinds, KIND_REPOSITORY);
		return 0;
	}
	while ((kind = kinds_next(&call->types, kind)) != NULL)
		if (!kind_is_repository(kind->type) &&
		    (!call->type || strcmp(call->type, kind->type) == 0))
			vec_add(&call->kinds, kind->type);
	if (call->kinds.count == 1 || (call->kinds.count > 1 && call->name_count == 0))
		return 0;
	if (call->kinds.count > 1) {
		AUTO_STR struct str all = STR_INIT;
		for (size_t i = 0; i < call->kinds.count; i++)
			str_addf(&all, "%s%s", i == 0 ? "" : ", ", call->kinds.items[i]);
		err_set(err, ERR_CONFIG, "this site has several blob types: %s",
			all.data);
		return err_remedy(err, "choose one with --type");
	}
	if (call->type)
		err_set(err, ERR_CONFIG, "no blob type \"%s\" at this site", call->type);
	else
		err_set(err, ERR_CONFIG, "this site has no blobs");
	return err_remedy(err, "each type is the TYPE of a [blob \"TYPE\"] section, or "
			       "configured in a section of its own");
}

static int copies_open_all(const struct cli *cli, struct copies_call *call,
			   struct err *err)
{
	AUTO_CONF struct conf *conf = NULL;

	if (cli_load_config(cli, &conf, err) != 0 ||
	    site_from_conf(conf, &call->site, err) != 0 ||
	    kinds_read(conf, &call->types, err) != 0 || choose_kinds(call, err) != 0)
		return -1;
	if (call->is_dry || strcmp(call->verb, "list") == 0 ||
	    strcmp(call->verb, "show") == 0) {
		site_note_if_alone(&call->site);
		return site_data_open_to_read(call->site.data, &call->data, err);
	}
	return site_data_check_owner(call->site.data, err) == 0
		       ? site_data_open(&call->site, &call->data, err)
		       : -1;
}

static int copies_run_verb(struct copies_call *call, struct err *err)
{
	if (call->site.role == SITE_PRIMARY ||
	    (call->site.role == SITE_STANDALONE && call->command->has_types))
		return copies_origin(call, err);
	if (call->site.role == SITE_STANDALONE)
		return err_set(err, ERR_CONFIG, "a standalone site replicates nothing");
	if (strcmp(call->verb, "list") == 0)
		return copies_list(call, err);
	if (strcmp(call->verb, "show") == 0)
		return copies_show(call, err);
	return copies_ask(call, false, err);
}

int copies_run(struct cli *cli, const struct copies_command *command, char **argv)
{
	struct copies_call call = { .command = command };
	struct cli_operands operands;
	struct err err;
	int status = cli_read_options(cli->command, argv, &call, &operands);

	if (status >= 0)
		return status;
	call.verb = operands.verb;
	call.names = operands.items;
	call.name_count = operands.count;
	status = copies_check_call(&call);
	if (status >= 0)
		return status;
	if (copies_open_all(cli, &call, &err) == 0)
		status = copies_run_verb(&call, &err);
	site_data_close(&call.data);
	vec_clear(&call.kinds);
	kinds_clear(&call.types);
	site_clear(&call.site);
	return status < 0 ? cli_fail(&err) : status;
}

int copies_walk_names(struct copies_call *call, copies_each_name each, void *arg,
		      struct err *err)
{
	int status = EXIT_DONE;
	size_t done = 0;

	for (size_t i = 0; i < call->name_count; i++) {
		AUTO_FREE char *name = call->command->name_of(call->names[i]);
		if (each(call, name, arg, err) == 0) {
			done++;
			continue;
		}
		if (err->class != ERR_MISSING)
			return -1;
		status = cli_fail(err);
	}
	return status != EXIT_DONE && done > 0 ? EXIT_PARTLY : status;
}

static struct registry_filter filter_of(const struct copies_call *call, const char *kind)
{
	struct registry_filter filter = { .kind = kind,
					  .limit = PAGE_ROWS,
					  .state = REGISTRY_ANY };

	for (int i = 0; i < REGISTRY_STATES && call->state; i++)
		if (strcmp(call->state, registry_state_name((enum registry_state)i)) == 0)
			filter.state = i;
	filter.with_unverifiable =
		filter.state == REGISTRY_FAILED &&
		(strcmp(call->verb, "list") == 0 || strcmp(call->verb, "reverify") == 0);
	filter.held_only = call->state && strcmp(call->state, "held") == 0;
	filter.gone_only = call->state && strcmp(call->state, "gone") == 0;
	return filter;
}

struct visit {
	copies_each each;
	void *arg;
};

static int copies_visit_name(struct copies_call *call, const char *name, void *arg,
			     struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	const struct visit *visit = arg;

	if (registry_get(call->data.store, call->kinds.items[0], name, &row, err) != 0)
		return -1;
	return visit->each(call, &row, visit->arg, err);
}

static int walk_kind(struct copies_call *call, const char *kind,
		     const struct visit *visit, struct err *err)
{
	struct registry_filter filter = filter_of(call, kind);
	AUTO_FREE char *after = NULL;
	size_t count = filter.limit;

	while (count == filter.limit) {
		AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
		filter.after = after;
		if (registry_list(call->data.store, &filter, &rows, err) != 0)
			return -1;
		count = rows.count;
		for (size_t i = 0; i < count; i++)
			if (visit->each(call, &rows.items[i], visit->arg, err) != 0)
				return -1;
		free(TAKE(after));
		after = count > 0 ? xstrdup(rows.items[count - 1].name) : NULL;
	}
	return 0;
}

int copies_walk(struct copies_call *call, copies_each each, void *arg, struct err *err)
{
	struct visit visit = { each, arg };

	if (call->name_count > 0)
		return copies_walk_names(call, copies_visit_name, &visit, err);
	for (size_t i = 0; i < call->kinds.count; i++)
		if (walk_kind(call, call->kinds.items[i], &visit, err) != 0)
			return -1;
	return EXIT_DONE;
}
