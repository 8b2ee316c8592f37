/*
 * What runs and what has ended, as people are shown it.
 */
#include "test.h"

#include "pull/copy_kind.h"
#include "pull/history.h"
#include "replicable/name.h"

#define KEPT 4

static struct history *past;
static json_t *shown;
static const struct copy_kind_ops one_row = { .bring_most = 1 };
static const struct copy_kind_ops many_rows = { .bring_most = 100 };

static int setup(void **state)
{
	past = history_new(KEPT);
	return test_make_root(state);
}

static int teardown(void **state)
{
	json_decref(shown);
	shown = NULL;
	history_free(past);
	return test_remove_root(state);
}

struct one_job {
	struct pull_job job;
	struct registry_row row;
	struct pull_item item;
};

static struct pull_job *job_of(struct one_job *one, const char *name)
{
	*one = (struct one_job){ 0 };
	one->row.kind = (char[]){ "repository" };
	one->row.name = xstrdup(name);
	one->item.row = &one->row;
	one->job.kind = (struct kind){ .type = KIND_REPOSITORY, .copies = &one_row };
	one->job.items = &one->item;
	vec_add(&one->job.rows, one->row);
	return &one->job;
}

static void forget(struct one_job *one)
{
	vec_clear(&one->job.rows);
	free(one->row.name);
}

static void run_one(const char *name, enum pull_end end, enum err_class class)
{
	struct one_job one;
	struct pull_job *job = job_of(&one, name);
	struct history_job *begun = history_begin(past, job);

	one.item.end = end;
	one.item.is_proved = end == PULL_UPDATED;
	if (class != ERR_NONE)
		err_set(&one.item.why, class, "not today");
	one.item.bytes = job->bytes = 1000;
	history_end(past, begun, job);
	forget(&one);
}

static json_t *ends_of(const char *name)
{
	json_decref(shown);
	shown = history_of_json(past, KIND_REPOSITORY, name, 10);
	return shown;
}

static const char *text_at(const json_t *array, size_t at, const char *key)
{
	return json_string_value(json_object_get(json_array_get(array, at), key));
}

TEST(ends_are_told_newest_first_and_of_one_name)
{
	run_one("a", PULL_CREATED, ERR_NONE);
	run_one("b", PULL_UPDATED, ERR_NONE);
	run_one("a", PULL_FAILED, ERR_DISK);
	const json_t *ends = ends_of("a");
	assert_int_equal(json_array_size(ends), 2);
	assert_string_equal(text_at(ends, 0, "result"), "failed");
	assert_string_equal(text_at(ends, 1, "result"), "created");
	const json_t *failure = json_object_get(json_array_get(ends, 0), "failure");
	assert_string_equal(json_string_value(json_object_get(failure, "message")),
			    "not today");
	assert_true(json_is_null(json_object_get(json_array_get(ends, 1), "failure")));
	assert_int_equal(json_array_size(ends_of("c")), 0);
}

TEST(the_oldest_go)
{
	run_one("a", PULL_CREATED, ERR_NONE);
	for (int i = 0; i < KEPT; i++)
		run_one("b", PULL_UPDATED, ERR_NONE);
	assert_int_equal(json_array_size(ends_of("a")), 0);
	assert_int_equal(json_array_size(ends_of("b")), KEPT);
}

/* Who waits for a lease has nothing to be told of: it is tried again. */
TEST(a_lease_that_another_has_is_no_end)
{
	run_one("a", PULL_FAILED, ERR_BUSY);
	run_one("a", PULL_FAILED, ERR_LOCK_TIMEOUT);
	run_one("a", PULL_FAILED, ERR_LOCK_UNAVAILABLE);
	run_one("a", PULL_WAITS, ERR_NONE);
	assert_int_equal(json_array_size(ends_of("a")), 0);
}

TEST(what_runs_is_shown_with_what_came_so_far)
{
	struct one_job one;
	struct pull_job *job = job_of(&one, "a");

	snprintf(job->id, sizeof(job->id), "a job");
	struct history_job *begun = history_begin(past, job);
	atomic_fetch_add(&begun->bytes, 4711);
	shown = history_running_json(past, 10);
	assert_int_equal(json_array_size(shown), 1);
	assert_string_equal(text_at(shown, 0, "name"), "a");
	assert_string_equal(text_at(shown, 0, "what"), "sync");
	assert_string_equal(text_at(shown, 0, "job"), "a job");
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(shown, 0), "bytes")),
		4711);
	json_decref(shown);
	struct pull_copies copies;
	history_look(past, &copies);
	assert_int_equal(copies.sized, 0); /* it comes by git */
	atomic_store(&begun->bytes_at_end, 5000);
	history_look(past, &copies);
	assert_int_equal(copies.sized, 1);
	assert_int_equal(copies.bytes_to_come, 289);
	assert_int_equal(copies.copied, 0);
	atomic_fetch_add(&begun->bytes, 1000); /* the rest came by git */
	history_look(past, &copies);
	assert_int_equal(copies.bytes_to_come, 0);
	assert_int_equal(copies.copied, 1);
	history_set_id(past, begun, "another");
	shown = history_running_json(past, 10);
	assert_string_equal(text_at(shown, 0, "job"), "another");
	one.item.end = PULL_UNCHANGED;
	history_end(past, begun, job);
	json_decref(shown);
	shown = history_running_json(past, 10);
	assert_int_equal(json_array_size(shown), 0);
	forget(&one);
}

TEST(of_kinds_with_many_rows_a_job_only_numbers_are_kept)
{
	struct one_job one;
	struct pull_job *job = job_of(&one, "x");
	struct history_job *begun;

	job->kind = (struct kind){ .type = "lfs", .copies = &many_rows };
	begun = history_begin(past, job);
	one.item.end = PULL_CREATED;
	job->bytes = 500;
	history_end(past, begun, job);
	forget(&one);
	run_one("a", PULL_UPDATED, ERR_NONE);
	json_t *lfs = history_of_json(past, "lfs", "x", 10);
	assert_int_equal(json_array_size(lfs), 0);
	json_decref(lfs);
	shown = history_rates_json(past);
	const json_t *hour = json_object_get(shown, "hour");
	assert_int_equal(json_integer_value(json_object_get(hour, "jobs")), 2);
	assert_int_equal(json_integer_value(json_object_get(hour, "bytes")), 1500);
	assert_true(json_is_string(json_object_get(shown, "last_verified_at")));
}

TEST(one_run_keeps_none)
{
	struct one_job one;
	struct pull_job *job = job_of(&one, "a");

	assert_null(history_begin(NULL, job));
	history_end(NULL, NULL, job);
	forget(&one);
}

#define HISTORY_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		HISTORY_CASE(ends_are_told_newest_first_and_of_one_name),
		HISTORY_CASE(the_oldest_go),
		HISTORY_CASE(a_lease_that_another_has_is_no_end),
		HISTORY_CASE(what_runs_is_shown_with_what_came_so_far),
		HISTORY_CASE(of_kinds_with_many_rows_a_job_only_numbers_are_kept),
		HISTORY_CASE(one_run_keeps_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
