/*
 * Deletions and renames that are told, not found by a scan: how often the tree is walked
 * for them, and that a walk answers only for what was missing before. Its time stands
 * still, but for the second that each walk takes.
 */
#include "notice_test.h"
#include "rights.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdatomic.h>

#include "base/log.h"
#include "base/thread.h"

#define WALK_MS 1000
#define COUNT 20

static _Atomic int64_t now;
static atomic_int walks;
static int walk_pause_ms;  /* in which others come by */
static const char *at_end; /* a command, run once when the next walk has seen all */

int64_t clock_boot_ms(void)
{
	return now;
}

int discover(const char *path, struct discovery *discovery, struct err *error)
{
	static int (*real)(const char *, struct discovery *, struct err *);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "discover");
	int result = real(path, discovery, error);
	walks++;
	now += WALK_MS;
	poll(NULL, 0, walk_pause_ms);
	if (at_end)
		must("%s", TAKE(at_end));
	return result;
}

/* Whether the event is of this comparison. */
static bool compare(const char *name)
{
	AUTO_NOTICED struct noticed noticed = { 0 };
	int result = notice_compare(notice, name, &noticed, &err);

	if (result != 0 && noticed.why.class != ERR_MISSING)
		fail_msg("%s: %s", name, err.text);
	return noticed.is_changed;
}

static char *name_of(int i)
{
	return xasprintf("team/%02d", i);
}

static int make_team(void **state)
{
	log_set_level(LOG_LEVEL_NONE);
	now = 1000000;
	at_end = NULL;
	walk_pause_ms = 0;
	if (make_site(state) != 0)
		return -1;
	for (int i = 0; i < COUNT; i++) {
		AUTO_FREE char *name = name_of(i);
		AUTO_FREE char *path = xasprintf("%s.git", name);
		make_bare(path);
		assert_true(compare(name));
	}
	make_bare("other.git");
	assert_true(compare("other"));
	must("mkdir srv/new outside");
	walks = 0;
	return 0;
}

static int remove_team(void **state)
{
	event_list_clear(&events);
	return remove_site(state);
}

#define TEAM_CASE(name) cmocka_unit_test_setup_teardown(name, make_team, remove_team)

/* Nothing is left of `from` but an event, and `to` is the same repository. */
static void assert_renamed(const char *from, const char *to, const char *timeline)
{
	AUTO_ORIGIN_ROW struct origin_row old = row_of(from), row = row_of(to);

	assert_null(old.name);
	assert_non_null(row.name);
	assert_string_equal(row.timeline, timeline);
}

static char *timeline_of(const char *name)
{
	AUTO_ORIGIN_ROW struct origin_row row = row_of(name);

	return xstrdup(row.timeline);
}

TEST(many_deletions_take_one_walk)
{
	size_t before = all_events()->count;

	must("rm -r srv/team");
	for (int i = 0; i < COUNT; i++) {
		AUTO_FREE char *name = name_of(i);
		assert_true(compare(name));
		assert_int_equal(last_event()->what, EVENT_DELETED);
	}
	assert_int_equal(all_events()->count, before + COUNT);
	assert_int_equal(walks, 1);
	assert_false(compare("other"));
}

TEST(many_renames_take_one_walk)
{
	must("mv srv/team srv/new/squad");
	for (int i = 0; i < COUNT; i++) {
		AUTO_FREE char *name = name_of(i);
		AUTO_FREE char *new = xasprintf("new/squad/%02d", i);
		AUTO_FREE char *timeline = timeline_of(name);
		assert_true(compare(name));
		assert_renamed(name, new, timeline);
	}
	assert_int_equal(walks, 1);
}

static void *delete_some(void *arg)
{
	for (int i = *(const int *)arg; i < COUNT; i += 4) {
		AUTO_FREE char *name = name_of(i);
		assert_true(compare(name));
	}
	return NULL;
}

TEST(those_that_are_told_at_once_share_a_walk)
{
	static const int first[] = { 0, 1, 2, 3 };
	pthread_t threads[ARRAY_SIZE(first)];

	must("rm -r srv/team");
	walk_pause_ms = 100;
	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		thread_start(&threads[i], "test", delete_some,
			     (void *)(uintptr_t)&first[i]);
	for (size_t i = 0; i < ARRAY_SIZE(first); i++)
		thread_join(threads[i]);
	assert_int_equal(walks, 1);
}

/* To a place where the walk had been. */
TEST(what_is_renamed_while_the_tree_is_walked_is_no_deletion)
{
	AUTO_FREE char *timeline = timeline_of("team/02");

	must("rm -r srv/team/01.git");
	at_end = "mv srv/team/02.git srv/new/";
	assert_true(compare("team/01"));
	assert_true(compare("team/02"));
	assert_renamed("team/02", "new/02", timeline);
	assert_int_equal(walks, 2);
}

TEST(what_is_renamed_again_after_the_walk_is_no_deletion)
{
	AUTO_FREE char *timeline = timeline_of("team/02");

	must("rm -r srv/team/01.git && mv srv/team/02.git srv/new/a.git");
	assert_true(compare("team/01"));
	must("mv srv/new/a.git srv/new/b.git");
	assert_true(compare("team/02"));
	assert_renamed("team/02", "new/b", timeline);
	assert_int_equal(walks, 2);
}

/* It was missing when the tree was walked, and then noticed under its new name. */
TEST(a_walk_answers_for_no_other_name_of_a_directory)
{
	AUTO_FREE char *timeline = timeline_of("team/02");

	must("rm -r srv/team/01.git && mv srv/team/02.git outside");
	assert_true(compare("team/01"));
	must("mv outside/02.git srv/new/a.git");
	assert_true(compare("new/a"));
	must("mv srv/new/a.git srv/new/b.git");
	assert_true(compare("new/a"));
	assert_renamed("new/a", "new/b", timeline);
	assert_int_equal(walks, 2);
}

TEST(a_walk_is_soon_out_of_date)
{
	AUTO_FREE char *timeline = timeline_of("team/02");

	must("rm -r srv/team/01.git && mv srv/team/02.git outside");
	assert_true(compare("team/01"));
	must("mv outside/02.git srv/new/");
	now += 2 * WALK_MS;
	assert_true(compare("team/02"));
	assert_renamed("team/02", "new/02", timeline);
	assert_int_equal(walks, 2);
}

/* There may have been what is missed. */
TEST(a_walk_that_could_not_see_all_answers_once)
{
	AUTO_FREE char *timeline = timeline_of("team/02");

	must("rm -r srv/team/01.git && mv srv/team/02.git srv/new/");
	rights_set_override(false);
	must("chmod 0 srv/new");
	assert_true(compare("team/01"));
	must("chmod 755 srv/new");
	rights_set_override(true);
	assert_true(compare("team/02"));
	assert_renamed("team/02", "new/02", timeline);
	assert_int_equal(walks, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEAM_CASE(many_deletions_take_one_walk),
		TEAM_CASE(many_renames_take_one_walk),
		TEAM_CASE(those_that_are_told_at_once_share_a_walk),
		TEAM_CASE(what_is_renamed_while_the_tree_is_walked_is_no_deletion),
		TEAM_CASE(what_is_renamed_again_after_the_walk_is_no_deletion),
		TEAM_CASE(a_walk_answers_for_no_other_name_of_a_directory),
		TEAM_CASE(a_walk_is_soon_out_of_date),
		TEAM_CASE(a_walk_that_could_not_see_all_answers_once),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
