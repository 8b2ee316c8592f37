#include "test.h"

#include "base/clock.h"
#include "base/hook_wire.h"

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

TEST(times_are_read_strictly)
{
	static const char *const bad[] = { "",
					   "x",
					   "2026-11-21",
					   "2026-11-21T09:14:03",
					   "2026-11-21T09:14:03.1Z",
					   "2026-11-21T09:14:03.120Zx",
					   "2026-11-21T09:14:03.120+01:00" };
	char text[CLOCK_TEXT_SIZE];
	int64_t ms = 0;

	clock_format(1795252443120, text);
	assert_true(clock_parse(text, &ms));
	assert_int_equal(ms, 1795252443120);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (clock_parse(bad[i], &ms))
			fail_msg("\"%s\"", bad[i]);
}

TEST(times_of_others_have_a_zone)
{
	static const char *const same[] = { "2026-11-21T09:14:03Z", "2026-11-21T09:14:03",
					    "2026-11-21T09:14:03.1204Z",
					    "2026-11-21T10:44:03+01:30",
					    "2026-11-21T02:14:03.5-0700" };
	int64_t ms = 0;

	for (size_t i = 0; i < ARRAY_SIZE(same); i++) {
		assert_true(clock_parse_zoned(same[i], &ms));
		assert_int_equal(ms, 1795252443000);
	}
	assert_false(clock_parse_zoned("2026-11-21", &ms));
	assert_false(clock_parse_zoned("2026-11-21T09:14:03 later", &ms));
}

TEST(a_boot_is_named_with_dashes_however_it_is_given)
{
	static const char kernel[] = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
	char id[BOOT_ID_LEN + 1];

	assert_true(boot_id_read("0f1e2d3c4b5a69788796a5b4c3d2e1f0", id));
	assert_string_equal(id, kernel);
	assert_true(boot_id_read("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0\n", id));
	assert_string_equal(id, kernel);
	assert_false(boot_id_read("", id));
	assert_false(boot_id_read("0f1e2d3c4b5a69788796a5b4c3d2e1f", id));
	assert_false(boot_id_read("0f1e2d3c4b5a69788796a5b4c3d2e1f00", id));
	assert_false(boot_id_read("0f1e2d3c4b5a69788796a5b4c3d2e1fX", id));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(times_of_others_have_a_zone),
		CASE(a_boot_is_named_with_dashes_however_it_is_given),
		CASE(a_clock_that_is_set_back_is_noticed_once),
		CASE(times_are_read_strictly),
		CASE(a_clock_that_went_ahead_and_back_was_set_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
