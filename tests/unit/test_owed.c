/* What is owed to the sink, when the comparison itself fails. See test_notice_sink.c. */
#include "test.h"

#include "base/log.h"
#include "change/notice_parts.h"
#include "change/owed.h"

static struct notice notice;
static struct err of_repository, of_comparison;
static int told, deletions;

int notice_compare(struct notice *of, const char *name, struct noticed *noticed,
		   struct err *error)
{
	assert_ptr_equal(of, &notice);
	*noticed = (struct noticed){ .name = name, .why = of_repository };
	*error = of_repository.class != ERR_NONE ? of_repository : of_comparison;
	return error->class == ERR_NONE ? 0 : -1;
}

void noticed_clear(struct noticed *noticed)
{
	(void)noticed;
}

static int take(void *arg, const struct change *change, struct err *error)
{
	(void)arg;
	(void)error;
	told++;
	deletions += change->what == EVENT_DELETED;
	return 0;
}

static int add(struct store_tx *tx, void *arg, struct err *error)
{
	struct err why;

	(void)arg;
	err_set(&why, ERR_DISK, "the store is full");
	return owed_add(tx, "a", &why, error);
}

static int make_owed(void **state)
{
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	notice.options.sink = (struct change_sink){ .take = take };
	assert_ok(store_open(url, &notice.options.store, &err));
	assert_ok(store_write(notice.options.store, add, NULL, &err));
	of_repository = of_comparison = (struct err){ 0 };
	told = deletions = 0;
	return 0;
}

static int remove_owed(void **state)
{
	store_close(notice.options.store);
	return test_remove_root(state);
}

#define OWED_CASE(name) cmocka_unit_test_setup_teardown(name, make_owed, remove_owed)

static size_t settle(void)
{
	size_t left;

	assert_ok(owed_settle(&notice, NULL, &left, &err));
	return left;
}

/* As with a database that is damaged, or may not be opened. */
TEST(what_could_not_be_compared_is_owed_still)
{
	static const enum err_class classes[] = { ERR_MISSING, ERR_CORRUPT, ERR_CONFIG };

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++) {
		err_set(&of_comparison, classes[i], "the database fails");
		assert_int_equal(settle(), 1);
	}
	assert_int_equal(told, 0);
	of_comparison = (struct err){ 0 };
	assert_int_equal(settle(), 0);
	assert_int_equal(told, 1);
	assert_int_equal(deletions, 0);
}

TEST(what_cannot_be_read_is_owed_no_more)
{
	err_set(&of_repository, ERR_CORRUPT, "it has no HEAD");
	assert_int_equal(settle(), 0);
	assert_int_equal(told, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		OWED_CASE(what_could_not_be_compared_is_owed_still),
		OWED_CASE(what_cannot_be_read_is_owed_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
