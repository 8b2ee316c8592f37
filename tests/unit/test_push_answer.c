/*
 * Reports of pushes: as a receive-pack has them, and broken in each way.
 */
#include "test.h"

#include "git/pkt_line.h"
#include "git/push_answer.h"

#define END "|"

static text_list taken;
static struct str report = STR_INIT;

/* Lines, each a packet; END stands for the flush. */
static void put_lines(const char *const *lines, size_t count)
{
	str_reset(&report);
	for (size_t i = 0; i < count; i++) {
		if (strcmp(lines[i], END) == 0)
			pkt_add_flush(&report);
		else
			pkt_add(&report, lines[i], strlen(lines[i]));
	}
}

#define PUT(...)                                                                         \
	put_lines((const char *const[]){ __VA_ARGS__ },                                  \
		  sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static int read_bytes(const char *bytes, size_t len, bool has_bands)
{
	text_list_clear(&taken);
	err = (struct err){ 0 };
	return push_answer_read(bytes, len, has_bands, &taken, &err);
}

/* The same in bands, cut into pieces of that size, with progress between them. */
static int read_in_bands(size_t step)
{
	AUTO_STR struct str bands = STR_INIT;

	for (size_t at = 0; at < report.len; at += step) {
		size_t len = report.len - at < step ? report.len - at : step;
		size_t begin = pkt_begin(&bands);
		str_add_char(&bands, 1);
		str_add_bytes(&bands, report.data + at, len);
		pkt_end(&bands, begin);
		pkt_add(&bands, "\2counting", 9);
		pkt_add(&bands, "\1", 1);
	}
	pkt_add_flush(&bands);
	return read_bytes(bands.data, bands.len, true);
}

static void assert_taken(const char *names)
{
	AUTO_STR struct str text = STR_INIT;

	for (size_t i = 0; i < taken.count; i++)
		str_addf(&text, "%s%s", i ? " " : "", taken.items[i]);
	assert_string_equal(text.data, names);
}

/* Plain, and in bands that cut it anywhere. */
static void assert_read(const char *names)
{
	assert_ok(read_bytes(report.data, report.len, false));
	assert_taken(names);
	for (size_t step = 1; step <= report.len; step++) {
		assert_ok(read_in_bands(step));
		assert_taken(names);
	}
}

static void assert_refused(enum err_class class)
{
	assert_fails(read_bytes(report.data, report.len, false), class);
	assert_int_equal(taken.count, 0);
	for (size_t step = 1; step <= report.len; step++) {
		assert_fails(read_in_bands(step), class);
		assert_int_equal(taken.count, 0);
	}
}

static int forget(void **state)
{
	(void)state;
	text_list_clear(&taken);
	str_clear(&report);
	return 0;
}

TEST(what_was_taken_is_told_by_name)
{
	PUT("unpack ok\n", "ok refs/heads/b\n", "ng refs/heads/c it is locked\n",
	    "ok refs/heads/a\n", END);
	assert_read("refs/heads/a refs/heads/b");
	PUT("unpack ok", "ok refs/heads/a", END);
	assert_read("refs/heads/a");
	PUT("unpack ok\n", "ng refs/heads/a pre-receive hook declined\n", END);
	assert_read("");
	PUT("unpack ok\n", END);
	assert_read("");
}

TEST(what_was_not_unpacked_was_not_taken)
{
	PUT("unpack disk full\n", "ok refs/heads/a\n", END);
	assert_refused(ERR_CONFLICT);
	PUT("unpack \n", "ok refs/heads/a\n", END);
	assert_refused(ERR_CONFLICT);
}

TEST(what_is_no_report_takes_nothing)
{
	PUT(END);
	assert_refused(ERR_CORRUPT);
	PUT("ok refs/heads/a\n", END);
	assert_refused(ERR_CORRUPT);
	PUT("unpack ok\n", "ok refs/heads/a\n", "ok refs/heads/a\n", END);
	assert_refused(ERR_CORRUPT);
	PUT("unpack ok\n", "ok refs/heads/a\n", "ng refs/heads/a no\n", END);
	assert_refused(ERR_CORRUPT);
	PUT("unpack ok\n", "ok refs/heads/a\n", "ng refs/heads/b\n", END);
	assert_refused(ERR_CORRUPT);
	PUT("unpack ok\n", "ok \n", END);
	assert_refused(ERR_CORRUPT);
	PUT("unpack ok\n", "ng  no\n", END);
	assert_refused(ERR_CORRUPT);
	PUT("unpack ok\n", "ok refs/heads/a\n", "option refname refs/heads/b\n", END);
	assert_refused(ERR_CORRUPT);
	PUT("unpack ok\n", "ok refs/heads/a\n", END, "ok refs/heads/b\n");
	assert_refused(ERR_CORRUPT);
	PUT("unpack ok\n", "o", END);
	assert_refused(ERR_CORRUPT);
}

TEST(what_is_cut_anywhere_takes_nothing)
{
	AUTO_STR struct str bands = STR_INIT;

	PUT("unpack ok\n", "ok refs/heads/a\n", "ok refs/heads/b\n", END);
	for (size_t len = 0; len < report.len; len++)
		assert_fails(read_bytes(report.data, len, false), ERR_CORRUPT);
	const size_t begin = pkt_begin(&bands);
	str_add_char(&bands, 1);
	str_add_bytes(&bands, report.data, report.len);
	pkt_end(&bands, begin);
	pkt_add_flush(&bands);
	assert_ok(read_bytes(bands.data, bands.len, true));
	for (size_t len = 0; len < bands.len; len++)
		assert_fails(read_bytes(bands.data, len, true), ERR_CORRUPT);
}

TEST(a_band_of_errors_and_others_break_it)
{
	static const char errors[] = "0009\3oops"
				     "0000";
	static const char unknown[] = "0009\4oops"
				      "0000";
	static const char empty[] = "00040000";

	assert_fails(read_bytes(errors, sizeof(errors) - 1, true), ERR_CORRUPT);
	assert_fails(read_bytes(unknown, sizeof(unknown) - 1, true), ERR_CORRUPT);
	assert_fails(read_bytes(empty, sizeof(empty) - 1, true), ERR_CORRUPT);
	assert_fails(read_bytes("<html>", 6, false), ERR_CORRUPT);
	PUT("unpack ok\n", "ok refs/heads/a\n", END);
	assert_fails(read_bytes(report.data, report.len, true), ERR_CORRUPT);
}

TEST(a_nul_byte_in_a_line_is_none_of_gits)
{
	str_reset(&report);
	pkt_addf(&report, "unpack ok\n");
	pkt_add(&report, "ok refs/heads/a\0b\n", 18);
	pkt_add_flush(&report);
	assert_refused(ERR_CORRUPT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(what_was_taken_is_told_by_name, forget),
		cmocka_unit_test_teardown(what_was_not_unpacked_was_not_taken, forget),
		cmocka_unit_test_teardown(what_is_no_report_takes_nothing, forget),
		cmocka_unit_test_teardown(what_is_cut_anywhere_takes_nothing, forget),
		cmocka_unit_test_teardown(a_band_of_errors_and_others_break_it, forget),
		cmocka_unit_test_teardown(a_nul_byte_in_a_line_is_none_of_gits, forget),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
