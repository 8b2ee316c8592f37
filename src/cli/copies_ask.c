#include "base/clock.h"
#include "base/json.h"
#include "base/thread.h"
#include "blob/file.h"
#include "blob/incoming.h"
#include "change/hook_socket.h"
#include "cli/cli.h"
#include "cli/copies.h"
#include "cli/progress.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "verify/verify_origin.h"

#define LOOK_EACH_MS 50

struct asked {
	const char *kind; /* borrowed from the call */
	char *name;       /* owned */
	uint64_t size;    /* of a blob */
};

struct asking {
	size_t done, failed;
	VEC(struct asked) rows; /* with --wait or --json */
	struct stop stop;
	struct progress progress; /* of waiting */
};

static unsigned wishes_of(const struct copies_call *call)
{
	unsigned wishes = call->is_forced ? REGISTRY_WISH_FORCE : 0;

	return strcmp(call->verb, "resync") == 0 ? wishes | REGISTRY_WISH_RECHECK
						 : wishes;
}

static int is_deleted(const struct registry_row *row, struct err *err)
{
	return err_set(err, ERR_CONFLICT,
		       "%s: the primary deleted it; to delete it here, too, use remove",
		       row->name);
}

/* A deletion is what --force of a row that is gone means; for that there is remove. */
static int ask_sync(struct copies_call *call, const struct registry_row *row,
		    struct err *err)
{
	const struct registry_move move = { .id = row->id,
					    .event = REGISTRY_ASKED,
					    .wishes = wishes_of(call) };

	if (row->is_gone)
		return is_deleted(row, err);
	return registry_move(call->data.store, &move, err);
}

static int ask_verification(struct copies_call *call, const struct registry_row *row,
			    struct err *err)
{
	struct registry_move move = { .id = row->id, .event = REGISTRY_SUPERSEDED };

	if (row->is_gone)
		return is_deleted(row, err);
	/* What was proved is so no longer: anew, at once. What is not synced is brought,
	 * and all of it is looked through. */
	if (row->state != REGISTRY_SYNCED) {
		move.event = REGISTRY_ASKED;
		move.wishes = REGISTRY_WISH_RECHECK;
	}
	return registry_move(call->data.store, &move, err);
}

/* A copy that nobody said to be gone is so by the operator's word. */
static int copies_ask_remove_copy(struct copies_call *call, struct asking *asking,
				  const struct registry_row *row, struct err *err)
{
	const struct registry_move move = { .id = row->id, .event = REGISTRY_GONE };

	if (!row->is_gone && registry_move(call->data.store, &move, err) != 0)
		return -1;
	return call->command->discard(call, row, &asking->stop, err);
}

static int copies_ask_run_verb(struct copies_call *call, struct asking *asking,
			       const struct registry_row *row, struct err *err)
{
	if (strcmp(call->verb, "remove") == 0)
		return copies_ask_remove_copy(call, asking, row, err);
	if (strcmp(call->verb, "reverify") == 0)
		return ask_verification(call, row, err);
	return ask_sync(call, row, err);
}

/* Takes its name. */
static void add_asked(const struct copies_call *call, struct asking *asking,
		      struct asked asked)
{
	for (size_t i = 0; i < call->kinds.count; i++)
		if (strcmp(call->kinds.items[i], asked.kind) == 0)
			asked.kind = call->kinds.items[i];
	vec_add(&asking->rows, asked);
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
			printf("would %s %s\n", call->verb, row->name);
	} else if (copies_ask_run_verb(call, asking, row, err) != 0) {
		cli_fail(err);
		asking->failed++;
		return 0;
	}
	asking->done++;
	add_asked(call, asking,
		  (struct asked){ row->kind, xstrdup(row->name), row->size });
	return 0;
}

static void tell_failed(struct asking *asking, const char *name, const char *why,
			const char *remedy)
{
	asking->failed++;
	asking->done--;
	fprintf(stderr, "%srefrelay: %s: %s\n",
		asking->progress.is_shown ? "\r\033[K" : "", name, why);
	if (remedy && remedy[0])
		fprintf(stderr, "  what to do: %s\n", remedy);
}

/* 1: it has come to an end, good or bad. */
static int copies_ask_has_ended(struct copies_call *call, struct asking *asking,
				const struct asked *one, struct err *err)
{
	const char *name = one->name;
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	if (registry_get(call->data.store, one->kind, name, &row, err) != 0)
		return err->class == ERR_MISSING ? 1 : -1;
	if (row.state == REGISTRY_SYNCED)
		return row.verification == VERIFICATION_SUCCEEDED;
	if (row.state == REGISTRY_PENDING && !row.held_reason)
		return 0;
	if (row.state == REGISTRY_STARTED)
		return 0;
	tell_failed(asking, name,
		    row.held_reason ? row.held_reason
		    : row.failure   ? row.failure
				    : registry_state_name(row.state),
		    row.remedy);
	return 1;
}

struct origin_question {
	const char *kind, *name;
	struct origin_row row;
};

static int copies_ask_read_origin(struct store_tx *tx, void *arg, struct err *err)
{
	struct origin_question *question = arg;
	int found;

	origin_row_clear(&question->row);
	found = origin_row_get(tx, question->kind, question->name, &question->row, err);
	if (found == 0)
		return err_set(err, ERR_MISSING, "there is no %s \"%s\"",
			       strcmp(question->kind, KIND_REPOSITORY) == 0 ? "repository"
									    : "blob",
			       question->name);
	return found < 0 ? -1 : 0;
}

/* Asked for, it is due; once verified it is not, whatever was found. */
static int has_ended_origin(struct copies_call *call, struct asking *asking,
			    const struct asked *one, struct err *err)
{
	struct origin_question question = { .kind = one->kind, .name = one->name };
	int result = store_read(call->data.store, copies_ask_read_origin, &question, err);
	int ended = 0;

	if (result != 0) {
		ended = err->class == ERR_MISSING ? 1 : -1;
	} else if (question.row.verification_due_at > clock_wall_ms()) {
		ended = 1;
		if (question.row.failure)
			tell_failed(asking, one->name, question.row.failure,
				    question.row.remedy);
	}
	origin_row_clear(&question.row);
	return ended;
}

typedef int (*has_ended_check)(struct copies_call *call, struct asking *asking,
			       const struct asked *one, struct err *err);

/* Of large ones, how much of them has arrived, too. */
static void count_bytes(struct copies_call *call, struct asking *asking, uint64_t ended)
{
	uint64_t bytes = ended;

	for (size_t i = 0; asking->progress.is_shown && i < call->kinds.count; i++) {
		const struct blob_kind *kind =
			blob_kinds_find(&call->types, call->kinds.items[i]);
		AUTO_CLOSE int root = kind ? blob_root_open(kind, ERR_IGNORED) : -1;
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
	progress_start_bytes(&asking->progress, total,
			     total > 0 && !call->is_json ? PROGRESS_IF_TERMINAL
							 : PROGRESS_NEVER);
	result = wait_for_each(call, asking, check, err);
	progress_stop(&asking->progress);
	return result;
}

static void copies_ask_print_result(const struct copies_call *call,
				    const struct asking *asking)
{
	json_auto_t *object = json_object();
	json_t *array = json_array();

	if (!call->is_json) {
		printf("%zu %s%s%s\n", asking->done,
		       asking->done == 1 ? call->command->one : call->command->all,
		       call->is_dry ? " (dry run)" : "",
		       asking->failed > 0 ? ", others failed" : "");
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
	if (hook_socket_tell(call->site.data, "wake", 1000, NULL, 0, ERR_IGNORED) == 0)
		fputs("refrelay: no node runs here: it is done when one is started\n",
		      stderr);
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

static int copies_ask_all(struct copies_call *call, struct asking *asking,
			  struct err *err)
{
	int status = copies_walk(call, copies_ask_row, asking, err);

	if (status < 0 || end_asking(call, asking, copies_ask_has_ended, err) != 0)
		return -1;
	if (asking->failed > 0)
		return asking->done > 0 ? EXIT_PARTLY : EXIT_FAILED;
	return status;
}

static int ask_origin(struct copies_call *call, const char *name, struct err *err)
{
	const char *kind = call->kinds.items[0];
	struct origin_question question = { .kind = kind, .name = name };
	int result;

	if (!call->is_dry)
		return verify_origin_ask_kind(call->data.store, kind, name, 0, err);
	result = store_read(call->data.store, copies_ask_read_origin, &question, err);
	origin_row_clear(&question.row);
	if (result == 0 && !call->is_json)
		printf("would %s %s\n", call->verb, name);
	return result;
}

static int ask_all_origin(struct copies_call *call, struct asking *asking,
			  struct err *err)
{
	int status = EXIT_DONE;

	for (size_t i = 0; i < call->name_count; i++) {
		AUTO_FREE char *name = call->command->name_of(call->names[i]);
		if (ask_origin(call, name, err) == 0) {
			asking->done++;
			add_asked(call, asking,
				  (struct asked){ call->kinds.items[0], TAKE(name), 0 });
		} else if (err->class == ERR_MISSING) {
			status = cli_fail(err);
		} else {
			return -1;
		}
	}
	if (end_asking(call, asking, has_ended_origin, err) != 0)
		return -1;
	if (asking->failed > 0)
		return asking->done > 0 ? EXIT_PARTLY : EXIT_FAILED;
	return status;
}

typedef int (*asking_run)(struct copies_call *call, struct asking *asking,
			  struct err *err);

static int copies_ask_run(struct copies_call *call, asking_run run_it, struct err *err)
{
	struct asking asking = { 0 };
	int status;

	stop_init(&asking.stop);
	cli_catch_signals(&asking.stop);
	status = run_it(call, &asking, err);
	cli_end_signals();
	stop_clear(&asking.stop);
	for (size_t i = 0; i < asking.rows.count; i++)
		free(asking.rows.items[i].name);
	vec_clear(&asking.rows);
	return status;
}

int copies_ask(struct copies_call *call, struct err *err)
{
	return copies_ask_run(call, copies_ask_all, err);
}

int copies_reverify_origin(struct copies_call *call, struct err *err)
{
	return copies_ask_run(call, ask_all_origin, err);
}
