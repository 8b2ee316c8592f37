#include "test.h"

#include <dlfcn.h>
#include <sqlite3.h>

#include "base/clock.h"
#include "replicable/kind.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "replicable/registry_row.h"

#include "registry_write.h"

static struct store *store;

/* How often a statement was prepared again. */
static int prepared_again;

/* In the place of SQLite's. */
int sqlite3_step(sqlite3_stmt *statement)
{
	int (*step)(sqlite3_stmt *);

	*(void **)&step = dlsym(RTLD_NEXT, "sqlite3_step");
	int result = step(statement);
	prepared_again += sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_REPREPARE, 1);
	return result;
}

static void open_store(void)
{
	assert_ok(store_open("sqlite::memory:", &store, &err));
}

static int run_sql(struct store_tx *tx, void *sql, struct err *error)
{
	return store_exec(tx, sql, error);
}

PRINTF_LIKE(1, 2) static void sql(const char *fmt, ...)
{
	char text[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	assert_ok(store_write(store, run_sql, text, &err));
}

/* Rows <prefix>0, <prefix>1, ... with states of `set`; the oldest is due first. */
static void add(const char *prefix, int count, const char *set)
{
	for (int i = 0; i < count; i++) {
		AUTO_FREE char *name = xasprintf("%s%d", prefix, i);
		const char *names[] = { name };
		assert_ok(registry_add(store, KIND_REPOSITORY, names, 1, &err));
		sql("UPDATE registry SET due_at = %d%s WHERE name = '%s'", 1000 + i, set,
		    name);
	}
}

static void add_all(int count)
{
	add("new", count, "");
	add("changed", count, ", last_attempt_at = 1");
	add("failed", count, ", last_attempt_at = 1, state = 3");
}

static int count_of(const registry_rows *rows, const char *prefix)
{
	int count = 0;

	for (size_t i = 0; i < rows->count; i++)
		count += text_starts_with(rows->items[i].name, prefix);
	return count;
}

TEST(a_claim_keeps_a_quarter_each_for_changed_and_failed_rows)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };

	open_store();
	add_all(10);
	assert_ok(registry_claim(store, KIND_REPOSITORY, 8, 90000, &rows, &err));
	assert_int_equal(rows.count, 8);
	assert_int_equal(count_of(&rows, "new"), 4);
	assert_int_equal(count_of(&rows, "changed"), 2);
	assert_string_equal(rows.items[0].name, "new0");
	assert_int_equal(rows.items[0].state, REGISTRY_STARTED);
	assert_true(rows.items[0].due_at > clock_wall_ms());
	store_close(store);
}

/* Whether it is due, and how often it failed. */
static bool is_due(const char *name, int64_t *retries)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(registry_get(store, KIND_REPOSITORY, name, &row, &err));
	*retries = row.retry_count;
	return row.due_at <= clock_wall_ms();
}

TEST(what_failed_without_the_primary_is_made_due_and_keeps_its_count)
{
	static const char *const classes[] = {
		"network", "timeout", "auth",    "config",
		"disk",    "corrupt", "missing", "config"
	};
	int64_t retries;

	open_store();
	add("r", 8, ", state = 3, retry_count = 4, last_attempt_at = 1");
	for (int i = 0; i < 8; i++)
		sql("UPDATE registry SET due_at = 99999999999999, failure_class = '%s',"
		    " failure_reason = %s WHERE name = 'r%d'",
		    classes[i], i == 3 ? "'at_peer'" : "NULL", i);
	assert_ok(registry_retry_unreached(store, &err));
	for (int i = 0; i < 8; i++) {
		AUTO_FREE char *name = xasprintf("r%d", i);
		assert_int_equal(is_due(name, &retries), i < 4);
		assert_int_equal(retries, 4);
	}
	store_close(store);
}

TEST(what_a_queue_does_not_need_the_others_get)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };

	open_store();
	add("failed", 5, ", last_attempt_at = 1, state = 3");
	add("new", 1, "");
	assert_ok(registry_claim(store, KIND_REPOSITORY, 4, 90000, &rows, &err));
	assert_int_equal(rows.count, 4);
	assert_int_equal(count_of(&rows, "failed"), 3);
	assert_ok(registry_claim(store, KIND_REPOSITORY, 4, 90000, &rows, &err));
	assert_int_equal(rows.count, 6); /* added behind, none of them twice */
	assert_ok(registry_claim(store, KIND_REPOSITORY, 4, 90000, &rows, &err));
	assert_int_equal(rows.count, 6);
	assert_ok(registry_claim(store, "other", 4, 90000, &rows, &err));
	assert_int_equal(rows.count, 6);
	store_close(store);
}

/* A scheduler with one free worker at a time must not let failed rows starve. */
TEST(small_claims_keep_the_shares_over_time)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };

	open_store();
	add_all(8);
	for (int i = 0; i < 8; i++)
		assert_ok(registry_claim(store, KIND_REPOSITORY, 1, 90000, &rows, &err));
	assert_int_equal(count_of(&rows, "new"), 4);
	assert_int_equal(count_of(&rows, "changed"), 2);
	assert_int_equal(count_of(&rows, "failed"), 2);
	store_close(store);
}

TEST(only_what_is_due_is_claimed_and_a_dead_workers_row_is)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };

	open_store();
	add("later", 1, " + 9000000000000");
	add("held", 1, ", due_at = NULL, held_reason = 'x'");
	add("started", 1, " + 9000000000000, last_attempt_at = 1, state = 1");
	assert_ok(registry_claim(store, KIND_REPOSITORY, 10, 90000, &rows, &err));
	assert_int_equal(rows.count, 0);
	sql("UPDATE registry SET due_at = 5 WHERE name = 'started0'");
	assert_ok(registry_claim(store, KIND_REPOSITORY, 10, 90000, &rows, &err));
	assert_int_equal(rows.count, 1);
	assert_string_equal(rows.items[0].name, "started0");
	store_close(store);
}

TEST(a_claim_for_verification_takes_synced_rows_once)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };

	open_store();
	add("synced", 2,
	    ", due_at = NULL, state = 2, verification_state = 0, verification_due_at = "
	    "5");
	add("failed", 1, ", state = 3, verification_due_at = 5");
	assert_ok(registry_claim_verification(store, KIND_REPOSITORY, 9, 90000, &rows,
					      &err));
	assert_int_equal(rows.count, 2);
	assert_int_equal(rows.items[0].verification, VERIFICATION_STARTED);
	assert_ok(registry_claim_verification(store, KIND_REPOSITORY, 9, 90000, &rows,
					      &err));
	assert_int_equal(rows.count, 2);
	store_close(store);
}

TEST(the_next_due_time_is_the_least_of_all_queues)
{
	int64_t sync_at, verification_at;

	open_store();
	assert_ok(registry_next_due(store, KIND_REPOSITORY, &sync_at, &verification_at,
				    &err));
	assert_true(sync_at == INT64_MAX && verification_at == INT64_MAX);
	add("new", 1, " + 50");
	add("failed", 1, " + 20, last_attempt_at = 1, state = 3");
	add("changed", 1, " + 30, last_attempt_at = 1");
	add("synced", 1, ", due_at = NULL, state = 2, verification_due_at = 7");
	assert_ok(registry_next_due(store, KIND_REPOSITORY, &sync_at, &verification_at,
				    &err));
	assert_int_equal(sync_at, 1020);
	assert_int_equal(verification_at, 7);
	assert_ok(registry_next_due(store, "lfs", &sync_at, &verification_at, &err));
	assert_true(sync_at == INT64_MAX && verification_at == INT64_MAX);
	store_close(store);
}

/* One row that a worker has had for too long, so that another may have it. */
static void add_overdue(const char *set)
{
	open_store();
	add("a", 1, set);
}

static int say(const struct registry_row *worker, enum registry_event event)
{
	static const struct err failure = { .class = ERR_NETWORK, .text = "it broke" };
	const struct registry_move word = { .id = worker->id,
					    .event = event,
					    .claim_token = worker->claim_token,
					    .generation = 1,
					    .checksum = "1-aa",
					    .held_reason = "held",
					    .err = &failure };

	return registry_move(store, &word, &err);
}

static int complete(const struct registry_row *worker)
{
	const struct registry_move word = { .id = worker->id,
					    .claim_token = worker->claim_token,
					    .generation = 1,
					    .checksum = "1-aa",
					    .timeout_ms = 100000 };

	return registry_complete(store, &word, &err);
}

static char *token_of(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(registry_get(store, KIND_REPOSITORY, name, &row, &err));
	return xstrdup(row.claim_token);
}

static void assert_token(const char *name, const char *expected)
{
	AUTO_FREE char *token = token_of(name);

	assert_string_equal(token, expected);
}

TEST(who_was_too_slow_says_nothing_more_of_a_row_that_is_anothers)
{
	static const enum registry_event words[] = { REGISTRY_BROUGHT, REGISTRY_ERRED,
						     REGISTRY_HELD, REGISTRY_ABSENT,
						     REGISTRY_DEFERRED };
	AUTO_REGISTRY_ROWS registry_rows late = { 0 }, rows = { 0 };

	add_overdue("");
	assert_ok(registry_claim(store, KIND_REPOSITORY, 1, -1, &late, &err));
	assert_ok(registry_claim(store, KIND_REPOSITORY, 1, 90000, &rows, &err));
	assert_int_equal(late.count + rows.count, 2);
	assert_string_not_equal(late.items[0].claim_token, rows.items[0].claim_token);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		assert_fails(say(&late.items[0], words[i]), ERR_CONFLICT);
	assert_fails(complete(&late.items[0]), ERR_CONFLICT);
	assert_token("a0", rows.items[0].claim_token);
	assert_ok(complete(&rows.items[0]));
	assert_token("a0", "");
	assert_fails(complete(&late.items[0]),
		     ERR_CONFLICT); /* nor when that has ended */
	store_close(store);
}

TEST(who_was_too_slow_to_verify_proves_nothing_for_another)
{
	static const enum registry_event words[] = { REGISTRY_PROVED, REGISTRY_DISPROVED,
						     REGISTRY_SUPERSEDED };
	const char *set = ", due_at = NULL, last_attempt_at = 1, state = 2,"
			  " generation = 1, checksum = '1-aa', verification_state = 0,"
			  " verification_due_at = 5";
	AUTO_REGISTRY_ROWS registry_rows late = { 0 }, rows = { 0 };

	add_overdue(set);
	assert_ok(
		registry_claim_verification(store, KIND_REPOSITORY, 1, -1, &late, &err));
	assert_ok(registry_claim_verification(store, KIND_REPOSITORY, 1, 90000, &rows,
					      &err));
	assert_int_equal(late.count + rows.count, 2);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		assert_fails(say(&late.items[0], words[i]), ERR_CONFLICT);
	assert_token("a0", rows.items[0].claim_token);
	assert_ok(say(&rows.items[0], REGISTRY_PROVED));
	assert_token("a0", "");
	/* Damage that it met all the same is looked for. */
	assert_fails(say(&late.items[0], REGISTRY_DISPROVED), ERR_CONFLICT);
	registry_rows_clear(&rows);
	assert_ok(registry_claim_verification(store, KIND_REPOSITORY, 1, 90000, &rows,
					      &err));
	assert_int_equal(rows.count, 1);
	store_close(store);
}

TEST(what_ends_a_claim_takes_its_token_away)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };

	add_overdue("");
	assert_ok(registry_claim(store, KIND_REPOSITORY, 1, 90000, &rows, &err));
	assert_int_equal(strlen(rows.items[0].claim_token), CLAIM_TOKEN_SIZE - 1);
	assert_token("a0", rows.items[0].claim_token);
	assert_ok(say(&rows.items[0], REGISTRY_ASKED)); /* goes on: it is being brought */
	assert_token("a0", rows.items[0].claim_token);
	assert_ok(say(&rows.items[0], REGISTRY_DEFERRED));
	assert_token("a0", "");
	sql("UPDATE registry SET state = 2, due_at = NULL, verification_due_at = 5");
	assert_ok(registry_claim_verification(store, KIND_REPOSITORY, 1, 90000, &rows,
					      &err));
	assert_token("a0", rows.items[1].claim_token);
	assert_ok(say(&rows.items[1], REGISTRY_GONE)); /* others say that */
	assert_token("a0", "");
	store_close(store);
}

static size_t claim_all(int64_t timeout_ms)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };

	assert_ok(registry_claim(store, KIND_REPOSITORY, 9, timeout_ms, &rows, &err));
	assert_ok(registry_claim_verification(store, KIND_REPOSITORY, 9, timeout_ms,
					      &rows, &err));
	return rows.count;
}

TEST(a_node_that_starts_takes_back_what_it_had_and_nothing_of_another_node)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);

	assert_ok(store_open(url, &store, &err));
	store_set_node(store, "one");
	add("sync", 1, "");
	add("check", 1,
	    ", due_at = NULL, last_attempt_at = 1, state = 2,"
	    " verification_state = 0, verification_due_at = 5");
	assert_int_equal(claim_all(90000), 2);
	store_close(store); /* without a word: it was killed */

	assert_ok(store_open(url, &store, &err));
	store_set_node(store, "two");
	assert_ok(registry_reset_started(store, 0, &err));
	assert_int_equal(claim_all(90000), 0); /* that one may live */
	store_set_node(store, "one");
	assert_ok(registry_reset_started(store, 0, &err));
	assert_token("sync0", "");
	assert_token("check0", "");
	assert_int_equal(claim_all(-1), 2);
	store_set_node(store, "two");
	assert_int_equal(claim_all(90000), 2); /* its time was over */
	store_set_node(store, "one");
	assert_ok(registry_reset_started(store, 0, &err));
	assert_int_equal(claim_all(90000), 0);
	/* A program that did not name a node was the only one. */
	sql("UPDATE registry SET claim_node = NULL");
	assert_ok(registry_reset_started(store, 0, &err));
	assert_int_equal(claim_all(90000), 2);
	store_close(store);
}

static int read_plan(struct store_tx *tx, const char *text, struct str *plan,
		     struct err *error)
{
	AUTO_FREE char *explain = xasprintf("EXPLAIN QUERY PLAN %s", text);
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx, explain, &query, error) != 0)
		return -1;
	while ((found = query_step(query, error)) > 0)
		str_addf(plan, "%s;", query_text(query, 3));
	return found;
}

/* Only rows of the kind are read, in order. */
static int check_plan(struct store_tx *tx, const char *text, const char *index,
		      struct err *error)
{
	AUTO_STR struct str plan = STR_INIT;

	if (read_plan(tx, text, &plan, error) != 0)
		return -1;
	if (!strstr(plan.data, index) || !strstr(plan.data, "(kind=?") ||
	    strstr(plan.data, "TEMP B-TREE"))
		return err_set(error, ERR_INTERNAL, "%s", plan.data);
	return 0;
}

static int check_plans(struct store_tx *tx, void *arg, struct err *error)
{
	static const char *const indexes[REGISTRY_QUEUES] = {
		"INDEX registry_due_new ",
		"INDEX registry_due_changed ",
		"INDEX registry_due_failed ",
		"INDEX registry_verification_due ",
	};

	(void)arg;
	for (size_t i = 0; i < REGISTRY_QUEUES; i++)
		if (check_plan(tx, registry_queue_sql[i], indexes[i], error) != 0 ||
		    check_plan(tx, registry_next_sql[i], indexes[i], error) != 0)
			return -1;
	return 0;
}

/* Rows that fail keep when they are read next, and would be met at each step. */
static int check_rows_of_index(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return query_one(tx, NULL, NULL, error,
			 "SELECT 1 FROM sqlite_master"
			 " WHERE name = 'registry_verification_due'"
			 " AND sql LIKE '%state = 2'") == 1
		       ? 0
		       : -1;
}

TEST(each_queue_is_read_by_its_own_index)
{
	open_store();
	assert_ok(store_read(store, check_plans, NULL, &err));
	assert_ok(store_read(store, check_rows_of_index, NULL, &err));
	store_close(store);
}

static int64_t heal(void)
{
	const struct registry_delays longest = { .sync_ms = 50000,
						 .verification_ms = 90000 };
	int64_t healed = -1;

	assert_ok(registry_heal_due(store, &longest, &healed, &err));
	return healed;
}

/* The clock was far ahead when they were written. */
TEST(what_is_due_later_than_any_delay_is_due_now)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	const int64_t soon = clock_wall_ms() + 40000, never = soon + 1000000000;

	open_store();
	add_all(2);
	sql("UPDATE registry SET due_at = %" PRId64 " WHERE name LIKE '%%0'", soon);
	sql("UPDATE registry SET due_at = %" PRId64 " WHERE name LIKE '%%1'", never);
	assert_int_equal(heal(), 3);
	assert_int_equal(heal(), 0);
	assert_ok(registry_claim(store, KIND_REPOSITORY, 9, 90000, &rows, &err));
	assert_int_equal(rows.count, 3);
	assert_int_equal(count_of(&rows, "new"), 1);
	store_close(store);
}

TEST(what_was_not_verified_again_in_time_is_proved_no_longer)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	struct proofs_ageing proofs = { .interval_ms = 5000,
					.before = clock_wall_ms() - 5000 };
	struct registry_counts before, after;
	int64_t aged = -1;

	open_store();
	add_all(2);
	sql("UPDATE registry SET state = 2, proved = 1, verification_state = 2,"
	    " verification_due_at = %" PRId64,
	    clock_wall_ms() + 100000);
	sql("UPDATE registry SET verification_due_at = %" PRId64 " WHERE name LIKE '%%0'",
	    clock_wall_ms() - 6000);
	assert_ok(registry_counts(store, KIND_REPOSITORY, &before, &err));
	assert_ok(registry_age_proofs(store, KIND_REPOSITORY, &proofs, &aged, &err));
	assert_true(aged > 0);
	assert_ok(registry_counts(store, KIND_REPOSITORY, &after, &err));
	assert_int_equal(after.proved, before.proved - aged);
	assert_int_equal(after.verification[VERIFICATION_SUCCEEDED],
			 before.verification[VERIFICATION_SUCCEEDED] - aged);
	assert_int_equal(after.verification[VERIFICATION_PENDING],
			 before.verification[VERIFICATION_PENDING] + aged);
	assert_ok(registry_claim_verification(store, KIND_REPOSITORY, 9, 90000, &rows,
					      &err));
	assert_int_equal(rows.count, aged);
	assert_ok(registry_age_proofs(store, KIND_REPOSITORY, &proofs, &aged, &err));
	assert_int_equal(aged, 0);
	store_close(store);
}

/* The one row, after a verification that the node did not survive. */
static void cut_verification(struct registry_row *row, const char *kind, int64_t proof_ms)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };

	registry_row_clear(row);
	assert_ok(registry_claim_verification(store, kind, 9, 90000, &rows, &err));
	assert_int_equal(rows.count, 1);
	assert_ok(registry_reset_started(store, proof_ms, &err));
	assert_ok(registry_get(store, kind, "a0", row, &err));
}

TEST(a_proof_ages_though_no_verification_survives_and_not_because_of_that)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	const int64_t due_at = clock_wall_ms() - 3000;
	struct proofs_ageing proofs = { .interval_ms = 5000, .before = due_at };
	int64_t aged = -1;

	open_store();
	add("a", 1,
	    ", due_at = NULL, last_attempt_at = 1, state = 2, verified_at = 5,"
	    " proved = 1, verification_state = 2");
	sql("UPDATE registry SET verification_due_at = %" PRId64, due_at);
	for (int i = 0; i < 2; i++) {
		cut_verification(&row, KIND_REPOSITORY, 100000);
		assert_true(row.is_proved);
		assert_int_equal(row.verification, VERIFICATION_SUCCEEDED);
		assert_int_equal(row.verification_due_at, due_at);
	}
	/* Nor does a change meanwhile make it younger. */
	assert_ok(registry_claim_verification(store, KIND_REPOSITORY, 9, 90000, &rows,
					      &err));
	const struct registry_move change = { .id = row.id,
					      .event = REGISTRY_ASKED,
					      .generation = 2 };
	assert_ok(registry_move(store, &change, &err));
	registry_row_clear(&row);
	assert_ok(registry_get(store, KIND_REPOSITORY, "a0", &row, &err));
	assert_int_equal(row.verification_due_at, due_at);
	sql("UPDATE registry SET state = 2, due_at = NULL, proved = 1,"
	    " verification_state = 2");
	assert_ok(registry_age_proofs(store, KIND_REPOSITORY, &proofs, &aged, &err));
	assert_int_equal(aged, 0);
	cut_verification(&row, KIND_REPOSITORY, 100000);
	proofs.before = due_at + 1; /* an interval later */
	assert_ok(registry_age_proofs(store, KIND_REPOSITORY, &proofs, &aged, &err));
	assert_int_equal(aged, 1);
	cut_verification(&row, KIND_REPOSITORY, 100000);
	assert_false(row.is_proved);
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	store_close(store);
}

/* Else what ends the node would be verified first after each start. */
TEST(a_cut_verification_of_an_old_proof_comes_behind_what_is_due)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	const int64_t due_at = clock_wall_ms() - 3000;

	open_store();
	add("a", 1,
	    ", due_at = NULL, last_attempt_at = 1, state = 2, verified_at = 5,"
	    " proved = 1, verification_state = 2");
	sql("UPDATE registry SET verification_due_at = %" PRId64, due_at);
	cut_verification(&row, KIND_REPOSITORY, 1000);
	assert_false(row.is_proved);
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_true(row.verification_due_at >= due_at + 3000);
	/* Of mirrors proofs do not age. */
	sql("UPDATE registry SET kind = 'mirror', proved = 1, verification_due_at = "
	    "%" PRId64,
	    due_at);
	cut_verification(&row, KIND_MIRROR, 1000);
	assert_true(row.is_proved);
	store_close(store);
}

TEST(proofs_age_once_a_minute_and_are_a_minute_old)
{
	struct proofs_ageing proofs = { 0 };
	int64_t before;

	assert_false(proofs_are_to_age(0, &proofs));
	assert_true(proofs_are_to_age(1000, &proofs));
	assert_int_equal(proofs.interval_ms, 60000);
	assert_int_equal(proofs.from, 1); /* all */
	assert_true(proofs.before <= clock_wall_ms() - 60000);
	assert_false(proofs_are_to_age(1000, &proofs));

	/* The next look is at what has become so old since. */
	before = proofs.before;
	proofs.next_at = 0;
	assert_true(proofs_are_to_age(1000, &proofs));
	assert_int_equal(proofs.from, before);

	/* If the clock was set back, or a look failed, at all. */
	proofs.next_at = 0;
	proofs.before += 1000000;
	assert_true(proofs_are_to_age(1000, &proofs));
	assert_int_equal(proofs.from, 1);
	proofs.next_at = 0;
	proofs_age_again(&proofs);
	assert_true(proofs_are_to_age(500000, &proofs));
	assert_int_equal(proofs.from, 1);
	assert_int_equal(proofs.interval_ms, 500000);
}

static int count_not_aged(struct store_tx *tx, void *arg, struct err *error)
{
	return query_number(tx, arg, error,
			    "SELECT COUNT(*) FROM registry WHERE proved = 1"
			    " OR verification_state <> 0 OR verification_due_at <> 695000"
			    " + CASE WHEN id < 6000 THEN 0 ELSE id END");
}

/* More than a batch, many of them due at one time; in the order in which they were due.
 */
TEST(many_proofs_age_in_batches_and_in_order)
{
	struct proofs_ageing proofs = { .interval_ms = 5000, .before = 1000000 };
	struct registry_counts counts;
	int64_t aged = -1, wrong = -1;

	open_store();
	sql("WITH RECURSIVE n (i) AS"
	    " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12000)"
	    " INSERT INTO registry (id, kind, name, state, verification_state, proved,"
	    " verification_due_at, created_at) SELECT i, 'lfs', i, 2, 2, 1,"
	    " CASE WHEN i < 6000 THEN 700000 ELSE 700000 + i END, 0 FROM n");
	assert_ok(registry_age_proofs(store, "lfs", &proofs, &aged, &err));
	assert_int_equal(aged, 12000);
	assert_ok(registry_counts(store, "lfs", &counts, &err));
	assert_int_equal(counts.proved, -12000); /* these were never counted */
	assert_ok(store_read(store, count_not_aged, &wrong, &err));
	assert_int_equal(wrong, 0);
	assert_ok(registry_age_proofs(store, "lfs", &proofs, &aged, &err));
	assert_int_equal(aged, 0);
	store_close(store);
}

TEST(late_rows_of_every_kind_are_healed)
{
	const char *names[] = { "a" };

	open_store();
	assert_ok(registry_add(store, "lfs", names, 1, &err));
	assert_ok(registry_add(store, "uploads", names, 1, &err));
	sql("UPDATE registry SET due_at = %" PRId64, clock_wall_ms() + 1000000000);
	assert_int_equal(heal(), 2);
	store_close(store);
}

TEST(a_claim_takes_rows_of_its_kind_only)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	const char *names[] = { "a", "b" };

	open_store();
	add_all(1);
	assert_ok(registry_add(store, "lfs", names, 2, &err));
	assert_ok(registry_claim(store, "lfs", 9, 90000, &rows, &err));
	assert_int_equal(rows.count, 2);
	assert_string_equal(rows.items[0].kind, "lfs");
	store_close(store);
}

/* Nobody takes it from a worker that lives. */
TEST(what_is_started_is_due_after_the_longest_delay)
{
	int64_t sync_at, verification_at, now = clock_wall_ms();

	open_store();
	add("failed", 1, ", last_attempt_at = 1, state = 1");
	sql("UPDATE registry SET due_at = %" PRId64, now + 1000000000);
	assert_int_equal(heal(), 1);
	assert_ok(registry_next_due(store, KIND_REPOSITORY, &sync_at, &verification_at,
				    &err));
	assert_in_range(sync_at, now + 50000, now + 60000);
	store_close(store);
}

TEST(verifications_have_a_longest_delay_of_their_own)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	const char *set = ", due_at = NULL, last_attempt_at = 1, state = 2,"
			  " verification_state = 2";
	int64_t soon = clock_wall_ms() + 80000;

	open_store();
	add("a", 2, set);
	sql("UPDATE registry SET verification_due_at = %" PRId64, soon);
	assert_int_equal(heal(), 0);
	sql("UPDATE registry SET verification_due_at = %" PRId64 " WHERE name = 'a1'",
	    soon + 1000000000);
	assert_int_equal(heal(), 1);
	assert_ok(registry_claim_verification(store, KIND_REPOSITORY, 9, 90000, &rows,
					      &err));
	assert_int_equal(rows.count, 1);
	assert_string_equal(rows.items[0].name, "a1");
	store_close(store);
}

static size_t list(const struct registry_filter *filter, registry_rows *rows)
{
	registry_rows_clear(rows);
	assert_ok(registry_list(store, filter, rows, &err));
	return rows->count;
}

TEST(rows_are_listed_in_order_by_what_one_looks_for)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	struct registry_filter filter = { .kind = KIND_REPOSITORY,
					  .limit = 100,
					  .state = REGISTRY_ANY };

	open_store();
	add_all(3);
	sql("UPDATE registry SET held_reason = 'x' WHERE name = 'changed1'");
	sql("UPDATE registry SET gone = 1 WHERE name = 'new2'");
	assert_int_equal(list(&filter, &rows), 9);
	assert_string_equal(rows.items[0].name, "changed0");
	filter.after = "failed2";
	assert_int_equal(list(&filter, &rows), 3);
	filter.after = NULL;
	filter.limit = 2;
	filter.state = REGISTRY_FAILED;
	assert_int_equal(list(&filter, &rows), 2);
	assert_string_equal(rows.items[1].name, "failed1");
	filter.state = REGISTRY_PENDING;
	filter.held_only = true;
	assert_int_equal(list(&filter, &rows), 1);
	assert_string_equal(rows.items[0].name, "changed1");
	filter.held_only = false;
	filter.gone_only = true;
	assert_int_equal(list(&filter, &rows), 1);
	assert_string_equal(rows.items[0].name, "new2");
	filter.search = "W2";
	assert_int_equal(list(&filter, &rows), 1);
	filter.search = "w_";
	assert_int_equal(list(&filter, &rows), 0);
	filter.gone_only = false;
	filter.state = REGISTRY_FAILED;
	filter.search = "1";
	assert_int_equal(list(&filter, &rows), 1);
	assert_string_equal(rows.items[0].name, "failed1");
	store_close(store);
}

/* The same numbers every time: a failure can be looked at. */
static unsigned roll(unsigned sides)
{
	static uint32_t seed = 12345;

	seed = seed * 1664525 + 1013904223;
	return (seed >> 16) % sides;
}

/* Many at once go one way, one by itself another. */
static int move_one(const struct registry_move *change)
{
	enum registry_result results[2];
	struct registry_move both[2] = { *change, *change };

	if (roll(3) != 0)
		return registry_move(store, change, &err);
	both[1].event = roll(REGISTRY_EVENTS);
	return registry_move_many(store, both, 2, results, &err);
}

static const char *kind;

/* That of the row mostly, as its worker does. */
static void name_claim(struct registry_move *change, char token[CLAIM_TOKEN_SIZE])
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	const struct registry_filter all = { .kind = kind,
					     .limit = 100,
					     .state = REGISTRY_ANY };

	assert_ok(registry_list(store, &all, &rows, &err));
	for (size_t i = 0; i < rows.count; i++)
		if (rows.items[i].id == change->id)
			memcpy(token, rows.items[i].claim_token, CLAIM_TOKEN_SIZE);
	change->claim_token = roll(8) ? token : "another";
}

static int disown(struct store_tx *tx, void *unused, struct err *error)
{
	return unused ? -1 : registry_disown_blobs_in(tx, error);
}

static void move_at_random(void)
{
	char token[CLAIM_TOKEN_SIZE] = "";
	static const char *const names[] = { "a", "b", "c", "d", "e" };
	static const char *const timelines[] = { NULL, "t1", "t2" };
	static const struct err failure = { .class = ERR_CORRUPT, .text = "x" };
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	struct registry_move change = {
		.id = replicable_id(kind, names[roll(5)]),
		.event = roll(REGISTRY_EVENTS),
		.generation = roll(4),
		.timeline = timelines[roll(3)],
		.checksum = roll(2) ? "1-aa" : NULL,
		.size = roll(1000),
		.changed_at = roll(3),
		.wishes = roll(8) ? 0 : roll(8) | (roll(2) ? REGISTRY_WISH_REPLACE : 0),
		.held_reason = "held",
		.err = &failure,
		.timeout_ms = roll(2) ? 100000 : -1,
	};

	switch (roll(12)) {
	case 0:
		assert_ok(registry_add(store, kind, names, 5, &err));
		break;
	case 1:
		if (registry_remove(store, change.id, &err) != 0)
			assert_int_equal(err.class, ERR_CONFLICT);
		break;
	case 2:
		assert_ok(registry_claim(store, kind, 2, 100000, &rows, &err));
		break;
	case 3:
		assert_ok(
			registry_claim_verification(store, kind, 2, 100000, &rows, &err));
		break;
	case 4:
		if (roll(20) == 0)
			assert_ok(registry_reset_started(store, 0, &err));
		if (roll(20) == 0)
			assert_ok(store_write(store, disown, NULL, &err));
		break;
	case 5:
	case 6:
		name_claim(&change, token);
		if (registry_complete(store, &change, &err) != 0)
			assert_true(err.class == ERR_CONFLICT ||
				    err.class == ERR_MISSING);
		break;
	default:
		name_claim(&change, token);
		if (move_one(&change) != 0)
			assert_true(err.class == ERR_CONFLICT ||
				    err.class == ERR_MISSING);
	}
}

static void check_row(const struct registry_row *row)
{
	assert_true(row->is_proved || row->verification != VERIFICATION_SUCCEEDED);
	assert_true(!row->is_proved || row->verification != VERIFICATION_FAILED);
	assert_true(!row->is_proved || row->verification != VERIFICATION_DISABLED);
	assert_true(row->generation <= row->generation_wanted);
	if (row->state == REGISTRY_SYNCED) {
		assert_int_equal(row->generation, row->generation_wanted);
		assert_int_equal(row->due_at, 0);
		assert_int_equal(row->wishes, 0);
		assert_true(row->verification == VERIFICATION_STARTED ||
			    !row->claim_token[0]);
	} else {
		assert_true(row->state == REGISTRY_STARTED || !row->claim_token[0]);
		assert_true(row->verification_due_at == 0 ||
			    kind_is_repository(row->kind));
		assert_int_not_equal(row->verification, VERIFICATION_STARTED);
		assert_int_equal(row->due_at == 0, row->held_reason != NULL);
	}
}

static int read_here(struct store_tx *tx, void *arg, struct err *error)
{
	return registry_count_here(tx, kind, arg, error);
}

/* Counted by looking at every row. */
static void check_counts(void)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	struct registry_counts counts, found = { 0 };
	int64_t here = 0, counted;
	const struct registry_filter all = { .kind = kind,
					     .limit = 100,
					     .state = REGISTRY_ANY };

	assert_ok(registry_list(store, &all, &rows, &err));
	for (size_t i = 0; i < rows.count; i++) {
		const struct registry_row *row = &rows.items[i];
		check_row(row);
		found.all++;
		found.states[row->state]++;
		found.verification[row->verification]++;
		found.held += row->held_reason != NULL;
		found.gone += row->is_gone;
		found.proved += row->is_proved && row->state == REGISTRY_SYNCED;
		found.never_copied += row->due_at > 0 && row->last_success_at == 0 &&
				      row->state != REGISTRY_MISSING_ON_PRIMARY &&
				      !row->is_gone;
		here += row->generation > 0 && !row->is_gone &&
			!(row->wishes & REGISTRY_WISH_REPLACE);
		found.bytes += (int64_t)row->size;
		if (row->state != REGISTRY_SYNCED && !row->is_gone)
			found.bytes_to_come += (int64_t)row->size;
		if (row->behind_since != 0 &&
		    (found.behind_since == 0 || row->behind_since < found.behind_since))
			found.behind_since = row->behind_since;
	}
	assert_ok(registry_counts(store, kind, &counts, &err));
	assert_memory_equal(&counts, &found, sizeof(counts));
	assert_ok(store_read(store, read_here, &counted, &err));
	assert_int_equal(counted, here);
}

static void assert_counted(const char *of_kind)
{
	kind = of_kind;
	open_store();
	for (int i = 0; i < 5000; i++) {
		move_at_random();
		check_counts();
	}
	store_close(store);
}

/* That would take longer than most of them run. */
TEST(statements_are_prepared_once)
{
	registry_rows rows = { 0 };
	int64_t sync_at, verification_at;

	open_store();
	add_all(20);
	for (int round = 0; round < 5; round++) {
		if (round == 2)
			prepared_again = 0;
		assert_ok(registry_next_due(store, KIND_REPOSITORY, &sync_at,
					    &verification_at, &err));
		assert_ok(registry_claim(store, KIND_REPOSITORY, 2, 90000, &rows, &err));
		assert_ok(registry_claim_verification(store, KIND_REPOSITORY, 2, 90000,
						      &rows, &err));
	}
	assert_int_equal(rows.count, 10);
	assert_int_equal(prepared_again, 0);
	registry_rows_clear(&rows);
	store_close(store);
}

TEST(the_counters_are_what_is_there_whatever_happens)
{
	assert_counted(KIND_REPOSITORY);
}

TEST(the_counters_of_blobs_are_too)
{
	assert_counted("lfs");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_claim_keeps_a_quarter_each_for_changed_and_failed_rows),
		CASE(what_failed_without_the_primary_is_made_due_and_keeps_its_count),
		CASE(what_a_queue_does_not_need_the_others_get),
		CASE(small_claims_keep_the_shares_over_time),
		CASE(only_what_is_due_is_claimed_and_a_dead_workers_row_is),
		CASE(a_claim_for_verification_takes_synced_rows_once),
		CASE(who_was_too_slow_says_nothing_more_of_a_row_that_is_anothers),
		CASE(who_was_too_slow_to_verify_proves_nothing_for_another),
		CASE(what_ends_a_claim_takes_its_token_away),
		CASE(a_node_that_starts_takes_back_what_it_had_and_nothing_of_another_node),
		CASE(the_next_due_time_is_the_least_of_all_queues),
		CASE(each_queue_is_read_by_its_own_index),
		CASE(what_is_due_later_than_any_delay_is_due_now),
		CASE(late_rows_of_every_kind_are_healed),
		CASE(what_was_not_verified_again_in_time_is_proved_no_longer),
		CASE(a_proof_ages_though_no_verification_survives_and_not_because_of_that),
		CASE(a_cut_verification_of_an_old_proof_comes_behind_what_is_due),
		CASE(proofs_age_once_a_minute_and_are_a_minute_old),
		CASE(many_proofs_age_in_batches_and_in_order),
		CASE(a_claim_takes_rows_of_its_kind_only),
		CASE(what_is_started_is_due_after_the_longest_delay),
		CASE(verifications_have_a_longest_delay_of_their_own),
		CASE(rows_are_listed_in_order_by_what_one_looks_for),
		CASE(statements_are_prepared_once),
		CASE(the_counters_are_what_is_there_whatever_happens),
		CASE(the_counters_of_blobs_are_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
