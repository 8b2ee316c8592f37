#include "test.h"

#include <malloc.h>

#include "base/clock.h"
#include "pull/lane.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"

#include "registry_write.h"

/* Rows that are due, by kind; what was claimed and what ran. */
static struct due {
	const char *kind;
	size_t small, large;
} due[3];
static struct str claims = STR_INIT;
static atomic_int_fast64_t first_claim; /* boot ms */
static atomic_size_t jobs, rows_run;
static size_t added;
static atomic_bool holds;
static bool is_broken; /* the database */
static bool is_quick;  /* work has ended before more is claimed */
static struct store *store;
static struct pull pull;
static struct lane lane;

static uint64_t small_size;

/* As they were claimed from the registry; fast, as a lane is filled for a second only. */
static void add_rows(registry_rows *rows, const char *kind, size_t count, uint64_t size)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	size_t before = rows->count;

	for (size_t i = 0; i < count; i++)
		vec_add(&names, xasprintf("r%zu", added++));
	assert_ok(
		registry_add(store, kind, (const char *const *)names.items, count, &err));
	assert_ok(registry_claim(store, kind, count, 60000, rows, &err));
	assert_int_equal(rows->count, before + count);
	for (size_t i = before; i < rows->count; i++)
		rows->items[i].size = size;
}

/* So many of those that are due. */
static void take_due(size_t *left, size_t *limit, registry_rows *rows, const char *kind,
		     uint64_t size)
{
	size_t count = *left < *limit ? *left : *limit;

	*left -= count;
	*limit -= count;
	if (count > 0)
		add_rows(rows, kind, count, size);
}

static int claim(struct store *from, const char *kind, size_t limit, int64_t timeout_ms,
		 registry_rows *rows, struct err *error)
{
	(void)from;
	(void)timeout_ms;
	if (is_broken) {
		vec_add(rows, ((struct registry_row){ .size = 1 }));
		rows->count = 0; /* what was claimed is given back */
		return err_set(error, ERR_DISK, "the database cannot be written");
	}
	if (is_quick)
		pool_drain(lane.pool);
	for (size_t i = 0; i < ARRAY_SIZE(due); i++) {
		if (!due[i].kind || strcmp(due[i].kind, kind) != 0)
			continue;
		str_addf(&claims, "%s %zu; ", kind, limit);
		take_due(&due[i].small, &limit, rows, kind, small_size);
		take_due(&due[i].large, &limit, rows, kind, (uint64_t)1 << 30);
	}
	return 0;
}

static int toy_check_name(const struct kind *kind, const char *name, struct err *error)
{
	(void)kind;
	(void)name;
	(void)error;
	return 0;
}

static void toy_run(struct pull_job *job)
{
	jobs++;
	rows_run += job->rows.count;
	if (job->claimed_at < first_claim)
		first_claim = job->claimed_at;
	while (holds)
		usleep(1000);
	for (size_t i = 0; i < job->rows.count; i++)
		job->items[i].end = PULL_WAITS;
}

static void toy_end(struct pull_job *job)
{
	(void)job;
}

/* Kinds that do nothing: one whose rows are each a job, and one of many small ones. */
static const struct copy_kind_ops one_ops = { .bring_most = 1,
					      .verify_most = 1,
					      .bring = toy_run,
					      .verify = toy_run,
					      .end = toy_end };
static const struct copy_kind_ops many_ops = { .bring_most = 128,
					       .verify_most = 10,
					       .small_most = 1 << 20,
					       .bring = toy_run,
					       .verify = toy_run,
					       .end = toy_end };

static int64_t count_in(const char *kind, enum registry_state state)
{
	struct registry_counts counts;

	assert_ok(registry_counts(store, kind, &counts, &err));
	return counts.states[state];
}

static int set_up(void **state)
{
	(void)state;
	pull = (struct pull){ 0 };
	mutex_init(&pull.mutex);
	cond_init(&pull.changed);
	str_clear(&claims);
	jobs = rows_run = added = 0;
	assert_ok(store_open("sqlite::memory:", &store, &err));
	holds = is_broken = is_quick = false;
	first_claim = INT64_MAX;
	small_size = 10;
	memset(due, 0, sizeof(due));
	pull.options.store = store;
	pull.settings.timeout_ms = 60000;
	stop_init(&pull.stop);
	lane = (struct lane){ .pull = &pull,
			      .pool = pool_start("lane", 4),
			      .running = &pull.state.bringing[PULL_BLOB_WORKERS],
			      .claimed = "test.claimed",
			      .claim = claim };
	lane_set_capacity(&lane, 4);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	holds = false;
	pool_stop(lane.pool, pull_job_forget);
	lane_clear(&lane);
	stop_clear(&pull.stop);
	pthread_cond_destroy(&pull.changed);
	pthread_mutex_destroy(&pull.mutex);
	store_close(store);
	str_clear(&claims);
	return 0;
}

static void add_kind(const char *type, size_t small, size_t large)
{
	const struct copy_kind_ops *ops =
		strcmp(type, KIND_REPOSITORY) == 0 ? &one_ops : &many_ops;

	due[lane.queues.count] = (struct due){ type, small, large };
	vec_add(&lane.queues,
		((struct lane_queue){ .kind = { .type = type,
						.check_name = toy_check_name,
						.copies = ops } }));
}

static int64_t fill(void)
{
	int64_t next_at;

	assert_ok(lane_fill(&lane, 1000, &next_at, &err));
	return next_at;
}

TEST(a_database_that_cannot_be_written_costs_no_memory)
{
	size_t before = 0;
	int64_t next_at;

	add_kind("files", 1000, 0);
	is_broken = true;
	for (int i = 0; i < 1000; i++) {
		assert_fails(lane_fill(&lane, 1000, &next_at, &err), ERR_DISK);
		if (i == 100)
			before = mallinfo2().uordblks;
	}
	assert_true(mallinfo2().uordblks < before + 10000);
}

/* Else the scheduler would see neither a stop nor other settings. */
TEST(work_that_ends_at_once_does_not_keep_the_scheduler_for_ever)
{
	add_kind("files", SIZE_MAX, 0);
	is_quick = true;
	assert_true(fill() <= clock_wall_ms());
	pool_drain(lane.pool);
	assert_true(jobs > 0);
}

TEST(of_small_blobs_many_are_claimed_once_it_is_known_that_they_are)
{
	add_kind("files", 1000, 0);
	holds = true;
	assert_true(fill() == INT64_MAX);
	assert_string_equal(claims.data, "files 4; files 128; files 128; files 128; ");
	holds = false;
	pool_drain(lane.pool);
	assert_int_equal(rows_run, 4 + 3 * 128);
	assert_int_equal(jobs, 4);
}

TEST(a_job_of_small_blobs_has_no_more_than_some_bytes)
{
	small_size = 1 << 20;
	add_kind("files", 1000, 0);
	holds = true;
	fill();
	assert_string_equal(claims.data, "files 4; files 15; files 15; files 15; ");
	holds = false;
	pool_drain(lane.pool);
}

TEST(a_large_one_goes_to_the_next_free_worker_before_anything_is_claimed)
{
	int64_t began = clock_boot_ms();

	add_kind("files", 0, 6);
	lane.queues.items[0].many = 128; /* as the last claim said */
	holds = true;
	assert_true(fill() == INT64_MAX);
	assert_string_equal(claims.data, "files 128; ");
	assert_int_equal(lane.waiting.count, 2);
	holds = false;
	pool_drain(lane.pool);
	due[0].small = 10;
	lane.queues.items[0].due_at = 0;
	holds = true; /* who ends early is free, and more is claimed */
	fill();
	holds = false;
	pool_drain(lane.pool);
	assert_int_equal(lane.waiting.count, 0);
	assert_int_equal(jobs, 8);
	assert_true(first_claim >= began && first_claim <= clock_boot_ms());
	assert_string_equal(claims.data, "files 128; files 2; files 128; ");
}

TEST(kinds_are_worked_on_in_turn)
{
	add_kind("files", 1000, 0);
	add_kind("lfs", 1000, 0);
	holds = true;
	fill();
	assert_string_equal(claims.data, "files 4; lfs 3; files 128; lfs 128; ");
}

TEST(verification_shares_its_workers_between_repositories_and_blobs)
{
	lane.is_verification = true;
	add_kind(KIND_REPOSITORY, 100, 0);
	add_kind("files", 1000, 0);
	holds = true;
	fill();
	assert_string_equal(claims.data, "repository 2; files 10; repository 1; ");
	holds = false;
	pool_drain(lane.pool);
	assert_int_equal(jobs, 4);
	assert_int_equal(rows_run, 13);
}

TEST(without_capacity_nothing_is_claimed)
{
	add_kind("files", 1000, 0);
	lane_set_capacity(&lane, 0);
	assert_true(fill() == INT64_MAX);
	assert_string_equal(claims.data, "");
}

TEST(what_is_not_due_is_left_and_its_time_told)
{
	add_kind("files", 0, 0);
	add_kind("lfs", 0, 0);
	lane.queues.items[0].due_at = INT64_MAX;
	lane.queues.items[1].due_at = clock_wall_ms() + 5000;
	assert_true(fill() == lane.queues.items[1].due_at);
	assert_string_equal(claims.data, "");
}

TEST(what_waits_is_given_back_at_the_end)
{
	add_kind("files", 0, 6);
	lane.queues.items[0].many = 128;
	holds = true;
	fill();
	assert_int_equal(count_in("files", REGISTRY_STARTED), 6);
	lane_clear(&lane);
	assert_int_equal(count_in("files", REGISTRY_STARTED), 4);
	assert_int_equal(count_in("files", REGISTRY_PENDING), 2);
	holds = false;
	pool_drain(lane.pool);
	assert_int_equal(pull.state.bringing[PULL_BLOB_WORKERS], 0);
}

#define LANE_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		LANE_CASE(a_database_that_cannot_be_written_costs_no_memory),
		LANE_CASE(work_that_ends_at_once_does_not_keep_the_scheduler_for_ever),
		LANE_CASE(of_small_blobs_many_are_claimed_once_it_is_known_that_they_are),
		LANE_CASE(a_job_of_small_blobs_has_no_more_than_some_bytes),
		LANE_CASE(
			a_large_one_goes_to_the_next_free_worker_before_anything_is_claimed),
		LANE_CASE(kinds_are_worked_on_in_turn),
		LANE_CASE(verification_shares_its_workers_between_repositories_and_blobs),
		LANE_CASE(without_capacity_nothing_is_claimed),
		LANE_CASE(what_is_not_due_is_left_and_its_time_told),
		LANE_CASE(what_waits_is_given_back_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
