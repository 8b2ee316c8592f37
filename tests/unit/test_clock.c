#include "test.h"

#include "base/clock.h"

TEST(a_clock_that_is_set_back_is_noticed_once)
{
	int64_t lead_ms = INT64_MAX;

	assert_true(clock_was_set_back(&lead_ms, 9000000, 1000));
	assert_false(clock_was_set_back(&lead_ms, 9001000, 2000));
	assert_false(clock_was_set_back(&lead_ms, 9001000 - 60000, 2000));
	assert_true(clock_was_set_back(&lead_ms, 9001000 - 60001, 2000));
	assert_false(clock_was_set_back(&lead_ms, 9001000 - 60001, 2000));
}

/* Ahead for a while, by little or much, and back. */
TEST(a_clock_that_went_ahead_and_back_was_set_back)
{
	int64_t lead_ms = INT64_MAX;

	assert_true(clock_was_set_back(&lead_ms, 500000, 1000));
	assert_false(clock_was_set_back(&lead_ms, 31536000000, 2000));
	assert_true(clock_was_set_back(&lead_ms, 502000, 3000));
	assert_false(clock_was_set_back(&lead_ms, 503000, 4000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_clock_that_is_set_back_is_noticed_once),
		CASE(a_clock_that_went_ahead_and_back_was_set_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
