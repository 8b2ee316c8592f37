/*
 * The table of report/verdict.h, row by row: a site that is well, and the same with one
 * input that is not.
 */
#include "test.h"

#include "report/verdict.h"

static struct verdict_follower followers[2];

static struct verdict_inputs inputs_of(enum site_role role)
{
	for (size_t i = 0; i < ARRAY_SIZE(followers); i++)
		followers[i] =
			(struct verdict_follower){ .age_ms = 9000, .says = SAYS_IN_SYNC };
	return (struct verdict_inputs){ .role = role,
					.node = NODE_ANSWERS,
					.written_age_ms = 9000,
					.heard_age_ms = 9000,
					.compared_age_ms = 50000,
					.compared_left_ms = 1000,
					.cursor = 7,
					.primary_last_event = 7,
					.scan_age_ms = 50000,
					.scan_left_ms = 1000,
					.followers = followers,
					.follower_count = ARRAY_SIZE(followers),
					.all = 5,
					.synced = 5,
					.proved = 5,
					.pushes_are_done = true };
}

static void assert_verdict(const struct verdict_inputs *inputs, enum verdict_code wanted)
{
	struct verdict verdict;

	verdict_decide(inputs, &verdict);
	if (verdict.code != wanted)
		fail_msg("%s instead of %s", verdict_code_name(verdict.code),
			 verdict_code_name(wanted));
}

/* Members by their place: what they are set to, and what is said then. */
struct row {
	const char *name;
	enum { BOOL, AGE, NUMBER, NODE } type;
	size_t at;
	int64_t value;
	enum verdict_code wanted;
};

#define ROW(type, member, value, wanted)                                                 \
	{                                                                                \
#member, type, offsetof(struct verdict_inputs, member), value, wanted    \
	}

static void put(struct verdict_inputs *inputs, const struct row *row)
{
	void *at = (char *)inputs + row->at;

	switch (row->type) {
	case BOOL:
		*(bool *)at = row->value != 0;
		return;
	case NODE:
		*(enum verdict_node *)at = (enum verdict_node)row->value;
		return;
	default:
		*(int64_t *)at = row->value;
	}
}

static void assert_rows(enum site_role role, const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct verdict_inputs inputs = inputs_of(role);
		assert_verdict(&inputs, VERDICT_IN_SYNC);
		put(&inputs, &rows[i]);
		print_message("# %s = %" PRId64 "\n", rows[i].name, rows[i].value);
		assert_verdict(&inputs, rows[i].wanted);
	}
}

TEST(at_any_site_the_node_answers_and_can_write)
{
	static const struct row rows[] = {
		ROW(NODE, node, NODE_NONE, VERDICT_NO_NODE),
		ROW(NODE, node, NODE_MUTE, VERDICT_NODE_SILENT),
		ROW(BOOL, write_fails, 1, VERDICT_NOT_WRITTEN),
		ROW(AGE, written_age_ms, -1, VERDICT_NOT_WRITTEN),
		ROW(AGE, written_age_ms, VERDICT_WRITTEN_MS, VERDICT_IN_SYNC),
		ROW(AGE, written_age_ms, VERDICT_WRITTEN_MS + 1, VERDICT_NOT_WRITTEN),
		ROW(NUMBER, mirrors_stale, 1, VERDICT_MIRROR_OLD),
		ROW(NUMBER, mirrors_behind, 1, VERDICT_MIRROR_BEHIND),
		ROW(NUMBER, checkouts_failing, 1, VERDICT_CHECKOUT_FAILS),
		ROW(BOOL, pushes_are_done, 0, VERDICT_PUSH_WAITS),
	};

	assert_rows(SITE_PRIMARY, rows, ARRAY_SIZE(rows));
	assert_rows(SITE_SECONDARY, rows, ARRAY_SIZE(rows));
	assert_rows(SITE_STANDALONE, rows, ARRAY_SIZE(rows));
}

TEST(a_secondary_has_fresh_proof_of_each_row)
{
	static const struct row rows[] = {
		ROW(BOOL, is_root_lost, 1, VERDICT_ROOT_LOST),
		ROW(BOOL, is_failing, 1, VERDICT_PRIMARY_FAILS),
		ROW(AGE, heard_age_ms, -1, VERDICT_PRIMARY_UNHEARD),
		ROW(AGE, heard_age_ms, VERDICT_HEARD_MS, VERDICT_IN_SYNC),
		ROW(AGE, heard_age_ms, VERDICT_HEARD_MS + 1, VERDICT_PRIMARY_SILENT),
		ROW(AGE, compared_age_ms, -1, VERDICT_NOT_COMPARED),
		ROW(AGE, compared_left_ms, 0, VERDICT_IN_SYNC),
		ROW(AGE, compared_left_ms, -1, VERDICT_COMPARISON_OLD),
		ROW(NUMBER, cursor, 6, VERDICT_EVENTS_WAIT),
		ROW(NUMBER, left_out, 1, VERDICT_LEFT_OUT),
		ROW(NUMBER, synced, 4, VERDICT_NOT_SYNCED),
		ROW(BOOL, has_unchecked, 1, VERDICT_NOT_CHECKED),
		ROW(NUMBER, proved, 4, VERDICT_NOT_VERIFIED),
	};

	assert_rows(SITE_SECONDARY, rows, ARRAY_SIZE(rows));
}

TEST(where_nobody_is_followed_scans_tell_what_there_is)
{
	static const struct row rows[] = {
		ROW(BOOL, is_scan_failing, 1, VERDICT_SCAN_FAILS),
		ROW(AGE, scan_age_ms, -1, VERDICT_NOT_SCANNED),
		ROW(AGE, scan_left_ms, 0, VERDICT_IN_SYNC),
		ROW(AGE, scan_left_ms, -1, VERDICT_SCAN_OLD),
	};

	assert_rows(SITE_PRIMARY, rows, ARRAY_SIZE(rows));
	assert_rows(SITE_STANDALONE, rows, ARRAY_SIZE(rows));
}

TEST(a_primary_knows_its_own_and_hears_its_secondaries)
{
	static const struct row rows[] = {
		ROW(NUMBER, left_out, 1, VERDICT_LEFT_OUT),
		ROW(NUMBER, proved, 4, VERDICT_NOT_VERIFIED),
		ROW(NUMBER, follower_count, 0, VERDICT_NO_SECONDARY),
	};

	assert_rows(SITE_PRIMARY, rows, ARRAY_SIZE(rows));
}

TEST(each_secondary_that_is_expected_says_it_of_itself)
{
	struct verdict_inputs inputs = inputs_of(SITE_PRIMARY);
	struct verdict_follower *last = &followers[1];
	struct verdict verdict;

	last->lacks_kind = true;
	assert_verdict(&inputs, VERDICT_SECONDARY_PARTIAL);
	last->lacks_events = true;
	assert_verdict(&inputs, VERDICT_SECONDARY_BEHIND);
	last->lacks_events = false;
	last->says = SAYS_NOT_IN_SYNC;
	assert_verdict(&inputs, VERDICT_SECONDARY_BEHIND);
	last->says = SAYS_NOTHING;
	assert_verdict(&inputs, VERDICT_SECONDARY_UNKNOWN);
	last->age_ms = VERDICT_HEARD_MS + 1;
	assert_verdict(&inputs, VERDICT_SECONDARY_SILENT);
	last->age_ms = -1;
	assert_verdict(&inputs, VERDICT_SECONDARY_SILENT);
	last->is_twice = true;
	assert_verdict(&inputs, VERDICT_SECONDARY_TWICE);
	verdict_decide(&inputs, &verdict);
	assert_int_equal(verdict.follower, 1);
}

TEST(what_is_not_known_of_one_secondary_goes_before_what_another_lacks)
{
	struct verdict_inputs inputs = inputs_of(SITE_PRIMARY);

	followers[0].says = SAYS_NOT_IN_SYNC;
	followers[1].age_ms = -1;
	assert_verdict(&inputs, VERDICT_SECONDARY_SILENT);
}

TEST(a_standalone_site_needs_no_proof_of_others)
{
	struct verdict_inputs inputs = inputs_of(SITE_STANDALONE);

	inputs.heard_age_ms = inputs.compared_age_ms = -1;
	inputs.follower_count = 0;
	inputs.proved = 0;
	assert_verdict(&inputs, VERDICT_IN_SYNC);
	inputs.failing = 1;
	assert_verdict(&inputs, VERDICT_NOT_VERIFIED);
}

TEST(what_is_not_known_of_one_mirror_goes_before_what_another_lacks)
{
	struct verdict_inputs inputs = inputs_of(SITE_STANDALONE);

	inputs.mirrors_stale = inputs.mirrors_behind = 1;
	assert_verdict(&inputs, VERDICT_MIRROR_OLD);
}

TEST(each_verdict_has_a_name_of_its_own)
{
	for (int i = 0; i < VERDICT_CODES; i++)
		for (int j = 0; j < i; j++)
			assert_string_not_equal(verdict_code_name((enum verdict_code)i),
						verdict_code_name((enum verdict_code)j));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at_any_site_the_node_answers_and_can_write),
		cmocka_unit_test(a_secondary_has_fresh_proof_of_each_row),
		cmocka_unit_test(where_nobody_is_followed_scans_tell_what_there_is),
		cmocka_unit_test(a_primary_knows_its_own_and_hears_its_secondaries),
		cmocka_unit_test(each_secondary_that_is_expected_says_it_of_itself),
		cmocka_unit_test(
			what_is_not_known_of_one_secondary_goes_before_what_another_lacks),
		cmocka_unit_test(a_standalone_site_needs_no_proof_of_others),
		cmocka_unit_test(
			what_is_not_known_of_one_mirror_goes_before_what_another_lacks),
		cmocka_unit_test(each_verdict_has_a_name_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
