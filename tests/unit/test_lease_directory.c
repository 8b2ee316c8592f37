/*
 * Leases in a directory within one process; what hosts and file servers may do is made
 * up (lease_directory_faults.h). What needs real processes is in
 * test_lease_directory_process.c.
 */
#include "lease_directory_test.h"

#include "lease_directory_faults.h"
#include "lease_renewal.h"
#include "rights.h"

/* ------------------------------------------------------------------ one holder */

TEST(only_one_holds_it_and_the_other_is_told_who)
{
	struct lease *lease = must_acquire(ann, 0), *other;
	struct lease_holder holder;

	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_NOBODY);
	assert_true(lease_guard_fd(lease) >= 0);
	const struct lease_request request = { .key = KEY,
					       .operation = "push",
					       .holder = &holder };
	assert_fails(lease_acquire(bob, &request, &other, &err), ERR_BUSY);
	assert_non_null(strstr(err.text, "deadbeef00000001"));
	assert_int_equal(holder.pid, getpid());
	assert_string_equal(holder.node, "here");
	assert_string_equal(holder.operation, "sync");
	assert_string_equal(holder.proof, "alive");
	assert_true(holder.held);
	assert_in_range(holder.ttl_left_ms, TTL - 2000, TTL + 10);
	lease_release(lease);
	pass(bob, LEASE_AFTER_RELEASE);
	assert_int_equal(count_entries(), 1);
}

static void *release_later(void *lease)
{
	usleep(50000);
	lease_release(lease);
	return NULL;
}

static void assert_private(int dir, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(dir, name, &st, 0), 0);
	assert_int_equal(st.st_mode & (S_IRWXG | S_IRWXO), 0);
}

TEST(only_its_own_user_may_look_or_write)
{
	mode_t before = umask(0);
	uint64_t number;

	lease_manager_close(ann);
	lease_manager_close(bob);
	assert_ok(tree_remove(root_fd, "leases", &err));
	open_two(TTL);
	struct lease *lease = must_acquire(ann, 0);
	umask(before);
	AUTO_CLOSE int latest = open_latest(&number);
	assert_private(root_fd, "leases");
	assert_private(latest, "..");
	assert_private(latest, ".");
	assert_private(latest, "guard");
	lease_release(lease);
}

static int64_t release_and_take(void)
{
	struct lease *lease = must_acquire(ann, 0);
	int64_t before = clock_boot_ms();
	pthread_t thread;

	thread_start(&thread, "release", release_later, lease);
	lease_release(must_acquire(bob, 9000));
	thread_join(thread);
	assert_true(clock_boot_ms() - before >= 50);
	return clock_boot_ms() - before;
}

TEST(a_release_lets_the_next_one_in_at_once)
{
	assert_once_within(AT_ONCE, release_and_take);
}

TEST(threads_of_one_process_are_served_in_turn)
{
	struct lease *lease = must_acquire(ann, 0);
	uint64_t fence = lease_fence(lease);
	pthread_t thread;

	thread_start(&thread, "release", release_later, lease);
	lease = must_acquire(ann, 9000);
	thread_join(thread);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_RELEASE);
	assert_true(lease_fence(lease) > fence);
	assert_denied(bob);
	lease_release(lease);
	pass(bob, LEASE_AFTER_RELEASE);
}

TEST(a_silent_holder_is_succeeded_after_its_ttl)
{
	struct lease *lease = must_acquire(ann, 0), *next;

	set_back(TTL / 2);
	assert_denied(bob);
	set_back(TTL / 2 + 1000);
	assert_string_equal(inspect().proof, "lapsed: alive but silent");
	assert_false(inspect().held);
	next = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(next), LEASE_AFTER_LAPSE);
	assert_true(lease_fence(next) > lease_fence(lease));
	lease_release(lease); /* late: no harm to bob */
	assert_denied(ann);
	lease_release(next);
}

TEST(the_ttl_of_the_holder_counts)
{
	struct lease *lease = must_acquire(ann, 0);

	lease_manager_close(bob);
	bob = open_shared(SHORT_TTL);
	set_back(TTL / 2);
	assert_denied(bob);
	set_back(TTL / 2 + 1000);
	lease_release(must_acquire(bob, 0));
	lease_release(lease);
}

/* Each moves the deadline. */
static void wait_for_renewals(struct lease *lease, int count)
{
	for (int i = 0; i < count; i++) {
		int64_t at = deadline_at(lease_deadline(lease));
		wait_until((make_renewal_due(lease->manager),
			    deadline_at(lease_deadline(lease)) > at));
	}
}

/* For longer than its ttl. */
TEST(the_keeper_keeps_it)
{
	struct lease *lease = must_acquire(ann, 0);

	for (int i = 0; i < 4; i++) {
		set_back(TTL / 2);
		wait_for_renewals(lease, 2);
	}
	assert_ok(lease_check(lease, &err));
	assert_denied(bob);
	lease_release(lease);
}

TEST(an_overtaken_holder_finds_out)
{
	struct lease *lease = must_acquire(ann, 0), *next;

	/* A renewal may come in between. */
	wait_until((set_back(2 * SHORT_TTL), acquire_for(bob, 0, &next)) == 0);
	wait_until(lease_check(lease, &err) != 0);
	assert_int_equal(err.class, ERR_LOST);
	lease_release(lease);
	assert_ok(lease_check(next, &err));
	lease_release(next);
}

/* Somebody may have seen the lapse, and be about to act on it. */
TEST(a_late_heartbeat_is_void_even_without_a_successor)
{
	struct lease *lease = must_acquire(ann, 0);
	int64_t before = clock_boot_ms();

	late_s = TTL / 1000 + 1;
	late_at = 1;
	make_renewal_due(ann);
	wait_until(lease_check(lease, &err) != 0);
	assert_in_range(clock_boot_ms() - before, 0, TTL * 2 / 3);
	lease_release(lease);
	pass(bob, LEASE_AFTER_RELEASE);
}

TEST(a_lease_that_lapses_while_it_is_taken_is_not_held)
{
	struct lease *lease;

	late_s = TTL / 1000;
	late_at = 2; /* the first touch reads the clock, the second is the heartbeat */
	assert_fails(acquire_for(ann, 0, &lease), ERR_TIMEOUT);
	pass(bob, LEASE_AFTER_RELEASE);
}

TEST(who_waits_takes_a_lease_again_that_lapsed_while_it_was_taken)
{
	struct lease *lease;

	late_s = TTL / 1000;
	late_at = 2;
	assert_ok(acquire_for(ann, 10000, &lease));
	assert_ok(lease_check(lease, &err));
	lease_release(lease);
}

/* ------------------------------------------------------------------ races */

static atomic_bool is_touching, may_touch;

static void touch_slowly(void)
{
	is_touching = true;
	while (!may_touch)
		usleep(1000);
}

TEST(a_renewal_under_way_does_not_undo_the_release)
{
	struct lease *lease = must_acquire(ann, 0);

	is_touching = may_touch = false;
	before_touch = touch_slowly;
	make_renewal_due(ann);
	wait_until(is_touching);
	lease_release(lease);
	may_touch = true;
	usleep(20000);
	assert_string_equal(inspect().proof, "released");
	pass(bob, LEASE_AFTER_RELEASE);
}

static struct lease *anns;

static void ann_releases(void)
{
	lease_release(anns);
}

TEST(a_release_while_others_look_is_not_taken_for_a_death)
{
	anns = must_acquire(ann, 0);
	before_probe = ann_releases;
	pass(bob, LEASE_AFTER_RELEASE);
}

/* By a contender that is late and does not know it yet. */
TEST(a_number_that_was_made_again_is_not_taken_for_ours)
{
	struct lease *lease = must_acquire(ann, 0);
	AUTO_FREE char *path = key_path();
	AUTO_FREE char *ours = xasprintf("%s/1", path);
	AUTO_FREE char *away = xasprintf("%s/.new-x", path);

	assert_int_equal(rename(ours, away), 0);
	assert_ok(dir_make(AT_FDCWD, ours, &err));
	wait_until(lease_check(lease, &err) != 0);
	assert_int_equal(err.class, ERR_LOST);
	lease_release(lease);
}

/* An NFS client renames what somebody has open instead of removing it. */
TEST(nothing_is_removed_above_what_cannot_be_removed)
{
	AUTO_FREE char *path = key_path();
	AUTO_FREE char *kept = xasprintf("%s/1/.nfs1", path);

	for (int i = 0; i < 8; i++) {
		struct lease *lease = must_acquire(ann, 0);
		if (i == 0)
			assert_ok(
				file_replace(AT_FDCWD, kept, "", 0, FILE_NO_SYNC, &err));
		lease_release(lease);
	}
	assert_int_equal(count_entries(), 8);
	assert_int_equal(unlink(kept), 0);
	pass(ann, LEASE_AFTER_RELEASE);
	assert_int_equal(count_entries(), 1);
}

static struct lease *bobs;

static void bob_is_quicker(void)
{
	bobs = must_acquire(bob, 0);
}

TEST(of_two_who_see_it_free_one_gets_it)
{
	struct lease *lease;

	pass(ann, LEASE_AFTER_NOBODY);
	before_rename = bob_is_quicker;
	assert_fails(acquire_for(ann, 0, &lease), ERR_BUSY);
	assert_ok(lease_check(bobs, &err));
	assert_int_equal(count_entries(), 1);
	lease_release(bobs);
}

static void bob_is_much_quicker(void)
{
	for (int i = 0; i < 2; i++)
		lease_release(must_acquire(bob, 0));
	bobs = must_acquire(bob, 0);
}

/* The number that it wanted is free again, since bob has removed it. */
TEST(who_acts_on_an_old_listing_steps_back)
{
	struct lease *lease;

	pass(ann, LEASE_AFTER_NOBODY);
	before_rename = bob_is_much_quicker;
	assert_fails(acquire_for(ann, 0, &lease), ERR_BUSY);
	assert_int_equal(count_entries(), 1);
	wait_for_renewals(bobs, 2); /* which do not take it for a successor */
	assert_ok(lease_check(bobs, &err));
	lease_release(bobs);
}

TEST(a_lost_reply_to_the_rename_costs_nothing)
{
	is_reply_lost = true;
	struct lease *lease = must_acquire(ann, 0);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_NOBODY);
	assert_true(lease_fence(lease) > 0);
	assert_denied(bob);
	lease_release(lease);
}

static void tidy_up(void)
{
	AUTO_FREE char *path = key_path();
	AUTO_CLOSEDIR DIR *dir = opendir(path);
	struct dirent *entry;

	while ((entry = readdir(dir)) != NULL)
		if (text_starts_with(entry->d_name, ".new-"))
			assert_ok(tree_remove(dirfd(dir), entry->d_name, &err));
}

TEST(a_contender_that_was_taken_for_dead_tries_anew)
{
	pass(ann, LEASE_AFTER_NOBODY);
	before_rename = tidy_up;
	pass(bob, LEASE_AFTER_RELEASE);
	before_symlink = tidy_up;
	pass(ann, LEASE_AFTER_RELEASE);
}

TEST(what_dead_contenders_leave_is_removed_in_time)
{
	AUTO_FREE char *path = key_path();
	AUTO_FREE char *old = xasprintf("%s/.new-1", path);
	AUTO_FREE char *young = xasprintf("%s/.new-2", path);
	const struct timespec long_ago[2] = { { 1000, 0 }, { 1000, 0 } };

	pass(ann, LEASE_AFTER_NOBODY);
	assert_ok(dir_make(AT_FDCWD, old, &err));
	assert_ok(dir_make(AT_FDCWD, young, &err));
	assert_int_equal(utimensat(AT_FDCWD, old, long_ago, 0), 0);
	pass(bob, LEASE_AFTER_RELEASE);
	assert_int_equal(access(old, F_OK), -1);
	assert_int_equal(access(young, F_OK), 0);
}

/* ------------------------------------------------------------------ fences, clocks */

/* Of who asks for it, the floor may be from before the last grant. */
TEST(fences_grow_although_the_directory_was_lost)
{
	AUTO_FREE char *path = key_path();

	pass(ann, LEASE_AFTER_NOBODY);
	uint64_t before = pass(ann, LEASE_AFTER_RELEASE);
	assert_ok(tree_remove(AT_FDCWD, path, &err));
	assert_true(pass(bob, LEASE_AFTER_NOBODY) > before);
}

TEST(fences_grow_over_release_lapse_force_and_floor)
{
	struct lease_request request = { .key = KEY, .operation = "s" };
	uint64_t last = (uint64_t)clock_wall_ns() / 1000 - 1, ahead = 2 * last, fence;
	struct lease *lease, *next;

	for (int i = 0; i < 5; i++) {
		fence = pass(i % 2 ? ann : bob,
			     i ? LEASE_AFTER_RELEASE : LEASE_AFTER_NOBODY);
		assert_true(fence > last);
		last = fence;
	}
	request.fence_floor = ahead;
	assert_ok(lease_acquire(ann, &request, &lease, &err));
	assert_true(lease_fence(lease) == ahead + 3 * LEASE_FENCES);
	set_back(TTL + 1000);
	next = must_acquire(bob, 0);
	assert_true(lease_fence(next) == ahead + 4 * LEASE_FENCES);
	assert_ok(lease_force_release(ann, KEY, lease_fence(next), "eve", "", &err));
	lease_release(next);
	lease_release(lease);
	assert_true(pass(ann, LEASE_AFTER_FORCE) == ahead + 1 + 5 * LEASE_FENCES);
	request.fence_floor = INT64_MAX - 3 * LEASE_FENCES;
	assert_ok(lease_acquire(ann, &request, &lease, &err));
	lease_release(lease);
	assert_fails(acquire_for(ann, 0, &lease), ERR_CORRUPT);
}

TEST(a_hosts_clock_decides_nothing)
{
	static const int leads[] = { 3600, -3600, 0 };
	struct lease *lease = must_acquire(ann, 0);

	for (size_t i = 0; i < ARRAY_SIZE(leads); i++) {
		clock_lead_s = leads[i];
		assert_denied(bob);
		wait_for_renewals(lease, 1);
		assert_ok(lease_check(lease, &err));
	}
	clock_lead_s = 3600;
	struct lease *other;
	lease_release(lease);
	lease = must_acquire(bob, 0);
	clock_lead_s = 0;
	wait_for_renewals(lease, 1);
	assert_fails(acquire_for(ann, 0, &other), ERR_BUSY);
	lease_release(lease);
}

/* ------------------------------------------------------------------ operators */

TEST(list_and_inspect_tell_who_holds_what)
{
	lease_holders all = { 0 };
	struct lease_holder holder;
	struct lease *lease, *other;

	assert_fails(lease_inspect(bob, KEY, &holder, &err), ERR_MISSING);
	assert_ok(lease_list(bob, false, &all, &err));
	assert_int_equal(all.count, 0);
	lease = must_acquire(ann, 0);
	assert_ok(lease_acquire(bob,
				&(struct lease_request){ .key = "a/../b c",
							 .operation = "two words",
							 .job = "job of\nmany words" },
				&other, &err));
	lease_release(other);
	assert_ok(lease_list(bob, false, &all, &err));
	assert_int_equal(all.count, 2);
	assert_string_equal(all.items[0].key, "a/../b c");
	assert_string_equal(all.items[0].proof, "released");
	assert_string_equal(all.items[0].operation, "two_words");
	assert_string_equal(all.items[0].job, "job of_many words");
	assert_false(all.items[0].held);
	assert_string_equal(all.items[1].key, KEY);
	assert_true(all.items[1].fence == lease_fence(lease));
	assert_true(all.items[1].held);
	assert_string_equal(all.items[1].boot_id, clock_boot_id());
	assert_ok(lease_list(bob, true, &all, &err));
	assert_int_equal(all.count, 1);
	assert_string_equal(all.items[0].key, KEY);
	vec_clear(&all);
	lease_release(lease);
}

/* What root has made there, another user cannot look at. */
TEST(a_lease_that_is_private_to_another_user_hides_no_others)
{
	const struct lease_request request = { .key = "other", .operation = "sync" };
	struct lease *lease = must_acquire(ann, 0), *other;
	lease_holders all = { 0 };
	AUTO_FREE char *key = key_path();
	uint64_t number;

	AUTO_CLOSE int generation = open_latest(&number);
	AUTO_CLOSE int key_fd = open(key, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const int privates[] = { key_fd, generation };

	assert_ok(lease_acquire(ann, &request, &other, &err));
	for (size_t i = 0; i < ARRAY_SIZE(privates); i++) {
		assert_int_equal(fchmod(privates[i], 0), 0);
		rights_set_override(false);
		int listed = lease_list(bob, false, &all, &err);
		rights_set_override(true);
		assert_int_equal(fchmod(privates[i], 0700), 0);
		assert_int_equal(listed, 0);
		assert_int_equal(all.count, 1);
		assert_string_equal(all.items[0].key, "other");
	}
	vec_clear(&all);
	lease_release(other);
	lease_release(lease);
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
	assert_true(inspect().fence == fence + 1);
	assert_fails(lease_force_release(bob, KEY, fence + 1, "eve", "stuck", &err),
		     ERR_CONFLICT);
	next = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(next), LEASE_AFTER_FORCE);
	assert_true(lease_fence(next) > fence + 1);
	wait_until(lease_check(lease, &err) != 0);
	lease_release(lease);
	assert_denied(ann);
	lease_release(next);
}

/* ------------------------------------------------------------------ accidents */

TEST(a_full_disk_is_not_taken_for_contention)
{
	struct lease *lease;
	static const struct {
		atomic_int *call;
		int code;
		enum err_class class;
	} table[] = {
		{ &mkdir_errno, ENOSPC, ERR_DISK },
		{ &mkdir_errno, EROFS, ERR_DISK },
		{ &mkdir_errno, EACCES, ERR_CONFIG },
		{ &symlink_errno, ENOSPC, ERR_DISK },
		{ &touch_errno, EIO, ERR_DISK },
		{ &touch_errno, EROFS, ERR_DISK },
		{ &lock_errno, EIO, ERR_DISK },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		*table[i].call = table[i].code;
		int result = acquire_for(ann, 1000, &lease);
		*table[i].call = 0;
		assert_int_equal(result, -1);
		assert_int_equal(err.class, table[i].class);
		assert_null(lease);
	}
	pass(ann, LEASE_AFTER_NOBODY);
}

TEST(a_directory_that_is_gone_is_not_taken_for_contention)
{
	struct lease *lease = must_acquire(ann, 0), *other;

	assert_ok(tree_remove(AT_FDCWD, root, &err));
	assert_fails(acquire_for(bob, 1000, &other), ERR_DISK);
	assert_true(err.remedy[0] != '\0');
	struct lease_holder holder;
	assert_fails(lease_inspect(bob, KEY, &holder, &err), ERR_DISK);
	assert_int_equal(mkdir(root, 0700), 0);
	wait_until(lease_check(lease, &err) != 0);
	lease_release(lease);
}

TEST(an_unreachable_server_costs_the_lease_only_when_it_lapses)
{
	int64_t began = clock_boot_ms(), before, asked_at;
	struct lease *lease = must_acquire(ann, 0);

	touch_errno = EIO;
	before = clock_boot_ms();
	do {
		usleep(1000);
		asked_at = clock_boot_ms();
	} while (lease_check(lease, &err) == 0 && asked_at - before <= SHORT_TTL);
	assert_int_not_equal(lease_check(lease, &err), 0);
	touch_errno = 0;
	assert_true(clock_boot_ms() - began >= SHORT_TTL * 9 / 10);
	lease_release(lease);
}

/* Its name leads nowhere, as if its part of the disk could not be read. */
TEST(one_lease_that_cannot_be_renewed_costs_no_other)
{
	const struct lease_request request = { .key = "other", .operation = "sync" };
	struct lease *lease = must_acquire(ann, 0), *other;
	AUTO_FREE char *path = key_path();
	AUTO_FREE char *aside = xasprintf("%s.aside", path);

	assert_ok(lease_acquire(ann, &request, &other, &err));
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(symlink(path, path), 0);
	wait_for_renewals(other, 2);
	lock(&ann->mutex);
	lease->valid_until = clock_boot_ms(); /* as it is after its ttl */
	unlock(&ann->mutex);
	wait_for_renewals(other, 1);
	assert_fails(lease_check(lease, &err), ERR_LOST);
	assert_ok(lease_check(other, &err));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(aside, path), 0);
	lease_release(lease);
	lease_release(other);
}

TEST(an_owner_that_was_removed_is_told_and_not_guessed)
{
	struct lease *lease = must_acquire(ann, 0), *other;
	uint64_t number;
	AUTO_CLOSE int fd = open_latest(&number);

	assert_int_equal(unlinkat(fd, "owner", 0), 0);
	assert_fails(acquire_for(bob, 0, &other), ERR_CORRUPT);
	assert_int_equal(symlinkat("fence=x", fd, "owner"), 0);
	assert_fails(acquire_for(bob, 0, &other), ERR_CORRUPT);
	lease_release(lease);
}

/* By both, which hold descriptors of what is gone; and who held one is not for ever. */
TEST(a_directory_that_was_removed_is_made_again)
{
	struct lease *lost = must_acquire(ann, 0), *lease;
	AUTO_FREE char *path = xasprintf("%s/leases", root);

	assert_ok(tree_remove(AT_FDCWD, path, &err));
	lease = must_acquire(bob, 0);
	wait_until(lease_check(lost, &err) != 0);
	assert_ok(lease_check(lease, &err));
	lease_release(lost);
	assert_fails(acquire_for(ann, 0, &lost), ERR_BUSY);
	lease_release(lease);
	pass(ann, LEASE_AFTER_RELEASE);
}

TEST(a_place_that_cannot_be_used_is_refused)
{
	AUTO_FREE char *file = xasprintf("%s/file", root);
	AUTO_FREE char *path = xasprintf("%s/other", root);
	const struct lease_options wrong = { .directory = file };
	const struct lease_options right = { .directory = path };
	struct lease_manager *manager;

	assert_ok(file_replace(AT_FDCWD, file, "", 0, FILE_NO_SYNC, &err));
	assert_fails(lease_manager_open_directory(&wrong, &manager, &err), ERR_CONFIG);
	assert_null(manager);
	symlink_errno = EPERM;
	int result = lease_manager_open_directory(&right, &manager, &err);
	symlink_errno = 0;
	assert_fails(result, ERR_CONFIG);
	touch_errno = EROFS;
	result = lease_manager_open_directory(&right, &manager, &err);
	touch_errno = 0;
	assert_fails(result, ERR_DISK);
	assert_ok(lease_manager_open_directory(&right, &manager, &err));
	lease_manager_close(manager);
}

TEST(without_locks_only_the_lapse_counts)
{
	lock_errno = ENOLCK;
	struct lease *lease = must_acquire(ann, 0);
	assert_int_equal(lease_guard_fd(lease), -1);
	assert_denied(bob);
	lock_errno = 0; /* another mount of it has locks */
	assert_denied(bob);
	assert_string_equal(inspect().proof, "unknown");
	set_back(TTL + 1000);
	pass(bob, LEASE_AFTER_LAPSE);
	lease_release(lease);
}

TEST(an_idle_lease_is_quick)
{
	assert_idle_lease_is_quick(ann);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(only_one_holds_it_and_the_other_is_told_who),
		CASE(only_its_own_user_may_look_or_write),
		CASE(a_release_lets_the_next_one_in_at_once),
		CASE(threads_of_one_process_are_served_in_turn),
		CASE(a_silent_holder_is_succeeded_after_its_ttl),
		CASE(the_ttl_of_the_holder_counts),
		CASE(the_keeper_keeps_it),
		CASE_SHORT(an_overtaken_holder_finds_out),
		CASE(a_late_heartbeat_is_void_even_without_a_successor),
		CASE(a_lease_that_lapses_while_it_is_taken_is_not_held),
		CASE(who_waits_takes_a_lease_again_that_lapsed_while_it_was_taken),
		CASE(a_renewal_under_way_does_not_undo_the_release),
		CASE(a_release_while_others_look_is_not_taken_for_a_death),
		CASE_SHORT(a_number_that_was_made_again_is_not_taken_for_ours),
		CASE(nothing_is_removed_above_what_cannot_be_removed),
		CASE(of_two_who_see_it_free_one_gets_it),
		CASE(who_acts_on_an_old_listing_steps_back),
		CASE(a_lost_reply_to_the_rename_costs_nothing),
		CASE(a_contender_that_was_taken_for_dead_tries_anew),
		CASE(what_dead_contenders_leave_is_removed_in_time),
		CASE(fences_grow_although_the_directory_was_lost),
		CASE(fences_grow_over_release_lapse_force_and_floor),
		CASE(a_hosts_clock_decides_nothing),
		CASE(list_and_inspect_tell_who_holds_what),
		CASE(a_lease_that_is_private_to_another_user_hides_no_others),
		CASE_SHORT(force_release_is_for_the_fence_that_was_seen),
		CASE(a_full_disk_is_not_taken_for_contention),
		CASE_SHORT(a_directory_that_is_gone_is_not_taken_for_contention),
		CASE_SHORT(an_unreachable_server_costs_the_lease_only_when_it_lapses),
		CASE(one_lease_that_cannot_be_renewed_costs_no_other),
		CASE(an_owner_that_was_removed_is_told_and_not_guessed),
		CASE_SHORT(a_directory_that_was_removed_is_made_again),
		CASE(a_place_that_cannot_be_used_is_refused),
		CASE(without_locks_only_the_lapse_counts),
		CASE(an_idle_lease_is_quick),
		CASE_IN_MEMORY(an_idle_lease_is_quick),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
