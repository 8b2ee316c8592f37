/*
 * What a clock far ahead has postponed for mirrors is due when the clock was set back.
 */
#include "mirror/heal.h"

#include "base/clock.h"
#include "test.h"

#define LONGEST_MS 200000

static struct store *store;
static int64_t now;

static int set_up(void **state)
{
	(void)state;
	now = clock_wall_ms();
	return store_open("sqlite::memory:", &store, &err);
}

static int tear_down(void **state)
{
	(void)state;
	store_close(store);
	return 0;
}

#define HEAL_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static int64_t heal(void)
{
	int64_t healed = -1;

	assert_ok(mirror_heal_due(store, LONGEST_MS, &healed, &err));
	return healed;
}

static void put_request(int state, int64_t asked_in_ms, int64_t next_in_ms)
{
	assert_ok(store_run(store, &err,
			    "INSERT INTO mirror_request (id, mirror, asked_at, wait_ms,"
			    " is_once, state, next_at)"
			    " VALUES (?1, 'a', ?2, 1000, 0, ?3, ?4)",
			    QUERY_INT(next_in_ms), QUERY_INT(now + asked_in_ms),
			    QUERY_INT(state), QUERY_INT(now + next_in_ms)));
}

static int64_t count(const char *what)
{
	AUTO_FREE char *sql = xasprintf("SELECT count(*) FROM %s", what);
	int64_t number = -1;

	assert_int_equal(store_one(store, query_take_number, &number, &err, sql,
				   QUERY_INT(clock_wall_ms())),
			 1);
	return number;
}

TEST(a_request_that_was_put_off_by_another_clock_is_due)
{
	put_request(0, 0, LONGEST_MS - 20000);
	put_request(0, -1000, LONGEST_MS + 20000);
	assert_int_equal(heal(), 1);
	assert_int_equal(count("mirror_request WHERE next_at <= ?1"), 1);
	assert_int_equal(heal(), 0);
}

/* Whatever the longest delay, it was to be taken up at once. */
TEST(a_request_of_the_future_is_due)
{
	put_request(0, 70000, 70000);
	put_request(0, 5000, 5000);
	put_request(2, 90000, 90000);
	assert_int_equal(heal(), 1);
	assert_int_equal(count("mirror_request WHERE asked_at <= ?1 AND next_at <= ?1"),
			 1);
}

static void put_due_in(const char *sql, const char *name, int64_t in_ms)
{
	assert_ok(store_run(store, &err, sql, QUERY_TEXT(name), QUERY_INT(now + in_ms)));
}

TEST(objects_of_lfs_and_working_trees_are_due)
{
	static const char *const tables[] = {
		"INSERT INTO mirror_lfs (mirror, next_at) VALUES (?1, ?2)",
		"INSERT INTO mirror_checkout (name, due_at) VALUES (?1, ?2)",
	};

	/* the first may be asked for a rest of a day */
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++) {
		int64_t most = LONGEST_MS + (i == 0 ? (int64_t)24 * 3600 * 1000 : 0);
		put_due_in(tables[i], "a", most + 20000);
		put_due_in(tables[i], "b", most - 20000);
	}
	assert_ok(store_run(store, &err, "INSERT INTO mirror_lfs (mirror) VALUES ('c')"));
	assert_int_equal(heal(), 2);
	assert_int_equal(count("mirror_lfs WHERE next_at <= ?1"), 1);
	assert_int_equal(count("mirror_checkout WHERE due_at <= ?1"), 1);
	assert_int_equal(heal(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HEAL_CASE(a_request_that_was_put_off_by_another_clock_is_due),
		HEAL_CASE(a_request_of_the_future_is_due),
		HEAL_CASE(objects_of_lfs_and_working_trees_are_due),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
