#include "test.h"

#include "push/outcome.h"

#define MINUTE ((int64_t)60 * 1000)
#define HOUR (60 * MINUTE)

static const struct patience endless = { 0 };

TEST(the_wait_doubles_up_to_a_cap_and_is_spread_by_a_fifth)
{
	const unsigned middle = (BACKOFF_ROLLS - 1) / 2;

	assert_int_equal(push_backoff_ms(MINUTE, 1, middle), MINUTE);
	assert_int_equal(push_backoff_ms(MINUTE, 2, middle), 2 * MINUTE);
	assert_int_equal(push_backoff_ms(MINUTE, 6, middle), 32 * MINUTE);
	assert_int_equal(push_backoff_ms(MINUTE, 7, middle), HOUR);
	assert_int_equal(push_backoff_ms(MINUTE, UINT64_MAX, middle), HOUR);
	assert_int_equal(push_backoff_ms(3 * HOUR, 9, middle), 3 * HOUR);
	assert_int_equal(push_backoff_ms(MINUTE, 1, 0), 48000);
	assert_int_equal(push_backoff_ms(MINUTE, 1, BACKOFF_ROLLS - 1), 72000);
	assert_int_equal(push_backoff_ms(0, 1, middle), 1000);
}

TEST(a_retry_time_further_ahead_than_any_that_is_set_is_none)
{
	const struct push_settings settings = { 0 };
	const struct uri_state failed = { .retry_at = 100 * HOUR };

	assert_int_equal(retry_at_of(&settings, &failed, 99 * HOUR), 100 * HOUR);
	assert_int_equal(retry_at_of(&settings, &failed, 98 * HOUR), 0);
}

/* The clock was set back by an hour. */
TEST(a_retry_time_further_ahead_than_after_so_many_failures_is_none)
{
	struct push_remote remote = { .name = (char *)(uintptr_t) "r",
				      .retry_ms = MINUTE };
	const struct push_settings settings = { .remotes = { &remote, 1, 1 } };
	struct uri_state failed = { .remote = remote.name,
				    .failures = 1,
				    .retry_at = 100 * HOUR };

	assert_int_equal(retry_at_of(&settings, &failed, 99 * HOUR - MINUTE), 0);
	assert_int_equal(retry_at_of(&settings, &failed, 100 * HOUR - MINUTE),
			 100 * HOUR);
	failed.held_since = 1;
	assert_int_equal(retry_at_of(&settings, &failed, 99 * HOUR - MINUTE), 100 * HOUR);
	failed.held_since = 0;
	failed.failures = 10;
	assert_int_equal(retry_at_of(&settings, &failed, 99 * HOUR - MINUTE), 100 * HOUR);
}

static struct patience patience_at(uint64_t max_retries, int64_t lock_max_retries,
				   uint64_t failures, uint64_t lock_failures)
{
	const struct push_settings settings = { .lock_max_retries = lock_max_retries };
	const struct push_remote remote = { .max_retries = max_retries };
	const struct uri_state state = { .failures = failures,
					 .lock_failures = lock_failures };

	return patience_left(&settings, &remote, &state);
}

TEST(patience_ends_after_one_attempt_more_than_retries_are_allowed)
{
	assert_false(patience_at(1, -1, 0, 0).is_over);
	assert_true(patience_at(1, -1, 1, 0).is_over);
	assert_false(patience_at(0, -1, 1000, 0).is_over); /* for ever */
}

TEST(failures_of_head_and_of_refs_are_counted_apart)
{
	const struct push_settings settings = { .lock_max_retries = 2 };
	const struct push_remote remote = { .max_retries = 2 };
	struct uri_state failed = { .failures = 2, .is_head = true };

	assert_false(patience_left(&settings, &remote, &failed).is_over);
	assert_true(patience_is_over_for_head(&remote, &failed));
	failed.is_head = false;
	assert_true(patience_left(&settings, &remote, &failed).is_over);
	assert_false(patience_is_over_for_head(&remote, &failed));
}

TEST(locked_refs_have_a_limit_of_their_own_only_if_it_is_set)
{
	assert_true(patience_at(0, 0, 0, 0).is_over_for_locks);
	assert_false(patience_at(0, 0, 0, 0).is_over);
	assert_false(patience_at(0, 3, 2, 2).is_over_for_locks);
	assert_true(patience_at(0, 3, 3, 3).is_over_for_locks);
	assert_false(patience_at(1, 3, 2, 2).is_over); /* locks do not count for it */
	assert_true(patience_at(1, -1, 1, 1).is_over_for_locks);
	assert_false(patience_at(0, -1, 9, 9).is_over_for_locks);
}

static ref_results results;

static void add(const char *ref, enum ref_status status, bool is_transient)
{
	vec_add(&results, ((struct ref_result){ .ref = xstrdup(ref),
						.dst = xstrdup(ref),
						.status = status,
						.is_transient = is_transient }));
}

static int clean(void **state)
{
	(void)state;
	ref_results_clear(&results);
	return 0;
}

/* The fate of a task with these refs, which end in NULL. */
static void judge(struct patience patience, const char *const *refs,
		  struct task_outcome *outcome)
{
	struct task task = { 0 };
	struct judge *by = judge_new(&results, patience);

	for (; *refs; refs++)
		vec_add(&task.refs, xstrdup(*refs));
	judge_task(by, &task, outcome);
	judge_free(by);
	text_list_clear(&task.refs);
}

#define REFS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void assert_fate(struct patience patience, const char *const *refs,
			enum task_fate fate, size_t left, size_t failures)
{
	struct task_outcome outcome;

	judge(patience, refs, &outcome);
	assert_int_equal(outcome.fate, fate);
	assert_int_equal(outcome.left.count, left);
	assert_int_equal(outcome.failures.count, failures);
	task_outcome_clear(&outcome);
}

TEST(a_task_is_done_when_all_its_refs_stand_or_are_gone_or_are_not_mapped)
{
	add("a", REF_OK, false);
	add("b", REF_UP_TO_DATE, false);
	add("c", REF_NON_EXISTING, false);
	add("x", REF_REJECTED_NONFASTFORWARD, false); /* another task's */
	assert_fate(endless, REFS("a", "b", "c", "unmapped"), TASK_DONE, 0, 0);
}

TEST(only_what_may_pass_by_itself_is_tried_again)
{
	add("a", REF_OK, false);
	add("b", REF_REJECTED_OTHER_REASON, true);
	add("c", REF_NOT_ATTEMPTED, false);
	assert_fate(endless, REFS("a", "b", "c"), TASK_FEWER, 2, 0);
	assert_fate(endless, REFS("b", "c"), TASK_AGAIN, 2, 0);
	assert_fate(endless, REFS("a"), TASK_DONE, 0, 0);
	/* of a full push, what is left is named */
	assert_fate(endless, REFS(TASK_ALL_REFS), TASK_FEWER, 2, 0);
}

TEST(what_was_refused_for_good_is_never_lost)
{
	struct task_outcome outcome;

	add("a", REF_OK, false);
	add("b", REF_REJECTED_NONFASTFORWARD, false);
	add("c", REF_REJECTED_REMOTE_CHANGED, true);
	assert_fate(endless, REFS("a", "b"), TASK_FAILED, 0, 1);
	assert_fate(endless, REFS(TASK_ALL_REFS), TASK_SPLIT, 1, 1);
	judge(endless, REFS("b", "c"), &outcome);
	assert_string_equal(outcome.left.items[0], "c");
	assert_string_equal(outcome.failures.items[0].ref, "b");
	assert_string_equal(outcome.failures.items[0].text, "REJECTED_NONFASTFORWARD");
	task_outcome_clear(&outcome);
}

TEST(what_is_held_waits_for_a_person_and_is_no_try_to_come)
{
	add("a", REF_OK, false);
	add("b", REF_NOT_ATTEMPTED, false);
	add("c", REF_NOT_ATTEMPTED, false);
	results.items[1].is_held = true;
	assert_fate(endless, REFS("a", "b"), TASK_FAILED, 0, 1);
	assert_fate(endless, REFS("b", "c"), TASK_SPLIT, 1, 1);
}

TEST(when_patience_is_over_what_could_pass_has_failed_too)
{
	add("a", REF_REJECTED_OTHER_REASON, true);
	add("b", REF_REJECTED_OTHER_REASON, true);
	results.items[1].is_lock = true;
	assert_fate((struct patience){ .is_over = true }, REFS("a", "b"), TASK_SPLIT, 1,
		    1);
	assert_fate((struct patience){ .is_over_for_locks = true }, REFS("b"),
		    TASK_FAILED, 0, 1);
}

TEST(the_sum_counts_fates_and_shows_what_is_tried_again_first)
{
	struct results_sum sum;

	add("a", REF_OK, false);
	add("b", REF_REJECTED_NODELETE, false);
	add("c", REF_REJECTED_OTHER_REASON, true);
	results.items[2].is_lock = true;
	results_sum(&results, endless, &sum);
	assert_int_equal(sum.again, 1);
	assert_int_equal(sum.locked, 1);
	assert_string_equal(sum.example->ref, "c");
	assert_fate(endless, REFS("a"), TASK_DONE, 0, 0);
	assert_fate(endless, REFS("b"), TASK_FAILED, 0, 1);
}

TEST(only_failures_on_the_way_to_a_host_are_its_own)
{
	struct err why;

	err_set(&why, ERR_NETWORK, "cannot connect");
	assert_true(is_host_failure(&why));
	err_set(&why, ERR_TIMEOUT, "too slow");
	outcome_is_local(&why, "p");
	assert_false(is_host_failure(&why));
	err_set(&why, ERR_TIMEOUT, "too slow");
	err_because(&why, REASON_ELSEWHERE);
	assert_false(is_host_failure(&why));
	err_set(&why, ERR_AUTH, "refused");
	assert_false(is_host_failure(&why));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_wait_doubles_up_to_a_cap_and_is_spread_by_a_fifth),
		cmocka_unit_test(a_retry_time_further_ahead_than_any_that_is_set_is_none),
		cmocka_unit_test(
			a_retry_time_further_ahead_than_after_so_many_failures_is_none),
		cmocka_unit_test(
			patience_ends_after_one_attempt_more_than_retries_are_allowed),
		cmocka_unit_test(failures_of_head_and_of_refs_are_counted_apart),
		cmocka_unit_test(locked_refs_have_a_limit_of_their_own_only_if_it_is_set),
		cmocka_unit_test_teardown(
			a_task_is_done_when_all_its_refs_stand_or_are_gone_or_are_not_mapped,
			clean),
		cmocka_unit_test_teardown(only_what_may_pass_by_itself_is_tried_again,
					  clean),
		cmocka_unit_test_teardown(what_was_refused_for_good_is_never_lost, clean),
		cmocka_unit_test_teardown(
			what_is_held_waits_for_a_person_and_is_no_try_to_come, clean),
		cmocka_unit_test_teardown(
			when_patience_is_over_what_could_pass_has_failed_too, clean),
		cmocka_unit_test_teardown(
			the_sum_counts_fates_and_shows_what_is_tried_again_first, clean),
		cmocka_unit_test(only_failures_on_the_way_to_a_host_are_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
