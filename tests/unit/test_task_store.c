#include "task_test.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/inotify.h>
#include <sys/syscall.h>

#include "base/metrics.h"
#include "base/thread.h"
#include "push/push_run.h"
#include "push/task_parts.h"

enum { MANY = 100, DAY_MS = 86400 * 1000 };

/* Instead of libc's: how often it was called, and which call is to fail. */
static atomic_int syncs, failing_sync;

int fsync(int fd)
{
	if (atomic_fetch_add(&syncs, 1) + 1 == failing_sync) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

/* Likewise: how often it was called, and whether somebody does the task at once. */
static atomic_int links;
static atomic_bool is_done_at_once;

int linkat(int from, const char *path, int to, const char *name, int flags)
{
	int result = (int)syscall(SYS_linkat, from, path, to, name, flags);

	links++;
	if (is_done_at_once)
		unlinkat(to, name, 0);
	return result;
}

/* Likewise: a directory that cannot be written, whoever asks. */
static const char *unwritable;

int access(const char *path, int mode)
{
	if (unwritable && (mode & W_OK) && strcmp(path, unwritable) == 0) {
		errno = EACCES;
		return -1;
	}
	return (int)syscall(SYS_faccessat, AT_FDCWD, path, mode);
}

/* Likewise: how often waiting/ was opened and listed, and until how many have opened it
 * its first listing lasts. */
static atomic_int openings, listings, listing_waits_for;

/* Likewise: a file that cannot be opened, or not even be looked at. */
static const char *unopened, *unseen;

int openat(int dir, const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	mode_t mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (unopened && strcmp(path, unopened) == 0) {
		errno = EMFILE;
		return -1;
	}
	openings += text_ends_with(path, "/ref-updates/waiting");
	if (strcmp(path, ".") == 0 && atomic_fetch_add(&listings, 1) == 0 &&
	    listing_waits_for > 0) {
		wait_until(openings >= listing_waits_for);
		usleep(10000); /* a long one */
	}
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

int fstatat(int dir, const char *path, struct stat *st, int flags)
{
	if (unseen && strcmp(path, unseen) == 0) {
		errno = ESTALE;
		return -1;
	}
	return (int)syscall(SYS_newfstatat, dir, path, st, flags);
}

/* Likewise: the file server's clock, set ahead. */
static int ahead_s;

int futimens(int fd, const struct timespec times[2])
{
	struct timespec ahead[2] = { { time(NULL) + ahead_s, 0 },
				     { time(NULL) + ahead_s, 0 } };

	return (int)syscall(SYS_utimensat, fd, NULL, times || !ahead_s ? times : ahead,
			    0);
}

/* Likewise: whether the user has too many watches, or instances. */
static bool has_no_watches, has_no_instances;

int inotify_add_watch(int fd, const char *path, uint32_t what)
{
	if (has_no_watches) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_inotify_add_watch, fd, path, what);
}

int inotify_init1(int flags)
{
	if (has_no_instances) {
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_inotify_init1, flags);
}

/* ------------------------------------------------------------------------ adding */

TEST(a_task_is_a_private_file_with_the_plugins_name_and_bytes)
{
	AUTO_STR struct str text = STR_INIT;
	struct stat st;
	const char *key = add("refs/heads/main");
	AUTO_FREE char *path = xasprintf("ref-updates/waiting/%s", key);

	assert_true(is_new);
	assert_ok(file_read(root_fd, path, 1000, &text, &err));
	assert_string_equal(text.data,
			    "{\"project\":\"p\",\"refs\":[\"refs/heads/main\"],"
			    "\"uri\":\"git://h/p.git\",\"remote\":\"r\"}\n");
	assert_int_equal(fstatat(root_fd, path, &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(st.st_nlink, 1);
	assert_int_equal(files_in("ref-updates/building"), 0);
}

TEST(one_that_waits_keeps_its_time_unless_it_is_asked_for_earlier)
{
	AUTO_FREE char *path = xasprintf("ref-updates/waiting/%s", add("a"));

	set_time(path, long_ago);
	add("a");
	assert_false(is_new);
	assert_int_equal(time_of(path), long_ago);
	add_at(URI, "a", long_ago + 5);
	assert_int_equal(time_of(path), long_ago);
	refresh();
	add_at(URI, "a", long_ago - 5);
	assert_false(is_new);
	assert_int_equal(time_of(path), long_ago - 5);
	refresh();
	assert_int_equal(last.since, long_ago - 5);
	assert_int_equal(WAITS, 1);
	assert_int_equal(files_in("ref-updates/building"), 0);
}

TEST(far_from_the_server_a_link_decides_and_not_a_look)
{
	store->is_local = false;
	AUTO_FREE char *path = xasprintf("ref-updates/waiting/%s", add("a"));
	set_time(path, long_ago);
	links = 0;
	add("a");
	assert_int_equal(links, 1);
	assert_false(is_new);
	assert_int_equal(time_of(path), long_ago);
	write_to("", "%s", path);
	add("a");
	assert_true(is_new);
	assert_int_equal(files_in("refrelay/unreadable"), 1);
}

TEST(file_and_name_are_on_disk_before_it_is_said)
{
	AUTO_TASK struct task task = task_of(URI, "a");

	for (int i = 0; i < 2; i++) { /* new, then there */
		syncs = 0;
		add("a");
		assert_int_equal(syncs, 2);
	}
	for (failing_sync = 1; failing_sync <= 2; failing_sync++) {
		syncs = 0;
		assert_fails(task_store_add(store, &task, 0, &is_new, &err), ERR_DISK);
	}
	failing_sync = 1;
	syncs = 0;
	task.refs.items[0][0] = 'b';
	assert_fails(task_store_add(store, &task, 0, &is_new, &err), ERR_DISK);
	failing_sync = 0;
	assert_int_equal(WAITS, 1);
	assert_int_equal(files_in("ref-updates/building"), 0);
}

TEST(an_earlier_time_is_seen_by_another_process)
{
	struct task_store *other;
	AUTO_TASK struct task task = task_of(URI, "a");

	add("a");
	refresh();
	assert_ok(task_store_open(root, &other, &err));
	assert_ok(task_store_add(other, &task, long_ago, &is_new, &err));
	task_store_close(other);
	refresh();
	assert_int_equal(reports, 1);
	assert_int_equal(last.since, long_ago);
}

TEST(a_name_with_json_is_the_same_task)
{
	AUTO_FREE char *key = xstrdup(add("a"));
	AUTO_FREE char *from = xasprintf("ref-updates/waiting/%s", key);
	AUTO_FREE char *to = xasprintf("%s.json", from);

	assert_int_equal(renameat(root_fd, from, root_fd, to), 0);
	add("a");
	assert_false(is_new);
	assert_int_equal(WAITS, 1);
	claimed_tasks tasks = claim(URI);
	assert_int_equal(tasks.count, 1);
	assert_ok(task_store_done(store, &tasks.items[0], &err));
	claimed_tasks_clear(&tasks);
	assert_int_equal(WAITS, 0);
}

TEST(a_damaged_file_of_that_name_does_not_swallow_a_task)
{
	AUTO_TASK struct task task = task_of(URI, "a");
	char key[TASK_KEY_SIZE];

	task_key(&task, key);
	write_to("", "ref-updates/waiting/%s", key);
	add("a");
	assert_true(is_new);
	assert_true(exists("refrelay/unreadable/%s", key));
	claimed_tasks tasks = claim(URI);
	assert_int_equal(tasks.count, 1);
	claimed_tasks_clear(&tasks);
}

TEST(refs_that_json_cannot_name_become_a_task_of_all_refs)
{
	add("refs/heads/caf\xe9");
	claimed_tasks tasks = claim(URI);
	assert_int_equal(tasks.count, 1);
	assert_true(task_is_all(&tasks.items[0].task));
	claimed_tasks_clear(&tasks);

	AUTO_TASK struct task task = task_of("caf\xe9", "a");
	assert_fails(task_store_add(store, &task, 0, &is_new, &err), ERR_CONFIG);
}

static void add_many(const char *prefix)
{
	struct task_store *own;
	struct err error;
	bool ignored;

	if (task_store_open(root, &own, &error) != 0)
		abort();
	for (int i = 0; i < MANY; i++) {
		char ref[64];
		snprintf(ref, sizeof(ref), "%s%d", i % 2 ? "both" : prefix, i);
		AUTO_TASK struct task task = task_of(i % 3 ? URI : "other", ref);
		if (task_store_add(own, &task, 0, &ignored, &error) != 0)
			abort();
	}
	task_store_close(own);
}

static atomic_int adding;

static void *add_many_thread(void *prefix)
{
	add_many(prefix);
	atomic_fetch_sub(&adding, 1);
	return NULL;
}

static void *wait_for_child(void *prefix)
{
	assert_int_equal(end_of(start_self("add", prefix, NULL)), 0);
	atomic_fetch_sub(&adding, 1);
	return NULL;
}

static void finish_all(const char *uri, struct map *met)
{
	claimed_tasks tasks = claim(uri);

	for (size_t i = 0; i < tasks.count; i++) {
		map_put(met, tasks.items[i].task.refs.items[0], met);
		assert_ok(task_store_done(store, &tasks.items[i], &err));
	}
	claimed_tasks_clear(&tasks);
}

TEST(many_add_while_others_list_claim_and_finish)
{
	static char prefixes[6][3] = { "c0", "c1", "t0", "t1", "t2", "t3" };
	struct map met = { 0 };
	pthread_t threads[6];
	bool is_last;

	adding = 6;
	for (size_t i = 0; i < 6; i++)
		thread_start(&threads[i], "adder",
			     i < 2 ? wait_for_child : add_many_thread, prefixes[i]);
	do {
		listed_tasks listed = { 0 };
		is_last = adding == 0;
		assert_ok(task_store_list(store, &listed, NULL, &err));
		listed_tasks_clear(&listed);
		finish_all(URI, &met);
		finish_all("other", &met);
	} while (!is_last);
	for (size_t i = 0; i < 6; i++)
		thread_join(threads[i]);
	assert_int_equal(met.count, MANY / 2 + 6 * (MANY / 2));
	assert_int_equal(WAITS, 0);
	assert_int_equal(files_in("refrelay/unreadable"), 0);
	map_clear(&met);
}

TEST(two_processes_that_claim_one_uri_share_its_tasks_between_them)
{
	struct task_store *other;
	claimed_tasks ours = { 0 }, theirs = { 0 };

	for (int i = 0; i < 20; i++) {
		char ref[16];
		snprintf(ref, sizeof(ref), "r%d", i);
		add(ref);
	}
	assert_ok(task_store_open(root, &other, &err));
	assert_ok(task_store_refresh(other, NULL, NULL, NULL, &err));
	refresh();
	ours = claim(URI);
	assert_ok(task_store_claim(other, URI, &theirs, &err));
	assert_int_equal(ours.count, 20);
	assert_int_equal(theirs.count, 0);
	claimed_tasks_clear(&ours);
	task_store_close(other);
}

static void *claim_and_give_back(void *uri)
{
	struct task_store *own;
	struct err error;

	if (task_store_open(root, &own, &error) != 0)
		abort();
	for (int i = 0; i < 50; i++) {
		claimed_tasks tasks = { 0 };
		if (task_store_claim(own, uri, &tasks, &error) != 0)
			abort();
		for (size_t k = 0; k < tasks.count; k++)
			if (task_store_give_back(own, &tasks.items[k], &error) != 0)
				abort();
		claimed_tasks_clear(&tasks);
	}
	task_store_close(own);
	return NULL;
}

TEST(nothing_is_lost_between_two_that_claim_at_once)
{
	static char uri[] = URI;
	pthread_t threads[2];

	for (int i = 0; i < 20; i++) {
		char ref[16];
		snprintf(ref, sizeof(ref), "r%d", i);
		add(ref);
	}
	for (size_t i = 0; i < 2; i++)
		thread_start(&threads[i], "claimer", claim_and_give_back, uri);
	for (size_t i = 0; i < 2; i++)
		thread_join(threads[i]);
	assert_int_equal(WAITS, 20);
}

enum { CLAIMERS = 8, MANY_NAMES = 1200 };

static void *claim_other(void *arg)
{
	claimed_tasks tasks = { 0 };
	struct err error;

	(void)arg;
	if (task_store_claim(store, "other", &tasks, &error) != 0)
		abort();
	claimed_tasks_clear(&tasks);
	return NULL;
}

/* Each listing has all names in memory. */
TEST(claims_that_begin_at_once_share_a_long_listing)
{
	pthread_t threads[CLAIMERS];

	for (int i = 0; i < MANY_NAMES; i++)
		write_to(TASK_TEXT("a"), "ref-updates/waiting/%040x", (unsigned)i);
	openings = listings = 0;
	listing_waits_for = CLAIMERS + 2; /* one has opened it three times */
	for (size_t i = 0; i < CLAIMERS; i++)
		thread_start(&threads[i], "claimer", claim_other, NULL);
	for (size_t i = 0; i < CLAIMERS; i++)
		thread_join(threads[i]);
	listing_waits_for = 0;
	assert_in_range(listings, 1, 2);
}

TEST(a_name_that_came_after_a_look_is_not_dropped_by_it)
{
	AUTO_FREE char *key = xstrdup(add("a"));
	uint64_t births = task_index_births(&store->index);
	claimed_tasks tasks = claim(URI);

	claimed_tasks_clear(&tasks);
	add("a");
	task_index_drop(&store->index, key, births);
	store->listing.is_cheap = false; /* so that claim does not list again */
	tasks = claim(URI);
	assert_int_equal(tasks.count, 1);
	claimed_tasks_clear(&tasks);
}

TEST(what_is_done_before_it_is_noted_does_not_seem_to_wait)
{
	struct new_task many = { task_of(URI, "b"), 0 };

	is_done_at_once = true;
	add("a");
	assert_ok(task_store_add_all(store, &many, 1, &err));
	is_done_at_once = false;
	last.tasks = 99;
	task_store_report(store, seen, &reports);
	assert_int_equal(last.tasks, 0);
	task_clear(&many.task);
}

TEST(who_is_killed_before_the_link_leaves_only_rubbish)
{
	task_store_close(store);
	assert_int_equal(end_of(start_self("add", "x", "task.written@3=kill")),
			 128 + SIGKILL);
	assert_ok(task_store_open(root, &store, &err));
	assert_int_equal(WAITS, 2);
	assert_int_equal(files_in("ref-updates/building"), 1);
	refresh();
	assert_int_equal(files_in("refrelay/unreadable"), 0);
}

TEST(who_is_killed_after_the_link_has_made_a_task)
{
	assert_int_equal(end_of(start_self("add", "x", "task.linked=kill")),
			 128 + SIGKILL);
	assert_int_equal(WAITS, 1);
	claimed_tasks tasks = claim("other");
	assert_int_equal(tasks.count, 1);
	claimed_tasks_clear(&tasks);
}

TEST(only_old_rubbish_is_swept)
{
	write_to("x", "ref-updates/building/young.tmp");
	write_to("x", "ref-updates/building/notes");
	set_time("ref-updates/building/young.tmp", long_ago);
	task_store_close(store);
	assert_ok(task_store_open(root, &store, &err));
	assert_true(exists("ref-updates/building/young.tmp"));
	task_store_close(store);
	ahead_s = 700;
	assert_ok(task_store_open(root, &store, &err));
	assert_false(exists("ref-updates/building/young.tmp"));
	assert_true(exists("ref-updates/building/notes"));
	/* Also what is left while it is open. */
	write_to("x", "ref-updates/building/late.tmp");
	ahead_s = 0;
	assert_ok(task_store_sweep(store, &err));
	assert_true(exists("ref-updates/building/late.tmp"));
	ahead_s = 1500;
	assert_ok(task_store_sweep(store, &err));
	ahead_s = 0;
	assert_false(exists("ref-updates/building/late.tmp"));
}

/* ----------------------------------------------------------------------- listing */

TEST(another_store_in_the_place_of_one_that_was_used_is_not_taken)
{
	AUTO_FREE char *place = xasprintf("%s/s", root);
	struct task_store *first, *other;

	assert_ok(task_store_open(place, &first, &err));
	assert_ok(task_store_remember(first, root, &err));
	assert_ok(task_store_recognize(place, root, &err));
	assert_int_equal(renameat(root_fd, "s", root_fd, "away"), 0);
	assert_fails(task_store_recognize(place, root, &err), ERR_DISK);
	assert_fails(task_store_open_to_read(place, root, &other, &err), ERR_DISK);
	assert_non_null(strstr(err.remedy, "task-store"));
	assert_false(exists("s"));
	assert_ok(task_store_open(place, &other, &err)); /* another site's */
	task_store_close(other);
	assert_fails(task_store_recognize(place, root, &err), ERR_DISK);
	AUTO_TASK struct task task = task_of(URI, "refs/heads/a");
	assert_fails(task_store_add(first, &task, 0, &is_new, &err), ERR_DISK);
	assert_int_equal(files_in("s/ref-updates/waiting"), 0);
	assert_fails(task_store_refresh(first, seen, running, &reports, &err), ERR_DISK);
	assert_int_equal(renameat(root_fd, "s", root_fd, "wrong"), 0);
	assert_int_equal(renameat(root_fd, "away", root_fd, "s"), 0);
	assert_ok(task_store_refresh(first, seen, running, &reports, &err));
	task_store_close(first);
}

TEST(to_read_makes_nothing_and_what_was_never_made_is_empty)
{
	AUTO_FREE char *place = xasprintf("%s/s", root);
	struct task_store *reading;
	listed_tasks tasks = { 0 };
	dead_letters letters = { 0 };
	int64_t now;

	assert_ok(task_store_open_to_read(place, root, &reading, &err));
	assert_ok(task_store_now(reading, &now, &err));
	assert_ok(task_store_list(reading, &tasks, NULL, &err));
	assert_ok(task_store_dead_letters(reading, &letters, &err));
	assert_int_equal(tasks.count + letters.count, 0);
	write_to(TASK_TEXT("refs/heads/a"), "s/ref-updates/waiting/%s", "x");
	write_to("rubbish", "s/refrelay/requests/%040d.head", 1);
	assert_ok(task_store_list(reading, &tasks, NULL, &err));
	assert_int_equal(tasks.count, 1);
	requested_list requests = { 0 };
	assert_ok(uri_request_list(reading, &requests, &err));
	assert_int_equal(requests.count, 0);
	listed_tasks_clear(&tasks);
	task_store_close(reading);
	assert_int_equal(files_in("s"), 2);
	assert_int_equal(files_in("s/ref-updates"), 1);
	assert_int_equal(files_in("s/refrelay"), 1);
	assert_int_equal(files_in("s/refrelay/requests"), 1);
}

TEST(only_what_changed_is_reported)
{
	add_at("one", "a", long_ago);
	add_at("one", "b", long_ago - DAY_MS);
	add_at("two", "a", 0);
	refresh();
	assert_int_equal(reports, 2);
	refresh();
	assert_int_equal(reports, 0);
	add_at("one", "c", 0);
	refresh();
	assert_int_equal(reports, 1);
	assert_string_equal(last_uri, "one");
	assert_int_equal(last.tasks, 3);
	assert_int_equal(last.since, long_ago - DAY_MS);
	claimed_tasks tasks = claim("one");
	claimed_tasks_clear(&tasks);
	refresh();
	assert_int_equal(reports, 1);
	assert_int_equal(last.tasks, 0);
	assert_string_not_equal(last_running, "");
}

TEST(what_others_add_and_take_is_found_by_listing)
{
	struct task_store *other;
	AUTO_TASK struct task task = task_of(URI, "a");
	claimed_tasks tasks = { 0 };

	assert_ok(task_store_open(root, &other, &err));
	assert_ok(task_store_add(other, &task, 0, &is_new, &err));
	refresh();
	assert_int_equal(last.tasks, 1);
	assert_ok(task_store_claim(other, URI, &tasks, &err));
	assert_ok(task_store_done(other, &tasks.items[0], &err));
	refresh();
	assert_int_equal(reports, 1);
	assert_int_equal(last.tasks, 0);
	claimed_tasks_clear(&tasks);
	task_store_close(other);
}

TEST(wrong_files_are_set_aside_and_stop_nobody)
{
	struct unreadable unreadable = { 0 };
	listed_tasks listed = { 0 };
	char name[TASK_KEY_SIZE];
	size_t dropped;

	memset(name, 'e', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	add("a");
	write_to("", "ref-updates/waiting/%s", name);
	write_to("{\"project\":", "ref-updates/waiting/torn");
	write_to("{\"odd\":1}", "ref-updates/waiting/odd");
	write_to("x", "ref-updates/waiting/%s%s", name, name);
	write_to("x", "ref-updates/waiting/.hidden");
	assert_int_equal(symlinkat("/etc/passwd", root_fd, "ref-updates/waiting/link"),
			 0);
	write_to("before", "refrelay/unreadable/odd");
	assert_ok(task_store_list(store, &listed, &unreadable, &err));
	assert_int_equal(listed.count, 1);
	listed_tasks_clear(&listed);
	assert_int_equal(unreadable.count, 5);
	assert_ok(task_store_unreadable(store, &unreadable, &err));
	assert_int_equal(unreadable.count, 6);
	refresh();
	assert_int_equal(reports, 1);
	assert_int_equal(WAITS, 1);
	assert_true(exists("ref-updates/waiting/.hidden"));
	assert_ok(task_store_unreadable(store, &unreadable, &err));
	assert_int_equal(unreadable.count, 7); /* the one that was there, again, and none
						  of the others */
	unreadable_clear(&unreadable);
	assert_ok(task_store_unreadable(store, &unreadable, &err));
	assert_int_equal(unreadable.count, 6);
	assert_true(text_starts_with(unreadable.example, root));
	write_to("{\"odd\":1}", "ref-updates/waiting/odd");
	assert_ok(task_store_drop_unreadable(store, &dropped, &err));
	assert_int_equal(dropped, 7);
	assert_int_equal(WAITS, 1);
	assert_int_equal(files_in("refrelay/unreadable"), 0);
	unreadable_clear(&unreadable);
}

static int check_without(const char *directory)
{
	AUTO_FREE char *path = xasprintf("%s%s", root, directory);

	unwritable = path;
	int result = task_store_check_writable(store, &err);
	unwritable = NULL;
	return result;
}

TEST(only_where_something_is_written_or_missing_must_be_writable)
{
	assert_ok(check_without(""));
	assert_ok(check_without("/ref-updates"));
	assert_fails(check_without("/ref-updates/waiting"), ERR_CONFIG);
	assert_int_equal(unlinkat(root_fd, "ref-updates/waiting", AT_REMOVEDIR), 0);
	assert_fails(check_without("/ref-updates"), ERR_CONFIG);
	assert_ok(check_without("/ref-updates/waiting"));
}

/* Root may read everything. */
static int open_store_as_nobody(void **state)
{
	if (geteuid() == 0 && seteuid(65534) != 0)
		return -1;
	return open_store(state);
}

static int close_store_as_nobody(void **state)
{
	int result = close_store(state);

	return seteuid(getuid()) == 0 ? result : -1;
}

TEST(a_file_that_may_not_be_read_stays)
{
	AUTO_FREE char *path = xasprintf("ref-updates/waiting/%s", add("a"));
	claimed_tasks tasks;

	assert_int_equal(fchmodat(root_fd, path, 0, 0), 0);
	task_store_close(store);
	assert_ok(task_store_open(root, &store, &err));
	refresh();
	tasks = claim(URI);
	assert_int_equal(tasks.count, 0);
	assert_true(exists("%s", path));
	assert_int_equal(fchmodat(root_fd, path, 0600, 0), 0);
	refresh();
	tasks = claim(URI);
	assert_int_equal(tasks.count, 1);
	claimed_tasks_clear(&tasks);
}

/* As long as this node has no descriptor left. */
TEST(what_is_given_back_waits_though_it_cannot_be_opened)
{
	AUTO_FREE char *name = xstrdup(add("a"));
	claimed_tasks tasks;

	refresh();
	tasks = claim(URI);
	assert_int_equal(tasks.count, 1);
	task_store_report(store, seen, &reports);
	assert_int_equal(last.tasks, 0);
	unopened = name;
	assert_ok(task_store_give_back(store, &tasks.items[0], &err));
	task_store_report(store, seen, &reports);
	assert_int_equal(last.tasks, 1);
	assert_int_equal(last.since, tasks.items[0].since);
	assert_int_equal(task_store_troubled(store), 0);
	unopened = NULL;
	claimed_tasks_clear(&tasks);
	tasks = claim(URI);
	assert_int_equal(tasks.count, 1);
	claimed_tasks_clear(&tasks);
}

TEST(what_replaced_the_file_that_is_given_back_is_read)
{
	AUTO_FREE char *name = xstrdup(add("a"));
	claimed_tasks tasks = claim(URI);
	char uri_key[URI_KEY_SIZE];

	uri_key_of(URI, uri_key);
	write_to("{\"project\":\"p\",\"ref\":\"b\",\"uri\":\"git://h/q.git\","
		 "\"remote\":\"r\"}",
		 "ref-updates/running/%s/%s", uri_key, name);
	AUTO_FREE char *path = xasprintf("ref-updates/running/%s/%s", uri_key, name);
	set_time(path, long_ago);
	assert_ok(task_store_give_back(store, &tasks.items[0], &err));
	task_store_report(store, seen, &reports);
	assert_string_equal(last_uri, "git://h/q.git");
	claimed_tasks_clear(&tasks);
}

static bool metric_says_unreadable(int count)
{
	AUTO_FREE char *line = xasprintf("\nrefrelay_push_unreadable %d\n", count);
	const struct push_settings none = { 0 };
	AUTO_STR struct str text = STR_INIT;
	struct map letters = { 0 };

	push_report_dead_letters(store, &none, &letters);
	metrics_render_as(METRICS_PROMETHEUS, &text);
	return strstr(text.data, line) != NULL;
}

TEST(what_cannot_be_read_is_looked_for_again_and_counted)
{
	AUTO_FREE char *name = xstrdup(add("a"));
	struct unreadable unreadable = { 0 };
	listed_tasks listed = { 0 };
	claimed_tasks tasks;
	size_t dropped;

	refresh();
	assert_int_equal(task_store_troubled(store), 0);
	unopened = name;
	tasks = claim(URI);
	assert_int_equal(tasks.count, 0);
	assert_int_equal(task_store_troubled(store), 1);
	assert_true(metric_says_unreadable(1));
	assert_int_equal(WAITS, 1);
	refresh();
	assert_int_equal(task_store_troubled(store), 1);
	assert_ok(task_store_list(store, &listed, &unreadable, &err));
	assert_int_equal(unreadable.count, 1);
	assert_int_equal(unreadable.kept, 1);
	unreadable_clear(&unreadable);
	assert_ok(task_store_drop_unreadable(store, &dropped, &err));
	assert_int_equal(dropped, 0);
	unopened = NULL;
	unseen = name;
	refresh();
	assert_int_equal(task_store_troubled(store), 1);
	unseen = NULL;
	refresh();
	assert_int_equal(task_store_troubled(store), 0);
	assert_true(metric_says_unreadable(0));
	tasks = claim(URI);
	assert_int_equal(tasks.count, 1);
	claimed_tasks_clear(&tasks);
	listed_tasks_clear(&listed);
}

TEST(what_gerrit_and_old_layouts_left_is_adopted_with_its_time)
{
	char uri_key[URI_KEY_SIZE];

	uri_key_of(URI, uri_key);
	write_to(TASK_TEXT("a"), "ref-updates/waiting/%s/aa", uri_key);
	write_to(TASK_TEXT("b"), "ref-updates/waiting/0b/e1/bb");
	write_to(TASK_TEXT("c"), "ref-updates/running/cc");
	write_to(TASK_TEXT("d"), "ref-updates/running/odd/dd");
	write_to(TASK_TEXT("e"), "ref-updates/running/%s/ee", uri_key);
	set_time("ref-updates/running/cc", long_ago);
	refresh();
	assert_int_equal(WAITS, 4);
	assert_int_equal(last.tasks, 4);
	assert_int_equal(last.since, long_ago);
	assert_string_equal(last_running, uri_key);
	assert_int_equal(files_in("ref-updates/running"), 1);
}

/* ----------------------------------------------------------------------- hearing */

static bool hear(void)
{
	reports = 0;
	return task_store_hear(store, seen, &reports);
}

TEST(what_comes_and_goes_is_heard_of)
{
	struct pollfd poll_fd = { .fd = task_store_watch_fd(store), .events = POLLIN };

	assert_int_equal(end_of(start_self("add", "x", "task.linked=kill")),
			 128 + SIGKILL);
	assert_int_equal(poll(&poll_fd, 1, 1000), 1);
	assert_false(hear());
	assert_int_equal(reports, 1);
	assert_int_equal(last.tasks, 1);
	assert_int_equal(poll(&poll_fd, 1, 0), 0);
	claimed_tasks tasks = claim("other");
	claimed_tasks_clear(&tasks);
	assert_false(hear());
	assert_int_equal(last.tasks, 0);
}

TEST(a_file_that_is_just_being_written_is_not_set_aside)
{
	int fd = openat(root_fd, "ref-updates/waiting/copied", O_WRONLY | O_CREAT, 0600);

	hear();
	assert_true(exists("ref-updates/waiting/copied"));
	assert_ok(file_write_all(fd, TASK_TEXT("a"), strlen(TASK_TEXT("a")), "copied",
				 &err));
	close(fd);
	hear();
	assert_int_equal(reports, 1);
	write_to("junk", "ref-updates/waiting/junk");
	hear();
	assert_true(exists("refrelay/unreadable/junk"));
}

TEST(a_new_directory_asks_for_a_listing)
{
	write_to(TASK_TEXT("a"), "ref-updates/waiting/dir/aa");
	assert_true(hear());
}

/* As the distributor reads it. */
static void expect_to_hear_of_others(void)
{
	struct pollfd poll_fd = { .fd = task_store_watch_fd(store), .events = POLLIN };

	while (poll(&poll_fd, 1, 0) > 0)
		if (hear())
			refresh();
	assert_true(task_store_is_watched(store));
	assert_int_equal(end_of(start_self("add", "x", "task.linked=kill")),
			 128 + SIGKILL);
	assert_int_equal(poll(&poll_fd, 1, 1000), 1);
	assert_false(hear());
	assert_int_equal(reports, 1);
}

TEST(a_watch_that_was_lost_is_set_again)
{
	assert_ok(renameat(root_fd, "ref-updates/waiting", root_fd, "waiting.old"));
	assert_true(hear());
	assert_fails(task_store_refresh(store, seen, running, &reports, &err), ERR_DISK);
	assert_false(task_store_is_watched(store));
	assert_ok(mkdirat(root_fd, "ref-updates/waiting", 0700));
	assert_ok(task_store_refresh(store, seen, running, &reports, &err));
	expect_to_hear_of_others();
}

TEST(a_watch_that_cannot_be_set_is_tried_again_with_each_listing)
{
	task_store_close(store);
	has_no_instances = true;
	assert_ok(task_store_open(root, &store, &err));
	assert_false(task_store_is_watched(store));
	has_no_instances = false;
	has_no_watches = true;
	assert_ok(task_store_refresh(store, seen, running, &reports, &err));
	assert_false(task_store_is_watched(store));
	has_no_watches = false;
	assert_ok(task_store_refresh(store, seen, running, &reports, &err));
	expect_to_hear_of_others();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		STORE_CASE(a_task_is_a_private_file_with_the_plugins_name_and_bytes),
		STORE_CASE(one_that_waits_keeps_its_time_unless_it_is_asked_for_earlier),
		STORE_CASE(far_from_the_server_a_link_decides_and_not_a_look),
		STORE_CASE(file_and_name_are_on_disk_before_it_is_said),
		STORE_CASE(an_earlier_time_is_seen_by_another_process),
		STORE_CASE(a_name_with_json_is_the_same_task),
		STORE_CASE(a_damaged_file_of_that_name_does_not_swallow_a_task),
		STORE_CASE(refs_that_json_cannot_name_become_a_task_of_all_refs),
		STORE_CASE(many_add_while_others_list_claim_and_finish),
		STORE_CASE(two_processes_that_claim_one_uri_share_its_tasks_between_them),
		STORE_CASE(nothing_is_lost_between_two_that_claim_at_once),
		STORE_CASE(claims_that_begin_at_once_share_a_long_listing),
		STORE_CASE(a_name_that_came_after_a_look_is_not_dropped_by_it),
		STORE_CASE(what_is_done_before_it_is_noted_does_not_seem_to_wait),
		STORE_CASE(who_is_killed_before_the_link_leaves_only_rubbish),
		STORE_CASE(who_is_killed_after_the_link_has_made_a_task),
		STORE_CASE(only_old_rubbish_is_swept),
		STORE_CASE(another_store_in_the_place_of_one_that_was_used_is_not_taken),
		STORE_CASE(to_read_makes_nothing_and_what_was_never_made_is_empty),
		STORE_CASE(only_what_changed_is_reported),
		STORE_CASE(what_others_add_and_take_is_found_by_listing),
		STORE_CASE(wrong_files_are_set_aside_and_stop_nobody),
		cmocka_unit_test_setup_teardown(a_file_that_may_not_be_read_stays,
						open_store_as_nobody,
						close_store_as_nobody),
		STORE_CASE(only_where_something_is_written_or_missing_must_be_writable),
		STORE_CASE(what_is_given_back_waits_though_it_cannot_be_opened),
		STORE_CASE(what_replaced_the_file_that_is_given_back_is_read),
		STORE_CASE(what_cannot_be_read_is_looked_for_again_and_counted),
		STORE_CASE(what_gerrit_and_old_layouts_left_is_adopted_with_its_time),
		STORE_CASE(what_comes_and_goes_is_heard_of),
		STORE_CASE(a_file_that_is_just_being_written_is_not_set_aside),
		STORE_CASE(a_new_directory_asks_for_a_listing),
		STORE_CASE(a_watch_that_was_lost_is_set_again),
		STORE_CASE(a_watch_that_cannot_be_set_is_tried_again_with_each_listing),
	};

	if (argc == 4 && strcmp(argv[1], "add") == 0) {
		snprintf(root, sizeof(root), "%s", argv[2]);
		add_many(argv[3]);
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
