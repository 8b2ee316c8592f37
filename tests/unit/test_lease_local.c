/*
 * Leases within one process: threads of one manager, and several managers, which are to
 * each other as processes are (each has an alive lock of its own). What needs real
 * processes is in test_lease_process.c.
 */
#include "test_lease.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include <sqlite3.h>

#include "base/proc.h"
#include "git/fence.h"
#include "lease/manager.h"
#include "replicable/name.h"
#include "replicable/take_away.h"
#include "store/store_conn.h"

#include "lease_renewal.h"

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup_two, teardown_two)
#define CASE_KEPT(name)                                                                  \
	cmocka_unit_test_setup_teardown(name, setup_two_kept, teardown_two)

/* Stands in for libc's: the disk with the guards may be full. */
static atomic_int guard_errno;

int open(const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (guard_errno != 0 && strstr(path, "/guard/") && flags & O_CREAT) {
		errno = guard_errno;
		return -1;
	}
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

static int count_names(const char *directory)
{
	AUTO_FREE char *path = xasprintf("%s/lease/%s", root, directory);
	AUTO_CLOSEDIR DIR *dir = opendir(path);
	struct dirent *entry;
	int count = 0;

	while ((entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	return count;
}

static struct lease_holder inspect(void)
{
	struct lease_holder holder;

	assert_ok(lease_inspect(ann, KEY, &holder, &err));
	return holder;
}

/* ------------------------------------------------------------------ one holder */

TEST(only_one_holds_it_and_the_other_is_told_who)
{
	struct lease *lease = must_acquire(ann, 0), *other;
	struct lease_holder holder;
	int64_t before = clock_boot_ms();

	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_NOBODY);
	assert_string_equal(lease_key(lease), KEY);
	assert_ok(lease_check(lease, &err));
	for (int i = 0; i < 2; i++) { /* of another process, and of our own */
		const struct lease_request request = { .key = KEY,
						       .operation = "repack",
						       .holder = &holder };
		assert_fails(lease_acquire(i ? ann : bob, &request, &other, &err),
			     ERR_BUSY);
		assert_non_null(strstr(err.text, "Cannot obtain an exclusive lease"));
		assert_non_null(strstr(err.text, "deadbeef00000001"));
		assert_int_equal(holder.pid, getpid());
		assert_string_equal(holder.operation, "sync");
		assert_string_equal(holder.proof, "alive");
		assert_true(holder.held);
		assert_in_range(holder.ttl_left_ms, TTL - 2000, TTL);
	}
	assert_in_range(clock_boot_ms() - before, 0, SOON);
	lease_release(lease);
	lease = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_RELEASE);
	lease_release(lease);
}

TEST(other_keys_are_free)
{
	struct lease *lease = must_acquire(ann, 0), *other;

	assert_ok(lease_acquire(bob,
				&(struct lease_request){ .key = "b", .operation = "s" },
				&other, &err));
	lease_release(other);
	lease_release(lease);
}

TEST(the_fence_grows_above_clock_floor_and_predecessor)
{
	uint64_t wall = (uint64_t)clock_wall_ns() / 1000, last;
	struct lease *lease = must_acquire(ann, 0);

	assert_true(lease_fence(lease) >= wall);
	for (int i = 0; i < 5; i++) {
		last = lease_fence(lease);
		lease_release(lease);
		lease = must_acquire(i % 2 ? ann : bob, 0);
		assert_true(lease_fence(lease) > last);
	}
	lease_release(lease);

	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .fence_floor = wall * 2 };
	assert_ok(lease_acquire(ann, &request, &lease, &err));
	assert_true(lease_fence(lease) == wall * 2 + 3 * LEASE_FENCES);
	lease_release(lease);
	lease = must_acquire(ann, 0);
	assert_true(lease_fence(lease) == wall * 2 + 4 * LEASE_FENCES);
	lease_release(lease);
}

TEST(a_lost_store_does_not_lower_the_fence)
{
	struct lease *lease = must_acquire(ann, 0);
	uint64_t last = lease_fence(lease) + 1000000; /* as after a clock set back */

	lease_release(lease);
	sql("DELETE FROM lease");
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .fence_floor = last };
	assert_ok(lease_acquire(ann, &request, &lease, &err));
	assert_true(lease_fence(lease) > last);
	lease_release(lease);
}

TEST(requests_that_make_no_sense_are_refused)
{
	char longest[LEASE_KEY_SIZE + 1];
	struct lease_request request = { .key = longest, .operation = "sync" };
	struct lease *lease;

	memset(longest, 'k', sizeof(longest));
	longest[LEASE_KEY_SIZE] = '\0';
	assert_fails(lease_acquire(ann, &request, &lease, &err), ERR_CONFIG);
	request.key = "";
	assert_fails(lease_acquire(ann, &request, &lease, &err), ERR_CONFIG);
	request.key = &longest[1];
	assert_ok(lease_acquire(ann, &request, &lease, &err));
	lease_release(lease);
	request.fence_floor = UINT64_MAX;
	assert_fails(lease_acquire(ann, &request, &lease, &err), ERR_CORRUPT);
	lease_release(NULL);
}

/* ------------------------------------------------------------------ time */

TEST(the_keeper_renews_and_moves_the_deadline)
{
	struct lease *lease = must_acquire(ann, 0);
	int64_t at = deadline_at(lease_deadline(lease));

	assert_true(at > clock_boot_ms() && at < clock_boot_ms() + KEEP_TTL);
	wait_until(deadline_at(lease_deadline(lease)) >= at + KEEP_TTL);
	assert_ok(lease_check(lease, &err));
	assert_denied(bob);
	lease_release(lease);
}

TEST(a_row_that_lapsed_is_taken_and_its_holder_finds_out)
{
	struct lease *lease = must_acquire(ann, 0);

	sql("UPDATE lease SET expires_at = expires_at - %d", TTL);
	assert_string_equal(inspect().proof, "lapsed: alive but silent");
	struct lease *next = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(next), LEASE_AFTER_LAPSE);
	assert_true(lease_fence(next) > lease_fence(lease));
	lease_release(lease); /* late: no harm to bob */
	assert_denied(ann);
	lease_release(next);
}

/* Somebody may have seen the lapse, and be about to act on it. */
TEST(a_renewal_after_the_lapse_is_void)
{
	struct lease *lease = must_acquire(ann, 0);

	sql("UPDATE lease SET expires_at = expires_at - %d", TTL);
	make_renewal_due(ann);
	wait_until(lease_check(lease, &err) != 0);
	assert_int_equal(err.class, ERR_LOST);
	wait_until(deadline_at(lease_deadline(lease)) == 0);
	lease_release(lease);
}

TEST(a_lost_lease_does_not_block_those_behind_it)
{
	struct lease *lease = must_acquire(ann, 0);

	sql("UPDATE lease SET expires_at = expires_at - %d", TTL);
	make_renewal_due(ann);
	struct lease *next = must_acquire(ann, 20000);
	assert_fails(lease_check(lease, &err), ERR_LOST);
	assert_int_equal(lease_predecessor(next), LEASE_AFTER_LAPSE);
	lease_release(lease);
	assert_ok(lease_check(next, &err));
	assert_denied(ann);
	lease_release(next);
}

TEST(the_wall_clock_decides_nothing)
{
	struct lease *lease = must_acquire(ann, 0);

	sql("UPDATE lease SET acquired_at = acquired_at - 36000000");
	assert_denied(bob);
	sql("UPDATE lease SET acquired_at = acquired_at + 72000000");
	assert_denied(bob);
	assert_ok(lease_check(lease, &err));
	lease_release(lease);
}

TEST(a_row_of_another_boot_is_void)
{
	struct lease *lease = must_acquire(ann, 0);

	sql("UPDATE lease SET boot_id = 'another', expires_at = expires_at * 2");
	assert_string_equal(inspect().proof, "dead: other boot");
	struct lease *next = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(next), LEASE_AFTER_DEATH);
	lease_release(next);
	lease_release(lease);
}

TEST(without_proof_of_death_the_ttl_counts)
{
	struct lease *lease = must_acquire(ann, 0);

	sql("UPDATE lease SET alive_file = 'of-another-directory'");
	assert_denied(bob);
	assert_string_equal(inspect().proof, "unknown");
	sql("UPDATE lease SET expires_at = expires_at - %d", TTL);
	lease_release(must_acquire(bob, 0));
	lease_release(lease);
}

TEST(an_idle_lease_is_quick)
{
	assert_idle_lease_is_quick(ann);
}

/* ------------------------------------------------------------------ operators */

TEST(list_and_inspect_tell_who_holds_what)
{
	lease_holders all = { 0 };
	struct lease_holder holder;

	assert_fails(lease_inspect(bob, KEY, &holder, &err), ERR_MISSING);
	struct lease *lease = must_acquire(ann, 0), *other;
	assert_ok(lease_acquire(bob,
				&(struct lease_request){ .key = "a", .operation = "s" },
				&other, &err));
	lease_release(other);
	assert_ok(lease_list(bob, false, &all, &err));
	assert_int_equal(all.count, 2);
	assert_string_equal(all.items[0].key, "a");
	assert_string_equal(all.items[0].proof, "released");
	assert_false(all.items[0].held);
	assert_string_equal(all.items[1].key, KEY);
	assert_true(all.items[1].fence == lease_fence(lease));
	assert_true(all.items[1].held);
	assert_string_equal(all.items[1].node, "here");
	assert_string_equal(all.items[1].job, "deadbeef00000001");
	assert_ok(lease_list(bob, true, &all, &err));
	assert_int_equal(all.count, 1);
	assert_string_equal(all.items[0].key, KEY);
	/* Without reading the others, of which there may be very many. */
	assert_ok(bob->backend->ops->list_held(bob->backend, &all, &err));
	assert_int_equal(all.count, 1);
	vec_clear(&all);
	lease_release(lease);
}

/* Who waited has it at once, and may raise the repository's fence before the operator's
 * command does: that is above the former holder's, too. */
TEST(a_lease_is_taken_away_although_the_next_holder_was_quicker)
{
	AUTO_FREE char *below = name_to_path("team/app");
	AUTO_FREE char *path = xasprintf("%s/%s", root, below);
	char key[LEASE_KEY_SIZE];
	struct lease *lease, *next;
	uint64_t fence;

	assert_true(lease_key_for(ann, KIND_REPOSITORY,
				  replicable_id(KIND_REPOSITORY, "team/app"), "team/app",
				  key));
	const struct lease_request request = { .key = key,
					       .operation = "sync",
					       .name = "team/app" };
	assert_int_equal(mkdirat(root_fd, "team", 0700), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	AUTO_CLOSE int copy = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct take_away what = {
		.key = key, .actor = "eve", .reason = "stuck", .repositories = root
	};
	assert_ok(lease_acquire(ann, &request, &lease, &err));
	what.fence = lease_fence(lease);
	assert_int_equal(lease_take_away(bob, &what, &err), 1);
	assert_ok(fence_read(copy, &fence, &err));
	assert_true(fence > what.fence);
	assert_ok(lease_acquire(bob, &request, &next, &err));
	what.fence = lease_fence(next);
	assert_ok(fence_raise(copy, what.fence + 1000000, &err));
	assert_int_equal(lease_take_away(ann, &what, &err), 1);
	lease_release(lease);
	lease_release(next);
}

TEST(force_release_is_for_the_fence_that_was_seen)
{
	struct lease *lease = must_acquire(ann, 0), *next;
	uint64_t fence = lease_fence(lease);

	assert_fails(lease_force_release(bob, "none", fence, "eve", "stuck", &err),
		     ERR_MISSING);
	assert_fails(lease_force_release(bob, KEY, fence - 1, "eve", "stuck", &err),
		     ERR_CONFLICT);
	assert_denied(bob);
	assert_ok(lease_force_release(bob, KEY, fence, "eve", "stuck", &err));
	assert_int_equal(count_names("guard"), 0);
	assert_fails(lease_force_release(bob, KEY, fence, "eve", "stuck", &err),
		     ERR_CONFLICT);
	next = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(next), LEASE_AFTER_FORCE);
	assert_true(lease_fence(next) > fence + 1);
	make_renewal_due(ann);
	wait_until(lease_check(lease, &err) != 0);
	lease_release(lease);
	assert_denied(ann);
	lease_release(next);
}

static void *run_child(void *arg)
{
	struct lease *lease = arg;
	const int keep[] = { lease_guard_fd(lease), -1 };
	const struct proc_request request = {
		.argv = (const char *const[]){ "sleep", "30", NULL },
		.keep_fds = keep,
		.deadline = lease_deadline(lease),
	};
	struct err *mine = xcalloc(1, sizeof(*mine));

	proc_run(&request, NULL, mine);
	return mine;
}

static void *wait_for_lease(void *arg)
{
	struct lease *lease = NULL;

	if (lease_acquire(arg,
			  &(struct lease_request){
				  .key = KEY, .operation = "sync", .wait_ms = 60000 },
			  &lease, ERR_IGNORED) == 0)
		lease_release(lease);
	return NULL;
}

TEST(a_holder_sees_who_waits_in_this_process_and_in_others)
{
	struct lease_manager *managers[] = { ann, bob };
	pthread_t thread;

	for (int i = 0; i < 2; i++) {
		struct lease *lease = must_acquire(ann, 0);
		assert_false(lease_is_wanted(lease));
		thread_start(&thread, "waiter", wait_for_lease, managers[i]);
		if (managers[i] != ann) {
			wait_until(tickets() == 1);
			make_renewal_due(ann); /* its answer tells of others */
		}
		wait_until(lease_is_wanted(lease));
		lease_release(lease);
		thread_join(thread);
	}
}

static char *path_of_guard(void)
{
	AUTO_FREE char *path = xasprintf("%s/lease/guard", root);
	AUTO_CLOSEDIR DIR *dir = opendir(path);
	struct dirent *entry;

	while ((entry = readdir(dir)) != NULL) {
		if (entry->d_name[0] != '.')
			return xasprintf("%s/%s", path, entry->d_name);
	}
	fail_msg("no guard in %s", path);
	return NULL;
}

static int write_nonce(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;
	AUTO_CLOSE int fd = open(arg, O_WRONLY | O_CLOEXEC);

	if (query_open(tx, "SELECT nonce FROM lease", &query, error) != 0 ||
	    query_step(query, error) != 1)
		return -1;
	assert_int_equal(write(fd, query_text(query, 0), 32), 32);
	return 0;
}

/* Whoever is next does not wait for a write of the one before. */
TEST(what_the_guard_says_is_given_up_is_free)
{
	struct lease *lease = must_acquire(ann, 0);
	AUTO_FREE char *path = path_of_guard();
	AUTO_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);

	assert_int_equal(write(fd, "00000000000000000000000000000000", 32), 32);
	assert_denied(bob);
	assert_string_equal(inspect().proof, "alive");
	assert_ok(store_read(store, write_nonce, path, &err));
	assert_string_equal(inspect().proof, "released");
	assert_false(inspect().held);
	struct lease *next = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(next), LEASE_AFTER_RELEASE);
	assert_true(lease_fence(next) > lease_fence(lease));
	assert_denied(ann);
	lease_release(lease);
	assert_denied(ann);
	lease_release(next);
}

static atomic_bool may_release;

static void *hold_lease(void *arg)
{
	struct lease *lease = NULL;

	if (lease_acquire(arg,
			  &(struct lease_request){
				  .key = KEY, .operation = "hold", .wait_ms = 60000 },
			  &lease, ERR_IGNORED) != 0)
		return NULL;
	while (!atomic_load(&may_release))
		usleep(1000);
	lease_release(lease);
	return NULL;
}

static void *wait_until_stopped(void *arg)
{
	struct lease *lease = NULL;
	const struct lease_request request = {
		.key = KEY, .operation = "late", .wait_ms = 60000, .stop = arg
	};
	struct lease_manager *cid = open_manager(TTL);

	if (lease_acquire(cid, &request, &lease, ERR_IGNORED) == 0)
		lease_release(lease);
	lease_manager_close(cid);
	return lease;
}

static pthread_t second, third;
static struct stop third_stop;

/* ann's lease goes to bob, which holds it and knows that a third one waits. */
static void hand_on_once(void)
{
	struct lease *lease = must_acquire(ann, 0);

	stop_init(&third_stop);
	may_release = false;
	thread_start(&second, "second", hold_lease, bob);
	wait_until(tickets() == 1);
	thread_start(&third, "third", wait_until_stopped, &third_stop);
	wait_until(tickets() == 2);
	lease_release(lease);
	wait_until(strcmp(inspect().operation, "hold") == 0);
}

/* bob gives it up. */
static void hand_on_again(void)
{
	may_release = true;
	thread_join(second);
}

/* Whether it got the lease. */
static bool end_third(void)
{
	void *got = NULL;

	pthread_join(third, &got);
	stop_clear(&third_stop);
	return got != NULL;
}

TEST(the_next_one_gets_what_is_given_up_for_it)
{
	char mark[64];

	hand_on_once();
	AUTO_FREE char *path = path_of_guard();
	AUTO_CLOSE int guard = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(read(guard, mark, sizeof(mark)), 0);
	hand_on_again();
	assert_true(end_third());
	assert_string_equal(inspect().operation, "late");
	assert_int_equal(read(guard, mark, sizeof(mark)), 32);
}

TEST(what_was_given_up_for_one_that_is_gone_is_free_at_once)
{
	hand_on_once();
	stop_request(&third_stop);
	wait_until(tickets() == 0);
	hand_on_again();
	lease_release(must_acquire(ann, 0));
	assert_false(end_third());
}

TEST(children_die_when_the_lease_is_taken_away)
{
	struct lease *lease = must_acquire(ann, 0);
	uint64_t before = proc_started();
	pthread_t thread;
	void *result;

	thread_start(&thread, "child", run_child, lease);
	wait_until(proc_started() > before);
	assert_ok(lease_force_release(bob, KEY, lease_fence(lease), "eve", "", &err));
	make_renewal_due(ann);
	pthread_join(thread, &result);
	assert_int_equal(((struct err *)result)->class, ERR_LOST);
	free(result);
	lease_release(lease);
}

/* ------------------------------------------------------------------ accidents */

TEST(a_full_disk_is_not_taken_for_contention)
{
	struct lease *lease;
	static const struct {
		int code;
		enum err_class class;
	} table[] = {
		{ ENOSPC, ERR_DISK },
		{ EROFS, ERR_DISK },
		{ EACCES, ERR_CONFIG },
		{ ENOENT, ERR_CONFIG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		guard_errno = table[i].code;
		int result = acquire_for(ann, 1000, &lease);
		guard_errno = 0;
		assert_int_equal(result, -1);
		assert_int_equal(err.class, table[i].class);
		assert_null(lease);
	}
	assert_int_equal(tickets(), 0);
	lease_release(must_acquire(ann, 0));
}

/* Another process is writing for longer than the store waits. */
TEST(a_locked_database_is_not_taken_for_contention)
{
	AUTO_FREE char *path = xasprintf("%s/db", root);
	int64_t limit = store_busy_limit_ms;
	struct lease *lease;
	sqlite3 *db;

	assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL),
			 SQLITE_OK);
	store_busy_limit_ms = 50;
	assert_fails(acquire_for(ann, 1000, &lease), ERR_TIMEOUT);
	store_busy_limit_ms = limit;
	sqlite3_close(db);
	lease_release(must_acquire(ann, 0));
}

TEST(a_place_that_cannot_be_used_is_refused)
{
	AUTO_FREE char *path = xasprintf("%s/db", root);
	struct lease_options options = { .directory = path };
	struct lease_manager *manager;

	assert_int_equal(lease_manager_open_local(store, &options, &manager, &err), -1);
	assert_int_equal(err.class, ERR_CONFIG);
	assert_null(manager);
}

TEST(nothing_is_left_on_disk)
{
	lease_release(must_acquire(ann, 0));
	assert_int_equal(count_names("guard"), 0);
	assert_int_equal(count_names("alive"), 2);
	lease_manager_close(bob);
	assert_int_equal(count_names("alive"), 1);
	bob = open_manager(TTL);
}

/* The file proves the death for as long as somebody may need the proof. */
TEST(files_of_the_dead_go_when_nobody_needs_them)
{
	AUTO_FREE char *path = xasprintf("%s/lease/alive/4-dead", root);

	lease_release(must_acquire(ann, 0));
	assert_ok(file_replace(AT_FDCWD, path, "", 0, FILE_NO_SYNC, &err));
	sql("UPDATE lease SET nonce = 'x', alive_file = '4-dead'");
	sql("INSERT INTO lease_waiter (key, alive_file) VALUES ('k', '4-dead')");
	lease_manager_close(bob);
	bob = open_manager(TTL);
	assert_int_equal(access(path, F_OK), 0);
	assert_string_equal(inspect().proof, "dead: process is gone");
	struct lease *lease = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_DEATH);
	lease_release(lease);
	lease_manager_close(bob);
	bob = open_manager(TTL);
	assert_int_equal(access(path, F_OK), -1);
	assert_int_equal(tickets(), 0);
}

TEST(closing_a_manager_releases_what_it_holds)
{
	must_acquire(bob, 0);
	lease_manager_close(bob);
	bob = open_manager(TTL);
	struct lease *lease = must_acquire(ann, 0);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_RELEASE);
	lease_release(lease);
}

static bool is_in_log(const char *line)
{
	AUTO_FREE char *path = xasprintf("%s/log", root);
	AUTO_STR struct str text = STR_INIT;

	assert_ok(file_read(AT_FDCWD, path, 1 << 20, &text, &err));
	return strstr(text.data, line) != NULL;
}

/* What was logged since, and nothing else, on stderr. */
static char *log_of(void (*scene)(void))
{
	AUTO_FREE char *path = xasprintf("%s/log", root);
	AUTO_STR struct str text = STR_INIT;
	int saved = dup(2), fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	dup2(fd, 2);
	log_set_level(LOG_LEVEL_DEBUG);
	scene();
	log_set_level(LOG_LEVEL_NONE);
	dup2(saved, 2);
	close(saved);
	close(fd);
	assert_ok(file_read(AT_FDCWD, path, 1 << 20, &text, &err));
	return str_take(&text);
}

static void everything_happens(void)
{
	struct lease *lease = must_acquire(ann, 0), *other;

	assert_denied(bob);
	assert_int_equal(acquire_for(bob, 300, &other), -1);
	sql("UPDATE lease SET expires_at = expires_at - %d", TTL);
	make_renewal_due(ann);
	wait_until(is_in_log("ev=lease.lost")); /* by the keeper, after the check fails */
	other = must_acquire(bob, 0);
	lease_release(lease);
	assert_ok(lease_force_release(ann, KEY, lease_fence(other), "eve", "why", &err));
	lease_release(other);
}

static void a_lease_with_waiters_is_forced(void)
{
	hand_on_once();
	assert_ok(lease_force_release(ann, KEY, inspect().fence, "eve", "why", &err));
	assert_true(end_third());
	hand_on_again();
}

TEST(what_was_taken_away_is_not_given_up_for_the_next_one)
{
	AUTO_FREE char *text = log_of(a_lease_with_waiters_is_forced);

	assert_non_null(strstr(text, "now=taken"));
	assert_null(strstr(text, "now=free"));
}

TEST(all_of_it_is_logged_by_name)
{
	static const char *const lines[] = {
		"ev=lease.acquired",
		"ev=lease.denied",
		"ev=lease.waiting",
		"ev=lease.timeout",
		"ev=lease.lost",
		"ev=lease.takeover",
		"after=lapse",
		"ev=lease.released_late lease_key=" KEY " fence=",
		"ev=lease.force_released",
		"actor=eve",
		"holder_job=deadbeef00000001",
		"lease_key=geo_sync",
		"Cannot obtain an exclusive lease",
	};
	AUTO_FREE char *text = log_of(everything_happens);

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		if (!strstr(text, lines[i]))
			fail_msg("no %s in\n%s", lines[i], text);
	}
	assert_null(strstr(text, "fence=0"));
	assert_null(strstr(text, "lease_key=\"\""));
}

TEST(keys_have_the_form_that_operators_look_for)
{
	char key[LEASE_KEY_SIZE];

	assert_true(lease_key_for(ann, "repository", 7, NULL, key));
	assert_string_equal(key, KEY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(only_one_holds_it_and_the_other_is_told_who),
		CASE(other_keys_are_free),
		CASE(the_fence_grows_above_clock_floor_and_predecessor),
		CASE(a_lost_store_does_not_lower_the_fence),
		CASE(requests_that_make_no_sense_are_refused),
		CASE_KEPT(the_keeper_renews_and_moves_the_deadline),
		CASE(a_row_that_lapsed_is_taken_and_its_holder_finds_out),
		CASE(a_renewal_after_the_lapse_is_void),
		CASE(a_lost_lease_does_not_block_those_behind_it),
		CASE(the_wall_clock_decides_nothing),
		CASE(a_row_of_another_boot_is_void),
		CASE(without_proof_of_death_the_ttl_counts),
		CASE(an_idle_lease_is_quick),
		CASE(list_and_inspect_tell_who_holds_what),
		CASE(a_lease_is_taken_away_although_the_next_holder_was_quicker),
		CASE(force_release_is_for_the_fence_that_was_seen),
		CASE(a_holder_sees_who_waits_in_this_process_and_in_others),
		CASE(what_the_guard_says_is_given_up_is_free),
		CASE(the_next_one_gets_what_is_given_up_for_it),
		CASE(what_was_given_up_for_one_that_is_gone_is_free_at_once),
		CASE(children_die_when_the_lease_is_taken_away),
		CASE(a_full_disk_is_not_taken_for_contention),
		CASE(a_locked_database_is_not_taken_for_contention),
		CASE(a_place_that_cannot_be_used_is_refused),
		CASE(nothing_is_left_on_disk),
		CASE(files_of_the_dead_go_when_nobody_needs_them),
		CASE(closing_a_manager_releases_what_it_holds),
		CASE(all_of_it_is_logged_by_name),
		CASE(what_was_taken_away_is_not_given_up_for_the_next_one),
		CASE(keys_have_the_form_that_operators_look_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
