#include "test.h"

#include "base/retry.h"

TEST(delays_are_those_of_geo)
{
	/* research/geo.md, 1.3 */
	static const struct {
		uint64_t n;
		int64_t hour_min, hour_max, missing_min, missing_max;
	} table[] = {
		{ 1, 16, 74, 16, 74 },
		{ 2, 31, 118, 31, 118 },
		{ 3, 96, 212, 96, 212 },
		{ 4, 271, 416, 271, 416 },
		{ 5, 640, 814, 640, 814 },
		{ 6, 1311, 1514, 1311, 1514 },
		{ 7, 2416, 2648, 2416, 2648 },
		{ 8, 3616, 3674, 4111, 4372 },
		{ 9, 3616, 3674, 6576, 6866 },
		{ 10, 3616, 3674, 10015, 10334 },
		{ 11, 3616, 3674, 14416, 14474 },
		{ 99, 3616, 3674, 14416, 14474 },
		{ 100, 3616, 3674, 14416, 14474 },
		{ 65536, 3616, 3674, 14416, 14474 },
		{ INT64_MAX, 3616, 3674, 14416, 14474 },
		{ UINT64_MAX, 3616, 3674, 14416, 14474 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		uint64_t n = table[i].n;
		assert_int_equal(retry_delay(n, RETRY_CAP, 0), table[i].hour_min);
		assert_int_equal(retry_delay(n, RETRY_CAP, 29), table[i].hour_max);
		assert_int_equal(retry_delay(n, RETRY_CAP_MISSING, 0),
				 table[i].missing_min);
		assert_int_equal(retry_delay(n, RETRY_CAP_MISSING, 29),
				 table[i].missing_max);
	}
}

TEST(a_higher_roll_never_waits_less)
{
	for (uint64_t n = 1; n < 200; n++)
		for (unsigned roll = 1; roll < RETRY_ROLLS; roll++)
			assert_true(retry_delay(n, RETRY_CAP, roll) >
				    retry_delay(n, RETRY_CAP, roll - 1));
}

TEST(random_delays_spread_over_all_rolls)
{
	bool seen[RETRY_ROLLS] = { false };
	unsigned rolls = 0;

	for (int i = 0; i < 3000; i++) {
		int64_t ms = retry_random_delay_ms(1, RETRY_CAP);
		assert_true(ms >= 16000 && ms <= 74000 && ms % 2000 == 0);
		seen[(ms - 16000) / 2000] = true;
	}
	for (unsigned roll = 0; roll < RETRY_ROLLS; roll++)
		rolls += seen[roll];
	assert_int_equal(rolls, RETRY_ROLLS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(delays_are_those_of_geo),
		cmocka_unit_test(a_higher_roll_never_waits_less),
		cmocka_unit_test(random_delays_spread_over_all_rolls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
