/*
 * Which secondaries a primary waits for, and under whose name two nodes ask.
 */
#include "test.h"

#include <sys/syscall.h>

#include "report/followers.h"
#include "report/report.h"

static struct store *store;
static struct followers *followers;
static follower_list list;
static int64_t ahead_ms; /* of the boot clock */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (syscall(SYS_clock_gettime, clock, now) != 0)
		return -1;
	if (clock == CLOCK_BOOTTIME)
		*now = (struct timespec){ .tv_sec = 1000 + ahead_ms / 1000 };
	return 0;
}

static int setup(void **state)
{
	(void)state;
	ahead_ms = 0;
	followers = followers_new();
	return store_open("sqlite::memory:", &store, &err);
}

static int teardown(void **state)
{
	(void)state;
	follower_list_clear(&list);
	followers_free(followers);
	store_close(store);
	return 0;
}

static void expect_sites(const char *const *sites, size_t count)
{
	assert_ok(followers_expect(followers, store, sites, count, &err));
}

static const struct follower *look(void)
{
	follower_list_clear(&list);
	followers_look(followers, &list);
	assert_true(list.count > 0);
	return &list.items[0];
}

static void asks(const char *node)
{
	char report[64];

	snprintf(report, sizeof(report), "{\"node\":\"%s\"}", node);
	followers_seen(followers, "paris", report);
}

static size_t count_kept(void)
{
	struct report report;

	assert_ok(report_make(&(struct report_options){ .role = SITE_PRIMARY,
							.site = "london",
							.data = "/nowhere",
							.store = store },
			      &report, &err));
	size_t count = report.secondaries.count;
	report_clear(&report);
	return count;
}

static enum verdict_word paris_says(void)
{
	struct vital_signs signs = VITAL_SIGNS_NONE;
	struct report report;

	signs.node = NODE_ANSWERS;
	followers_look(followers, &signs.followers);
	assert_ok(report_make(&(struct report_options){ .role = SITE_PRIMARY,
							.site = "london",
							.data = "/nowhere",
							.signs = &signs,
							.store = store },
			      &report, &err));
	assert_int_equal(report.secondaries.count, 1);
	enum verdict_word says = report.secondaries.items[0].says;
	report_clear(&report);
	vital_signs_clear(&signs);
	return says;
}

TEST(what_a_site_leaves_out_stays_until_it_is_told_anew)
{
	char lfs[] = "lfs";
	const text_list kinds = { .items = (char *[]){ lfs }, .count = 1 };

	expect_sites((const char *const[]){ "paris" }, 1);
	followers_leave_out(followers, "tokyo", &kinds); /* nobody's section */
	followers_leave_out(followers, "paris", &kinds);
	expect_sites((const char *const[]){ "paris" }, 1);
	assert_int_equal(look()->leaves_out.count, 1);
	assert_string_equal(look()->leaves_out.items[0], "lfs");
	followers_leave_out(followers, "paris", &(text_list){ 0 });
	assert_int_equal(look()->leaves_out.count, 0);
}

/* It asks for events all the while, and cannot say how it is; or that cannot be stored.
 */
TEST(an_old_word_does_not_count_for_one_that_goes_on_asking)
{
	expect_sites((const char *const[]){ "paris" }, 1);
	assert_ok(followers_record(store, "paris", 1, "{\"in_sync\":true}", &err));
	followers_seen(followers, "paris", NULL);
	assert_int_equal(paris_says(), SAYS_NOTHING); /* of a former life of the node */
	followers_told(followers, "tokyo");           /* nobody's section */
	assert_int_equal(paris_says(), SAYS_NOTHING);
	followers_told(followers, "paris");
	assert_int_equal(look()->told_age_ms, 0);
	assert_int_equal(paris_says(), SAYS_IN_SYNC);
	ahead_ms = VERDICT_HEARD_MS;
	followers_seen(followers, "paris", NULL);
	assert_int_equal(paris_says(), SAYS_IN_SYNC);
	ahead_ms = VERDICT_HEARD_MS + 1000;
	followers_seen(followers, "paris", NULL);
	assert_int_equal(look()->age_ms, 0);
	assert_int_equal(paris_says(), SAYS_NOTHING);
}

TEST(one_that_never_asked_has_no_age_and_others_are_as_old_as_their_request)
{
	expect_sites((const char *const[]){ "paris" }, 1);
	assert_int_equal(look()->age_ms, -1);
	followers_seen(followers, "tokyo", NULL); /* nobody's section */
	assert_int_equal(look()->age_ms, -1);
	followers_seen(followers, "paris", NULL);
	ahead_ms = 12000;
	assert_int_equal(look()->age_ms, 12000);
	assert_int_equal(list.count, 1);
}

TEST(one_whose_section_is_gone_is_forgotten_and_the_others_stay_as_they_are)
{
	assert_ok(followers_record(store, "paris", 1, "{}", &err));
	assert_ok(followers_record(store, "tokyo", 1, "{}", &err));
	expect_sites((const char *const[]){ "paris", "tokyo" }, 2);
	followers_seen(followers, "paris", NULL);
	assert_int_equal(count_kept(), 2);
	ahead_ms = 3000;
	expect_sites((const char *const[]){ "paris" }, 1);
	assert_int_equal(count_kept(), 1);
	assert_int_equal(look()->age_ms, 3000);
	assert_int_equal(list.count, 1);
	expect_sites(NULL, 0);
	assert_int_equal(count_kept(), 0);
}

TEST(a_node_that_was_started_again_is_no_second_one)
{
	expect_sites((const char *const[]){ "paris" }, 1);
	asks("a");
	asks("a");
	asks("b");
	asks("b");
	asks("c");
	assert_false(look()->is_twice);
}

TEST(two_nodes_of_one_name_are_found_by_the_one_that_comes_back)
{
	expect_sites((const char *const[]){ "paris" }, 1);
	asks("a");
	asks("b");
	assert_false(look()->is_twice);
	asks("a");
	assert_true(look()->is_twice);
	ahead_ms = 9 * 60000; /* as when one of them is frozen */
	asks("a");
	assert_true(look()->is_twice);
	ahead_ms = 11 * 60000;
	asks("a");
	assert_false(look()->is_twice);
	asks("b");
	assert_true(look()->is_twice);
}

#define SEEN(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SEEN(one_that_never_asked_has_no_age_and_others_are_as_old_as_their_request),
		SEEN(one_whose_section_is_gone_is_forgotten_and_the_others_stay_as_they_are),
		SEEN(what_a_site_leaves_out_stays_until_it_is_told_anew),
		SEEN(an_old_word_does_not_count_for_one_that_goes_on_asking),
		SEEN(a_node_that_was_started_again_is_no_second_one),
		SEEN(two_nodes_of_one_name_are_found_by_the_one_that_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
