#include "notice_test.h"

#include "base/thread.h"
#include "change/pushed.h"

static struct pushed pushed;

static void assert_pushed(uint64_t announced, uint64_t settled)
{
	assert_ok(pushed_read(notice, "a", &pushed, &err));
	assert_int_equal(pushed.announced, announced);
	assert_int_equal(pushed.settled, settled);
}

TEST(what_is_announced_is_settled_when_the_push_is_over)
{
	assert_pushed(0, 0);
	assert_ok(pushed_begin(notice, "a", 5, &err));
	assert_pushed(5, 0);
	assert_ok(pushed_begin(notice, "a", 7, &err));
	assert_pushed(12, 0);
	pushed_end(notice, "a", 5, 0);
	assert_pushed(12, 5);
	pushed_end(notice, "a", 7, 3);
	assert_pushed(9, 9);
	assert_ok(pushed_read(notice, "b", &pushed, &err));
	assert_int_equal(pushed.announced, 0);
}

/* A push that died with the node is over. */
TEST(the_number_outlives_the_node)
{
	assert_ok(pushed_begin(notice, "a", 5, &err));
	notice_free(notice);
	start_notice();
	assert_pushed(5, 5);
}

TEST(a_repository_that_is_gone_begins_anew)
{
	AUTO_NOTICED struct noticed noticed = { 0 };

	make_bare("a.git");
	assert_ok(notice_compare(notice, "a", &noticed, &err));
	noticed_clear(&noticed);
	assert_ok(pushed_begin(notice, "a", 5, &err));
	pushed_end(notice, "a", 5, 0);
	must("rm -rf srv/a.git");
	assert_fails(notice_compare(notice, "a", &noticed, &err), ERR_MISSING);
	assert_pushed(0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SITE_CASE(what_is_announced_is_settled_when_the_push_is_over),
		SITE_CASE(the_number_outlives_the_node),
		SITE_CASE(a_repository_that_is_gone_begins_anew),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
