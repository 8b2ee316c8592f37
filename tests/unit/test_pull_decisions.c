#include <limits.h>

#include "test.h"

#include "pull/decisions.h"

#define T1 "1111111111111111"
#define T2 "2222222222222222"
#define MARK "abcdef0123456789"

TEST(a_position_survives_being_written_down)
{
	static const struct pull_cursor cursors[] = { { 0, "", T1 },
						      { 42, MARK, T1 },
						      { UINT64_MAX, MARK, T2 } };

	for (size_t i = 0; i < ARRAY_SIZE(cursors); i++) {
		char text[PULL_CURSOR_SIZE];
		struct pull_cursor read;
		pull_cursor_format(&cursors[i], text);
		assert_true(pull_cursor_parse(text, &read));
		assert_int_equal(read.id, cursors[i].id);
		assert_string_equal(read.mark, cursors[i].mark);
		assert_string_equal(read.timeline,
				    T1[0] == cursors[i].timeline[0] ? T1 : T2);
	}
}

TEST(a_position_at_the_end_of_a_log_is_of_its_last_event)
{
	const struct event_ends ends = {
		.first = 3, .last = 42, .mark = MARK, .timeline = T2
	};
	struct pull_cursor cursor = { 7, "1111111111111112", T1 };

	pull_cursor_set(&cursor, &ends);
	assert_int_equal(cursor.id, 42);
	assert_string_equal(cursor.mark, MARK);
	assert_string_equal(cursor.timeline, T2);
}

/* Then everything is compared: safe, where a wrong position would not be. */
TEST(a_damaged_position_is_none)
{
	static const char *const texts[] = {
		"",
		"42",
		"42 " MARK,
		"42 - " T1,
		"0 " MARK " " T1,
		"-1 " MARK " " T1,
		"42 " MARK " 111111111111111",
		"42 " MARK " " T1 " more",
		"42 xbcdef0123456789 " T1,
		"18446744073709551616 " MARK " " T1,
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct pull_cursor read;
		if (pull_cursor_parse(texts[i], &read))
			fail_msg("taken for a position: %s", texts[i]);
	}
}

static char kind_repository[] = "repository", kind_lfs[] = "lfs";

static void add(event_list *events, uint64_t id, char *kind, const char *name)
{
	struct event event = {
		.id = id, .at = (int64_t)id * 10, .kind = kind, .name = xstrdup(name)
	};

	vec_add(events, event);
}

static void forget(event_list *events, folded_events *folded)
{
	for (size_t i = 0; i < events->count; i++)
		free(events->items[i].name);
	vec_clear(events);
	vec_clear(folded);
}

TEST(of_several_events_the_last_counts_since_the_first)
{
	event_list events = { 0 };
	folded_events folded = { 0 };

	add(&events, 5, kind_repository, "b");
	add(&events, 6, kind_repository, "a");
	add(&events, 7, kind_lfs, "b");
	add(&events, 8, kind_repository, "b");
	add(&events, 9, kind_repository, "b");
	fold_events(&events, &folded);
	assert_int_equal(folded.count, 3);
	assert_int_equal(folded.items[0].last->id, 6);
	assert_int_equal(folded.items[0].since, 60);
	assert_int_equal(folded.items[1].last->id, 7);
	assert_int_equal(folded.items[2].last->id, 9);
	assert_int_equal(folded.items[2].first->id, 5);
	assert_int_equal(folded.items[0].first->id, 6);
	assert_int_equal(folded.items[2].since, 50);
	forget(&events, &folded);
}

TEST(no_events_fold_to_none)
{
	event_list events = { 0 };
	folded_events folded = { 0 };

	fold_events(&events, &folded);
	assert_int_equal(folded.count, 0);
}

TEST(a_checksum_after_a_change_is_that_changes_own)
{
	event_list events = { 0 };
	folded_events folded = { 0 };

	add(&events, 1, kind_lfs, "a");
	add(&events, 2, kind_lfs, "a");
	add(&events, 3, kind_lfs, "b");
	events.items[1].what = events.items[2].what = EVENT_CHECKSUMMED;
	fold_events(&events, &folded);
	assert_int_equal(folded.count, 2);
	assert_false(folded.items[0].is_reported_only);
	assert_int_equal(folded.items[0].since, 10);
	assert_true(folded.items[1].is_reported_only);
	forget(&events, &folded);
}

TEST(a_change_after_a_checksum_is_a_change_since_then)
{
	event_list events = { 0 };
	folded_events folded = { 0 };

	add(&events, 1, kind_lfs, "a");
	add(&events, 2, kind_lfs, "a");
	events.items[0].what = EVENT_CHECKSUMMED;
	fold_events(&events, &folded);
	assert_int_equal(folded.count, 1);
	assert_false(folded.items[0].is_reported_only);
	assert_int_equal(folded.items[0].since, 20);
	forget(&events, &folded);
}

static char text_a[] = "a", text_b[] = "b", text_c[] = "c";
static char sum_1[] = "1-one", sum_2[] = "1-two";

static struct inventory_item item_of(char *name, uint64_t generation, char *checksum)
{
	return (struct inventory_item){ .name = name,
					.checksum = checksum,
					.is_unreadable = !checksum,
					.timeline = T1,
					.generation = generation };
}

static char text_repository[] = "repository", text_lfs[] = "lfs";

static struct registry_row row_of(char *name, uint64_t generation, char *checksum)
{
	return (struct registry_row){ .kind = text_repository,
				      .name = name,
				      .state = REGISTRY_SYNCED,
				      .verification = VERIFICATION_SUCCEEDED,
				      .timeline = T1,
				      .generation = generation,
				      .generation_wanted = generation,
				      .checksum = checksum,
				      .primary_checksum = checksum };
}

static bool reports_checksums;
static int64_t asked_at;

/* "ask", "adopt", "gone", "tell" or "" for one name on both sides; NULL: not there. */
static const char *word_for(const struct inventory_item *item,
			    const struct registry_row *row)
{
	static const char *const words[] = { "ask", "adopt", "gone", "tell" };
	const struct compare_range range = { item,        item != NULL,      row,
					     row != NULL, reports_checksums, asked_at };
	compare_steps steps = { 0 };
	const char *word = "";

	compare_range(&range, &steps);
	assert_true(steps.count <= 1);
	if (steps.count == 1) {
		word = words[steps.items[0].action];
		assert_ptr_equal(steps.items[0].row, row);
		assert_ptr_equal(steps.items[0].item, item);
	}
	vec_clear(&steps);
	return word;
}

TEST(a_checksum_that_becomes_known_is_told_and_brings_nothing)
{
	struct inventory_item item = item_of(text_a, 7, sum_1);
	struct registry_row row = row_of(text_a, 7, NULL);

	assert_string_equal(word_for(&item, &row), ""); /* of repositories */
	reports_checksums = true;
	assert_string_equal(word_for(&item, &row), "tell");
	row.generation_wanted = 8; /* an event was faster */
	assert_string_equal(word_for(&item, &row), "");
	row = row_of(text_a, 7, sum_1);
	item.checksum = NULL; /* not computed yet, but readable */
	assert_string_equal(word_for(&item, &row), "");
	item.generation = 8;
	assert_string_equal(word_for(&item, &row), "ask");
	item.is_unreadable = true;
	assert_string_equal(word_for(&item, &row), "");
	memcpy(row.timeline, T2, sizeof(row.timeline));
	item.is_unreadable = false;
	assert_string_equal(word_for(&item, &row), "ask");
	reports_checksums = false;
}

TEST(what_is_the_same_is_left_alone)
{
	struct inventory_item item = item_of(text_a, 7, sum_1);
	struct registry_row row = row_of(text_a, 7, sum_1);

	assert_string_equal(word_for(&item, &row), "");
	row.generation = 5; /* asked for already, under way */
	row.state = REGISTRY_STARTED;
	assert_string_equal(word_for(&item, &row), "");
}

TEST(what_is_missing_or_older_or_different_is_asked_for)
{
	struct inventory_item item = item_of(text_a, 7, sum_1);
	struct registry_row row = row_of(text_a, 6, sum_2);

	assert_string_equal(word_for(&item, NULL), "ask");
	assert_string_equal(word_for(&item, &row), "ask");
	row = row_of(text_a, 7, sum_2);
	assert_string_equal(word_for(&item, &row), "ask");
	row = row_of(text_a, 7, sum_1);
	row.is_gone = true;
	assert_string_equal(word_for(&item, &row), "ask");
}

/* It may have been read from the primary itself, after the inventory was. */
TEST(a_row_that_is_ahead_is_turned_back_only_by_what_was_asked_for_later)
{
	struct inventory_item item = item_of(text_a, 7, sum_1);
	struct registry_row row = row_of(text_a, 8, sum_2);

	asked_at = 1000;
	row.last_success_at = 1000;
	assert_string_equal(word_for(&item, &row), "");
	row.last_success_at = 999;
	assert_string_equal(word_for(&item, &row), "ask");
	row = row_of(text_a, 8, sum_1);
	assert_string_equal(word_for(&item, &row), "ask");
	row.kind = text_lfs;
	assert_string_equal(word_for(&item, &row), "adopt");
	row.generation = 7; /* the newer one was never brought */
	row.state = REGISTRY_PENDING;
	assert_string_equal(word_for(&item, &row), "ask");
	asked_at = 0;
}

/* A repository's checksum says nothing of its description and its settings. */
TEST(another_identity_of_a_repository_is_asked_for)
{
	struct inventory_item item = item_of(text_a, 1, sum_1);
	struct registry_row row = row_of(text_a, 9, sum_1);

	memcpy(row.timeline, T2, sizeof(row.timeline));
	assert_string_equal(word_for(&item, &row), "ask");
}

TEST(another_identity_of_a_blob_is_adopted_only_with_a_proved_and_equal_copy)
{
	struct inventory_item item = item_of(text_a, 1, sum_1);
	struct registry_row row = row_of(text_a, 9, sum_1);

	row.kind = text_lfs;
	memcpy(row.timeline, T2, sizeof(row.timeline));
	assert_string_equal(word_for(&item, &row), "adopt");
	row.verification = VERIFICATION_PENDING;
	assert_string_equal(word_for(&item, &row), "ask");
	row.verification = VERIFICATION_SUCCEEDED;
	row.state = REGISTRY_PENDING;
	assert_string_equal(word_for(&item, &row), "ask");
	row.state = REGISTRY_SYNCED;
	row.checksum = sum_2;
	assert_string_equal(word_for(&item, &row), "ask");
}

/* A description changes the generation, but not the checksum. */
TEST(a_newer_generation_is_brought_although_the_checksum_is_equal)
{
	struct inventory_item item = item_of(text_a, 8, sum_1);
	struct registry_row row = row_of(text_a, 7, sum_1);

	assert_string_equal(word_for(&item, &row), "ask");
}

TEST(what_the_primary_cannot_read_is_asked_for_once)
{
	struct inventory_item item = item_of(text_a, 8, NULL);
	struct registry_row row = row_of(text_a, 7, sum_1);

	assert_string_equal(word_for(&item, NULL), "ask");
	assert_string_equal(word_for(&item, &row), "");
}

TEST(what_the_primary_has_no_more_is_gone_once)
{
	struct registry_row row = row_of(text_a, 7, sum_1);

	assert_string_equal(word_for(NULL, &row), "gone");
	row.is_gone = true;
	assert_string_equal(word_for(NULL, &row), "");
}

TEST(two_lists_are_merged_by_name)
{
	const struct inventory_item items[] = { item_of(text_a, 1, sum_1),
						item_of(text_c, 1, sum_1) };
	const struct registry_row rows[] = { row_of(text_b, 1, sum_1),
					     row_of(text_c, 1, sum_1) };
	const struct compare_range range = { items, 2, rows, 2, false, 0 };
	compare_steps steps = { 0 };

	compare_range(&range, &steps);
	assert_int_equal(steps.count, 2);
	assert_int_equal(steps.items[0].action, COMPARE_ASK);
	assert_ptr_equal(steps.items[0].item, &items[0]);
	assert_int_equal(steps.items[1].action, COMPARE_GONE);
	assert_ptr_equal(steps.items[1].row, &rows[0]);
	vec_clear(&steps);
}

TEST(what_is_behind_the_end_of_a_range_says_nothing)
{
	const struct inventory_item items[] = { item_of(text_a, 1, sum_1),
						item_of(text_c, 1, sum_1) };
	const struct registry_row rows[] = { row_of(text_a, 1, sum_1),
					     row_of(text_b, 1, sum_1) };
	const struct compare_range range = { items, 1, rows, 1, false, 0 };
	compare_steps steps = { 0 };

	compare_range(&range, &steps);
	assert_int_equal(steps.count, 0);
	vec_clear(&steps);
}

TEST(a_range_ends_with_its_last_name)
{
	const struct inventory_item items[] = { item_of(text_a, 1, NULL),
						item_of(text_b, 1, NULL) };
	const struct registry_row rows[] = { row_of(text_b, 1, NULL),
					     row_of(text_c, 1, NULL) };

	assert_int_equal(count_items_until(items, 2, "a"), 1);
	assert_int_equal(count_items_until(items, 2, "aa"), 1);
	assert_int_equal(count_items_until(items, 2, NULL), 2);
	assert_int_equal(count_rows_until(rows, 2, "b"), 1);
	assert_int_equal(count_rows_until(rows, 2, "a"), 0);
	assert_int_equal(count_rows_until(rows, 2, NULL), 2);
}

TEST(waiting_doubles_up_to_half_a_minute_and_spreads_by_a_quarter)
{
	static const int64_t middle[] = { 1000, 2000, 4000, 8000, 16000, 30000, 30000 };

	assert_int_equal(backoff_ms(0, 7), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(middle); i++) {
		int64_t least = INT64_MAX, most = 0;
		for (unsigned roll = 0; roll < 100000; roll += 7) {
			int64_t ms = backoff_ms(i + 1, roll);
			least = ms < least ? ms : least;
			most = ms > most ? ms : most;
		}
		assert_int_equal(least, middle[i] - middle[i] / 4);
		assert_in_range(most, middle[i] + middle[i] / 4 - 10,
				middle[i] + middle[i] / 4);
	}
	assert_in_range(backoff_ms(UINT32_MAX, 0), 22500, 37500);
	assert_int_equal(backoff_ms(1, 500), 1250);
	assert_int_equal(backoff_ms(1, 501), 750);
}

TEST(only_a_connection_lost_after_long_silence_is_free)
{
	struct err lost = { .class = ERR_NETWORK }, late = { .class = ERR_TIMEOUT };

	assert_true(is_idle_loss(&lost, 20000));
	assert_true(is_idle_loss(&lost, 5000));
	assert_false(is_idle_loss(&lost, 4999));
	assert_false(is_idle_loss(&late, 60000));
}

TEST(reverifications_spread_over_half_the_interval)
{
	assert_int_equal(next_reverify_ms(0, 5), 0);
	assert_int_equal(next_reverify_ms(1000000, 0), 1000000);
	assert_int_equal(next_reverify_ms(1000000, UINT32_MAX), 500000);
	assert_in_range(next_reverify_ms(1000000, UINT32_MAX / 2), 740000, 760000);
}

TEST(what_was_found_damaged_is_not_believed_again)
{
	struct registry_row row = row_of(text_a, 7, sum_1);
	char corrupt[] = "corrupt", network[] = "network";

	assert_false(sync_manner_of(&row).is_suspect);
	row.failure_class = network;
	assert_false(sync_manner_of(&row).is_suspect);
	row.failure_class = corrupt;
	assert_true(sync_manner_of(&row).is_suspect);
	row.failure_class = NULL;
	row.verification = VERIFICATION_FAILED;
	assert_true(sync_manner_of(&row).is_suspect);
	assert_false(sync_manner_of(&row).is_forced);
	assert_false(sync_manner_of(&row).is_rebuild);
}

TEST(wishes_are_obeyed)
{
	struct registry_row row = row_of(text_a, 7, sum_1);

	row.wishes = REGISTRY_WISH_FORCE;
	assert_true(sync_manner_of(&row).is_forced);
	row.wishes = REGISTRY_WISH_REBUILD;
	assert_true(sync_manner_of(&row).is_rebuild);
	row.wishes = REGISTRY_WISH_RECHECK;
	assert_true(sync_manner_of(&row).is_suspect);
}

static enum registry_event end_of(enum err_class class, int code)
{
	const struct err failure = { .class = class, .sys_errno = code };

	assert_int_equal(verification_end(&failure, false), REGISTRY_SUPERSEDED);
	return verification_end(&failure, true);
}

/* That a lease was held, the disk full, or there were no descriptors left, proves nothing
 * against the copy; nor does what fails before it is looked at. */
TEST(only_what_speaks_of_the_copy_disproves_it)
{
	static const enum err_class against[] = { ERR_CORRUPT, ERR_MISSING, ERR_CONFIG,
						  ERR_NETWORK, ERR_INTERNAL };
	static const enum err_class neither[] = { ERR_BUSY,    ERR_LOST, ERR_CANCELED,
						  ERR_TIMEOUT, ERR_AUTH, ERR_CONFLICT };
	static const int of_machine[] = { EMFILE,   ENFILE, ENOMEM, EAGAIN, ENOLCK,
					  ENOTCONN, ESTALE, EINTR,  ENOEXEC };
	const struct err good = { 0 };

	assert_int_equal(verification_end(&good, true), REGISTRY_PROVED);
	assert_int_equal(verification_end(&good, false), REGISTRY_PROVED);
	for (size_t i = 0; i < ARRAY_SIZE(against); i++)
		assert_int_equal(end_of(against[i], 0), REGISTRY_DISPROVED);
	for (size_t i = 0; i < ARRAY_SIZE(neither); i++)
		assert_int_equal(end_of(neither[i], 0), REGISTRY_SUPERSEDED);
	for (size_t i = 0; i < ARRAY_SIZE(of_machine); i++)
		for (size_t j = 0; j < ARRAY_SIZE(against); j++)
			assert_int_equal(end_of(against[j], of_machine[i]),
					 REGISTRY_SUPERSEDED);
	assert_int_equal(end_of(ERR_DISK, ENOSPC), REGISTRY_SUPERSEDED);
	assert_int_equal(end_of(ERR_DISK, EIO), REGISTRY_DISPROVED);
}

TEST(what_a_full_disk_kept_from_being_verified_is_verified_within_a_minute)
{
	assert_int_equal(verification_again_ms(ERR_CONFLICT), 0);
	assert_int_equal(verification_again_ms(ERR_BUSY), 5000);
	assert_int_equal(verification_again_ms(ERR_DISK), 60000);
	assert_int_equal(verification_again_ms(ERR_NETWORK), 60000);
	assert_int_equal(verification_again_ms(ERR_TIMEOUT), 600000);
}

TEST(a_million_rows_are_compared_within_an_interval_unless_that_is_too_much_work)
{
	static const struct {
		struct page_pace pace;
		int64_t pause_ms, pass_ms;
	} table[] = {
		{ { 60000, 10, 10000, 10000 }, 60000, 60010 }, /* one page is all */
		{ { 60000, 10, 0, 0 }, 60000, 60010 },
		{ { 60000, 10, 0, 10000 }, 60000, 60010 },
		{ { 60000, 10, 1000000, 10000 }, 600, 61000 },
		{ { 60000, 1000, 1000000, 10000 }, 4000, 500000 },
		{ { 60000, 90000, 1000000, 10000 }, 60000, 15000000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		assert_int_equal(page_pause_ms(&table[i].pace), table[i].pause_ms);
		assert_int_equal(pass_takes_ms(&table[i].pace), table[i].pass_ms);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_position_survives_being_written_down),
		cmocka_unit_test(a_position_at_the_end_of_a_log_is_of_its_last_event),
		cmocka_unit_test(a_damaged_position_is_none),
		cmocka_unit_test(of_several_events_the_last_counts_since_the_first),
		cmocka_unit_test(no_events_fold_to_none),
		cmocka_unit_test(a_checksum_after_a_change_is_that_changes_own),
		cmocka_unit_test(a_change_after_a_checksum_is_a_change_since_then),
		cmocka_unit_test(
			a_checksum_that_becomes_known_is_told_and_brings_nothing),
		cmocka_unit_test(what_is_the_same_is_left_alone),
		cmocka_unit_test(what_is_missing_or_older_or_different_is_asked_for),
		cmocka_unit_test(
			a_row_that_is_ahead_is_turned_back_only_by_what_was_asked_for_later),
		cmocka_unit_test(another_identity_of_a_repository_is_asked_for),
		cmocka_unit_test(
			another_identity_of_a_blob_is_adopted_only_with_a_proved_and_equal_copy),
		cmocka_unit_test(
			a_newer_generation_is_brought_although_the_checksum_is_equal),
		cmocka_unit_test(what_the_primary_cannot_read_is_asked_for_once),
		cmocka_unit_test(what_the_primary_has_no_more_is_gone_once),
		cmocka_unit_test(two_lists_are_merged_by_name),
		cmocka_unit_test(what_is_behind_the_end_of_a_range_says_nothing),
		cmocka_unit_test(a_range_ends_with_its_last_name),
		cmocka_unit_test(
			waiting_doubles_up_to_half_a_minute_and_spreads_by_a_quarter),
		cmocka_unit_test(only_a_connection_lost_after_long_silence_is_free),
		cmocka_unit_test(reverifications_spread_over_half_the_interval),
		cmocka_unit_test(what_was_found_damaged_is_not_believed_again),
		cmocka_unit_test(
			what_a_full_disk_kept_from_being_verified_is_verified_within_a_minute),
		cmocka_unit_test(
			a_million_rows_are_compared_within_an_interval_unless_that_is_too_much_work),
		cmocka_unit_test(wishes_are_obeyed),
		cmocka_unit_test(only_what_speaks_of_the_copy_disproves_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
