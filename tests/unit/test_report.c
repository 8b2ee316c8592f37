#include "test.h"

#include "report/report.h"

TEST(what_a_secondary_says_twice_is_no_failure)
{
	static const char said[] =
		"{\"behind\": 3, \"failing\": 1, \"held\": 0, \"lag\": 1.5,"
		" \"synced\": 4, \"replicables\": 7}";
	struct report report;
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	for (int i = 0; i < 3; i++)
		assert_ok(report_secondary_seen(store, "paris", 5, said, &err));
	assert_ok(report_make(&(struct report_options){ .role = SITE_PRIMARY,
							.site = "london",
							.data = "/nowhere",
							.store = store },
			      &report, &err));
	assert_int_equal(report.secondaries.count, 1);
	assert_int_equal(report.secondaries.items[0].behind, 3);
	assert_int_equal(report.secondaries.items[0].failing, 1);
	assert_int_equal(report.secondaries.items[0].cursor, 5);
	report_clear(&report);
	store_close(store);
}

/* On a large site one is nearly always under way. */
TEST(a_copy_that_is_read_again_is_still_in_sync)
{
	struct report report = { .role = SITE_SECONDARY, .compared_at = 1 };
	struct registry_counts *counts = &report.repositories;

	counts->all = 4;
	counts->states[REGISTRY_SYNCED] = 4;
	counts->verification[VERIFICATION_SUCCEEDED] = 2;
	counts->verification[VERIFICATION_STARTED] = 1;
	counts->verification[VERIFICATION_PENDING] = 1;
	assert_true(report_is_good(&report));
	counts->verification[VERIFICATION_PENDING] = 0;
	counts->verification[VERIFICATION_FAILED] = 1;
	assert_false(report_is_good(&report));
	assert_int_equal(report_verified(&report), 3);
}

TEST(what_only_fails_is_not_said_to_be_copied)
{
	char site[] = "paris";
	struct report report = { .role = SITE_SECONDARY,
				 .site = site,
				 .node_runs = true,
				 .heard_at = 1,
				 .compared_at = 1,
				 .lag_ms = 4000 };
	struct registry_counts *counts = &report.repositories;
	AUTO_STR struct str text = STR_INIT;

	counts->all = 4;
	counts->states[REGISTRY_SYNCED] = 3;
	counts->states[REGISTRY_FAILED] = 1;
	counts->verification[VERIFICATION_SUCCEEDED] = 3;
	report_sentence(&report, &text);
	assert_string_equal(
		text.data, "paris is 4.0 s behind: 3 of 4 repositories verified; 1 fails "
			   "(see refrelay repository list --failed)");
	counts->states[REGISTRY_SYNCED] = 2;
	counts->states[REGISTRY_PENDING] = 1;
	str_reset(&text);
	report_sentence(&report, &text);
	assert_non_null(
		strstr(text.data, "1 repository of 4 has to be copied, 3 verified"));
}

static void shows_clock(struct report *report, const char *wanted)
{
	AUTO_STR struct str text = STR_INIT;

	report_text(report, &text);
	assert_non_null(strstr(text.data, wanted));
}

TEST(a_clock_is_right_or_not_and_unknown_before_it_was_heard)
{
	char site[] = "paris";
	struct report report = { .role = SITE_SECONDARY,
				 .site = site,
				 .node_runs = true };

	shows_clock(&report, "heard never, event 0 of 0\n");
	report.heard_at = 1;
	report.skew_ms = -49;
	shows_clock(&report, ", its clock is 0.0 s from ours\n");
	report.skew_ms = 49;
	shows_clock(&report, ", its clock is 0.0 s from ours\n");
	report.skew_ms = -300;
	shows_clock(&report, ", its clock is -0.3 s from ours\n");
	report.skew_ms = 1200;
	shows_clock(&report, ", its clock is +1.2 s from ours\n");
}

static int read_record(struct store_tx *tx, void *arg, struct err *error)
{
	return scan_record_read(tx, arg, error);
}

TEST(a_primary_that_cannot_look_at_its_repositories_says_so)
{
	struct scan_record scan = { .whole_at = 5000, .left_out = 2, .example = "x: y" };
	struct scan_record kept;
	struct report report;
	struct store *store;
	AUTO_STR struct str text = STR_INIT;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(scan_record_keep(store, &scan, &err));
	for (int i = 1; i <= 2; i++) {
		scan = (struct scan_record){ .failing_since = i * 1000 };
		err_set(&scan.failure, ERR_DISK, "away");
		err_remedy(&scan.failure, "mount it");
		assert_ok(scan_record_keep(store, &scan, &err));
	}
	assert_ok(store_read(store, read_record, &kept, &err));
	assert_int_equal(kept.whole_at, 5000); /* what was, still was */
	assert_int_equal(kept.failing_since, 1000);
	assert_ok(report_make(&(struct report_options){ .role = SITE_PRIMARY,
							.site = "london",
							.data = "/nowhere",
							.store = store },
			      &report, &err));
	assert_false(report_is_good(&report));
	report_sentence(&report, &text);
	assert_true(text_starts_with(text.data,
				     "london cannot look through its repositories for "));
	assert_non_null(strstr(text.data, ": away (mount it); "));
	assert_non_null(strstr(text.data, "; 2 are left out, for instance x: y"));
	report_clear(&report);
	assert_ok(
		scan_record_keep(store, &(struct scan_record){ .whole_at = 6000 }, &err));
	assert_ok(store_read(store, read_record, &kept, &err));
	assert_int_equal(kept.left_out, 0);
	assert_int_equal(kept.failing_since, 0);
	assert_int_equal(kept.failure.class, ERR_NONE);
	store_close(store);
}

TEST(what_makes_no_sense_is_refused)
{
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_fails(report_secondary_seen(store, "paris", 5, "[1", &err), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "Refrelay-Report"));
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_secondary_says_twice_is_no_failure),
		cmocka_unit_test(a_copy_that_is_read_again_is_still_in_sync),
		cmocka_unit_test(what_only_fails_is_not_said_to_be_copied),
		cmocka_unit_test(a_clock_is_right_or_not_and_unknown_before_it_was_heard),
		cmocka_unit_test(a_primary_that_cannot_look_at_its_repositories_says_so),
		cmocka_unit_test(what_makes_no_sense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
