#include "test.h"

#include "alert/store.h"

#define SETTLE 60000
#define REPEAT 3600000

static char name[] = "oncall", other_name[] = "other", subject[] = "paris",
	    remedy[] = "do it";
static struct alert alert = { .name = name, .settle_ms = SETTLE, .repeat_ms = REPEAT };
static struct alert_state known;
static int64_t now;

static int begin(void **unused)
{
	now = 1795252443000;
	alert.repeat_ms = REPEAT;
	return test_make_root(unused);
}

static int end(void **unused)
{
	alert_state_clear(&known);
	return test_remove_root(unused);
}

#define STATE(name) cmocka_unit_test_setup_teardown(name, begin, end)

/* One look, at which there is this trouble; text NULL: there is none. */
static bool look_at(const char *text, int64_t bound_ms, bool is_open)
{
	struct alert_trouble one = { .kind = ALERT_LAG,
				     .subject = subject,
				     .text = (char *)(uintptr_t)text,
				     .remedy = remedy,
				     .bound_ms = bound_ms,
				     .is_open = is_open };
	const alert_troubles all = { .items = &one, .count = text ? 1 : 0 };

	return alert_state_take(&known, &all, true, &alert, now);
}

static bool look(const char *text)
{
	return look_at(text, 0, false);
}

static enum alert_telling telling(void)
{
	return known.entries.count > 0
		       ? alert_entry_due(&known.entries.items[0], &alert, now)
		       : ALERT_TELLS_NOTHING;
}

static void tell(void)
{
	assert_true(alert_state_is_due(&known, &alert, now));
	alert_state_told(&known, &alert, now, SIZE_MAX);
	assert_false(alert_state_is_due(&known, &alert, now));
}

/* Until it was told. */
static void have_trouble(void)
{
	look("behind");
	now += SETTLE;
	look("behind");
	assert_int_equal(telling(), ALERT_BEGINS);
	tell();
}

/* The node may end before alert.settle is over, and only it knows. */
TEST(what_has_happened_is_told_at_once)
{
	struct alert_trouble one = { .kind = ALERT_DAMAGE,
				     .subject = subject,
				     .text = name,
				     .remedy = remedy,
				     .is_past = true };
	const alert_troubles all = { .items = &one, .count = 1 };

	assert_true(alert_state_take(&known, &all, true, &alert, now));
	assert_int_equal(telling(), ALERT_BEGINS);
}

TEST(a_trouble_is_told_once_when_it_has_held_for_long_enough)
{
	assert_true(look("behind"));
	now += SETTLE - 1;
	assert_false(look("further behind"));
	assert_int_equal(telling(), ALERT_TELLS_NOTHING);
	now++;
	assert_true(look("further behind"));
	assert_int_equal(telling(), ALERT_BEGINS);
	assert_int_equal(known.entries.items[0].news, ALERT_BEGAN);
	assert_string_equal(known.entries.items[0].text, "further behind");
	tell();
	now += REPEAT - 1;
	assert_false(look("behind"));
	assert_int_equal(telling(), ALERT_TELLS_NOTHING);
}

TEST(what_passes_by_itself_is_told_to_nobody)
{
	for (int i = 0; i < 5; i++) {
		look("behind");
		now += SETTLE - 1;
		look(NULL);
		assert_int_equal(known.entries.count, 0);
	}
}

TEST(a_trouble_counts_when_it_is_as_old_as_its_bound)
{
	look_at("failing", 10 * SETTLE, false);
	now += 10 * SETTLE - 1;
	look_at("failing", 10 * SETTLE, false);
	assert_int_equal(telling(), ALERT_TELLS_NOTHING);
	now++;
	look_at("failing", 10 * SETTLE, false);
	assert_int_equal(telling(), ALERT_BEGINS);
}

TEST(what_is_known_of_its_age_counts)
{
	struct alert_trouble one = { .subject = subject,
				     .text = subject,
				     .remedy = remedy,
				     .since = now - 10 * SETTLE,
				     .bound_ms = 10 * SETTLE };
	const alert_troubles all = { .items = &one, .count = 1 };

	alert_state_take(&known, &all, true, &alert, now);
	assert_int_equal(telling(), ALERT_TELLS_NOTHING); /* it settles first */
	now += SETTLE;
	alert_state_take(&known, &all, true, &alert, now);
	assert_int_equal(telling(), ALERT_BEGINS);
	assert_int_equal(known.entries.items[0].since, one.since);
}

TEST(its_end_is_told_once_when_it_was_away_for_long_enough)
{
	have_trouble();
	now += 1000;
	assert_true(look(NULL));
	now += SETTLE - 1;
	assert_false(look(NULL));
	assert_int_equal(telling(), ALERT_TELLS_NOTHING);
	now++;
	assert_true(look(NULL));
	assert_int_equal(telling(), ALERT_IS_OVER);
	assert_int_equal(known.entries.items[0].news, ALERT_ENDED);
	assert_int_equal(known.entries.items[0].gone_at, now - SETTLE);
	tell();
	assert_int_equal(known.entries.count, 0);
}

TEST(one_that_comes_back_soon_was_never_away)
{
	have_trouble();
	for (int i = 0; i < 5; i++) {
		now += SETTLE - 1;
		look(NULL);
		now += SETTLE - 1;
		look("behind");
		assert_int_equal(telling(), ALERT_TELLS_NOTHING);
	}
}

TEST(one_that_comes_back_before_its_end_was_told_goes_on)
{
	have_trouble();
	look(NULL);
	now += SETTLE;
	look(NULL);
	assert_int_equal(telling(), ALERT_IS_OVER);
	look("behind");
	assert_int_equal(telling(), ALERT_TELLS_NOTHING);
	assert_int_equal(known.entries.items[0].gone_at, 0);
}

TEST(between_two_bounds_all_stays_as_it_was)
{
	look_at("behind", 0, true);
	now += 2 * SETTLE;
	look_at("behind", 0, true);
	assert_int_equal(known.entries.count, 0);
	have_trouble();
	now += 2 * SETTLE;
	assert_false(look_at("less behind", 0, true));
	assert_int_equal(known.entries.items[0].gone_at, 0);
	assert_string_equal(known.entries.items[0].text, "behind");
}

/* Else what fails, and is tried again and again, would begin anew each time. */
TEST(what_is_open_for_a_while_keeps_its_age)
{
	for (int i = 0; i < 10; i++) {
		look_at("failing", 10 * SETTLE, false);
		now += SETTLE / 2;
		look_at("tried again", 10 * SETTLE, true);
		assert_int_equal(telling(), ALERT_TELLS_NOTHING);
		now += SETTLE / 2;
	}
	look_at("tried again", 10 * SETTLE, true);
	assert_int_equal(telling(), ALERT_TELLS_NOTHING);
	look_at("failing", 10 * SETTLE, false);
	assert_int_equal(telling(), ALERT_BEGINS);
}

TEST(what_cannot_be_looked_at_ends_nothing)
{
	const alert_troubles none = { 0 };

	have_trouble();
	now += 5 * SETTLE;
	assert_false(alert_state_take(&known, &none, false, &alert, now));
	assert_int_equal(telling(), ALERT_TELLS_NOTHING);
	assert_int_equal(known.entries.items[0].gone_at, 0);
	look(NULL);
	now += 5 * SETTLE;
	alert_state_take(&known, &none, false, &alert, now);
	assert_int_equal(telling(), ALERT_TELLS_NOTHING);
}

TEST(it_is_told_again_after_a_while_unless_that_is_off)
{
	have_trouble();
	now += REPEAT;
	look("still behind");
	assert_int_equal(telling(), ALERT_REPEATS);
	tell();
	alert.repeat_ms = 0;
	now += 100 * (int64_t)REPEAT;
	look("still behind");
	assert_int_equal(telling(), ALERT_TELLS_NOTHING);
}

/* The receiver was away for all of it. */
TEST(an_end_is_told_of_what_could_not_be_told)
{
	look("behind");
	now += SETTLE;
	look("behind");
	assert_int_equal(telling(), ALERT_BEGINS);
	look(NULL);
	assert_int_equal(telling(), ALERT_TELLS_NOTHING);
	now += SETTLE;
	look(NULL);
	assert_int_equal(telling(), ALERT_IS_OVER);
}

TEST(a_clock_that_was_set_back_delays_nothing_for_long)
{
	have_trouble();
	now -= 30 * (int64_t)86400000;
	look("behind");
	now += REPEAT;
	look("behind");
	assert_int_equal(telling(), ALERT_REPEATS);
	look(NULL);
	now -= 30 * (int64_t)86400000;
	look(NULL);
	now += SETTLE;
	look(NULL);
	assert_int_equal(telling(), ALERT_IS_OVER);
}

/* "1" begins, "2" is due again, "3" and "4" are over, "5" begins. */
static void have_five(void)
{
	for (int i = 1; i <= 5; i++) {
		const bool is_over = i == 3 || i == 4;
		const struct alert_entry entry = { .kind = ALERT_LAG,
						   .subject = xasprintf("%d", i),
						   .text = xstrdup(""),
						   .remedy = xstrdup(""),
						   .since = now,
						   .gone_at = is_over ? now : 0,
						   .told_at = i == 1 || i == 5
								      ? 0
								      : now - REPEAT,
						   .is_due = true,
						   .is_over = is_over };
		vec_add(&known.entries, entry);
	}
}

/* The subjects of what is due. */
static void expect_due(const char *wanted)
{
	AUTO_STR struct str due = STR_INIT;

	for (size_t i = 0; i < known.entries.count; i++)
		if (alert_entry_due(&known.entries.items[i], &alert, now) !=
		    ALERT_TELLS_NOTHING)
			str_add(&due, known.entries.items[i].subject);
	assert_string_equal(due.data, wanted);
}

TEST(what_a_message_had_no_room_for_stays_due)
{
	have_five();
	expect_due("12345");
	alert_state_told(&known, &alert, now, 1);
	expect_due("2345");
	alert_state_told(&known, &alert, now, 1); /* a beginning goes before the rest */
	expect_due("234");
	alert_state_told(&known, &alert, now, 2);
	expect_due("4");
	assert_int_equal(known.entries.count, 4); /* an end that was told is forgotten */
	alert_state_told(&known, &alert, now, 2);
	expect_due("");
	assert_int_equal(known.entries.count, 3);
}

static struct store *open_store(void)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	struct store *store;

	assert_ok(store_open(url, &store, &err));
	return store;
}

static void restart(struct alert_sending *sending)
{
	struct store *store = open_store();

	assert_ok(alert_store_write(store, alert.name, &known, sending, &err));
	store_close(store);
	alert_state_clear(&known);
	store = open_store();
	assert_ok(alert_store_read(store, alert.name, &known, sending, &err));
	store_close(store);
}

TEST(after_a_restart_nothing_is_told_twice)
{
	struct alert_sending sending = { .sent_at = 5 };

	have_trouble();
	restart(&sending);
	now += REPEAT / 2;
	look("behind");
	assert_int_equal(telling(), ALERT_TELLS_NOTHING);
	now += REPEAT / 2;
	look("behind");
	assert_int_equal(telling(), ALERT_REPEATS);
	assert_int_equal(sending.sent_at, 5);
}

TEST(what_ended_while_the_node_was_down_is_told_after_it)
{
	struct alert_sending sending = { 0 };

	have_trouble();
	restart(&sending);
	now += 1000;
	look(NULL);
	now += SETTLE;
	look(NULL);
	assert_int_equal(telling(), ALERT_IS_OVER);
	restart(&sending);
	look(NULL);
	assert_int_equal(telling(), ALERT_IS_OVER);
	tell();
	restart(&sending);
	assert_int_equal(known.entries.count, 0);
}

TEST(what_had_not_held_for_long_enough_goes_on_settling)
{
	struct alert_sending sending = { 0 };

	look("behind");
	restart(&sending);
	now += SETTLE;
	look("behind");
	assert_int_equal(telling(), ALERT_BEGINS);
}

TEST(how_sending_fails_is_kept)
{
	struct alert_sending sending = {
		.failing_since = 7, .failed_at = 8, .failures = 3, .beat_failing_since = 9
	};

	err_set(&sending.why, ERR_AUTH, "it says no");
	err_remedy(&sending.why, "ask why");
	snprintf(sending.beat_why, sizeof(sending.beat_why), "not now");
	restart(&sending);
	assert_int_equal(sending.failing_since, 7);
	assert_int_equal(sending.failed_at, 8);
	assert_int_equal(sending.failures, 3);
	assert_int_equal(sending.why.class, ERR_AUTH);
	assert_string_equal(sending.why.text, "it says no");
	assert_string_equal(sending.why.remedy, "ask why");
	assert_string_equal(sending.beat_why, "not now");
}

/* What is known of the one trouble after a start with these settings. */
static enum alert_telling start_with(const char *url, unsigned kinds)
{
	struct alert_sending sending = { 0 };
	struct store *store = open_store();

	alert.url = (char *)(uintptr_t)url;
	alert.kinds = kinds;
	alert_state_clear(&known);
	assert_ok(alert_store_open(store, &alert, &known, &sending, &err));
	store_close(store);
	alert.url = NULL;
	return telling();
}

TEST(another_receiver_is_told_what_is_and_no_end_of_what_it_never_heard_of)
{
	struct alert_sending sending = { .sent_at = 1 };

	start_with("http://a", UINT_MAX);
	have_trouble();
	restart(&sending);
	assert_int_equal(start_with("http://a", UINT_MAX), ALERT_TELLS_NOTHING);
	assert_int_equal(start_with("http://b", UINT_MAX), ALERT_BEGINS);
	assert_int_equal(start_with("http://b", UINT_MAX), ALERT_BEGINS);
	tell();
	look(NULL);
	now += SETTLE;
	look(NULL);
	assert_int_equal(telling(), ALERT_IS_OVER);
	restart(&sending);
	start_with("http://a", UINT_MAX);
	assert_int_equal(known.entries.count, 0);
	have_trouble();
	look(NULL); /* it may have ended */
	restart(&sending);
	start_with("http://b", UINT_MAX);
	assert_int_equal(known.entries.count, 0);
}

TEST(what_is_asked_for_no_longer_has_not_ended)
{
	struct alert_sending sending = { .sent_at = 1 };

	have_trouble();
	restart(&sending);
	start_with("http://a", 1U << ALERT_DISK);
	assert_int_equal(known.entries.count, 0);
	start_with("http://a", UINT_MAX);
	assert_int_equal(known.entries.count, 0); /* nor is it remembered */
}

TEST(alerts_whose_sections_are_gone_are_forgotten)
{
	struct alert other = { .name = other_name };
	struct alert *list[] = { &other };
	const struct alerts alerts = { .list = { .items = list, .count = 1 } };
	struct alert_sending sending = { .sent_at = 5 };
	struct store *store;

	have_trouble();
	restart(&sending);
	store = open_store();
	assert_ok(alert_store_write(store, "other", &known, &sending, &err));
	assert_ok(alert_store_forget_others(store, &alerts, &err));
	alert_state_clear(&known);
	assert_ok(alert_store_read(store, "oncall", &known, &sending, &err));
	assert_int_equal(known.entries.count, 0);
	assert_int_equal(sending.sent_at, 0);
	assert_ok(alert_store_read(store, "other", &known, &sending, &err));
	assert_int_equal(known.entries.count, 1);
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STATE(what_has_happened_is_told_at_once),
		STATE(a_trouble_is_told_once_when_it_has_held_for_long_enough),
		STATE(what_passes_by_itself_is_told_to_nobody),
		STATE(a_trouble_counts_when_it_is_as_old_as_its_bound),
		STATE(what_is_known_of_its_age_counts),
		STATE(its_end_is_told_once_when_it_was_away_for_long_enough),
		STATE(one_that_comes_back_soon_was_never_away),
		STATE(one_that_comes_back_before_its_end_was_told_goes_on),
		STATE(between_two_bounds_all_stays_as_it_was),
		STATE(what_is_open_for_a_while_keeps_its_age),
		STATE(what_cannot_be_looked_at_ends_nothing),
		STATE(it_is_told_again_after_a_while_unless_that_is_off),
		STATE(an_end_is_told_of_what_could_not_be_told),
		STATE(a_clock_that_was_set_back_delays_nothing_for_long),
		STATE(what_a_message_had_no_room_for_stays_due),
		STATE(after_a_restart_nothing_is_told_twice),
		STATE(what_ended_while_the_node_was_down_is_told_after_it),
		STATE(what_had_not_held_for_long_enough_goes_on_settling),
		STATE(how_sending_fails_is_kept),
		STATE(another_receiver_is_told_what_is_and_no_end_of_what_it_never_heard_of),
		STATE(what_is_asked_for_no_longer_has_not_ended),
		STATE(alerts_whose_sections_are_gone_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
