/*
 * What the scheduler does while the database fails, as a whole or for one row.
 */
#include "pull_test.h"

#include "base/failpoint.h"
#include "replicable/name.h"

#include "registry_write.h"

enum { FAILURES = 5 };

static _Atomic int64_t failed_at[FAILURES]; /* boot ms */
static _Atomic size_t failures;

void failpoint(const char *name)
{
	if (strcmp(name, "scheduler.failed") != 0)
		return;
	if (failures < FAILURES)
		failed_at[failures] = clock_boot_ms();
	failures++;
}

static size_t count_logged(void)
{
	AUTO_STR struct str log = STR_INIT;
	size_t count = 0;

	assert_ok(file_read(root_fd, "log", 1 << 20, &log, &err));
	for (const char *at = log.data; (at = strstr(at, "ev=scheduler.failed")); at++)
		count++;
	return count;
}

static void begin(void)
{
	kinds_fill(&here, copies);
	pull_begin(60000);
}

static int set_up(void **state)
{
	failures = 0;
	return pull_set_up(state);
}

static bool is_in_state(const char *name, enum registry_state state)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	return registry_get(store, KIND_REPOSITORY, name, &row, ERR_IGNORED) == 0 &&
	       row.state == state;
}

static int run_sql(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

static void sql(char *text)
{
	assert_ok(store_write(store, run_sql, text, &err));
}

/* As on a damaged page. */
TEST(a_row_that_cannot_be_given_back_keeps_no_other_from_being_brought)
{
	static char damage[] = "CREATE TRIGGER damaged BEFORE UPDATE ON registry"
			       " WHEN OLD.name = 'a'"
			       " BEGIN SELECT RAISE(ABORT, 'damaged'); END";
	static char mend[] = "DROP TRIGGER damaged";

	fake.refs_hang = true;
	appear("a", REPORTED);
	begin();
	eventually(fake.hanging > 0);
	sql(damage);
	fake.refs_hang = false;
	eventually(failures > 1);
	appear("b", REPORTED);
	eventually(is_in_state("b", REGISTRY_SYNCED));
	assert_true(is_in_state("a", REGISTRY_STARTED));
	sql(mend);
	eventually(is_in_state("a", REGISTRY_SYNCED));
}

static char away[] = "ALTER TABLE registry RENAME TO away";
static char back[] = "ALTER TABLE away RENAME TO registry";

TEST(a_database_that_fails_is_told_though_a_row_was_before)
{
	static char damage[] = "CREATE TRIGGER damaged BEFORE UPDATE ON registry"
			       " WHEN OLD.name = 'a'"
			       " BEGIN SELECT RAISE(ABORT, 'damaged'); END";
	AUTO_CLOSE int saved = fcntl(2, F_DUPFD_CLOEXEC, 0);
	AUTO_CLOSE int log =
		openat(root_fd, "log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	fake.refs_hang = true;
	appear("a", REPORTED);
	begin();
	eventually(fake.hanging > 0);
	sql(damage);
	dup2(log, 2);
	log_set_level(LOG_LEVEL_ERROR);
	fake.refs_hang = false;
	eventually(count_logged() == 1);
	for (size_t i = 2; i < 4; i++) {
		sql(away);
		eventually(count_logged() == i);
		sql(back);
		appear(i == 2 ? "b" : "c", REPORTED);
		eventually(is_in_state(i == 2 ? "b" : "c", REGISTRY_SYNCED));
	}
	pull_stop(TAKE(pull), 0);
	log_set_level(LOG_LEVEL_NONE);
	dup2(saved, 2);
}

TEST(a_database_that_fails_is_asked_less_and_less)
{
	begin();
	sql(away);
	eventually(failures >= FAILURES);
	assert_true(failed_at[FAILURES - 1] - failed_at[0] >= 1400);
	sql(back);
	appear("a", REPORTED);
	eventually(is_in_state("a", REGISTRY_SYNCED));
}

#define SCHEDULER_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, pull_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCHEDULER_CASE(
			a_row_that_cannot_be_given_back_keeps_no_other_from_being_brought),
		SCHEDULER_CASE(a_database_that_fails_is_told_though_a_row_was_before),
		SCHEDULER_CASE(a_database_that_fails_is_asked_less_and_less),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
