#include "registry_test.h"

#include "replicable/registry_row.h"

TEST(a_new_row_is_pending_and_adding_again_changes_nothing)
{
	static const char *const again[] = { "a" };

	open_with_rows();
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(registry_add(store, KIND_REPOSITORY, again, 1, &err));
	assert_int_equal(read_row()->state, REGISTRY_STARTED);
	registry_row_clear(&row);
	assert_fails(registry_get(store, KIND_REPOSITORY, "x", &row, &err), ERR_MISSING);
	close_all();
}

TEST(the_way_of_a_good_sync)
{
	struct registry_counts counts;

	open_with_rows();
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_BROUGHT, 1));
	assert_int_equal(read_row()->verification, VERIFICATION_PENDING);
	assert_ok(move(REGISTRY_PROVED, 0));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	assert_int_equal(row.verification, VERIFICATION_SUCCEEDED);
	assert_string_equal(row.checksum, "1-00");
	assert_true(row.last_success_at > 0 && row.verified_at > 0);
	assert_ok(registry_counts(store, KIND_REPOSITORY, &counts, &err));
	assert_int_equal(counts.states[REGISTRY_SYNCED], 1);
	assert_int_equal(counts.states[REGISTRY_PENDING], 2);
	close_all();
}

TEST(two_workers_cannot_both_begin)
{
	open_with_rows();
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_fails(move(REGISTRY_BEGUN, 0), ERR_CONFLICT);
	close_all();
}

/* A worker that died leaves a row that is anybody's again when its time has passed. */
TEST(a_started_row_is_not_started_for_ever)
{
	open_with_rows();
	const struct registry_move dead = {
		.id = replicable_id(KIND_REPOSITORY, "a"),
		.event = REGISTRY_BEGUN,
		.timeout_ms = -1,
	};
	assert_ok(registry_move(store, &dead, &err));
	assert_ok(move(REGISTRY_BEGUN, 0));
	close_all();
}

TEST(a_change_during_a_sync_is_neither_lost_nor_a_failure)
{
	open_with_rows();
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_ASKED, 5));
	assert_fails(move(REGISTRY_BROUGHT, 4), ERR_CONFLICT);
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_int_equal(row.generation, 4); /* what was brought is recorded */
	assert_int_equal(row.generation_wanted, 5);
	assert_int_equal(row.retry_count, 0);
	close_all();
}

TEST(an_older_wish_does_not_lower_what_is_wanted)
{
	open_with_rows();
	assert_ok(move(REGISTRY_ASKED, 7));
	assert_ok(move(REGISTRY_ASKED, 6));
	assert_int_equal(read_row()->generation_wanted, 7);
	close_all();
}

TEST(failures_back_off_and_a_success_forgets_them)
{
	int64_t now = clock_wall_ms();

	open_with_rows();
	for (int64_t i = 1; i <= 3; i++) {
		assert_ok(move(REGISTRY_BEGUN, 0));
		assert_ok(move(REGISTRY_ERRED, 0));
		assert_int_equal(read_row()->retry_count, i);
	}
	assert_int_equal(row.state, REGISTRY_FAILED);
	assert_in_range(row.retry_at - now, 96 * 1000, 213 * 1000);
	assert_string_equal(row.failure_class, "network");
	assert_string_equal(row.failure, "it broke");
	assert_string_equal(row.remedy, "mend it");
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_BROUGHT, 1));
	assert_int_equal(read_row()->retry_count, 0);
	assert_null(row.failure);
	assert_int_equal(row.retry_at, 0);
	close_all();
}

TEST(what_is_held_stays_pending_with_its_reason)
{
	open_with_rows();
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_HELD, 0));
	assert_int_equal(read_row()->state, REGISTRY_PENDING);
	assert_string_equal(row.held_reason, "too many");
	assert_ok(move(REGISTRY_ASKED, 2));
	assert_null(read_row()->held_reason);
	close_all();
}

static int count_never_copied(struct store_tx *tx, void *arg, struct err *error)
{
	return query_number(tx, arg, error,
			    "SELECT COUNT(*) FROM registry WHERE due_at > 0"
			    " AND last_success_at IS NULL AND gone = 0"
			    " AND state IN (0, 1, 3) AND held_reason IS NULL");
}

static int count_here(struct store_tx *tx, void *arg, struct err *error)
{
	int64_t *count = arg;

	if (registry_count_here(tx, KIND_REPOSITORY, count, error) != 0)
		return -1;
	return query_one(tx, NULL, NULL, error,
			 "SELECT 1 WHERE ?1 = (SELECT COUNT(*) FROM registry"
			 " WHERE generation > 0 AND gone = 0 AND wishes & 8448 = 0)",
			 QUERY_INT(*count)) == 1
		       ? 0
		       : err_set(error, ERR_INTERNAL, "counted wrong");
}

static int64_t here(void)
{
	int64_t count = -1;

	assert_ok(store_read(store, count_here, &count, &err));
	return count;
}

TEST(what_is_here_is_counted_until_it_is_to_be_replaced_or_gone)
{
	struct registry_move asked = { .id = replicable_id(KIND_REPOSITORY, "a"),
				       .event = REGISTRY_ASKED,
				       .wishes = REGISTRY_WISHES_RESYNC };

	open_with_rows();
	assert_int_equal(here(), 0);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete(1, "1-aa"));
	assert_int_equal(here(), 1);
	assert_ok(registry_move(store, &asked, &err));
	assert_int_equal(here(), 0);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete(2, "1-aa"));
	assert_int_equal(here(), 1);
	asked.event = REGISTRY_GONE;
	asked.wishes = 0;
	assert_ok(registry_move(store, &asked, &err));
	assert_int_equal(here(), 0);
	close_all();
}

static int64_t never_copied(void)
{
	struct registry_counts counts;
	int64_t count = -1;

	assert_ok(registry_counts(store, KIND_REPOSITORY, &counts, &err));
	assert_ok(store_read(store, count_never_copied, &count, &err));
	assert_int_equal(counts.never_copied, count);
	return counts.never_copied;
}

TEST(what_was_never_copied_is_counted_until_it_is_or_is_held_or_missing)
{
	open_with_rows();
	assert_int_equal(never_copied(), 3);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_int_equal(never_copied(), 3);
	assert_ok(move(REGISTRY_ERRED, 0));
	assert_int_equal(never_copied(), 3);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_ABSENT, 0));
	assert_int_equal(never_copied(), 2);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_HELD, 0));
	assert_int_equal(never_copied(), 2);
	assert_ok(ask(1, "t1", NULL));
	assert_int_equal(never_copied(), 3);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete(1, "1-aa"));
	assert_ok(ask(2, "t1", NULL));
	assert_int_equal(never_copied(), 2);
	close_all();
}

TEST(a_disproved_copy_is_failed_until_it_is_copied_again)
{
	open_with_rows();
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_BROUGHT, 1));
	assert_ok(move(REGISTRY_DISPROVED, 0));
	assert_int_equal(read_row()->state, REGISTRY_FAILED);
	assert_int_equal(row.verification, VERIFICATION_FAILED);
	close_all();
}

/* Whatever the row was when the person looked: nobody else has to have left it alone. */
TEST(who_asks_for_a_verification_is_heard_in_every_state)
{
	open_with_rows();
	assert_ok(move(REGISTRY_REVERIFY, 0));
	assert_int_equal(read_row()->wishes, REGISTRY_WISH_RECHECK);
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(move(REGISTRY_REVERIFY, 0));
	assert_fails(complete(1, "1-aa"), ERR_CONFLICT); /* once more */
	assert_ok(move(REGISTRY_BEGUN, 0));
	assert_ok(complete(1, "1-aa"));
	assert_int_equal(read_row()->verification, VERIFICATION_SUCCEEDED);
	assert_ok(move(REGISTRY_REVERIFY, 0));
	assert_int_equal(read_row()->state, REGISTRY_SYNCED);
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_ok(move(REGISTRY_GONE, 0));
	assert_fails(move(REGISTRY_REVERIFY, 0), ERR_CONFLICT);
	close_all();
}

TEST(only_what_was_begun_can_end)
{
	open_with_rows();
	assert_fails(move(REGISTRY_BROUGHT, 1), ERR_CONFLICT);
	assert_fails(move(REGISTRY_ERRED, 1), ERR_CONFLICT);
	assert_fails(move(REGISTRY_HELD, 1), ERR_CONFLICT);
	assert_fails(move(REGISTRY_PROVED, 1), ERR_CONFLICT);
	const struct registry_move nobody = { .id = 1, .event = REGISTRY_ASKED };
	assert_fails(registry_move(store, &nobody, &err), ERR_MISSING);
	close_all();
}

static int run_sql(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

static void prove(const char *name, int64_t due_at)
{
	AUTO_FREE char *sql = xasprintf(
		"UPDATE registry SET verification_due_at = %" PRId64 " WHERE name = '%s'",
		due_at, name);
	struct registry_move change = { .id = replicable_id(KIND_REPOSITORY, name),
					.event = REGISTRY_BEGUN,
					.generation = 1,
					.checksum = "1-00",
					.timeout_ms = 60000 };

	assert_ok(registry_move(store, &change, &err));
	change.event = REGISTRY_BROUGHT;
	assert_ok(registry_move(store, &change, &err));
	change.event = REGISTRY_PROVED;
	assert_ok(registry_move(store, &change, &err));
	assert_ok(store_write(store, run_sql, sql, &err));
}

static int64_t age_proofs(int64_t interval_ms)
{
	const struct proofs_ageing proofs = { .interval_ms = interval_ms,
					      .before = clock_wall_ms() - interval_ms };
	int64_t aged = -1;

	assert_ok(registry_age_proofs(store, KIND_REPOSITORY, &proofs, &aged, &err));
	return aged;
}

/* As one that is read for longer than its workers may have it, or from a disk that does
 * not answer. */
TEST(a_proof_ages_while_a_verification_is_at_work_that_does_not_end)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	struct registry_counts before, after;
	const int64_t minute_ms = 60000, now = clock_wall_ms();

	open_with_rows();
	prove("a", now - 7 * minute_ms);
	prove("b", now - minute_ms);
	for (int i = 0; i < 2; i++) { /* the first is too late */
		registry_rows_clear(&rows);
		assert_ok(registry_claim_verification(store, KIND_REPOSITORY, 9,
						      i == 0 ? -1 : 60000, &rows, &err));
	}
	assert_int_equal(rows.count, 2);
	assert_ok(registry_counts(store, KIND_REPOSITORY, &before, &err));
	assert_int_equal(before.proved, 2);
	assert_int_equal(age_proofs(5 * minute_ms), 1);
	assert_int_equal(age_proofs(5 * minute_ms), 0);
	assert_ok(registry_counts(store, KIND_REPOSITORY, &after, &err));
	assert_int_equal(after.proved, 1);
	assert_memory_equal(after.verification, before.verification,
			    sizeof(after.verification));
	assert_false(read_row()->is_proved);
	assert_int_equal(row.verification, VERIFICATION_STARTED);
	assert_int_equal(row.verification_was_due_at, now - 12 * minute_ms);
	assert_ok(send((struct registry_move){ .event = REGISTRY_PROVED,
					       .claim_token = row.claim_token,
					       .generation = 1,
					       .checksum = "1-00",
					       .timeout_ms = 60000 }));
	assert_true(read_row()->is_proved);
	assert_int_equal(age_proofs(5 * minute_ms), 0);
	close_all();
}

static int explain_ageing(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_FREE char *explain =
		xasprintf("EXPLAIN QUERY PLAN %s", registry_aged_at_work_sql);
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, explain, &query, error) != 0 || query_step(query, error) <= 0)
		return -1;
	snprintf(arg, 200, "%s", query_text(query, 3));
	return 0;
}

/* Few are at work, of many. */
TEST(only_what_is_at_work_is_looked_through_for_old_proofs_of_it)
{
	char plan[200];

	open_with_rows();
	assert_ok(store_read(store, explain_ageing, plan, &err));
	assert_non_null(strstr(plan, "INDEX registry_at_work (kind=? AND"));
	close_all();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_new_row_is_pending_and_adding_again_changes_nothing),
		CASE(the_way_of_a_good_sync),
		CASE(two_workers_cannot_both_begin),
		CASE(a_started_row_is_not_started_for_ever),
		CASE(a_change_during_a_sync_is_neither_lost_nor_a_failure),
		CASE(an_older_wish_does_not_lower_what_is_wanted),
		CASE(failures_back_off_and_a_success_forgets_them),
		CASE(what_is_held_stays_pending_with_its_reason),
		CASE(what_is_here_is_counted_until_it_is_to_be_replaced_or_gone),
		CASE(what_was_never_copied_is_counted_until_it_is_or_is_held_or_missing),
		CASE(a_disproved_copy_is_failed_until_it_is_copied_again),
		CASE(who_asks_for_a_verification_is_heard_in_every_state),
		CASE(only_what_was_begun_can_end),
		CASE(a_proof_ages_while_a_verification_is_at_work_that_does_not_end),
		CASE(only_what_is_at_work_is_looked_through_for_old_proofs_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
