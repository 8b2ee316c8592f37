#include "test.h"

#include "base/clock.h"
#include "base/seen_time.h"

enum { HOUR = 3600 * 1000 };

static void write_line(int64_t seen, int64_t boot, int64_t wall, const char *boot_id)
{
	AUTO_FREE char *text = xasprintf("%" PRId64 " %" PRId64 " %" PRId64 " %s\n", seen,
					 boot, wall, boot_id);

	assert_ok(file_replace(root_fd, "clock", text, strlen(text), FILE_NO_SYNC, &err));
}

/* What it says is this, but for what the test itself takes. */
static void assert_says(int64_t wanted)
{
	int64_t said = seen_time_ms(root_fd, "clock");

	assert_true(said >= wanted && said < wanted + HOUR / 2);
	said = seen_time_keep(root_fd, "clock", 0);
	assert_true(said >= wanted && said < wanted + HOUR / 2);
	said = seen_time_ms(root_fd, "clock");
	assert_true(said >= wanted && said < wanted + HOUR / 2);
}

TEST(at_first_it_is_wall_time)
{
	assert_says(clock_wall_ms());
}

TEST(at_first_it_is_not_before_what_is_there)
{
	int64_t newest = clock_wall_ms() + 30 * (int64_t)HOUR;

	assert_int_equal(seen_time_keep(root_fd, "clock", newest), newest);
	assert_says(newest);
}

TEST(within_a_boot_wall_time_does_not_count)
{
	const int64_t day = 24 * (int64_t)HOUR;

	write_line(5000000, clock_boot_ms() - HOUR, clock_wall_ms() - 15 * day,
		   clock_boot_id());
	assert_says(5000000 + HOUR);
	write_line(5000000, clock_boot_ms() - HOUR, clock_wall_ms() + 15 * day,
		   clock_boot_id());
	assert_says(5000000 + HOUR);
	write_line(5000000, clock_boot_ms() - 15 * day, clock_wall_ms(), clock_boot_id());
	assert_says(5000000 + 15 * day);
}

TEST(from_boot_to_boot_a_day_is_believed_at_most)
{
	write_line(5000000, 12345, clock_wall_ms() - 3 * HOUR, "another");
	assert_says(5000000 + 3 * HOUR);
	write_line(5000000, 12345, clock_wall_ms() - 400 * (int64_t)24 * HOUR, "another");
	assert_says(5000000 + SEEN_TIME_GAP_MS);
	write_line(5000000, 12345, INT64_MIN, "another");
	assert_says(5000000 + SEEN_TIME_GAP_MS);
	write_line(5000000, 12345, clock_wall_ms() + HOUR, "another");
	assert_says(5000000);
}

static int64_t read_wall(void)
{
	AUTO_STR struct str text = STR_INIT;
	int64_t seen, boot, wall;

	assert_ok(file_read(root_fd, "clock", 256, &text, &err));
	assert_int_equal(sscanf(text.data, "%" SCNd64 " %" SCNd64 " %" SCNd64, &seen,
				&boot, &wall),
			 3);
	return wall;
}

/* Its writer, who goes on by its own clock, counts only what passed. */
TEST(what_a_clock_that_is_ahead_has_counted_is_not_counted_again)
{
	const int64_t ahead = clock_wall_ms() + 3 * HOUR;

	write_line(5000000, 12345, ahead, "another");
	assert_says(5000000);
	assert_int_equal(read_wall(), ahead);
	write_line(5000000, clock_boot_ms() - HOUR, ahead, clock_boot_id());
	assert_says(5000000 + HOUR);
	assert_true(read_wall() >= ahead + HOUR);
	write_line(5000000, clock_boot_ms() - HOUR, INT64_MAX, clock_boot_id());
	assert_says(5000000 + HOUR);
}

TEST(a_file_that_makes_no_sense_counts_as_none)
{
	static const char *const texts[] = { "", "5000000", "x y z", "1 2 3\n" };

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		assert_ok(file_replace(root_fd, "clock", texts[i], strlen(texts[i]),
				       FILE_NO_SYNC, &err));
		assert_says(clock_wall_ms());
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(at_first_it_is_wall_time),
		CASE(at_first_it_is_not_before_what_is_there),
		CASE(within_a_boot_wall_time_does_not_count),
		CASE(from_boot_to_boot_a_day_is_believed_at_most),
		CASE(what_a_clock_that_is_ahead_has_counted_is_not_counted_again),
		CASE(a_file_that_makes_no_sense_counts_as_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
