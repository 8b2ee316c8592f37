#include "wire_test.h"

#include "wire/wire_report.h"

static bool report_again(const struct str *text, struct str *out)
{
	AUTO_WIRE_REPORT struct wire_report report = { 0 };

	if (wire_report_parse(text->data, &report, &err) != 0)
		return false;
	wire_report_render(&report, out);
	str_add(out, report.knows_in_sync ? "" : " unknown");
	return true;
}

TEST(reports_travel_and_each_byte_of_them_counts)
{
	char reason[] = "not_synced", node[] = "6f1c", lfs[] = "lfs", files[] = "files";
	char *types[] = { lfs, files };
	const struct wire_report report = { .behind = 3,
					    .failing = 2,
					    .held = 1,
					    .lag_ms = 1500,
					    .synced = 5,
					    .replicables = 9,
					    .in_sync = true,
					    .reason = reason,
					    .node = node,
					    .knows_blob_types = true,
					    .blob_types = { .items = types,
							    .count = 2 } };
	const struct wire_report bare = { .knows_blob_types = true };
	const struct wire_report well = { .synced = 9, .replicables = 9 };
	AUTO_STR struct str text = STR_INIT;

	wire_report_render(&report, &text);
	assert_travels(&text, report_again);
	str_reset(&text);
	wire_report_render(&well, &text);
	assert_comes_back(&text, report_again);
	str_reset(&text);
	wire_report_render(&bare, &text);
	assert_comes_back(&text, report_again);
}

TEST(what_is_not_told_is_nothing)
{
	AUTO_WIRE_REPORT struct wire_report report = { 0 };

	assert_ok(wire_report_parse("{\"new\":[1],\"lag\":-1e300,\"synced\":\"5\"}",
				    &report, &err));
	assert_false(report.knows_in_sync);
	assert_int_equal(report.lag_ms, 0);
	assert_int_equal(report.synced, 0);
	assert_null(report.reason);
	assert_null(report.node);
	assert_false(report.knows_blob_types);
}

TEST(a_type_that_is_no_text_is_none)
{
	AUTO_WIRE_REPORT struct wire_report report = { 0 };

	assert_ok(wire_report_parse("{\"blob_types\":[1,\"lfs\",null]}", &report, &err));
	assert_true(report.knows_blob_types);
	assert_int_equal(report.blob_types.count, 1);
	assert_string_equal(report.blob_types.items[0], "lfs");
	wire_report_clear(&report);
	assert_ok(wire_report_parse("{\"blob_types\":{\"lfs\":1}}", &report, &err));
	assert_false(report.knows_blob_types);
}

TEST(what_is_no_report_is_refused)
{
	AUTO_WIRE_REPORT struct wire_report report = { 0 };
	AUTO_STR struct str huge = STR_INIT;

	assert_fails(wire_report_parse("", &report, &err), ERR_CORRUPT);
	assert_fails(wire_report_parse("[1]", &report, &err), ERR_CORRUPT);
	assert_fails(wire_report_parse("{\"node\":\"a\"", &report, &err), ERR_CORRUPT);
	str_addf(&huge, "{\"node\":\"%5000s\"}", "a");
	assert_fails(wire_report_parse(huge.data, &report, &err), ERR_CORRUPT);
	assert_null(report.node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reports_travel_and_each_byte_of_them_counts),
		cmocka_unit_test(what_is_not_told_is_nothing),
		cmocka_unit_test(a_type_that_is_no_text_is_none),
		cmocka_unit_test(what_is_no_report_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
