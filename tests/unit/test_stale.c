#include "git_test.h"

#include "git/lock_file.h"
#include "upkeep/stale.h"

#define HOUR 3600
#define DAY (24 * HOUR)

static struct repo repo;

static void open_it(void)
{
	AUTO_FREE char *path = xasprintf("%s/r.git", root);

	assert_ok(repo_make(root_fd, "r.git", 20, &err));
	assert_ok(repo_open(AT_FDCWD, path, &repo, &err));
	open_repo();
	must("cd r.git && mkdir -p refrelay/state objects/ab objects/info/commit-graphs "
	     "objects/tmp_objdir-incoming-old objects/tmp_objdir-incoming-new");
}

static size_t sweep(int64_t later)
{
	size_t removed = 0;

	assert_ok(stale_remove(&repo, time(NULL) + later, &removed, &err));
	return removed;
}

static void make(const char *name, const char *text, time_t age)
{
	write_text(name, text);
	backdate(name, age);
}

TEST(what_is_old_goes_and_what_is_young_stays)
{
	static const struct {
		const char *name;
		time_t age;
		bool goes;
		const char *text;
	} rows[] = {
		{ "objects/pack/tmp_pack_old", DAY + 60, true, "" },
		{ "objects/pack/tmp_pack_new", DAY - 60, false, "" },
		{ "objects/pack/.tmp-12-pack-old", DAY + 60, true, "" },
		{ "objects/pack/.tmp-12-pack-new", DAY - 60, false, "" },
		{ "objects/tmp_obj_old", DAY + 60, true, "" },
		{ "objects/ab/tmp_obj_old", DAY + 60, true, "" },
		{ "objects/ab/tmp_obj_new", HOUR, false, "" },
		{ "objects/ab/1234", 100 * DAY, false, "" },
		{ "HEAD.tmp-0123456789abcdef", DAY + 60, true, "" },
		{ "refrelay/copy.tmp-0123456789abcdef", DAY + 60, true, "" },
		{ "refrelay/state/key.tmp-0123456789abcdef", 60, false, "" },
		{ "refrelay/copy", 100 * DAY, false, "" },
		{ "packed-refs", 100 * DAY, false, "" },
		{ "packed-refs.new", 16 * 60, true, "" },
		{ "config.lock", 16 * 60, true, "" },
		{ "shallow.lock", 14 * 60, false, "" },
		{ "objects/pack/multi-pack-index.lock", 16 * 60, true, "" },
		{ "objects/info/commit-graph.lock", 14 * 60, false, "" },
		{ "objects/info/commit-graphs/commit-graph-chain.lock", 16 * 60, true,
		  "" },
		{ "HEAD.lock", HOUR + 60, true, "" },
		{ "refs/heads/new.lock", HOUR - 60, false, "" },
		{ "refs/heads/old.lock", HOUR + 60, true, "" },
		{ "objects/pack/pack-1.keep", 8 * DAY, true, "fetch-pack 12 on host" },
		{ "objects/pack/pack-2.keep", 6 * DAY, false, "receive-pack 12 on host" },
		{ "objects/pack/pack-3.keep", 80 * DAY, false, "mine\n" },
		{ "objects/pack/pack-4.keep", 80 * DAY, false, "" },
		{ "objects/pack/pack-5.idx", 8 * DAY, false, "" },
		{ "objects/pack/pack-5.pack", 8 * DAY, false, "" },
		{ "objects/pack/multi-pack-index", 80 * DAY, false, "" },
	};
	size_t goes = 0;

	open_it();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		make(rows[i].name, rows[i].text, rows[i].age);
		goes += rows[i].goes;
	}
	backdate("objects/tmp_objdir-incoming-old", 8 * DAY);
	backdate("objects/tmp_objdir-incoming-new", 6 * DAY);
	/* Refs' locks and loose objects are not looked for only to count. */
	assert_int_equal(stale_count(&repo, time(NULL)), goes + 1 - 3);
	assert_int_equal(sweep(0), goes + 1);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (exists(rows[i].name) == rows[i].goes)
			fail_msg("%s %s", rows[i].name,
				 rows[i].goes ? "is still there" : "is gone");
	assert_false(exists("objects/tmp_objdir-incoming-old"));
	assert_true(exists("objects/tmp_objdir-incoming-new"));
	repo_close(&repo);
}

/* Its times may be those of another machine; when it came here ctime tells. */
TEST(half_a_pack_goes_when_nobody_completes_it)
{
	open_it();
	make("objects/pack/pack-1.pack", "", 100 * DAY);
	make("objects/pack/pack-1.rev", "", 100 * DAY);
	make("objects/pack/pack-2.pack", "", 100 * DAY);
	make("objects/pack/pack-2.idx", "", 100 * DAY);
	assert_int_equal(sweep(0), 0);
	assert_int_equal(sweep(DAY + 60), 2);
	assert_false(exists("objects/pack/pack-1.pack"));
	assert_true(exists("objects/pack/pack-2.pack"));
	repo_close(&repo);
}

TEST(what_a_living_owner_has_stays_however_old)
{
	struct lock_owner owner;
	struct lock_file refs, config;

	open_it();
	assert_ok(lock_owner_open(repo.fd, "refrelay", &owner, &err));
	assert_ok(lock_file_take(&owner, "packed-refs", 0, &refs, &err));
	assert_ok(lock_file_take(&owner, "config", 0, &config, &err));
	make("packed-refs.new", "", 80 * DAY);
	backdate("packed-refs.lock", 80 * DAY);
	assert_int_equal(sweep(0), 0);
	assert_true(exists("packed-refs.lock") && exists("packed-refs.new"));
	assert_true(exists("config.lock"));

	/* It dies. */
	close(TAKE_FD(owner.fd));
	assert_int_equal(sweep(0), 2); /* and what only its lock stood for */
	assert_false(exists("packed-refs.lock") || exists("packed-refs.new") ||
		     exists("config.lock"));
	free(refs.path);
	free(config.path);
	repo_close(&repo);
}

TEST(what_names_an_old_tip_goes_after_fourteen_days)
{
	AUTO_FREE char *log = xasprintf("%040d %040d refrelay <refrelay@localhost> "
					"%lld +0000\trefrelay: the upstream rewrote it\n",
					1, 2, (long long)time(NULL));

	open_it();
	must("mkdir -p r.git/logs/refs/heads");
	make("logs/refs/heads/main", log, 80 * DAY);
	sweep(14 * DAY - 60);
	assert_int_equal(stale_count(&repo, time(NULL) + 14 * DAY - 60), 0);
	assert_true(exists("logs/refs/heads/main"));
	assert_int_equal(stale_count(&repo, time(NULL) + 14 * DAY + 60), 1);
	assert_int_equal(sweep(14 * DAY + 60), 1);
	assert_false(exists("logs"));
	repo_close(&repo);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(what_is_old_goes_and_what_is_young_stays),
		CASE(half_a_pack_goes_when_nobody_completes_it),
		CASE(what_a_living_owner_has_stays_however_old),
		CASE(what_names_an_old_tip_goes_after_fourteen_days),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
