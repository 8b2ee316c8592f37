/*
 * The watch on a repository, beside everything that can happen while it is armed, asked
 * and freed. readdir(), ioctl() and read() are the test's own, so that a directory, and
 * a thread that drains, can come at the worst moment.
 */
#include "git_test.h"

#include <dlfcn.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "base/thread.h"
#include "git/inotify.h"

#define ROUNDS_IN_PLACE 15000
#define ROUNDS_OF_RENAMES 5000
#define MANY 800
#define READERS 3

static struct inotify *inotify;
static struct inotify_watch *watch;

/* A directory that is made when the listing of another begins or ends. */
static struct {
	bool at_end;
	const char *make; /* NULL: nothing */
} late;

struct dirent *readdir(DIR *dir)
{
	static struct dirent *(*real)(DIR *);
	const char *make = late.at_end ? NULL : TAKE(late.make);

	if (!real)
		real = (struct dirent * (*)(DIR *)) dlsym(RTLD_NEXT, "readdir");
	if (make)
		mkdirat(repo_fd, make, 0777);
	struct dirent *entry = real(dir);
	if (!entry && late.at_end && late.make)
		mkdirat(repo_fd, TAKE(late.make), 0777);
	return entry;
}

/* Just when one asks what is queued, another takes it, and dawdles before he tells. */
static struct {
	atomic_bool is_on, is_taken;
	pthread_t asker, drainer;
} dawdle;

static void *drain(void *arg)
{
	(void)arg;
	inotify_epoch(watch);
	return NULL;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;
	void *value;

	va_start(args, request);
	value = va_arg(args, void *);
	va_end(args);
	if (atomic_load(&dawdle.is_on) && pthread_equal(pthread_self(), dawdle.asker) &&
	    !atomic_load(&dawdle.is_taken)) {
		thread_start(&dawdle.drainer, "drainer", drain, NULL);
		while (!atomic_load(&dawdle.is_taken))
			usleep(100);
	}
	return (int)syscall(SYS_ioctl, fd, request, value);
}

ssize_t read(int fd, void *buffer, size_t size)
{
	ssize_t len = syscall(SYS_read, fd, buffer, size);

	if (atomic_load(&dawdle.is_on) && !pthread_equal(pthread_self(), dawdle.asker)) {
		atomic_store(&dawdle.is_taken, true);
		usleep(50000);
	}
	return len;
}

static void open_limited(size_t each, size_t all)
{
	inotify = inotify_open(
		&(struct inotify_limits){ .directories_each = each, .directories = all },
		&err);
	assert_non_null(inotify);
}

static int setup(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	must("cd r.git && cat %s/refs/heads/main >refs/heads/b && mkdir -p refs/heads/d "
	     "refrelay/state/pending && cp refs/heads/b refs/heads/d/e",
	     store_path);
	open_limited(10000, 10000);
	return 0;
}

static int teardown(void **state)
{
	inotify_disarm(TAKE(watch));
	inotify_close(TAKE(inotify));
	return test_remove_root(state);
}

#define WATCH_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static uint64_t arm(void)
{
	uint64_t epoch;

	assert_ok(inotify_arm(inotify, repo_fd, &watch, &epoch, &err));
	return epoch;
}

/* How many watches the kernel keeps for this process. */
static size_t count_watches(void)
{
	AUTO_FREE char *text = output_of("grep -h ^inotify /proc/%d/fdinfo/* 2>/dev/null "
					 "| wc -l",
					 (int)getpid());

	return (size_t)strtoul(text, NULL, 10);
}

/* Each of these, once armed. */
static void assert_each_seen(const char *const commands[], size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t epoch = arm();
		assert_true(inotify_epoch(watch) == epoch);
		must("cd r.git && %s", commands[i]);
		if (inotify_epoch(watch) == epoch)
			fail_msg("not seen: %s", commands[i]);
	}
}

TEST(whatever_changes_refs_is_seen_at_once)
{
	static const char *const commands[] = {
		"git update-ref refs/heads/new refs/heads/b",
		"git symbolic-ref HEAD refs/heads/b",
		"git rev-parse b >x && cat x >refs/heads/d/e",
		"printf 0 | dd of=refs/heads/d/e bs=1 conv=notrunc status=none",
		"git branch -m b moved",
		"git config transfer.hideRefs refs/x",
		"git pack-refs --all",
		"cp packed-refs y && mv y packed-refs",
		"mkdir -p refs/x/y/z",
		"cp HEAD refs/x/y/z/w",
		"echo ref: refs/heads/b >refs/x/y/z/w",
		"rm refs/x/y/z/w",
		"rmdir refs/x/y/z",
		"mv refs/x refs/heads/q",
		"mkdir refs/heads/q/r",
		"touch refs/heads/q/r/s",
		"cp -r refs refs2 && mv refs refs3 && mv refs2 refs",
		"touch refs/heads/q/r/s",
		"echo x >refrelay/state/pending/x",
		"echo y >refrelay/state/pending/x",
		"echo x >refrelay/state/key",
		"rm -rf refrelay",
		"mkdir refrelay",
		"mkdir refrelay/state",
		"mkdir refrelay/state/pending",
		"touch refrelay/state/pending/x",
		"chmod g+w HEAD",
		"mv ../r.git ../away && mv ../away ../r.git",
	};

	assert_each_seen(commands, ARRAY_SIZE(commands));
}

TEST(reading_changes_nothing)
{
	uint64_t epoch = arm();

	must("cd r.git && git for-each-ref >/dev/null && cat refs/heads/b HEAD "
	     ">/dev/null "
	     "&& echo 0000 | git upload-pack . >/dev/null && ls -lR . >/dev/null");
	assert_true(inotify_epoch(watch) == epoch);
	assert_true(arm() == epoch);
}

static void assert_late_directory_is_watched(bool at_end)
{
	uint64_t epoch;

	late.at_end = at_end;
	late.make = "refs/heads/late";
	epoch = arm();
	assert_null(late.make);
	/* Told now or watched: either the number is old, or it will be. */
	if (inotify_epoch(watch) == epoch)
		write_text("refs/heads/late/x", "x");
	assert_true(inotify_epoch(watch) != epoch);
	epoch = arm();
	assert_true(inotify_epoch(watch) == epoch);
	write_text("refs/heads/late/x", "y");
	assert_true(inotify_epoch(watch) != epoch);
}

TEST(a_directory_that_comes_before_its_parent_is_listed_is_not_missed)
{
	assert_late_directory_is_watched(false);
}

TEST(a_directory_that_comes_after_its_parent_was_listed_is_not_missed)
{
	assert_late_directory_is_watched(true);
}

TEST(who_asks_while_another_drains_waits_for_what_that_one_took)
{
	uint64_t epoch = arm(), after;

	write_text("refs/heads/d/e", "x");
	dawdle.asker = pthread_self();
	atomic_store(&dawdle.is_taken, false);
	atomic_store(&dawdle.is_on, true);
	after = inotify_epoch(watch);
	atomic_store(&dawdle.is_on, false);
	thread_join(dawdle.drainer);
	assert_true(after != epoch);
}

TEST(another_repository_at_the_same_path_is_watched_instead)
{
	uint64_t epoch = arm();
	size_t count = count_watches();

	must("cp -r r.git other && mv r.git away && mv other r.git");
	assert_true(inotify_epoch(watch) != epoch);
	open_repo();
	epoch = arm();
	assert_int_equal(count_watches(), count);
	must("touch away/HEAD away/refs/heads/b");
	assert_true(inotify_epoch(watch) == epoch);
	must("touch r.git/refs/heads/d/e");
	assert_true(inotify_epoch(watch) != epoch);
}

/* As when a directory above was renamed: no event tells of that. */
TEST(another_directory_is_watched_though_nothing_happened)
{
	uint64_t epoch;

	arm();
	must("cp -r r.git other && mkdir above && mv other above/r.git");
	close(repo_fd);
	repo_fd = openat(root_fd, "above/r.git", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	epoch = arm();
	must("touch r.git/HEAD");
	assert_true(inotify_epoch(watch) == epoch);
	must("touch above/r.git/HEAD");
	assert_true(inotify_epoch(watch) != epoch);
}

/* As when a slot of the old name is still there. */
TEST(a_repository_that_is_armed_under_a_new_name_leaves_the_old_one_in_doubt)
{
	struct inotify_watch *renamed = NULL;
	uint64_t old = arm(), epoch;

	assert_ok(inotify_arm(inotify, repo_fd, &renamed, &epoch, &err));
	assert_true(inotify_epoch(watch) != old);
	inotify_disarm(TAKE(watch));
	assert_true(inotify_epoch(renamed) == epoch);
	write_text("refs/heads/d/e", "x");
	assert_true(inotify_epoch(renamed) != epoch);

	/* And back again. */
	old = arm();
	assert_true(inotify_epoch(watch) == old);
	inotify_disarm(renamed);
	write_text("refs/heads/d/e", "y");
	assert_true(inotify_epoch(watch) != old);
}

TEST(events_of_a_watch_that_was_freed_harm_nobody)
{
	struct inotify_watch *other = NULL;
	AUTO_CLOSE int fd = -1;
	uint64_t epoch;

	assert_ok(repo_make(root_fd, "other.git", 20, &err));
	fd = openat(root_fd, "other.git", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_ok(inotify_arm(inotify, fd, &other, &epoch, &err));
	arm();
	must("cd r.git && touch HEAD refs/heads/d/e && rmdir refs/tags");
	inotify_disarm(TAKE(watch));
	assert_true(inotify_epoch(other) == epoch);
	inotify_disarm(other);
	assert_int_equal(count_watches(), 0);
}

/* More events than the kernel queues (fs.inotify.max_queued_events, 16384). */
TEST(when_events_are_lost_all_repositories_are_in_doubt)
{
	struct inotify_watch *other = NULL;
	AUTO_CLOSE int fd = -1;
	uint64_t epoch, before = arm();

	assert_ok(repo_make(root_fd, "other.git", 20, &err));
	fd = openat(root_fd, "other.git", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_ok(inotify_arm(inotify, fd, &other, &epoch, &err));
	for (int i = 0; i < 9000; i++) {
		assert_int_equal(fchmodat(repo_fd, "HEAD", i % 2 ? 0644 : 0600, 0), 0);
		assert_int_equal(fchmodat(repo_fd, "config", i % 2 ? 0644 : 0600, 0), 0);
	}
	assert_true(inotify_epoch(other) != epoch);
	assert_true(inotify_epoch(watch) != before);
	assert_ok(inotify_arm(inotify, fd, &other, &epoch, &err));
	assert_true(inotify_epoch(other) == epoch);
	must("touch other.git/HEAD");
	assert_true(inotify_epoch(other) != epoch);
	inotify_disarm(other);
}

static void make_many(void)
{
	char name[64];

	for (int i = 0; i < MANY; i++) {
		snprintf(name, sizeof(name), "refs/heads/%d", i);
		assert_int_equal(mkdirat(repo_fd, name, 0777), 0);
	}
}

TEST(many_directories_come_and_go)
{
	size_t count;
	uint64_t epoch = arm();

	count = count_watches();
	make_many();
	assert_true(inotify_epoch(watch) != epoch);
	epoch = arm();
	assert_int_equal(count_watches(), count + MANY);
	assert_true(inotify_epoch(watch) == epoch);
	write_text("refs/heads/477/x", "x");
	assert_true(inotify_epoch(watch) != epoch);
	must("cd r.git/refs/heads && rm 477/x && seq 0 799 | xargs rmdir");
	epoch = arm();
	assert_int_equal(count_watches(), count);
	write_text("refs/heads/d/e", "x");
	assert_true(inotify_epoch(watch) != epoch);
}

TEST(what_has_too_many_directories_is_not_watched)
{
	uint64_t epoch = arm(), again;

	inotify_disarm(TAKE(watch));
	inotify_close(inotify);
	open_limited(8, 100); /* itself, refs and 3 below, refrelay and 2 below */
	epoch = arm();
	must("mkdir r.git/refs/heads/one_more");
	assert_fails(inotify_arm(inotify, repo_fd, &watch, &again, &err), ERR_INTERNAL);
	assert_true(inotify_epoch(watch) != epoch);
	assert_int_equal(count_watches(), 0);
	/* Nor is it tried again with each request. */
	must("rmdir r.git/refs/heads/one_more");
	assert_fails(inotify_arm(inotify, repo_fd, &watch, &again, &err), ERR_BUSY);
	/* Unless somebody says that it was mended, or another one has its place. */
	inotify_retry(watch);
	epoch = arm();
	must("mkdir r.git/refs/heads/one_more");
	assert_fails(inotify_arm(inotify, repo_fd, &watch, &again, &err), ERR_INTERNAL);
	must("cp -r r.git other.git && rmdir other.git/refs/heads/one_more");
	AUTO_CLOSE int other = openat(root_fd, "other.git", O_RDONLY | O_DIRECTORY);
	assert_ok(inotify_arm(inotify, other, &watch, &again, &err));
}

TEST(all_together_have_a_limit_too)
{
	struct inotify_watch *other = NULL;
	AUTO_CLOSE int fd = -1;
	uint64_t epoch;

	inotify_close(inotify);
	open_limited(10, 10);
	epoch = arm();
	assert_ok(repo_make(root_fd, "other.git", 20, &err));
	fd = openat(root_fd, "other.git", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_fails(inotify_arm(inotify, fd, &other, &(uint64_t){ 0 }, &err),
		     ERR_INTERNAL);
	inotify_disarm(other);
	assert_true(inotify_epoch(watch) == epoch);
	assert_int_equal(count_watches(), 8);
}

/* What refrelay writes for itself is of no interest where a copy is guarded. */
TEST(a_copy_is_its_refs_and_its_packs)
{
	static const char *const seen[] = {
		": >objects/pack/pack-1.pack",
		"printf x >>objects/pack/pack-1.pack",
		"truncate -s 0 objects/pack/pack-1.pack",
		"chmod g+w objects/pack/pack-1.pack",
		"touch -d yesterday objects/pack/pack-1.pack",
		"rm objects/pack/pack-1.pack",
		"printf x >>config",
		": >refs/heads/d/f",
		": >commondir",
		"mkdir -p info",
		": >info/grafts",
		"printf x >>info/grafts",
		": >objects/info/http-alternates",
		"printf x >>objects/info/http-alternates",
		"mkdir objects/info/commit-graphs objects/pack/multi-pack-index.d",
		": >objects/info/commit-graphs/x",
		": >objects/pack/multi-pack-index.d/x",
		"printf x >>objects/pack/multi-pack-index.d/x",
	};
	uint64_t epoch;

	inotify_close(inotify);
	inotify = inotify_open(&(struct inotify_limits){ .scope = INOTIFY_COPY,
							 .directories_each = 100 },
			       &err);
	assert_non_null(inotify);
	assert_each_seen(seen, ARRAY_SIZE(seen));
	epoch = arm();
	must("cd r.git/refrelay && : >copy && : >state/pending/x && : >state/key");
	assert_true(inotify_epoch(watch) == epoch);
	must("mkdir r.git/hooks.x && : >r.git/hooks.x/y");
	assert_true(inotify_epoch(watch) != epoch);
}

/* Whatever is in it, has watches of its own, or is nobody's business. */
TEST(a_folder_on_the_way_tells_only_of_itself)
{
	static const char *const seen[] = {
		"mv ../r.git ../away", "mv ../away ../r.git", "chmod g+w .",
		"rm -r ../r.git", /* told when nobody has it open any more */
	};

	for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
		uint64_t epoch;
		bool is_last = i + 1 == ARRAY_SIZE(seen);
		assert_ok(inotify_arm_folder(inotify, repo_fd, &watch, &epoch, &err));
		assert_true(inotify_epoch(watch) == epoch);
		must("cd %s && mkdir x && : >y && printf z >>HEAD && mv x z && rm -r y z",
		     i == 1 ? "away" : "r.git");
		assert_true(inotify_epoch(watch) == epoch);
		if (is_last) {
			close(repo_fd);
			repo_fd =
				openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		}
		must("cd %s && %s", i == 1 ? "away" : "r.git", seen[i]);
		if (inotify_epoch(watch) == epoch)
			fail_msg("not seen: %s", seen[i]);
	}
}

TEST(no_number_comes_twice)
{
	uint64_t first = arm(), second;

	inotify_disarm(TAKE(watch));
	second = arm();
	assert_true(second > first);
}

static atomic_bool is_over;

static void *ask(void *arg)
{
	uint64_t last = 0;

	(void)arg;
	while (!atomic_load(&is_over)) {
		uint64_t epoch = inotify_epoch(watch);
		if (epoch < last)
			abort();
		last = epoch;
	}
	return NULL;
}

/* Others drain the events of our change all the time. */
static void storm(int rounds, void (*change)(int round))
{
	pthread_t threads[READERS];
	uint64_t before = arm();
	int missed = 0;

	atomic_store(&is_over, false);
	for (size_t i = 0; i < READERS; i++)
		thread_start(&threads[i], "asker", ask, NULL);
	for (int i = 0; i < rounds; i++) {
		change(i);
		uint64_t after = inotify_epoch(watch);
		missed += after == before;
		before = after;
	}
	atomic_store(&is_over, true);
	for (size_t i = 0; i < READERS; i++)
		thread_join(threads[i]);
	assert_int_equal(missed, 0);
}

static int storm_fd;

static void change_in_place(int round)
{
	assert_true(pwrite(storm_fd, round % 2 ? "1" : "0", 1, 0) == 1);
}

static void change_by_rename(int round)
{
	assert_int_equal(renameat(repo_fd, round % 2 ? "refs/heads/b" : "refs/heads/d/b",
				  repo_fd, round % 2 ? "refs/heads/d/b" : "refs/heads/b"),
			 0);
}

TEST(in_a_storm_no_change_in_place_is_missed)
{
	storm_fd = openat(repo_fd, "refs/heads/d/e", O_WRONLY | O_CLOEXEC);
	storm(ROUNDS_IN_PLACE, change_in_place);
	close(storm_fd);
}

TEST(in_a_storm_no_rename_is_missed)
{
	must("cd r.git/refs/heads && mv b d/b");
	storm(ROUNDS_OF_RENAMES, change_by_rename);
}

/* Directories come and go beside who arms. */
static void *churn(void *arg)
{
	static const char *const names[] = { "refs/heads/f", "refs/heads/f/h",
					     "refs/heads/g", "refs/heads/g/h" };

	(void)arg;
	while (!atomic_load(&is_over)) {
		for (size_t j = 0; j < ARRAY_SIZE(names); j++)
			mkdirat(repo_fd, names[j], 0777);
		for (size_t j = ARRAY_SIZE(names); j > 0; j--)
			unlinkat(repo_fd, names[j - 1], AT_REMOVEDIR);
	}
	for (size_t j = 0; j < ARRAY_SIZE(names); j++)
		mkdirat(repo_fd, names[j], 0777);
	return NULL;
}

static uint64_t arm_beside_churn(void)
{
	pthread_t thread;
	uint64_t epoch = 0;

	atomic_store(&is_over, false);
	thread_start(&thread, "churn", churn, NULL);
	for (int j = 0; j < 5; j++)
		epoch = arm();
	atomic_store(&is_over, true);
	thread_join(thread);
	return epoch;
}

TEST(a_number_that_holds_after_directories_came_and_went_is_of_whole_watches)
{
	for (int i = 0; i < 100; i++) {
		uint64_t epoch = arm_beside_churn();
		if (inotify_epoch(watch) != epoch)
			epoch = arm();
		assert_true(inotify_epoch(watch) == epoch);
		write_text(i % 2 ? "refs/heads/f/h/x" : "refs/heads/g/h/x", "x");
		if (inotify_epoch(watch) == epoch)
			fail_msg("not seen in round %d", i);
		unlinkat(repo_fd, i % 2 ? "refs/heads/f/h/x" : "refs/heads/g/h/x", 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		WATCH_CASE(whatever_changes_refs_is_seen_at_once),
		WATCH_CASE(reading_changes_nothing),
		WATCH_CASE(
			a_directory_that_comes_before_its_parent_is_listed_is_not_missed),
		WATCH_CASE(
			a_directory_that_comes_after_its_parent_was_listed_is_not_missed),
		WATCH_CASE(who_asks_while_another_drains_waits_for_what_that_one_took),
		WATCH_CASE(another_directory_is_watched_though_nothing_happened),
		WATCH_CASE(another_repository_at_the_same_path_is_watched_instead),
		WATCH_CASE(
			a_repository_that_is_armed_under_a_new_name_leaves_the_old_one_in_doubt),
		WATCH_CASE(events_of_a_watch_that_was_freed_harm_nobody),
		WATCH_CASE(when_events_are_lost_all_repositories_are_in_doubt),
		WATCH_CASE(many_directories_come_and_go),
		WATCH_CASE(what_has_too_many_directories_is_not_watched),
		WATCH_CASE(all_together_have_a_limit_too),
		WATCH_CASE(a_copy_is_its_refs_and_its_packs),
		WATCH_CASE(a_folder_on_the_way_tells_only_of_itself),
		WATCH_CASE(no_number_comes_twice),
		WATCH_CASE(in_a_storm_no_change_in_place_is_missed),
		WATCH_CASE(in_a_storm_no_rename_is_missed),
		WATCH_CASE(
			a_number_that_holds_after_directories_came_and_went_is_of_whole_watches),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
