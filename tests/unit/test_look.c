/*
 * Looks at real repositories that are changed by real git and by hand, and the cheap
 * question between them.
 */
#include "git_test.h"

#include <sys/statfs.h>
#include <sys/syscall.h>

#include <linux/magic.h>

#include "git/state.h"
#include "serve/find.h"
#include "serve/look.h"

/* Stand in for libc's: a file server whose clock is `behind` the local one, and on which
 * nothing was changed for `rested`, in seconds. */
static bool is_on_nfs;
static time_t behind, rested;
static int clocks_asked;

int fstatfs(int fd, struct statfs *fs)
{
	memset(fs, 0, sizeof(*fs));
	(void)fd;
	fs->f_type = is_on_nfs ? NFS_SUPER_MAGIC : EXT4_SUPER_MAGIC;
	return 0;
}

int fstatat(int dir, const char *restrict path, struct stat *restrict st, int flags)
{
	int result = (int)syscall(SYS_newfstatat, dir, path, st, flags);

	st->st_mtim.tv_sec -= behind + rested;
	st->st_ctim.tv_sec -= behind + rested;
	return result;
}

int fstat(int fd, struct stat *st)
{
	int result = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (result == 0 && S_ISREG(st->st_mode) && st->st_size == 0) { /* just made */
		clocks_asked++;
		st->st_mtim.tv_sec += rested;
	}
	return result;
}

static struct inotify *inotify;
static struct inotify_watch *watch;
static struct look last;

static int setup(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	must("cd r.git && for i in 1 2 3; do git update-ref refs/heads/b$i "
	     "$(git --git-dir=%s rev-parse v$i^{}) || exit 1; done && "
	     "git update-ref refs/heads/d/e refs/heads/b1 && git pack-refs --all && "
	     "git update-ref refs/heads/d/e refs/heads/b2 && git symbolic-ref HEAD "
	     "refs/heads/b3 && cd .. && mkdir group && mv r.git group",
	     store_path);
	repo_fd = openat(root_fd, "group/r.git", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	inotify = inotify_open(
		&(struct inotify_limits){ .directories_each = 1000, .directories = 1000 },
		&err);
	return inotify ? 0 : -1;
}

static int teardown(void **state)
{
	is_on_nfs = false;
	behind = rested = 0;
	observation_clear(&last);
	inotify_disarm(TAKE(watch));
	inotify_close(TAKE(inotify));
	return test_remove_root(state);
}

#define LOOK_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static int take(const char *name, struct look *look)
{
	return look_take(
		&(struct look_request){
			.root = root, .name = name, .inotify = inotify, .watch = &watch },
		look, &err);
}

static void retake(void)
{
	observation_clear(&last);
	assert_ok(take("group/r", &last));
}

static void retake_unwatched(void)
{
	struct look_request request = { .root = root, .name = "group/r" };

	observation_clear(&last);
	assert_ok(look_take(&request, &last, &err));
	assert_false(last.is_watched);
}

static bool stands(void)
{
	return look_still_stands(&last, watch);
}

/* And that a look before it and one after it differ, with a watch and without. */
static void assert_seen(const char *command)
{
	struct look watched, unwatched;

	retake_unwatched();
	unwatched = last;
	last = (struct look){ 0 };
	retake();
	assert_int_equal(last.bypass, BYPASS_NONE);
	assert_true(stands());
	must("cd group/r.git && %s", command);
	if (stands())
		fail_msg("not seen: %s", command);
	watched = last;
	last = (struct look){ 0 };
	retake();
	if (look_is_same(&watched, &last) || look_is_same(&unwatched, &last))
		fail_msg("looks are the same: %s", command);
	observation_clear(&watched);
	observation_clear(&unwatched);
}

TEST(every_change_out_of_band_is_seen_at_once)
{
	static const char *const commands[] = {
		"git update-ref refs/heads/b1 refs/heads/b3",
		"git update-ref refs/heads/new/x/y refs/heads/b3",
		"git update-ref refs/heads/new/x/y refs/heads/b1",
		"git update-ref -d refs/heads/b2",
		"git symbolic-ref HEAD refs/heads/b1",
		"git rev-parse b3 >x && cat x >refs/heads/d/e",
		"printf 0 | dd of=refs/heads/d/e bs=1 conv=notrunc status=none",
		"git rev-parse b3 >refs/heads/d/e",
		"git branch -m b1 moved",
		"git config uploadpack.hideRefs refs/x",
		"grep -v new packed-refs >y && mv y packed-refs",
		"mkdir refs/heads/empty",
		"git rev-parse b3 >refs/heads/empty/z",
		"git pack-refs --all",
		"cp -r refs refs2 && mv refs refs3 && mv refs2 refs",
		"git update-ref refs/heads/after refs/heads/b3",
		"cd .. && cp -r r.git new && mv r.git old && mv new r.git",
		"git update-ref refs/heads/afterwards refs/heads/b3",
		"printf 00000000000000000000000000000000 >refrelay/state/key",
	};

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		assert_seen(commands[i]);
}

TEST(a_look_changes_nothing_even_where_it_makes_the_key)
{
	struct look first;

	assert_false(exists("refrelay/state/key"));
	retake();
	assert_true(exists("refrelay/state/key"));
	assert_true(stands());
	first = last;
	last = (struct look){ 0 };
	retake();
	assert_true(last.epoch == first.epoch);
	assert_true(look_is_same(&first, &last));
	observation_clear(&first);
}

TEST(a_repository_that_is_no_longer_found_there_does_not_stand)
{
	retake();
	must("mv group other");
	assert_false(stands());
	must("cp -r other group");
	assert_false(stands());
	must("rm -rf group && mv other group");
	assert_true(stands());
	must("mv group/r.git group/x.git");
	assert_false(stands());
	must("ln -s x.git group/r.git");
	assert_false(stands());
	observation_clear(&last);
	assert_fails(take("group/r", &last), ERR_MISSING);
}

TEST(a_repository_with_git_in_its_name_hides_the_one_without)
{
	must("mv group/r.git group/r");
	retake();
	assert_true(text_ends_with(last.path, "/group/r"));
	assert_true(stands());
	must("cp -r group/r group/r.git");
	assert_false(stands());
	retake();
	assert_true(text_ends_with(last.path, "/group/r.git"));
}

TEST(what_is_not_replicated_is_not_found)
{
	must("ln -s group link && cp -r group/r.git x && mv x group/r.git/inner.git && "
	     "touch group/file.git");
	assert_fails(take("link/r", &last), ERR_MISSING);
	assert_fails(take("group/r.git/inner", &last), ERR_MISSING);
	assert_fails(take("group/file", &last), ERR_MISSING);
	assert_fails(take("group/../group/r", &last), ERR_MISSING);
	assert_fails(take("group/r.git", &last), ERR_MISSING); /* it is called r */
	assert_fails(take("group", &last), ERR_MISSING);
	assert_null(last.path);
}

TEST(while_a_write_is_pending_it_is_bypassed)
{
	struct lock_owner writer;

	retake();
	assert_ok(state_begin(repo_fd, &writer, &err));
	assert_false(stands());
	retake();
	assert_int_equal(last.bypass, BYPASS_PENDING);
	assert_false(stands());
	assert_ok(state_end(&writer, &err));
	assert_false(stands());
	retake();
	assert_int_equal(last.bypass, BYPASS_NONE);
	assert_true(stands());
}

static void *end_soon(void *arg)
{
	usleep(20000);
	state_end(arg, ERR_IGNORED);
	return NULL;
}

static void look_while_pending(const struct stop *stop, int expected)
{
	struct look_request request = { .root = root,
					.name = "group/r",
					.inotify = inotify,
					.watch = &watch,
					.pending_wait_ms = 60000,
					.stop = stop };

	observation_clear(&last);
	assert_int_equal(look_take(&request, &last, &err), expected);
}

TEST(the_end_of_a_pending_write_is_waited_for)
{
	struct lock_owner writer;
	pthread_t thread;
	char before[STATE_KEY_SIZE];

	retake();
	memcpy(before, last.key, sizeof(before));
	assert_ok(state_begin(repo_fd, &writer, &err));
	thread_start(&thread, "writer", end_soon, &writer);
	look_while_pending(NULL, 0);
	thread_join(thread);
	assert_int_equal(last.bypass, BYPASS_NONE);
	assert_string_not_equal(last.key, before);
}

TEST(a_wait_obeys_the_stop_token)
{
	struct lock_owner writer;
	struct stop stop;

	stop_init(&stop);
	stop_request(&stop);
	assert_ok(state_begin(repo_fd, &writer, &err));
	look_while_pending(&stop, -1);
	assert_int_equal(err.class, ERR_CANCELED);
	state_abandon(&writer);
	stop_clear(&stop);
}

TEST(what_a_dead_writer_left_is_cleaned_up_on_the_way)
{
	must("mkdir -p group/r.git/refrelay/state/pending && "
	     "touch group/r.git/refrelay/state/pending/x");
	retake();
	assert_int_equal(last.bypass, BYPASS_NONE);
	assert_int_equal(last.recovered, 1);
	assert_true(stands());
}

TEST(what_files_elsewhere_decide_is_bypassed)
{
	static const char *const commands[][2] = {
		{ "git config include.path /dev/null",
		  "git config --unset include.path" },
		{ "git config includeIf.gitdir:/x.path /dev/null",
		  "git config --unset includeIf.gitdir:/x.path" },
		{ "touch config.worktree", "rm config.worktree" },
		{ "echo ../../x >commondir", "rm commondir" },
		{ "mv packed-refs p && ln -s p packed-refs", "mv p packed-refs" },
		{ "ln -s ../.. refs/heads/link", "rm refs/heads/link" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		must("cd group/r.git && %s", commands[i][0]);
		retake();
		if (last.bypass != BYPASS_CONFIG)
			fail_msg("not bypassed: %s", commands[i][0]);
		assert_false(stands());
		assert_false(look_is_same(&last, &last));
		must("cd group/r.git && %s", commands[i][1]);
		retake();
		assert_int_equal(last.bypass, BYPASS_NONE);
	}
	must("cd group/r.git && git config url.x.insteadOf y");
	retake();
	assert_int_equal(last.bypass, BYPASS_NONE);
}

TEST(what_has_no_state_is_bypassed)
{
	must("rm -rf group/r.git/refrelay && touch group/r.git/refrelay");
	retake();
	assert_int_equal(last.bypass, BYPASS_UNWRITABLE);
	assert_true(text_ends_with(last.path, "/group/r.git"));
}

TEST(where_git_cannot_read_there_is_no_look)
{
	must("git -C group/r.git config core.repositoryformatversion 1 && "
	     "git -C group/r.git config extensions.refStorage reftable");
	assert_fails(take("group/r", &last), ERR_CONFIG);
	observation_clear(&last);
	must("rm group/r.git/HEAD");
	assert_fails(take("group/r", &last), ERR_CORRUPT);
}

TEST(without_a_watch_a_look_waits_until_stamps_are_old_enough)
{
	retake_unwatched();
	must("touch group/r.git/HEAD");
	retake_unwatched();
	assert_int_equal(last.bypass, BYPASS_NONE);
	assert_true(fingerprint_is_settled(&last.fingerprint));
	assert_false(stands());
	must("touch -d '+1 hour' group/r.git/HEAD");
	retake_unwatched();
	assert_int_equal(last.bypass, BYPASS_UNSETTLED);
}

static void expect_same(bool expected, const struct look *before,
			const struct look *after)
{
	assert_true(look_is_same(before, after) == expected);
}

TEST(on_a_file_server_only_its_own_clock_tells_that_stamps_are_old)
{
	int asked;

	is_on_nfs = true;
	behind = 60;
	retake_unwatched();
	assert_int_equal(last.bypass, BYPASS_UNSETTLED);
	rested = 10;
	retake_unwatched();
	assert_int_equal(last.bypass, BYPASS_NONE);
	asked = clocks_asked;
	retake_unwatched();
	assert_int_equal(last.bypass, BYPASS_NONE);
	assert_int_equal(clocks_asked, asked);
	behind = -60;
	retake_unwatched();
	assert_int_equal(last.bypass, BYPASS_NONE);
	rested = 0;
	retake_unwatched();
	assert_int_equal(last.bypass, BYPASS_UNSETTLED);
	assert_true(clocks_asked > asked);
}

TEST(looks_are_the_same_only_if_that_is_proved)
{
	struct look before, after;
	char other[] = "/other";

	retake();
	before = after = last;
	before.fingerprint.newest_ns = before.fingerprint.taken_ns; /* not settled */
	expect_same(true, &before, &after);
	after.epoch++;
	expect_same(false, &before, &after);
	before.fingerprint.newest_ns = 0; /* settled */
	expect_same(true, &before, &after);
	after.key[0] ^= 1;
	expect_same(false, &before, &after);
	after = last;
	after.git[0] ^= 1;
	expect_same(false, &before, &after);
	after = last;
	after.fingerprint.digest[31] ^= 1;
	expect_same(false, &before, &after);
	after = last;
	after.inode++;
	expect_same(false, &before, &after);
	after = last;
	after.device++;
	expect_same(false, &before, &after);
	after = last;
	after.path = other;
	expect_same(false, &before, &after);
	after = last;
	after.bypass = BYPASS_CONFIG;
	expect_same(false, &before, &after);
	expect_same(false, &after, &before);
	after = before = last;
	before.fingerprint.newest_ns = after.fingerprint.newest_ns =
		last.fingerprint.taken_ns;
	after.is_watched = false;
	expect_same(false, &before, &after);
	expect_same(false, &after, &before);
}

static atomic_bool is_over;

static void *ask(void *arg)
{
	(void)arg;
	while (!atomic_load(&is_over))
		inotify_epoch(watch);
	return NULL;
}

static void must_rename(const char *from, const char *to)
{
	assert_int_equal(renameat(repo_fd, from, repo_fd, to), 0);
}

static void change_ref(int round)
{
	static const char *const names[] = { "refs/heads/d/b", "refs/heads/b" };

	if (round % 3 == 0)
		write_text("refs/heads/d/e", round % 2 ? "1" : "0");
	else if (round % 3 == 1)
		must_rename(names[0], names[1]);
	else
		must_rename(names[1], names[0]);
}

/* Looks and changes take turns, beside threads that drain each other's events. */
TEST(in_a_storm_no_look_stands_after_a_change)
{
	pthread_t threads[2];
	int missed = 0;

	write_text("refs/heads/d/b", "x");
	retake();
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		thread_start(&threads[i], "asker", ask, NULL);
	for (int i = 0; i < 450; i++) {
		change_ref(i);
		missed += stands();
		retake();
		missed += !stands();
	}
	atomic_store(&is_over, true);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		thread_join(threads[i]);
	assert_int_equal(missed, 0);
}

TEST(each_bypass_has_a_name)
{
	for (int i = BYPASS_NONE; i < BYPASS_COUNT; i++)
		assert_true(bypass_name((enum bypass)i)[0] != '\0');
	assert_string_equal(bypass_name(BYPASS_MOVING), "moving");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOOK_CASE(every_change_out_of_band_is_seen_at_once),
		LOOK_CASE(a_look_changes_nothing_even_where_it_makes_the_key),
		LOOK_CASE(a_repository_that_is_no_longer_found_there_does_not_stand),
		LOOK_CASE(a_repository_with_git_in_its_name_hides_the_one_without),
		LOOK_CASE(what_is_not_replicated_is_not_found),
		LOOK_CASE(while_a_write_is_pending_it_is_bypassed),
		LOOK_CASE(the_end_of_a_pending_write_is_waited_for),
		LOOK_CASE(a_wait_obeys_the_stop_token),
		LOOK_CASE(what_a_dead_writer_left_is_cleaned_up_on_the_way),
		LOOK_CASE(what_files_elsewhere_decide_is_bypassed),
		LOOK_CASE(what_has_no_state_is_bypassed),
		LOOK_CASE(where_git_cannot_read_there_is_no_look),
		LOOK_CASE(without_a_watch_a_look_waits_until_stamps_are_old_enough),
		LOOK_CASE(on_a_file_server_only_its_own_clock_tells_that_stamps_are_old),
		LOOK_CASE(looks_are_the_same_only_if_that_is_proved),
		LOOK_CASE(in_a_storm_no_look_stands_after_a_change),
		LOOK_CASE(each_bypass_has_a_name),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
