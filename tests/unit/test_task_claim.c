#include "task_test.h"

#include <linux/fs.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "push/push_run.h"

static size_t letter_reads; /* tasks and reasons that were opened */

int openat(int dir, const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	mode_t mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
	va_end(args);
	letter_reads += strspn(path, "0123456789abcdef") == TASK_KEY_SIZE - 1;
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

/* What file system there seems to be, and what was moved and synced there in which
 * order: "moved;", and names of directories, each with a semicolon. */
static bool has_log;
static char done[512];

static void note_done(const char *what)
{
	size_t len = strlen(done);

	snprintf(done + len, sizeof(done) - len, "%s;", what);
}

int fstatfs(int fd, struct statfs *fs)
{
	int result = (int)syscall(SYS_fstatfs, fd, fs);

	fs->f_type = has_log ? 0x58465342 : TMPFS_MAGIC; /* XFS */
	return result;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list args;

	va_start(args, request);
	void *arg = va_arg(args, void *);
	va_end(args);
	if (request != FS_IOC_FSGETXATTR)
		return (int)syscall(SYS_ioctl, fd, request, arg);
	memset(arg, 0, sizeof(struct fsxattr));
	return 0;
}

int renameat(int from, const char *name, int to, const char *as)
{
	note_done("moved");
	return (int)syscall(SYS_renameat2, from, name, to, as, 0);
}

int fsync(int fd)
{
	char link[64], path[256] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) > 0)
		note_done(strrchr(path, '/') + 1);
	return (int)syscall(SYS_fsync, fd);
}

/* ---------------------------------------------------------------------- claiming */

TEST(a_claim_takes_all_of_one_uri_and_no_others)
{
	char uri_key[URI_KEY_SIZE];

	uri_key_of(URI, uri_key);
	add("a");
	add("b");
	add_at("other", "a", 0);
	claimed_tasks tasks = claim(URI);
	assert_int_equal(tasks.count, 2);
	assert_int_equal(WAITS, 1);
	assert_true(exists("ref-updates/running/%s/%s", uri_key, tasks.items[0].name));
	assert_ok(task_store_done(store, &tasks.items[0], &err));
	task_store_tidy(store, uri_key);
	assert_true(exists("ref-updates/running/%s", uri_key));
	assert_ok(task_store_done(store, &tasks.items[1], &err));
	assert_ok(task_store_done(store, &tasks.items[1], &err));
	task_store_tidy(store, uri_key);
	assert_false(exists("ref-updates/running/%s", uri_key));
	claimed_tasks_clear(&tasks);
}

TEST(one_task_is_claimed_alone_and_may_be_added_again)
{
	AUTO_TASK struct task task = task_of(URI, "a");
	claimed_tasks tasks = { 0 };

	add("a");
	add("b");
	assert_ok(task_store_claim_one(store, &task, &tasks, &err));
	assert_int_equal(tasks.count, 1);
	assert_string_equal(tasks.items[0].task.refs.items[0], "a");
	assert_int_equal(WAITS, 1);
	add("a");
	assert_int_equal(WAITS, 2);
	assert_ok(task_store_done(store, &tasks.items[0], &err));
	assert_int_equal(WAITS, 2);
	claimed_tasks_clear(&tasks);
	tasks = claim(URI);
	assert_int_equal(tasks.count, 2);
	claimed_tasks_clear(&tasks);
	assert_ok(task_store_claim_one(store, &task, &tasks, &err));
	assert_int_equal(tasks.count, 0);
}

TEST(a_claim_sees_what_came_since_the_last_listing)
{
	AUTO_TASK struct task task = task_of(URI, "a");
	struct task_store *other;

	refresh();
	assert_ok(task_store_open(root, &other, &err));
	for (int i = 0; i < 20; i++) {
		assert_ok(task_store_add(other, &task, 0, &is_new, &err));
		claimed_tasks tasks = claim(URI);
		assert_int_equal(tasks.count, 1);
		assert_ok(task_store_done(store, &tasks.items[0], &err));
		claimed_tasks_clear(&tasks);
	}
	task_store_close(other);
}

TEST(a_claim_sees_what_came_within_one_tick_of_the_clock)
{
	AUTO_TASK struct task task = task_of(URI, "a");
	struct task_store *other;

	refresh();
	int64_t listed_at = time_of("ref-updates/waiting") - 1000;
	set_time("ref-updates/waiting", listed_at);
	refresh();
	assert_ok(task_store_open(root, &other, &err));
	assert_ok(task_store_add(other, &task, 0, &is_new, &err));
	task_store_close(other);
	set_time("ref-updates/waiting", listed_at);
	claimed_tasks tasks = claim(URI);
	assert_int_equal(tasks.count, 1);
	claimed_tasks_clear(&tasks);
}

TEST(a_file_that_became_another_uris_is_not_claimed)
{
	AUTO_FREE char *path = xasprintf("ref-updates/waiting/%s", add_at("one", "a", 0));

	refresh();
	write_to(TASK_TEXT("a"), "%s", path);
	claimed_tasks tasks = claim("one");
	assert_int_equal(tasks.count, 0);
	tasks = claim(URI);
	assert_int_equal(tasks.count, 1);
	claimed_tasks_clear(&tasks);
}

TEST(what_is_given_back_has_its_time)
{
	AUTO_FREE char *path =
		xasprintf("ref-updates/waiting/%s", add_at(URI, "a", long_ago));
	claimed_tasks tasks = claim(URI);

	assert_false(exists("%s", path));
	add("a"); /* while it is being pushed: another task */
	assert_true(is_new);
	assert_true(time_of(path) > long_ago);
	assert_ok(task_store_give_back(store, &tasks.items[0], &err));
	assert_int_equal(time_of(path), long_ago);
	assert_int_equal(WAITS, 1);
	assert_ok(task_store_give_back(store, &tasks.items[0], &err));
	claimed_tasks_clear(&tasks);
}

TEST(a_task_is_hurried_only_while_it_waits)
{
	AUTO_TASK struct task task = task_of(URI, "a");

	add("a");
	assert_ok(task_store_hurry(store, &task, long_ago, &err));
	claimed_tasks tasks = claim(URI);
	assert_int_equal(tasks.count, 1);
	assert_int_equal(tasks.items[0].since, long_ago);
	assert_ok(task_store_hurry(store, &task, long_ago, &err));
	assert_int_equal(WAITS, 0);
	assert_ok(task_store_done(store, &tasks.items[0], &err));
	assert_ok(task_store_hurry(store, &task, long_ago, &err));
	assert_int_equal(WAITS, 0);
	claimed_tasks_clear(&tasks);
}

TEST(a_task_shrinks_to_what_is_left)
{
	AUTO_TASK struct task task = task_of(URI, "a");
	text_list left = { 0 };

	vec_add(&task.refs, xstrdup("b"));
	vec_add(&left, xstrdup("b"));
	assert_ok(task_store_add(store, &task, long_ago, &is_new, &err));
	claimed_tasks tasks = claim(URI);
	assert_ok(task_store_shrink(store, &tasks.items[0], &left, &err));
	claimed_tasks_clear(&tasks);
	tasks = claim(URI);
	assert_int_equal(tasks.count, 1);
	assert_int_equal(tasks.items[0].since, long_ago);
	assert_int_equal(tasks.items[0].task.refs.count, 1);
	assert_string_equal(tasks.items[0].task.refs.items[0], "b");
	claimed_tasks_clear(&tasks);
	text_list_clear(&left);
}

TEST(what_a_dead_holder_left_is_recovered)
{
	char uri_key[URI_KEY_SIZE];
	size_t recovered;

	uri_key_of(URI, uri_key);
	add_at(URI, "a", long_ago);
	add("b");
	claimed_tasks tasks = claim(URI);
	claimed_tasks_clear(&tasks);
	assert_ok(task_store_recover(store, uri_key, &recovered, &err));
	assert_int_equal(recovered, 2);
	tasks = claim(URI);
	assert_int_equal(tasks.count, 2);
	claimed_tasks_clear(&tasks);
	uri_key_of("unknown", uri_key);
	assert_ok(task_store_recover(store, uri_key, &recovered, &err));
	assert_int_equal(recovered, 0);
}

/* Since the last time. */
static void assert_done(const char *expected)
{
	assert_string_equal(done, expected);
	done[0] = '\0';
}

/* Each later sync of the directory that tasks have left would otherwise lose them in a
 * power failure; where one log has all names in their order, none can. */
TEST(a_moved_task_is_on_disk_where_it_is_before_it_is_gone_where_it_was)
{
	char uri_key[URI_KEY_SIZE];
	size_t recovered;

	uri_key_of(URI, uri_key);
	AUTO_FREE char *there = xasprintf("moved;moved;%s;running;", uri_key);
	add("a");
	add("b");
	done[0] = '\0';
	claimed_tasks tasks = claim(URI);
	assert_done(there);
	claimed_tasks_clear(&tasks);
	assert_ok(task_store_recover(store, uri_key, &recovered, &err));
	assert_done("moved;moved;waiting;");
	tasks = claim(URI);
	assert_done(there);
	for (size_t i = 0; i < tasks.count; i++)
		assert_ok(task_store_give_back(store, &tasks.items[i], &err));
	assert_ok(task_store_sync_waiting(store, &err));
	assert_done("moved;moved;waiting;");
	claimed_tasks_clear(&tasks);
	has_log = true;
	tasks = claim(URI);
	has_log = false;
	assert_done("moved;moved;");
	claimed_tasks_clear(&tasks);
	/* What another program left in running/ is moved, too. */
	const char *key = add("c");
	AUTO_FREE char *from = xasprintf("ref-updates/waiting/%s", key);
	AUTO_FREE char *to = xasprintf("ref-updates/running/%s", key);
	assert_int_equal(syscall(SYS_renameat2, root_fd, from, root_fd, to, 0), 0);
	done[0] = '\0';
	assert_ok(task_store_list_running(store, NULL, NULL, &err));
	assert_done("moved;waiting;");
}

/* ------------------------------------------------------------------ dead letters */

static char *fail_one(const char *ref)
{
	char *key = xstrdup(add_at(URI, ref, long_ago));
	claimed_tasks tasks = claim(URI);
	struct err why = { .class = ERR_CONFIG, .text = "no", .remedy = "do it" };
	struct ref_failure failure = { xstrdup("refs/heads/caf\xe9"),
				       xstrdup("prohibited") };
	ref_failures refs = { 0 };

	vec_add(&refs, failure);
	assert_int_equal(tasks.count, 1);
	assert_ok(task_store_fail(store, &tasks.items[0], &why, &refs, &err));
	claimed_tasks_clear(&tasks);
	ref_failures_clear(&refs);
	return key;
}

TEST(a_task_that_is_given_up_is_kept_with_the_reason)
{
	AUTO_FREE char *key = fail_one("a");
	dead_letters letters = { 0 };
	bool has;

	assert_ok(task_store_has(store, key, &has, &err));
	assert_false(has);
	assert_ok(task_store_dead_letters(store, &letters, &err));
	assert_int_equal(letters.count, 1);
	const struct dead_letter *letter = &letters.items[0];
	assert_string_equal(letter->key, key);
	assert_int_equal(letter->since, long_ago);
	assert_true(letter->failed_at > long_ago);
	assert_int_equal(letter->why.class, ERR_CONFIG);
	assert_string_equal(letter->why.remedy, "do it");
	assert_string_equal(letter->refs.items[0].ref, "refs/heads/caf\xe9");
	assert_string_equal(letter->refs.items[0].text, "prohibited");
	dead_letters_clear(&letters);
}

TEST(a_letter_whose_reason_is_lost_is_shown)
{
	AUTO_FREE char *key = fail_one("a");
	dead_letters letters = { 0 };

	write_to("{", "refrelay/failed/%s.why", key);
	assert_ok(task_store_dead_letters(store, &letters, &err));
	assert_int_equal(letters.count, 1);
	assert_string_equal(letters.items[0].task.uri, URI);
	dead_letters_clear(&letters);
}

TEST(a_letter_is_retried_or_discarded_or_done_by_a_later_push)
{
	AUTO_FREE char *key = fail_one("a");

	assert_ok(task_store_retry(store, key, &err));
	assert_int_equal(files_in("refrelay/failed"), 0);
	assert_ok(task_store_retry(store, key, &err)); /* it waits */
	claimed_tasks tasks = claim(URI);
	assert_int_equal(tasks.items[0].since, long_ago);
	assert_fails(task_store_retry(store, key, &err), ERR_BUSY);
	assert_fails(task_store_discard(store, key, &err), ERR_BUSY);
	assert_ok(task_store_done(store, &tasks.items[0], &err));
	claimed_tasks_clear(&tasks);
	assert_fails(task_store_retry(store, key, &err), ERR_MISSING);

	AUTO_FREE char *again = fail_one("a");
	assert_ok(task_store_discard(store, again, &err));
	assert_int_equal(files_in("refrelay/failed"), 0);
	assert_fails(task_store_discard(store, again, &err), ERR_MISSING);

	free(fail_one("a"));
	assert_int_equal(files_in("refrelay/failed"), 2);
	add("a");
	tasks = claim(URI);
	assert_ok(task_store_done(store, &tasks.items[0], &err));
	claimed_tasks_clear(&tasks);
	assert_int_equal(files_in("refrelay/failed"), 0);
}

/* As when the node is killed in between. */
TEST(a_letter_goes_before_the_task_that_has_done_it)
{
	AUTO_FREE char *key = fail_one("a");
	AUTO_FREE char *letter = xasprintf("refrelay/failed/%s", key);

	assert_ok(unlinkat(root_fd, letter, 0));
	assert_ok(mkdirat(root_fd, letter, 0700)); /* which cannot be removed */
	add("a");
	claimed_tasks tasks = claim(URI);
	assert_int_equal(task_store_done(store, &tasks.items[0], &err), -1);
	assert_ok(unlinkat(root_fd, letter, AT_REMOVEDIR));
	claimed_tasks_clear(&tasks);
	tasks = claim(URI);
	assert_int_equal(tasks.count, 0); /* it is still running */
	claimed_tasks_clear(&tasks);
	char uri_key[URI_KEY_SIZE];
	size_t recovered;
	uri_key_of(URI, uri_key);
	assert_ok(task_store_recover(store, uri_key, &recovered, &err));
	assert_int_equal(recovered, 1);
}

/* Those of other URIs may be thousands. */
TEST(letters_that_say_nothing_new_are_dropped_without_reading_others)
{
	AUTO_FREE char *key = fail_one("a");
	AUTO_TASK struct task all = task_of(URI, TASK_ALL_REFS);
	char one[] = "refs/heads/caf\xe9";
	struct ref_failure failure = { .ref = one };
	const ref_failures none = { 0 }, refs = { &failure, 1, 1 };
	struct push push = { .options.tasks = store };
	struct push_run run = { .push = &push };

	for (int i = 0; i < 10; i++) {
		AUTO_FREE char *ref = xasprintf("b%d", i);
		free(fail_one(ref));
	}
	vec_add(&run.state.letters, xstrdup(key));
	letter_reads = 0;
	assert_ok(drop_repeated_letters(&run, &all, &none, &err));
	assert_int_equal(run.state.letters.count, 1);
	assert_ok(drop_repeated_letters(&run, &all, &refs, &err));
	assert_int_equal(run.state.letters.count, 0);
	assert_int_equal(letter_reads, 4);
	assert_int_equal(files_in("refrelay/failed"), 20);
	uri_state_clear(&run.state);
}

TEST(only_the_tasks_of_new_letters_are_read_to_count_them)
{
	AUTO_FREE char *key = fail_one("a");
	struct map remotes = { 0 };

	for (int i = 0; i < 2; i++) {
		letter_reads = 0;
		assert_ok(task_store_letter_remotes(store, &remotes, &err));
		assert_int_equal(letter_reads, i == 0);
		assert_int_equal(remotes.count, 1);
		assert_string_equal(map_get(&remotes, key), "r");
	}
	assert_ok(task_store_discard(store, key, &err));
	free(fail_one("b"));
	letter_reads = 0;
	assert_ok(task_store_letter_remotes(store, &remotes, &err));
	assert_int_equal(letter_reads, 1);
	assert_int_equal(remotes.count, 1);
	assert_null(map_get(&remotes, key));
	map_clear_owned(&remotes);
}

static int64_t discarded_at(const char *key)
{
	int64_t at;

	assert_ok(task_store_discarded_at(store, key, &at, &err));
	return at;
}

TEST(a_waiting_task_is_discarded)
{
	AUTO_FREE char *key = xstrdup(add("a"));
	AUTO_FREE char *from = xasprintf("ref-updates/waiting/%s", key);
	AUTO_FREE char *to = xasprintf("ref-updates/waiting/%s.json", key);
	int64_t before;
	bool has;

	assert_ok(task_store_now(store, &before, &err));
	assert_ok(task_store_has(store, key, &has, &err));
	assert_true(has);
	assert_int_equal(discarded_at(key), 0);
	assert_ok(task_store_discard(store, key, &err));
	assert_int_equal(WAITS, 0);
	int64_t at = discarded_at(key);
	assert_true(at >= before);
	/* Done, that is not told; discarded under Gerrit's name, it is. */
	add("a");
	claimed_tasks tasks = claim(URI);
	assert_ok(task_store_done(store, &tasks.items[0], &err));
	claimed_tasks_clear(&tasks);
	assert_int_equal(discarded_at(key), at);
	add("a");
	assert_ok(renameat(root_fd, from, root_fd, to));
	usleep(20000); /* a tick of the file system's clock */
	assert_ok(task_store_discard(store, key, &err));
	assert_true(discarded_at(key) > at);
	assert_ok(task_store_sweep(store, &err));
	assert_int_equal(files_in("refrelay/discarded"), 1);
	assert_fails(task_store_discard(store, "../x", &err), ERR_MISSING);
	assert_fails(task_store_retry(store, "", &err), ERR_MISSING);
}

/* -------------------------------------------------------------------------- rest */

TEST(the_servers_clock_does_not_go_back)
{
	int64_t before, after;

	assert_ok(task_store_now(store, &before, &err));
	add("a");
	assert_ok(task_store_now(store, &after, &err));
	assert_true(before > long_ago && after >= before);
}

TEST(what_was_seen_is_known_to_others)
{
	struct task_store *other;

	assert_false(task_store_was_seen(store, "p/q", "d1"));
	task_store_note_seen(store, "p/q", "d1");
	assert_ok(task_store_open(root, &other, &err));
	assert_true(task_store_was_seen(other, "p/q", "d1"));
	assert_false(task_store_was_seen(other, "p/q", "d2"));
	assert_false(task_store_was_seen(other, "p", "d1"));
	task_store_close(other);
}

TEST(a_store_that_is_gone_is_a_fault_of_the_disk)
{
	AUTO_TASK struct task task = task_of(URI, "a");

	assert_ok(tree_remove(root_fd, "ref-updates", &err));
	assert_fails(task_store_add(store, &task, 0, &is_new, &err), ERR_DISK);
	assert_fails(task_store_refresh(store, seen, NULL, &reports, &err), ERR_DISK);
}

TEST(a_file_where_a_directory_belongs_is_said)
{
	AUTO_FREE char *path = xasprintf("%s/other", root);
	struct task_store *other;

	write_to("x", "other/refrelay");
	assert_int_equal(task_store_open(path, &other, &err), -1);
	assert_non_null(strstr(err.text, "refrelay"));
}

TEST(a_link_where_running_tasks_belong_is_not_followed)
{
	claimed_tasks tasks = { 0 };
	char uri_key[URI_KEY_SIZE];
	size_t recovered;

	add("a");
	uri_key_of(URI, uri_key);
	AUTO_FREE char *path = xasprintf("ref-updates/running/%s", uri_key);
	AUTO_FREE char *target = xasprintf("%s/precious", root);
	write_to("x", "precious/file");
	assert_ok(symlinkat(target, root_fd, path));
	task_store_recover(store, uri_key, &recovered, ERR_IGNORED);
	assert_int_equal(recovered, 0);
	assert_int_equal(task_store_claim(store, URI, &tasks, &err), -1);
	assert_int_equal(files_in("precious"), 1);
	assert_int_equal(files_in("ref-updates/waiting"), 1);
}

TEST(a_clock_that_is_no_file_is_made_anew)
{
	int64_t now;

	assert_ok(task_store_now(store, &now, &err));
	assert_ok(unlinkat(root_fd, "ref-updates/building/.clock", 0));
	assert_ok(mkfifoat(root_fd, "ref-updates/building/.clock", 0600));
	assert_ok(task_store_now(store, &now, &err));
	assert_ok(unlinkat(root_fd, "ref-updates/building/.clock", 0));
	assert_ok(symlinkat("../../made", root_fd, "ref-updates/building/.clock"));
	assert_ok(task_store_now(store, &now, &err));
	assert_int_equal(faccessat(root_fd, "made", F_OK, 0), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_CASE(a_claim_takes_all_of_one_uri_and_no_others),
		STORE_CASE(one_task_is_claimed_alone_and_may_be_added_again),
		STORE_CASE(a_claim_sees_what_came_since_the_last_listing),
		STORE_CASE(a_claim_sees_what_came_within_one_tick_of_the_clock),
		STORE_CASE(a_file_that_became_another_uris_is_not_claimed),
		STORE_CASE(what_is_given_back_has_its_time),
		STORE_CASE(a_task_is_hurried_only_while_it_waits),
		STORE_CASE(a_task_shrinks_to_what_is_left),
		STORE_CASE(what_a_dead_holder_left_is_recovered),
		STORE_CASE(
			a_moved_task_is_on_disk_where_it_is_before_it_is_gone_where_it_was),
		STORE_CASE(a_task_that_is_given_up_is_kept_with_the_reason),
		STORE_CASE(a_letter_whose_reason_is_lost_is_shown),
		STORE_CASE(a_letter_is_retried_or_discarded_or_done_by_a_later_push),
		STORE_CASE(a_letter_goes_before_the_task_that_has_done_it),
		STORE_CASE(
			letters_that_say_nothing_new_are_dropped_without_reading_others),
		STORE_CASE(only_the_tasks_of_new_letters_are_read_to_count_them),
		STORE_CASE(a_waiting_task_is_discarded),
		STORE_CASE(the_servers_clock_does_not_go_back),
		STORE_CASE(what_was_seen_is_known_to_others),
		STORE_CASE(a_store_that_is_gone_is_a_fault_of_the_disk),
		STORE_CASE(a_file_where_a_directory_belongs_is_said),
		STORE_CASE(a_link_where_running_tasks_belong_is_not_followed),
		STORE_CASE(a_clock_that_is_no_file_is_made_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
