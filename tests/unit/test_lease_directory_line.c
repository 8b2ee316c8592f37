/*
 * The line of those who wait for a lease in a directory: who is served when, and what
 * those do not cost who leave, die, sleep or are not told. Real processes that are
 * stopped or killed are in test_lease_directory_process.c.
 */
#include "lease_directory_test.h"

#include "lease_directory_faults.h"

#include <sys/inotify.h>

#include "lease/directory_line.h"
#include "lease/manager.h"

static atomic_bool has_no_watches;

int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	return has_no_watches ? fail_with(ENOSPC)
			      : (int)syscall(SYS_inotify_add_watch, fd, path, mask);
}

/* ------------------------------------------------------------------ who waits */

static atomic_int turns;

struct waits {
	pthread_t thread;
	struct lease_manager *manager;
	struct stop *stop;
	int64_t wait_ms;
	int hold_ms;
	uint64_t fence; /* 0: it did not get it */
	int64_t got_at;
	int turn;
	enum lease_predecessor predecessor;
};

static void *wait_for_it(void *arg)
{
	struct waits *waits = arg;
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .stop = waits->stop,
					       .wait_ms = waits->wait_ms };
	struct lease *lease;
	struct err ignored;

	if (lease_acquire(waits->manager, &request, &lease, &ignored) != 0)
		return NULL;
	waits->got_at = clock_boot_ms();
	waits->turn = turns++;
	waits->fence = lease_fence(lease);
	waits->predecessor = lease_predecessor(lease);
	usleep(waits->hold_ms * 1000);
	lease_release(lease);
	return NULL;
}

static int open_key(void)
{
	AUTO_FREE char *path = key_path();

	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static void start(struct waits *waits, struct lease_manager *manager, int64_t wait_ms)
{
	int before = count_tickets();

	waits->manager = manager;
	waits->wait_ms = wait_ms;
	thread_start(&waits->thread, "waits", wait_for_it, waits);
	wait_until(count_tickets() == before + 1);
}

/* A ticket of somebody who does nothing. */
static void stand(int key_fd, struct next *ticket)
{
	struct owner owner = { .ttl_ms = TTL,
			       .holder = { .fence = 1, .pid = 1, .node = "there" } };

	snprintf(owner.holder.boot_id, sizeof(owner.holder.boot_id), "%s",
		 clock_boot_id());
	assert_int_equal(directory_line_stand(key_fd, &owner, ticket), 0);
}

static void set_back_fd(int fd, int64_t ms)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	struct timespec times[2] = { st.st_atim, st.st_mtim };
	times[1].tv_sec -= ms / 1000;
	assert_int_equal(futimens(fd, times), 0);
}

static void close_ticket(struct next *ticket)
{
	close(ticket->fd);
	close(ticket->guard_fd);
}

/* ------------------------------------------------------------------ turns */

/* Five; false: one of them did not ask for so long that it was passed over. */
static bool are_served_in_order(void)
{
	struct lease *lease = must_acquire(ann, 0);
	struct waits waits[5] = { 0 };
	uint64_t fence = lease_fence(lease);
	bool in_order = true;

	turns = 0;
	for (int i = 0; i < 5; i++) {
		waits[i].hold_ms = 2;
		start(&waits[i], open_shared(TTL), 60000);
	}
	lease_release(lease);
	for (int i = 0; i < 5; i++) {
		thread_join(waits[i].thread);
		assert_true(waits[i].fence != 0);
		in_order &= waits[i].turn == i && waits[i].fence > fence &&
			    waits[i].predecessor == LEASE_AFTER_RELEASE;
		fence = waits[i].fence;
		lease_manager_close(waits[i].manager);
	}
	assert_int_equal(count_tickets(), 0);
	if (in_order) {
		assert_true(pass(bob, LEASE_AFTER_RELEASE) > fence);
		assert_int_equal(count_entries(), 1);
	}
	return in_order;
}

TEST(managers_are_served_in_the_order_they_came)
{
	bool in_order = false;

	for (int i = 0; i < 3 && !in_order; i++)
		in_order = are_served_in_order();
	assert_true(in_order);
}

/* It is the next one's before anybody has asked: the release did it. */
TEST(a_release_hands_it_to_the_first)
{
	struct lease *lease = must_acquire(ann, 0);
	AUTO_CLOSE int key_fd = open_key();
	uint64_t fence = lease_fence(lease);
	struct next ticket;
	struct line_grant grant;

	stand(key_fd, &ticket);
	assert_int_equal(directory_line_claim(key_fd, &ticket, TTL, &grant), 0);
	lease_release(lease);
	assert_string_equal(inspect().node, "there");
	assert_true(inspect().held);
	assert_denied(bob);
	assert_int_equal(directory_line_claim(key_fd, &ticket, TTL, &grant), 1);
	/* Not above those with which others have stood in the line since. */
	assert_in_range(grant.fence, fence + 1, fence + LEASE_FENCES);
	assert_true(inspect().fence == grant.fence);
	assert_int_equal(directory_line_claim(key_fd, &ticket, TTL, &grant), 0);
	close_ticket(&ticket);
}

TEST(who_does_not_wait_does_not_overtake)
{
	struct lease *lease = must_acquire(ann, 0), *other;
	AUTO_CLOSE int key_fd = open_key();
	uint64_t number;
	struct next ticket;

	stand(key_fd, &ticket);
	AUTO_CLOSE int latest = open_latest(&number);
	assert_int_equal(key_stamp_released(latest),
			 0); /* as a node without lines does */
	assert_fails(acquire_for(bob, 0, &other), ERR_BUSY);
	assert_non_null(strstr(err.text, "waiting"));
	assert_int_equal(directory_line_leave(key_fd, &ticket), 0);
	close_ticket(&ticket);
	pass(bob, LEASE_AFTER_RELEASE);
	lease_release(lease);
}

TEST(what_a_node_without_lines_releases_is_taken_at_once)
{
	struct lease *lease = must_acquire(ann, 0);
	struct waits waits = { 0 };
	uint64_t number;

	start(&waits, bob, 60000);
	usleep(100000); /* by then it sleeps */
	AUTO_CLOSE int latest = open_latest(&number);
	int64_t before = clock_boot_ms();
	assert_int_equal(key_stamp_released(latest), 0);
	thread_join(waits.thread);
	assert_true(waits.fence > lease_fence(lease));
	assert_in_range(waits.got_at - before, 0, SOON);
	assert_int_equal(count_tickets(), 0);
	lease_release(lease);
}

static int64_t release_without_guards(void)
{
	struct lease *lease = must_acquire(ann, 0);
	struct waits waits = { 0 };
	int64_t before = clock_boot_ms();

	start(&waits, bob, 60000);
	usleep(50000);
	lease_release(lease);
	thread_join(waits.thread);
	assert_true(waits.fence != 0);
	return waits.got_at - before;
}

/* By the rename: there are no guards, the end of which tells as well. */
TEST(who_is_next_is_told_without_locks)
{
	lock_errno = ENOLCK;
	assert_once_within(AT_ONCE, release_without_guards);
	lock_errno = 0;
}

TEST(who_is_not_told_finds_out)
{
	struct lease *lease = must_acquire(ann, 0);
	struct waits waits = { 0 };

	has_no_watches = true;
	start(&waits, bob, 60000);
	usleep(100000);
	int64_t before = clock_boot_ms();
	lease_release(lease);
	thread_join(waits.thread);
	has_no_watches = false;
	assert_true(waits.fence != 0);
	assert_in_range(waits.got_at - before, 0, SOON);
}

/* ------------------------------------------------------------------ who is away */

TEST(who_is_silent_is_passed_over)
{
	struct lease *lease = must_acquire(ann, 0);
	AUTO_CLOSE int key_fd = open_key();
	struct waits waits = { 0 };
	struct next ticket;
	struct line_grant grant;

	stand(key_fd, &ticket);
	set_back_fd(ticket.fd, DIRECTORY_LINE_SILENT_MS + 1000);
	start(&waits, bob, 60000);
	lease_release(lease);
	thread_join(waits.thread);
	assert_int_equal(waits.predecessor, LEASE_AFTER_RELEASE);
	assert_int_equal(directory_line_claim(key_fd, &ticket, TTL, &grant), 0);
	assert_int_equal(count_tickets(), 1); /* it may ask again */
	close_ticket(&ticket);
	pass(bob, LEASE_AFTER_RELEASE);
	assert_int_equal(count_tickets(), 0); /* it is dead by now */
}

TEST(what_is_not_taken_up_in_time_goes_to_the_next)
{
	struct lease *lease = must_acquire(ann, 0);
	AUTO_CLOSE int key_fd = open_key();
	struct next ticket;
	struct line_grant grant;

	stand(key_fd, &ticket);
	lease_release(lease);
	assert_denied(bob);
	set_back_fd(ticket.fd, KEY_OFFER_MS);
	lease = must_acquire(bob, 0);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_RELEASE);
	assert_int_equal(directory_line_claim(key_fd, &ticket, TTL, &grant), 0);
	assert_ok(lease_check(lease, &err));
	assert_denied(ann);
	lease_release(lease);
	close_ticket(&ticket);
}

static struct lease *passed_lease;
static int passed_in;

static void pass_and_take_back(void)
{
	uint64_t number;

	lease_release(passed_lease);
	close(open_latest(&number));
	assert_int_equal(key_take_back(passed_in, number), 0);
}

TEST(who_slept_while_it_was_its_turn_holds_up_nobody)
{
	AUTO_CLOSE int key_fd = -1;
	struct next ticket;
	struct line_grant grant;
	int64_t at_ns;

	passed_lease = must_acquire(ann, 0);
	passed_in = key_fd = open_key();
	stand(key_fd, &ticket);
	before_touch = pass_and_take_back;
	assert_int_equal(directory_line_ask(key_fd, &ticket, -1, &at_ns), 0);
	assert_int_equal(directory_line_claim(key_fd, &ticket, TTL, &grant), 0);
	pass(bob, LEASE_AFTER_RELEASE);
	close_ticket(&ticket);
}

TEST(who_waits_elsewhere_wants_it)
{
	struct lease *lease = must_acquire(ann, 0);
	struct waits waits = { 0 };

	assert_false(lease_is_wanted(lease));
	start(&waits, bob, 60000);
	wait_until(lease_is_wanted(lease));
	lease_release(lease);
	thread_join(waits.thread);
	lease = must_acquire(ann, 0);
	assert_false(lease_is_wanted(lease));
	lease_release(lease);
}

TEST(of_taking_up_and_taking_back_one_succeeds)
{
	struct lease *lease = must_acquire(ann, 0);
	AUTO_CLOSE int key_fd = open_key();
	struct next ticket;
	struct line_grant grant;

	stand(key_fd, &ticket);
	lease_release(lease);
	set_back_fd(ticket.fd, KEY_OFFER_MS);
	assert_int_equal(directory_line_claim(key_fd, &ticket, TTL, &grant), 1);
	assert_int_equal(key_take_back(key_fd, grant.number), 0);
	assert_denied(bob);
	assert_string_equal(inspect().proof, "alive");
	close_ticket(&ticket);
}

/* Nodes without lines take it for a holder that has lapsed. */
TEST(what_is_taken_up_after_the_ttl_is_not_held)
{
	struct lease *lease = must_acquire(ann, 0);
	AUTO_CLOSE int key_fd = open_key();
	struct next ticket;
	struct line_grant grant;

	stand(key_fd, &ticket);
	lease_release(lease);
	set_back_fd(ticket.fd, TTL);
	assert_int_equal(directory_line_claim(key_fd, &ticket, TTL, &grant), 0);
	assert_string_equal(inspect().proof, "released");
	close_ticket(&ticket);
}

TEST(who_dies_before_it_takes_it_up_was_never_the_holder)
{
	struct lease *lease = must_acquire(ann, 0);
	AUTO_CLOSE int key_fd = open_key();
	struct next ticket;

	stand(key_fd, &ticket);
	lease_release(lease);
	close_ticket(&ticket);
	pass(bob, LEASE_AFTER_RELEASE);
}

/* A ticket that it would pass stays one. */
TEST(who_releases_it_late_passes_nothing_on)
{
	AUTO_CLOSE int key_fd = -1;
	struct next ticket;
	struct line_grant grant;
	uint64_t number;

	pass(ann, LEASE_AFTER_NOBODY);
	pass(ann, LEASE_AFTER_RELEASE);
	key_fd = open_key();
	close(open_latest(&number));
	stand(key_fd, &ticket);
	assert_int_equal(directory_line_pass(key_fd, number - 1, 1), 1);
	assert_int_equal(count_tickets(), 1);
	/* And one that it did pass, since it has listed before, is not held. */
	AUTO_FREE char *path = key_path();
	AUTO_FREE char *from = xasprintf("%s/%s", path, ticket.name);
	AUTO_FREE char *to = xasprintf("%s/%" PRIu64, path, number - 1);
	assert_int_equal(rename(from, to), 0);
	assert_int_equal(directory_line_claim(key_fd, &ticket, TTL, &grant), 0);
	close_ticket(&ticket);
	pass(bob, LEASE_AFTER_RELEASE);
}

/* ------------------------------------------------------------------ who leaves */

static struct lease *anns;

static void ann_releases(void)
{
	lease_release(anns);
}

/* It has the lease, for an instant. */
TEST(who_leaves_while_it_is_passed_the_lease_passes_it_on)
{
	struct waits first = { 0 }, second = { 0 };
	struct stop stop;

	stop_init(&stop);
	anns = must_acquire(ann, 0);
	first.stop = &stop;
	start(&first, bob, 60000);
	second.manager = open_shared(TTL);
	start(&second, second.manager, 60000);
	before_rename = ann_releases;
	stop_request(&stop);
	thread_join(first.thread);
	thread_join(second.thread);
	assert_true(first.fence == 0);
	assert_true(second.fence != 0);
	assert_int_equal(second.predecessor, LEASE_AFTER_RELEASE);
	lease_manager_close(second.manager);
	assert_int_equal(count_tickets(), 0);
	assert_string_equal(inspect().proof, "released");
	stop_clear(&stop);
}

TEST(a_wait_that_ends_leaves_nothing)
{
	struct lease *lease = must_acquire(ann, 0), *other;

	assert_fails(acquire_for(bob, 100, &other), ERR_LOCK_TIMEOUT);
	assert_int_equal(count_entries(), 1);
	lease_release(lease);
	pass(bob, LEASE_AFTER_RELEASE);
}

/* ------------------------------------------------------------------ within a process */

static bool somebody_waits(struct lease_manager *manager)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);
	const struct waiter_queue *queue = map_get(&manager->queues, KEY);

	return queue && !TAILQ_EMPTY(&queue->waiters);
}

TEST(whoever_it_is_handed_to_within_a_process_is_shown_with_its_own_fence)
{
	struct lease *lease = must_acquire(ann, 0);
	struct waits waits = { .hold_ms = 300 };
	uint64_t fence = lease_fence(lease), number, after;

	waits.manager = ann;
	waits.wait_ms = 60000;
	close(open_latest(&number));
	thread_start(&waits.thread, "waits", wait_for_it, &waits);
	wait_until(somebody_waits(ann));
	lease_release(lease);
	wait_until(inspect().fence == fence + 1);
	close(open_latest(&after));
	assert_true(after == number);
	thread_join(waits.thread);
	assert_true(waits.fence == fence + 1);
	assert_true(pass(bob, LEASE_AFTER_RELEASE) >= fence + LEASE_FENCES);
}

/* The fence above all that might have been told later. */
TEST(what_was_handed_on_untold_is_below_the_next_fence)
{
	struct lease_request request = { .key = KEY, .operation = "s" };
	struct lease *lease;

	request.fence_floor =
		2 * (uint64_t)clock_wall_ns() / 1000; /* the clock is behind */
	assert_ok(lease_acquire(ann, &request, &lease, &err));
	uint64_t fence = lease_fence(lease);
	lease_release(lease);
	assert_true(pass(bob, LEASE_AFTER_RELEASE) == fence + LEASE_FENCES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(managers_are_served_in_the_order_they_came),
		CASE(a_release_hands_it_to_the_first),
		CASE(who_does_not_wait_does_not_overtake),
		CASE(what_a_node_without_lines_releases_is_taken_at_once),
		CASE(who_is_next_is_told_without_locks),
		CASE(who_is_not_told_finds_out),
		CASE(who_is_silent_is_passed_over),
		CASE(what_is_not_taken_up_in_time_goes_to_the_next),
		CASE(who_slept_while_it_was_its_turn_holds_up_nobody),
		CASE(who_waits_elsewhere_wants_it),
		CASE(of_taking_up_and_taking_back_one_succeeds),
		CASE(what_is_taken_up_after_the_ttl_is_not_held),
		CASE(who_dies_before_it_takes_it_up_was_never_the_holder),
		CASE(who_releases_it_late_passes_nothing_on),
		CASE(who_leaves_while_it_is_passed_the_lease_passes_it_on),
		CASE(a_wait_that_ends_leaves_nothing),
		CASE(whoever_it_is_handed_to_within_a_process_is_shown_with_its_own_fence),
		CASE(what_was_handed_on_untold_is_below_the_next_fence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
