/*
 * What mirrors lack of their upstreams' LFS objects: which are asked for again, and when.
 */
#include "mirror/lfs_lack.h"

#include "base/clock.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "test.h"

#include "registry_write.h"

static struct store *store;
static struct mirrors mirrors;

static int run_work(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

static void run(const char *sql)
{
	AUTO_FREE char *own = xstrdup(sql);

	assert_ok(store_write(store, run_work, own, &err));
}

static int set_up(void **state)
{
	static const char *const names[] = { "a", "b" };

	(void)state;
	mirrors = (struct mirrors){ 0 };
	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(registry_add(store, KIND_MIRROR, names, 2, &err));
	run("UPDATE registry SET state = 2"); /* synced */
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	mirrors_clear(&mirrors);
	store_close(store);
	return 0;
}

#define LACK_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static int begin_work(struct store_tx *tx, void *arg, struct err *error)
{
	return lfs_lack_begin_in(tx, arg, error);
}

static void begin(const char *text)
{
	AUTO_CONF struct conf *conf = NULL;

	mirrors_clear(&mirrors);
	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	assert_ok(mirrors_read(conf, &mirrors, &err));
	assert_ok(store_write(store, begin_work, &mirrors, &err));
}

#define ONE "[mirror \"a\"]\nurl = https://x/a\nlfs = true\n"
#define NONE "[mirror \"a\"]\nurl = https://x/a\n"
#define OTHER "[mirror \"b\"]\nurl = https://x/b\n"

static bool has(const char *mirror, struct lfs_lack *lack)
{
	int found = lfs_lack_get(store, mirror, lack, &err);

	assert_true(found >= 0);
	return found > 0;
}

static bool hurries(void)
{
	bool any;

	assert_ok(lfs_lack_hurry(store, &any, &err));
	return any;
}

static enum registry_state state_of(const char *mirror)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(registry_get(store, KIND_MIRROR, mirror, &row, &err));
	return row.state;
}

static void put(int64_t next_at, const char *message)
{
	struct lfs_lack lack = { .next_at = next_at,
				 .absent = next_at >= 0,
				 .attempts = 3 };

	if (message) {
		err_set(&err, ERR_MISSING, "%s", message);
		lfs_lack_set_failure(&lack, &err);
	}
	assert_ok(lfs_lack_put(store, "a", 7, &lack, &err));
	lfs_lack_clear(&lack);
}

TEST(who_has_lfs_by_now_is_looked_at_once)
{
	AUTO_LFS_LACK struct lfs_lack lack;

	begin(ONE OTHER);
	assert_true(has("a", &lack));
	assert_int_equal(lack.next_at, 0);
	lfs_lack_clear(&lack);
	assert_false(has("b", &lack));
	assert_true(hurries());
	assert_int_equal(state_of("a"), REGISTRY_PENDING);
	assert_int_equal(state_of("b"), REGISTRY_SYNCED);
	/* A job is to come. */
	assert_false(hurries());
}

TEST(one_that_a_list_has_told_of_has_lfs_by_its_list)
{
	AUTO_LFS_LACK struct lfs_lack lack;
	AUTO_MIRRORS_TOLD mirrors_told told = { 0 };

	begin("[mirrors \"l\"]\nfrom = directory\nurl = /srv\nlfs = true\n");
	assert_false(has("a", &lack));
	struct mirror_told one = { .list = mirrors.lists.items[0],
				   .name = xstrdup("a"),
				   .url = xstrdup("/srv/a.git") };
	vec_add(&told, one);
	mirrors_replace_told(&mirrors, &told, NULL, NULL);
	assert_ok(store_write(store, begin_work, &mirrors, &err));
	assert_true(has("a", &lack));
	mirrors_replace_told(&mirrors, &(mirrors_told){ 0 }, NULL, NULL);
	assert_ok(store_write(store, begin_work, &mirrors, &err));
	assert_false(has("a", &lack));
}

TEST(what_lacks_nothing_costs_nothing)
{
	AUTO_LFS_LACK struct lfs_lack lack;

	begin(ONE);
	put(-1, NULL);
	assert_false(hurries());
	begin(ONE); /* a new start */
	assert_false(hurries());
	assert_true(has("a", &lack));
	assert_int_equal(lack.next_at, -1);
	assert_null(lack.message);
}

TEST(what_failed_is_due_at_its_time)
{
	AUTO_LFS_LACK struct lfs_lack lack;

	begin(ONE);
	put(clock_wall_ms() + 60000, "lost");
	assert_false(hurries());
	begin(ONE);
	assert_false(hurries());
	assert_true(has("a", &lack));
	assert_string_equal(lack.message, "lost");
	assert_string_equal(lack.class, "missing");
	assert_int_equal(lack.attempts, 3);
	put(clock_wall_ms() - 1, "lost");
	assert_true(hurries());
}

/* That would end its backing off. */
TEST(what_fails_by_its_refs_is_not_hurried)
{
	begin(ONE);
	run("UPDATE registry SET state = 3 WHERE name = 'a'");
	assert_false(hurries());
	run("UPDATE registry SET state = 2, gone = 1 WHERE name = 'a'");
	assert_false(hurries());
}

TEST(what_was_lost_since_is_asked_for)
{
	begin(ONE);
	put(-1, NULL);
	run("INSERT INTO lfs_scan (repository, name, timeline, generation, whole_at, "
	    "named,"
	    " absent) VALUES (7, 'a', 't', 1, 0, 2, 1)");
	assert_true(hurries());
	run("UPDATE registry SET state = 2");
	put(-1, NULL); /* it tells what is counted, too */
	assert_false(hurries());
}

TEST(who_has_lfs_no_more_is_forgotten)
{
	AUTO_LFS_LACK struct lfs_lack lack;

	begin(ONE);
	begin(NONE);
	assert_false(has("a", &lack));
	assert_false(hurries());
	begin(ONE);
	assert_true(hurries());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LACK_CASE(who_has_lfs_by_now_is_looked_at_once),
		LACK_CASE(one_that_a_list_has_told_of_has_lfs_by_its_list),
		LACK_CASE(what_lacks_nothing_costs_nothing),
		LACK_CASE(what_failed_is_due_at_its_time),
		LACK_CASE(what_fails_by_its_refs_is_not_hurried),
		LACK_CASE(what_was_lost_since_is_asked_for),
		LACK_CASE(who_has_lfs_no_more_is_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
