/*
 * What status, metrics and the primary are told of blobs.
 */
#include "test.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/metrics.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "report/report.h"
#include "report/report_metrics.h"
#include "store/site_value.h"

#include "registry_write.h"

static struct store *store;
static struct report report;
static struct str text = STR_INIT;
static const struct vital_signs well = { .node = NODE_ANSWERS, .failing_age_ms = -1 };

static int setup(void **state)
{
	assert_ok(store_open("sqlite::memory:", &store, &err));
	return test_make_root(state);
}

static int teardown(void **state)
{
	report_clear(&report);
	str_clear(&text);
	store_close(store);
	return test_remove_root(state);
}

static int ask(struct store_tx *tx, void *arg, struct err *error)
{
	const struct registry_ask *one = arg;

	return registry_ask_many_in(tx, "lfs", one, 1, error);
}

static void add_copy(const char *name, uint64_t size)
{
	struct registry_ask one = { .name = name,
				    .move = { .event = REGISTRY_ASKED,
					      .generation = 1,
					      .timeline = "0123456789abcdef",
					      .size = size,
					      .changed_at = clock_wall_ms() - 4000 } };

	assert_ok(store_write(store, ask, &one, &err));
}

static int move(const char *name, enum registry_event event)
{
	static const struct err failure = { .class = ERR_CORRUPT, .text = "wrong bytes" };
	const struct registry_move change = { .id = replicable_id("lfs", name),
					      .event = event,
					      .generation = 1,
					      .timeline = "0123456789abcdef",
					      .checksum = "00",
					      .held_reason = "too many",
					      .err = &failure,
					      .timeout_ms = 1000000 };

	return registry_move(store, &change, &err);
}

static int keep_heard(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return site_value_set(tx, "pull.heard", "1", error) == 0 &&
			       site_value_set(tx, "pull.compared", "1", error) == 0
		       ? 0
		       : -1;
}

/* As its node reports it to the primary. */
static int64_t failing_for_primary(void)
{
	json_auto_t *said = NULL;

	report_clear(&report);
	assert_ok(report_make(&(struct report_options){ .role = SITE_SECONDARY,
							.site = "paris",
							.data = "/nowhere",
							.signs = &well,
							.store = store,
							.is_brief = true,
							.leaves_out_tasks = true },
			      &report, &err));
	str_reset(&text);
	report_for_primary(&report, "a-node", &text);
	said = json_parse_object(text.data, text.len, 4096, &err);
	return json_integer_value(json_object_get(said, "failing"));
}

static void look(enum site_role role, const struct kinds_here *here)
{
	report_clear(&report);
	assert_ok(report_make(&(struct report_options){ .role = role,
							.site = "paris",
							.data = "/nowhere",
							.here = here,
							.signs = &well,
							.store = store },
			      &report, &err));
	str_reset(&text);
	report_sentence(&report, &text);
}

TEST(what_is_to_be_copied_is_said_with_its_size_until_it_is_proved)
{
	assert_ok(store_write(store, keep_heard, NULL, &err));
	look(SITE_SECONDARY, NULL);
	assert_string_equal(text.data, "in sync, verified: 0 repositories");
	add_copy("a", 3400000000);
	add_copy("b", 1500);
	look(SITE_SECONDARY, NULL);
	assert_non_null(strstr(text.data,
			       "paris is 4.0 s behind: 0 of 0 repositories verified, "
			       "2 blobs of kind lfs (3.4 GB) to copy"));
	assert_false(report_is_good(&report));
	assert_int_equal(report.blobs.items[0].counts.never_copied, 2);
	assert_ok(move("a", REGISTRY_BEGUN));
	assert_ok(move("a", REGISTRY_BROUGHT));
	look(SITE_SECONDARY, NULL);
	assert_non_null(strstr(text.data, ", 1 blob of kind lfs (1.5 kB) to copy"));
	assert_ok(move("b", REGISTRY_BEGUN));
	assert_ok(move("b", REGISTRY_BROUGHT));
	assert_ok(move("b", REGISTRY_PROVED));
	look(SITE_SECONDARY, NULL);
	assert_non_null(strstr(text.data, "paris is catching up: 0 of 0 repositories "
					  "verified, 1 of 2 blobs of kind lfs verified"));
	assert_false(report_is_good(&report));
	assert_ok(move("a", REGISTRY_PROVED));
	look(SITE_SECONDARY, NULL);
	assert_string_equal(text.data, "in sync, verified: 0 repositories, 2 blobs of "
				       "kind lfs (3.4 GB)");
	assert_true(report_is_good(&report));
}

TEST(a_blob_that_fails_or_is_held_is_named_with_the_command_to_see_it)
{
	add_copy("a", 1);
	add_copy("b", 1);
	for (int i = 0; i < 2; i++)
		assert_ok(move(i == 0 ? "a" : "b", REGISTRY_BEGUN));
	assert_ok(move("a", REGISTRY_ERRED));
	assert_ok(move("b", REGISTRY_HELD));
	look(SITE_SECONDARY, NULL);
	assert_non_null(strstr(text.data,
			       "; 1 blob of kind lfs failing, e.g. a: wrong bytes "
			       "(see refrelay blob list --type lfs --failed)"));
	assert_non_null(strstr(text.data,
			       "; 1 blob of kind lfs held, e.g. b: too many (see "
			       "refrelay blob list --type lfs --state held)"));
}

static void fails_by(const char *name, enum err_class class, const char *why)
{
	struct err failure = { .class = class };
	struct registry_move change = { .id = replicable_id("lfs", name),
					.event = REGISTRY_BEGUN,
					.err = &failure,
					.timeout_ms = 1000000 };

	snprintf(failure.text, sizeof(failure.text), "%s", why);
	assert_ok(registry_move(store, &change, &err));
	change.event = REGISTRY_ERRED;
	assert_ok(registry_move(store, &change, &err));
}

/* The first by name may be the one that fails for another reason than all others. */
TEST(failures_of_several_classes_are_counted_by_class)
{
	AUTO_STR struct str metrics = STR_INIT;

	add_copy("a", 1);
	add_copy("b", 1);
	add_copy("c", 1);
	fails_by("a", ERR_CORRUPT, "wrong bytes");
	fails_by("b", ERR_DISK, "no space");
	fails_by("c", ERR_DISK, "no space either");
	look(SITE_SECONDARY, NULL);
	assert_non_null(strstr(
		text.data,
		"; 3 blobs of kind lfs failing: 2 disk, e.g. b: no space; 1 corrupt, "
		"e.g. a: wrong bytes (see refrelay blob list --type lfs --failed)"));
	report_metrics(&report);
	metrics_render_as(METRICS_PROMETHEUS, &metrics);
	assert_non_null(strstr(metrics.data,
			       "refrelay_failing{kind=\"lfs\",class=\"disk\"} 2\n"));
	json_auto_t *object = report_json(&report);
	const json_t *failures = json_object_get(
		json_object_get(json_object_get(object, "blobs"), "lfs"), "failures");
	assert_int_equal(json_array_size(failures), 2);
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(failures, 0), "count")),
		2);
	report_metrics_forget("paris");
	report_clear(&report);
	report = (struct report){ .signs = VITAL_SIGNS_NONE };
	vec_add(&report.blobs, (struct report_kind){ .type = xstrdup("lfs") });
	report_metrics(&report);
	str_reset(&metrics);
	metrics_render_as(METRICS_PROMETHEUS, &metrics);
	assert_non_null(strstr(metrics.data,
			       "refrelay_failing{kind=\"lfs\",class=\"disk\"} 0\n"));
	assert_non_null(strstr(metrics.data,
			       "refrelay_secondary_lag_seconds{site=\"paris\"} NaN\n"));
}

TEST(a_copy_that_cannot_be_verified_is_named_until_it_is)
{
	add_copy("a", 1);
	assert_ok(move("a", REGISTRY_BEGUN));
	assert_ok(move("a", REGISTRY_BROUGHT));
	look(SITE_SECONDARY, NULL);
	assert_null(strstr(text.data, "failing"));
	assert_ok(move("a", REGISTRY_CHECKING));
	assert_ok(move("a", REGISTRY_SUPERSEDED));
	for (int i = 0; i < 2; i++) {
		if (i > 0) /* also while it is tried again */
			assert_ok(move("a", REGISTRY_CHECKING));
		look(SITE_SECONDARY, NULL);
		assert_non_null(strstr(
			text.data, "; 1 blob of kind lfs failing, e.g. a: wrong bytes "
				   "(see refrelay blob list --type lfs --failed)"));
		assert_int_equal(report.blobs.items[0].examples.failing.items[0].count,
				 1);
		assert_int_equal(failing_for_primary(), 1);
	}
	assert_ok(move("a", REGISTRY_PROVED));
	assert_int_equal(failing_for_primary(), 0);
	look(SITE_SECONDARY, NULL);
	assert_null(strstr(text.data, "failing"));
}

TEST(a_kind_that_is_configured_no_more_is_not_judged)
{
	char type[] = "uploads", path[] = "/srv/uploads";
	struct blob_kind kind = { .type = type, .path = path };
	AUTO_KINDS struct kinds_here here = { 0 };

	blob_kinds_add(&here.blobs, &kind);
	kinds_fill(&here, root);
	assert_ok(store_write(store, keep_heard, NULL, &err));
	add_copy("a", 1);
	look(SITE_SECONDARY, &here);
	assert_int_equal(report.blobs.count, 1);
	assert_string_equal(report.blobs.items[0].type, "uploads");
	assert_string_equal(text.data, "in sync, verified: 0 repositories, 0 blobs of "
				       "kind uploads (0 bytes)");
}

TEST(what_has_arrived_of_a_blob_is_told_while_it_is_on_its_way)
{
	char type[] = "lfs";
	AUTO_FREE char *path = xasprintf("%s/lfs", root);
	struct blob_kind kind = { .type = type, .path = path };
	AUTO_KINDS struct kinds_here here = { 0 };

	blob_kinds_add(&here.blobs, &kind);
	kinds_fill(&here, root);
	assert_ok(dir_make(root_fd, "lfs/.refrelay/incoming", &err));
	assert_ok(file_replace(root_fd, "lfs/.refrelay/incoming/x.part", "12345", 5,
			       FILE_NO_SYNC, &err));
	add_copy("a", 12);
	report_clear(&report);
	assert_ok(report_make(&(struct report_options){ .role = SITE_SECONDARY,
							.site = "paris",
							.data = "/nowhere",
							.here = &here,
							.store = store },
			      &report, &err));
	str_reset(&text);
	report_text(&report, &text);
	assert_non_null(
		strstr(text.data, "12 bytes still to copy, 5 bytes of that received\n"));
	json_auto_t *object = report_json(&report);
	const json_t *lfs = json_object_get(json_object_get(object, "blobs"), "lfs");
	assert_int_equal(json_integer_value(json_object_get(lfs, "bytes_arrived")), 5);
}

TEST(the_primary_hears_of_all_kinds)
{
	static const char *const names[] = { "r" };
	json_auto_t *said = NULL;

	assert_ok(registry_add(store, KIND_REPOSITORY, names, 1, &err));
	add_copy("a", 1);
	add_copy("b", 1);
	assert_ok(move("b", REGISTRY_BEGUN));
	assert_ok(move("b", REGISTRY_ERRED));
	look(SITE_SECONDARY, NULL);
	str_reset(&text);
	report_for_primary(&report, "a-node", &text);
	said = json_parse_object(text.data, text.len, 4096, &err);
	assert_int_equal(json_integer_value(json_object_get(said, "replicables")), 3);
	assert_int_equal(json_integer_value(json_object_get(said, "behind")), 2);
	assert_int_equal(json_integer_value(json_object_get(said, "failing")), 1);
	assert_true(json_number_value(json_object_get(said, "lag")) >= 4);
	assert_true(json_is_false(json_object_get(said, "in_sync")));
	assert_string_equal(json_string_value(json_object_get(said, "reason")),
			    "not_compared");
	assert_string_equal(json_string_value(json_object_get(said, "node")), "a-node");
	const json_t *types = json_object_get(said, "blob_types");
	assert_int_equal(json_array_size(types), 1);
	assert_string_equal(json_string_value(json_array_get(types, 0)), "lfs");
}

static int add_origin(struct store_tx *tx, void *arg, struct err *error)
{
	char name[] = "a", path[] = "a", failure[] = "it is a directory";
	const char *kind = arg ? "uploads" : "lfs";
	struct origin_row row = { .id = replicable_id(kind, "a"),
				  .name = name,
				  .path = path,
				  .timeline = "0123456789abcdef",
				  .generation = 1,
				  .size = 2000000,
				  .failure = arg ? failure : NULL,
				  .verification = arg ? VERIFICATION_FAILED
						      : VERIFICATION_PENDING };

	return origin_row_add(tx, kind, &row, error);
}

static char *leaves_out; /* by the primary's configuration; NULL: nothing */

/* As it told it itself, and asks for events. */
static void add_paris(struct vital_signs *signs, const char *types)
{
	AUTO_FREE char *said =
		xasprintf("{\"in_sync\":true,\"replicables\":9%s%s}",
			  types ? ",\"blob_types\":" : "", types ? types : "");
	struct follower paris = { .site = (char[]){ "paris" } };
	text_list intended = { .items = (char *[]){ leaves_out }, .count = 1 };

	assert_ok(followers_record(store, "paris", 5, said, &err));
	*signs = well;
	if (leaves_out)
		paris.leaves_out = intended;
	vec_add(&signs->followers, paris);
	report_clear(&report);
	assert_ok(report_make(&(struct report_options){ .role = SITE_PRIMARY,
							.site = "london",
							.data = "/nowhere",
							.signs = signs,
							.store = store },
			      &report, &err));
	vec_clear(&signs->followers);
	str_reset(&text);
	report_sentence(&report, &text);
}

static bool tells_reason(const char *reason)
{
	json_auto_t *object = report_json(&report);
	const json_t *paris = json_array_get(json_object_get(object, "secondaries"), 0);

	return strcmp(json_string_value(json_object_get(object, "reason")), reason) ==
		       0 &&
	       json_is_false(json_object_get(paris, "in_sync")) &&
	       strcmp(json_string_value(json_object_get(paris, "reason")), reason) == 0;
}

TEST(a_kind_that_a_secondary_leaves_out_on_purpose_is_not_missed)
{
	struct {
		char left_out[8];
		const char *types, *lacks;
	} cases[] = { { "lfs", "[]", "paris does not copy 1 blob of kind uploads (see" },
		      { "other", "[\"lfs\"]",
			"paris does not copy 1 blob of kind uploads (see" },
		      { "uploads", "[\"lfs\"]", NULL } };
	struct vital_signs signs;

	assert_ok(store_write(store, add_origin, NULL, &err));
	assert_ok(store_write(store, add_origin, &signs, &err));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		leaves_out = cases[i].left_out;
		add_paris(&signs, cases[i].types);
		const struct report_secondary *paris = &report.secondaries.items[0];
		assert_int_equal(report_secondary_judge(&report, paris),
				 cases[i].lacks ? VERDICT_SECONDARY_PARTIAL
						: VERDICT_IN_SYNC);
		assert_non_null(strstr(text.data, cases[i].lacks ? cases[i].lacks : ""));
	}
	assert_null(strstr(text.data, "does not copy"));
	leaves_out = NULL;
}

TEST(a_secondary_that_does_not_copy_a_kind_is_not_in_sync)
{
	static const struct {
		const char *types, *lacks; /* as it tells them; NULL: nothing */
	} cases[] = { { "[]", "1 blob of kind lfs, 1 blob of kind uploads" },
		      { "[\"upload\",\"lfs\"]", "1 blob of kind uploads" },
		      { "[\"uploads\",\"more\",\"lfs\"]", NULL },
		      { NULL, NULL } };
	struct vital_signs signs;

	add_paris(&signs, "[]");
	assert_null(strstr(text.data, "does not copy")); /* as there is nothing */
	assert_ok(store_write(store, add_origin, NULL, &err));
	assert_ok(store_write(store, add_origin, &signs, &err));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		add_paris(&signs, cases[i].types);
		const struct report_secondary *paris = &report.secondaries.items[0];
		AUTO_FREE char *said =
			xasprintf("; paris does not copy %s (see refrelay check there); ",
				  cases[i].lacks ? cases[i].lacks : "");
		assert_int_equal(strstr(text.data, said) != NULL ||
					 text_starts_with(text.data, said + 2),
				 cases[i].lacks != NULL);
		assert_int_equal(report_secondary_judge(&report, paris),
				 cases[i].lacks ? VERDICT_SECONDARY_PARTIAL
						: VERDICT_IN_SYNC);
	}
	add_paris(&signs, "[]");
	for (size_t i = 0; i < report.blobs.count;
	     i++) /* they were read, and all is well */
		report.blobs.items[i].counts.verification[VERIFICATION_SUCCEEDED] = 1;
	assert_true(tells_reason("secondary_partial"));
}

/* Anybody may ask for readiness, and as often as they like. */
TEST(a_verdict_reads_no_rows_of_what_is_replicated)
{
	char type[] = "lfs", other[] = "uploads", path[] = "/srv/blobs";
	struct blob_kind kind = { .type = type, .path = path };
	struct blob_kind failing = { .type = other, .path = path };
	AUTO_KINDS struct kinds_here here = { 0 };
	struct report_options options = { .role = SITE_SECONDARY,
					  .site = "paris",
					  .data = "/nowhere",
					  .here = &here,
					  .store = store };

	blob_kinds_add(&here.blobs, &kind);
	blob_kinds_add(&here.blobs, &failing);
	kinds_fill(&here, root);
	add_copy("a", 1);
	add_copy("b", 1);
	assert_ok(move("a", REGISTRY_BEGUN));
	assert_ok(move("a", REGISTRY_ERRED));
	options.is_brief = true;
	assert_ok(store_run(store, &err, "DELETE FROM registry"));
	assert_ok(report_make(&options, &report, &err));
	assert_int_equal(report.blobs.items[0].counts.never_copied, 2);
	assert_int_equal(report.blobs.items[0].counts.states[REGISTRY_FAILED], 1);
	report_clear(&report);
	assert_ok(store_write(store, add_origin, store, &err));
	options.role = SITE_PRIMARY;
	assert_ok(report_make(&options, &report, &err));
	assert_int_equal(report.blobs.items[1].counts.verification[VERIFICATION_FAILED],
			 1);
	assert_int_equal(report.blobs.items[1].examples.failing.count, 0);
	report_clear(&report);
	options.is_brief = false;
	assert_ok(report_make(&options, &report, &err));
	assert_int_equal(report.blobs.items[1].examples.failing.count, 1);
}

TEST(a_primary_says_what_it_has_not_read_yet_and_what_it_cannot)
{
	assert_ok(store_write(store, add_origin, NULL, &err));
	look(SITE_PRIMARY, NULL);
	assert_string_equal(text.data,
			    "no secondary has connected yet; 0 repositories, 1 blob of "
			    "kind lfs (2.0 MB), 0 of 1 blob of kind lfs verified");
	assert_false(report_is_good(&report));
	assert_ok(store_write(store, add_origin, store, &err));
	look(SITE_PRIMARY, NULL);
	assert_non_null(
		strstr(text.data,
		       "; 1 blob of kind uploads failing, e.g. a: it is a directory"));
	json_auto_t *object = report_json(&report);
	const json_t *lfs = json_object_get(json_object_get(object, "blobs"), "lfs");
	assert_int_equal(json_integer_value(json_object_get(lfs, "bytes")), 2000000);
}

TEST(metrics_count_and_measure_each_kind)
{
	struct str rendered = STR_INIT;

	add_copy("a", 5000);
	add_copy("b", 7000);
	assert_ok(move("a", REGISTRY_BEGUN));
	assert_ok(move("a", REGISTRY_BROUGHT));
	look(SITE_SECONDARY, NULL);
	report_metrics(&report);
	metrics_render_as(METRICS_PROMETHEUS, &rendered);
	assert_non_null(strstr(rendered.data,
			       "refrelay_replicables{kind=\"lfs\",state=\"pending\"} 1"));
	assert_non_null(
		strstr(rendered.data,
		       "refrelay_replicable_bytes{kind=\"lfs\",state=\"here\"} 5000"));
	assert_non_null(
		strstr(rendered.data,
		       "refrelay_replicable_bytes{kind=\"lfs\",state=\"to_come\"} 7000"));
	assert_non_null(strstr(rendered.data, "refrelay_replicables_all 2"));
	str_clear(&rendered);
}

TEST(sizes_are_said_in_three_digits_or_four)
{
	static const struct {
		int64_t bytes;
		const char *said;
	} cases[] = { { 0, "0 bytes" },         { 999, "999 bytes" },
		      { 1000, "1.0 kB" },       { 999960, "1.0 MB" },
		      { 3400000000, "3.4 GB" }, { INT64_C(5000000000000), "5.0 TB" } };

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		str_reset(&text);
		report_size(cases[i].bytes, &text);
		assert_string_equal(text.data, cases[i].said);
	}
}

#define FILLED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FILLED(what_is_to_be_copied_is_said_with_its_size_until_it_is_proved),
		FILLED(a_blob_that_fails_or_is_held_is_named_with_the_command_to_see_it),
		FILLED(failures_of_several_classes_are_counted_by_class),
		FILLED(a_copy_that_cannot_be_verified_is_named_until_it_is),
		FILLED(a_kind_that_is_configured_no_more_is_not_judged),
		FILLED(what_has_arrived_of_a_blob_is_told_while_it_is_on_its_way),
		FILLED(the_primary_hears_of_all_kinds),
		FILLED(a_secondary_that_does_not_copy_a_kind_is_not_in_sync),
		FILLED(a_kind_that_a_secondary_leaves_out_on_purpose_is_not_missed),
		FILLED(a_verdict_reads_no_rows_of_what_is_replicated),
		FILLED(a_primary_says_what_it_has_not_read_yet_and_what_it_cannot),
		FILLED(metrics_count_and_measure_each_kind),
		FILLED(sizes_are_said_in_three_digits_or_four),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
