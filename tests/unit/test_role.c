/*
 * What a data directory that was used in another role before must go through.
 */
#include "test.h"

#include "base/log.h"
#include "change/event_log.h"
#include "node/role.h"
#include "pull/pull.h"
#include "store/site_value.h"

static struct store *store;

static int set_up(void **state)
{
	struct event_log *event_log;

	if (test_make_root(state) != 0)
		return -1;
	log_set_level(LOG_LEVEL_NONE);
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	assert_ok(store_open(url, &store, &err));
	assert_ok(event_log_open(store, root, &event_log, &err));
	event_log_close(event_log);
	return 0;
}

static int tear_down(void **state)
{
	store_close(store);
	return test_remove_root(state);
}

static void begin(enum site_role role)
{
	assert_ok(role_begin(store, role, &err));
}

static bool is_on_timeline_of(const struct event_ends *before)
{
	struct event_ends now;

	assert_ok(event_log_look(store, &now, &err));
	return strcmp(now.timeline, before->timeline) == 0;
}

static bool has_cursor(void)
{
	AUTO_STR struct str text = STR_INIT;
	int found = site_value_read(store, PULL_CURSOR, &text, &err);

	assert_true(found >= 0);
	return found > 0;
}

TEST(a_primary_that_was_none_meanwhile_begins_another_log)
{
	static const enum site_role ways[][2] = { { SITE_SECONDARY, SITE_SECONDARY },
						  { SITE_STANDALONE, SITE_STANDALONE },
						  { SITE_SECONDARY, SITE_STANDALONE } };
	struct event_ends before;

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		begin(SITE_PRIMARY);
		assert_ok(event_log_look(store, &before, &err));
		begin(SITE_PRIMARY);
		assert_true(is_on_timeline_of(&before));
		begin(ways[i][0]);
		begin(ways[i][1]);
		assert_true(is_on_timeline_of(&before));
		begin(SITE_PRIMARY);
		assert_false(is_on_timeline_of(&before));
	}
}

TEST(a_secondary_that_was_none_meanwhile_forgets_its_position)
{
	static const enum site_role ways[][2] = { { SITE_PRIMARY, SITE_PRIMARY },
						  { SITE_STANDALONE, SITE_STANDALONE },
						  { SITE_PRIMARY, SITE_STANDALONE } };

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		begin(SITE_SECONDARY);
		assert_ok(site_value_write(store, PULL_CURSOR, "1 a b", &err));
		begin(SITE_SECONDARY);
		begin(ways[i][0]);
		begin(ways[i][1]);
		assert_true(has_cursor());
		begin(SITE_SECONDARY);
		assert_false(has_cursor());
	}
}

#define ROLE_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROLE_CASE(a_primary_that_was_none_meanwhile_begins_another_log),
		ROLE_CASE(a_secondary_that_was_none_meanwhile_forgets_its_position),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
