/*
 * What a node says of its copies before it has looked at them; what a look finds is told
 * by the site tests.
 */
#include "test.h"

#include <stdatomic.h>

#include "pull/copy_watch.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"

#include "registry_write.h"

static struct pull pull;
static struct kinds_here here;
static char *copies;
static atomic_bool is_held;
static atomic_int looks;

/* In the place of the program's own. */
int copy_judge(struct pull *whose, const char *name, enum copy_verdict *verdict,
	       struct err *error)
{
	(void)error;
	assert_ptr_equal(whose, &pull);
	assert_string_equal(name, "a");
	atomic_fetch_add(&looks, 1);
	while (is_held)
		usleep(1000);
	*verdict = COPY_OURS;
	return 0;
}

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	copies = xasprintf("%s/git", root);
	kinds_fill(&here, copies);
	pull = (struct pull){ .options = { .here = &here, .scan_interval_ms = 100 } };
	mutex_init(&pull.mutex);
	looks = 0;
	return store_open("sqlite::memory:", &pull.options.store, &err);
}

static int tear_down(void **state)
{
	is_held = false;
	copy_watch_stop(pull.copy_watch);
	copy_watch_free(pull.copy_watch);
	kinds_clear(&here);
	store_close(pull.options.store);
	pthread_mutex_destroy(&pull.mutex);
	free(copies);
	return test_remove_root(state);
}

static bool has_looked(void)
{
	struct pull_state state;

	pull_look(&pull, &state);
	return state.has_looked;
}

static int exec_work(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

static void exec_sql(char *sql)
{
	assert_ok(store_write(pull.options.store, exec_work, sql, &err));
}

static void add(const char *name)
{
	assert_ok(registry_add(pull.options.store, KIND_REPOSITORY, &name, 1, &err));
}

TEST(the_first_look_at_all_copies_is_known_when_it_is_done)
{
	add("a");
	is_held = true;
	pull.copy_watch = copy_watch_start(&pull);
	wait_until(looks == 1);
	assert_false(has_looked());
	is_held = false;
	wait_until(has_looked());
}

TEST(without_rows_there_is_nothing_to_look_at)
{
	pull.copy_watch = copy_watch_start(&pull);
	wait_until(has_looked());
	assert_int_equal(looks, 0);
}

TEST(a_look_that_failed_is_none)
{
	exec_sql((char[]){ "ALTER TABLE registry RENAME TO away" });
	pull.copy_watch = copy_watch_start(&pull);
	for (int i = 0; i < 300; i++) {
		assert_false(has_looked());
		usleep(1000);
	}
	exec_sql((char[]){ "ALTER TABLE away RENAME TO registry" });
	wait_until(has_looked());
}

#define WATCH_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WATCH_CASE(the_first_look_at_all_copies_is_known_when_it_is_done),
		WATCH_CASE(without_rows_there_is_nothing_to_look_at),
		WATCH_CASE(a_look_that_failed_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
