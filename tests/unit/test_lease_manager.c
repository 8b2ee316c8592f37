/*
 * The manager and its keeper over a backend that obeys the test: it can be slow, fail,
 * hang, or say that a lease is lost.
 */
#include "test.h"

#include "lease_renewal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base/log.h"

#define TTL 1000
#define KEEP_TTL 4000 /* of what is renewed and must not lapse meanwhile */
#define LONG_TTL 60000

static struct {
	struct lease_backend base;
	atomic_int grant_ms;    /* how long each attempt takes */
	atomic_int slow_grants; /* so many; the others take no time */
	atomic_bool held;       /* by others */
	atomic_int frees_after; /* they give it up right after this attempt */
	atomic_int fail;        /* an errno for each call */
	atomic_bool lost;       /* what renewals say */
	atomic_bool hang;       /* renewals and passes do not return */
	atomic_bool has_others; /* what passes say */
	atomic_bool given;      /* grants are another process's, which the backend does
				   not know yet */
	atomic_int pass_result; /* what passes return */
	atomic_int passes, passed_fence;
	atomic_int hint_fd, retry_ms, attempts, renewals, releases, leaves, hints;
	atomic_int places;  /* attempts that would stand in the line */
	atomic_int handed;  /* attempts that were handed a grant */
	atomic_int renewed; /* so many leases by the last renewal */
	_Atomic int64_t attempted_at, least_gap; /* between two attempts */
} fake;

static struct lease_manager *manager;

static int fail_if_told(struct err *error)
{
	errno = fake.fail;
	return fake.fail ? err_errno(error, "fake") : 0;
}

static int fake_hint_open(struct lease_backend *backend)
{
	(void)backend;
	fake.hints++;
	fake.hint_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return fake.hint_fd;
}

static int fake_try_acquire(struct lease_backend *backend, struct lease_attempt *attempt,
			    struct err *error)
{
	eventfd_t ignored;

	(void)backend;
	/* Before it is counted: what comes then is for it. */
	eventfd_read(attempt->hint_fd, &ignored);
	int number = ++fake.attempts;
	fake.places += attempt->request->wait_ms > 0;
	fake.handed += attempt->handed.nonce[0] != '\0';
	if (number > 1 && clock_boot_ms() - fake.attempted_at < fake.least_gap)
		fake.least_gap = clock_boot_ms() - fake.attempted_at;
	fake.attempted_at = clock_boot_ms();
	if (fail_if_told(error) != 0)
		return -1;
	attempt->retry_ms = fake.retry_ms ? fake.retry_ms : 10;
	attempt->handed = LEASE_NO_GRANT;
	attempt->outcome = fake.held ? LEASE_HELD : LEASE_GRANTED;
	snprintf(attempt->holder.node, sizeof(attempt->holder.node), "there");
	if (fake.held) {
		attempt->place = 1;
		if (number == fake.frees_after)
			fake.held = false;
		return 0;
	}
	if (fake.slow_grants-- > 0)
		usleep((useconds_t)fake.grant_ms * 1000);
	attempt->place = 0;
	snprintf(attempt->grant.key, sizeof(attempt->grant.key), "%s",
		 attempt->request->key);
	snprintf(attempt->grant.nonce, sizeof(attempt->grant.nonce), "%d", number);
	attempt->grant.fence = (uint64_t)number;
	attempt->is_untold = fake.given;
	return 0;
}

static void fake_leave(struct lease_backend *backend, struct lease_attempt *attempt)
{
	(void)backend;
	fake.leaves++;
	attempt->place = 0;
}

static int fake_extend_all(struct lease_backend *backend, struct lease_extension *all,
			   size_t count, int64_t sent_at, struct err *error)
{
	(void)backend;
	(void)sent_at;
	bool lost = fake.lost;
	fake.renewals++;
	fake.renewed = (int)count;
	while (fake.hang)
		usleep(1000);
	if (fail_if_told(error) != 0)
		return -1;
	for (size_t i = 0; i < count; i++)
		all[i].lost = lost;
	return 0;
}

static int fake_release(struct lease_backend *backend, struct lease_grant *grant,
			enum lease_released *how, struct err *error)
{
	(void)backend;
	fake.releases++;
	*grant = LEASE_NO_GRANT;
	*how = fake.lost ? LEASE_GONE : LEASE_RELEASED;
	return fail_if_told(error);
}

static int fake_pass(struct lease_backend *backend, const struct lease_grant *grant,
		     const struct lease_holder *holder, bool *has_others,
		     struct err *error)
{
	(void)backend;
	assert_string_equal(holder->operation, "sync");
	while (fake.hang)
		usleep(1000);
	fake.passed_fence = (int)grant->fence;
	fake.passes++;
	*has_others = fake.has_others;
	return fail_if_told(error) != 0 ? -1 : fake.pass_result;
}

static int fake_inspect(struct lease_backend *backend, const char *key,
			struct lease_holder *holder, struct err *error)
{
	(void)backend;
	(void)holder;
	if (fail_if_told(error) != 0)
		return -1;
	return err_set(error, ERR_MISSING, "no lease %s", key);
}

static void fake_close(struct lease_backend *backend)
{
	(void)backend;
}

static const struct lease_backend_ops fake_ops = {
	.name = "fake",
	.hint_open = fake_hint_open,
	.try_acquire = fake_try_acquire,
	.leave = fake_leave,
	.extend_all = fake_extend_all,
	.pass = fake_pass,
	.release = fake_release,
	.inspect = fake_inspect,
	.close = fake_close,
};

static int setup_for(int64_t ttl_ms, bool is_never_passed)
{
	log_set_level(LOG_LEVEL_NONE);
	memset(&fake, 0, sizeof(fake));
	fake.least_gap = INT64_MAX;
	lease_backend_init(&fake.base, &fake_ops,
			   &(struct lease_options){ .ttl_ms = ttl_ms });
	fake.base.is_never_passed = is_never_passed;
	manager = lease_manager_new(&fake.base);
	return 0;
}

static int setup(void **state)
{
	(void)state;
	return setup_for(TTL, true);
}

static int setup_keeping(void **state)
{
	(void)state;
	return setup_for(KEEP_TTL, true);
}

static int setup_long(void **state)
{
	(void)state;
	return setup_for(LONG_TTL, true);
}

static int setup_passing(void **state)
{
	(void)state;
	return setup_for(LONG_TTL, false);
}

static int teardown(void **state)
{
	(void)state;
	lease_manager_close(manager);
	return 0;
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define KEEPING_CASE(name) cmocka_unit_test_setup_teardown(name, setup_keeping, teardown)
#define LONG_CASE(name) cmocka_unit_test_setup_teardown(name, setup_long, teardown)
#define PASSING_CASE(name) cmocka_unit_test_setup_teardown(name, setup_passing, teardown)

static int acquire(const char *key, int64_t wait_ms, struct lease **lease)
{
	return lease_acquire(manager,
			     &(struct lease_request){ .key = key,
						      .operation = "sync",
						      .wait_ms = wait_ms },
			     lease, &err);
}

static struct lease *must_acquire(const char *key)
{
	struct lease *lease;

	assert_ok(acquire(key, 0, &lease));
	return lease;
}

static struct lease *must_keep(const char *key)
{
	struct lease *lease;

	assert_ok(lease_acquire(manager,
				&(struct lease_request){ .key = key,
							 .operation = "scheduler",
							 .is_kept = true },
				&lease, &err));
	return lease;
}

/* INT64_MAX: never. */
static int64_t renewal_due_at(void)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);

	return manager->renew_at;
}

static int64_t valid_until(const struct lease *lease)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);

	return lease->valid_until;
}

static bool somebody_waits(void)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);
	const struct waiter_queue *queue = map_get(&manager->queues, "a");

	return queue && !TAILQ_EMPTY(&queue->waiters);
}

static bool is_lost(struct lease *lease)
{
	return lease_check(lease, &err) != 0 && err.class == ERR_LOST;
}

static void wait_for(atomic_int *count, int least)
{
	wait_until(*count >= least);
}

TEST(a_grant_that_took_half_its_ttl_is_given_back_and_tried_again)
{
	fake.grant_ms = TTL * 6 / 10;
	fake.slow_grants = 1;
	struct lease *lease = must_acquire("a");
	assert_int_equal(fake.attempts, 2);
	assert_int_equal(fake.releases, 1);
	assert_true(lease_fence(lease) == 2);
	lease_release(lease);
}

TEST(a_backend_that_is_always_too_slow_is_an_error)
{
	struct lease *lease;

	fake.grant_ms = TTL * 6 / 10;
	fake.slow_grants = 100;
	assert_fails(acquire("a", 0, &lease), ERR_TIMEOUT);
	assert_int_equal(fake.releases, fake.attempts);
	assert_null(lease);
}

TEST(errors_of_the_backend_are_not_contention)
{
	struct lease *lease;

	fake.fail = ENOSPC;
	assert_fails(acquire("a", 0, &lease), ERR_DISK);
	assert_fails(acquire("a", 1000, &lease), ERR_DISK);
	fake.fail = 0;
	lease_release(must_acquire("a"));
}

TEST(who_gives_up_leaves_the_line)
{
	struct lease *lease;

	fake.held = true;
	assert_fails(acquire("a", 0, &lease), ERR_BUSY);
	int64_t before = clock_boot_ms();
	assert_fails(acquire("a", 1000, &lease), ERR_LOCK_TIMEOUT);
	assert_in_range(clock_boot_ms() - before, 1000, 20000);
	assert_true(fake.attempts >= 4);
	assert_int_equal(fake.leaves, 2);
	assert_int_equal(fake.hints, 1);
	assert_fails(acquire("b", 20, &lease), ERR_LOCK_TIMEOUT);
	assert_int_equal(fake.hints, 1); /* used again */
}

TEST(all_leases_are_renewed_in_one_go)
{
	struct lease *leases[3] = { must_acquire("a"), must_acquire("b"),
				    must_acquire("c") };

	wait_for(&fake.renewals, 1);
	wait_until(renewal_due_at() != INT64_MAX);
	assert_true(renewal_due_at() <= clock_boot_ms() + KEEP_TTL / 3);
	for (int i = 2; i <= 4; i++) {
		make_renewal_due(manager);
		wait_for(&fake.renewals, i);
	}
	assert_int_equal(fake.attempts, 3);
	for (int i = 0; i < 3; i++) {
		assert_ok(lease_check(leases[i], &err));
		assert_true(deadline_at(lease_deadline(leases[i])) > clock_boot_ms());
		lease_release(leases[i]);
	}
	int before = fake.renewals;
	make_renewal_due(manager);
	wait_until(renewal_due_at() == INT64_MAX);
	usleep(20000);
	assert_int_equal(fake.renewals, before);
}

TEST(a_renewal_that_fails_keeps_the_lease_until_its_deadline)
{
	struct lease *lease = must_acquire("a");
	int64_t first = valid_until(lease), sent_at, asked_at;

	fake.fail = ENOSPC;
	make_renewal_due(manager);
	wait_for(&fake.renewals, 2);
	assert_ok(lease_check(lease, &err));
	assert_true(deadline_at(lease_deadline(lease)) > 0);
	assert_true(valid_until(lease) == first);
	fake.fail = 0; /* it was in time */
	wait_until(valid_until(lease) > first);
	assert_ok(lease_check(lease, &err));

	lock(&manager->mutex);
	fake.base.ttl_ms = TTL; /* from the next renewal on */
	unlock(&manager->mutex);
	make_renewal_due(manager);
	wait_until(valid_until(lease) < clock_boot_ms() + TTL);
	fake.fail = ENOSPC;
	int64_t until = valid_until(lease);
	sent_at = clock_boot_ms();
	do {
		usleep(1000);
		asked_at = clock_boot_ms();
	} while (!is_lost(lease) && asked_at - sent_at <= TTL);
	assert_true(is_lost(lease));
	assert_true(clock_boot_ms() >= until);
	wait_until(deadline_at(lease_deadline(lease)) == 0); /* the keeper's word */
	lease_release(lease);                                /* fails, too: only logged */
}

TEST(what_the_backend_lost_is_lost_at_the_next_renewal)
{
	struct lease *lease = must_acquire("a");

	fake.lost = true;
	make_renewal_due(manager);
	wait_until(is_lost(lease));
	assert_int_equal(fake.renewals, 1);
	wait_until(deadline_at(lease_deadline(lease)) == 0);
	fake.lost = false;
	struct lease *next = must_acquire("a"); /* the line has moved on */
	lease_release(lease);
	assert_ok(lease_check(next, &err));
	lease_release(next);
}

TEST(a_check_goes_by_the_clock_while_the_keeper_hangs)
{
	const int64_t valid_ms = LONG_TTL - (LONG_TTL / 100 + 2);
	int64_t before = clock_boot_ms();
	struct lease *lease = must_acquire("a");

	assert_in_range(valid_until(lease), before + valid_ms,
			clock_boot_ms() + valid_ms);
	fake.hang = true;
	make_renewal_due(manager);
	wait_for(&fake.renewals, 1);
	assert_ok(lease_check(lease, &err));
	lock(&manager->mutex); /* as after all of that time */
	lease->valid_until = clock_boot_ms() + 20;
	unlock(&manager->mutex);
	while (clock_boot_ms() <= valid_until(lease))
		usleep(1000);
	assert_true(is_lost(lease));
	fake.hang = false; /* a renewal that succeeds too late does not revive it */
	wait_until(deadline_at(lease_deadline(lease)) == 0);
	assert_true(is_lost(lease));
	assert_int_equal(fake.renewals, 1);
	lease_release(lease);
}

TEST(a_lease_may_be_released_while_it_is_renewed)
{
	struct lease *lease = must_acquire("a"), *other = must_acquire("b");

	fake.hang = true;
	make_renewal_due(manager);
	wait_for(&fake.renewals, 1);
	lease_release(lease);
	struct lease *next = must_acquire("a");
	fake.hang = false;
	fake.lost = true; /* of those that were asked for before */
	make_renewal_due(manager);
	wait_until(is_lost(other) && is_lost(next));
	assert_int_equal(fake.renewals, 2);
	lease_release(other);
	lease_release(next);
}

struct waiting {
	pthread_t thread;
	struct lease *lease;
};

static void *wait_in_thread(void *arg)
{
	struct waiting *waiting = arg;
	struct err error;

	lease_acquire(manager,
		      &(struct lease_request){
			      .key = "a", .operation = "sync", .wait_ms = 20000 },
		      &waiting->lease, &error);
	return NULL;
}

/* One transaction instead of two: the next attempt tells of the release. */
TEST(a_release_with_somebody_behind_is_handed_on)
{
	struct lease *lease = must_acquire("a");
	struct waiting waiting;

	thread_start(&waiting.thread, "waiting", wait_in_thread, &waiting);
	wait_until(somebody_waits());
	lease_release(lease);
	thread_join(waiting.thread);
	assert_non_null(waiting.lease);
	assert_int_equal(fake.releases, 0);
	lease_release(waiting.lease);
	assert_int_equal(fake.releases, 1);
}

TEST(what_was_handed_to_a_failing_waiter_is_released)
{
	struct lease *lease = must_acquire("a");
	struct waiting waiting;

	thread_start(&waiting.thread, "waiting", wait_in_thread, &waiting);
	wait_until(somebody_waits());
	fake.fail = ENOSPC;
	lease_release(lease);
	thread_join(waiting.thread);
	fake.fail = 0;
	assert_null(waiting.lease);
	assert_int_equal(fake.releases, 1);
}

/* ------------------------------------------------------------------ handed on */

struct behind {
	pthread_t thread;
	uint64_t floor;
	struct lease *lease;
};

static void *wait_behind(void *arg)
{
	struct behind *behind = arg;
	struct err error;
	const struct lease_request request = { .key = "a",
					       .operation = "sync",
					       .fence_floor = behind->floor,
					       .wait_ms = 20000 };

	lease_acquire(manager, &request, &behind->lease, &error);
	return NULL;
}

/* The next one's lease, which waited while the present holder had it. */
static struct lease *pass_to_next(struct lease *lease, uint64_t floor)
{
	struct behind behind = { .floor = floor };

	thread_start(&behind.thread, "behind", wait_behind, &behind);
	wait_until(somebody_waits());
	lease_release(lease);
	thread_join(behind.thread);
	assert_non_null(behind.lease);
	return behind.lease;
}

TEST(a_waiter_of_ones_own_has_the_grant_with_the_next_fence_unasked)
{
	struct lease *lease = must_acquire("a");
	uint64_t first = lease_fence(lease);

	lease = pass_to_next(lease, 0);
	assert_int_equal(fake.attempts, 1);
	assert_int_equal(lease_fence(lease), first + 1);
	assert_int_equal(lease_predecessor(lease), LEASE_AFTER_RELEASE);
	assert_ok(lease_check(lease, &err));
	assert_int_equal(fake.passes, 1);
	assert_int_equal(fake.passed_fence, first + 1);
	assert_int_equal(fake.releases, 0);
	lease_release(lease);
	assert_int_equal(fake.releases, 1);
}

TEST(a_grant_is_handed_on_as_often_as_the_backend_keeps_its_fence)
{
	struct lease *lease = must_acquire("a");
	uint64_t first = lease_fence(lease);

	for (int i = 0; i < 2 * LEASE_FENCES; i++)
		lease = pass_to_next(lease, 0);
	assert_int_equal(fake.attempts, 1);
	assert_int_equal(lease_fence(lease), first + 2 * LEASE_FENCES);
	lease_release(lease);
}

/* The next grant is above as many. */
TEST(what_the_backend_may_forget_is_handed_on_no_more_often_than_it_has_fences)
{
	fake.base.may_forget = true;
	struct lease *lease = must_acquire("a");

	for (int i = 1; i < LEASE_FENCES; i++)
		lease = pass_to_next(lease, 0);
	assert_int_equal(fake.attempts, 1);
	lease = pass_to_next(lease, 0);
	assert_int_equal(fake.attempts, 2);
	lease_release(lease);
}

static void pass_once_and_ask(bool has_others, int pass_errno)
{
	struct lease *lease = must_acquire("a");

	fake.has_others = has_others;
	fake.fail = pass_errno;
	lease = pass_to_next(lease, 0);
	fake.fail = 0;
	assert_int_equal(fake.attempts, 1);
	lease = pass_to_next(lease, 0);
	assert_int_equal(fake.attempts, 2);
	lease_release(lease);
}

TEST(once_others_are_known_to_wait_the_backend_decides)
{
	pass_once_and_ask(true, 0);
}

TEST(a_pass_that_the_backend_did_not_hear_of_is_the_last)
{
	pass_once_and_ask(false, EIO);
}

/* Until the next renewal it might be over. */
TEST(what_is_soon_over_is_not_handed_on)
{
	struct lease *lease = must_acquire("a");

	fake.base.ttl_ms = 2 * LONG_TTL;
	lease = pass_to_next(lease, 0);
	assert_int_equal(fake.attempts, 2);
	lease_release(lease);
}

TEST(whoever_needs_a_higher_fence_asks_for_it)
{
	struct lease *lease = must_acquire("a");
	uint64_t fence = lease_fence(lease);

	lease = pass_to_next(lease, fence);
	assert_int_equal(fake.attempts, 1);
	lease = pass_to_next(lease, fence + 2);
	assert_int_equal(fake.attempts, 2);
	lease_release(lease);
}

/* It has it no longer than the one before. */
TEST(a_lease_that_was_handed_on_and_is_lost_is_noticed)
{
	struct lease *lease = must_acquire("a");
	int64_t due_at = renewal_due_at();

	lease = pass_to_next(lease, 0);
	assert_int_equal(fake.attempts, 1);
	assert_true(renewal_due_at() <= due_at);
	fake.lost = true;
	make_renewal_due(manager);
	wait_until(is_lost(lease));
	assert_int_equal(fake.renewals, 1);
	lease_release(lease);
}

/* A renewal would find the grant of the one before, and end ours. */
TEST(what_was_given_is_told_until_it_is_known_and_renewed_then)
{
	fake.base.ttl_ms = 9000; /* told again after 750 ms, to be renewed after 3 s */
	fake.given = true;
	fake.pass_result = -1;
	struct lease *lease = must_acquire("a");

	wait_for(&fake.passes, 6);
	assert_int_equal(fake.renewals, 0);
	assert_ok(lease_check(lease, &err));
	fake.pass_result = 0;
	wait_for(&fake.renewals, 1);
	assert_ok(lease_check(lease, &err));
	lease_release(lease);
}

/* By a person's word, or since the backend lost it. */
TEST(what_was_given_and_is_anothers_by_now_is_lost_at_once)
{
	fake.given = true;
	fake.pass_result = 1;
	fake.lost = true;
	const int64_t before = clock_boot_ms();
	struct lease *lease = must_acquire("a");

	wait_until(is_lost(lease));
	assert_in_range(clock_boot_ms() - before, 0,
			LONG_TTL / 6); /* renewals: a third */
	assert_int_equal(fake.passes, 1);
	assert_int_equal(fake.renewals, 1);
	lease_release(lease);
}

/* The kernel tells of a close just before it drops the lock. */
TEST(a_hint_that_comes_too_early_makes_us_look_twice)
{
	struct waiting waiting;

	fake.held = true;
	fake.retry_ms = 10000;
	fake.frees_after = 3; /* the look that the hint brings about */
	thread_start(&waiting.thread, "waiting", wait_in_thread, &waiting);
	wait_for(&fake.attempts, 2);
	usleep(10000);
	int64_t before = clock_boot_ms();
	eventfd_write(fake.hint_fd, 1);
	thread_join(waiting.thread);
	assert_non_null(waiting.lease);
	assert_in_range(clock_boot_ms() - before, 0, 5000);
	lease_release(waiting.lease);
}

/* ------------------------------------------------------------------ polling */

#define POLL_MS 100
#define JITTER_MS 20

static void poll_as_other_programs(void)
{
	struct lease_ways ways = { .is_fixed = true,
				   .poll_ms = POLL_MS,
				   .poll_jitter_ms = JITTER_MS };

	lease_manager_set_ways(manager, &ways);
}

/* No hint, no place in a line, and an end in time, whatever the backend would advise. */
TEST(whoever_polls_asks_at_its_own_times_until_its_deadline)
{
	const int64_t wait_ms = 10 * POLL_MS, least = POLL_MS - JITTER_MS;
	struct lease *none;

	poll_as_other_programs();
	fake.held = true;
	int64_t began = clock_boot_ms();
	assert_fails(acquire("a", wait_ms, &none), ERR_LOCK_TIMEOUT);
	assert_true(clock_boot_ms() - began >= wait_ms);
	/* The last one is at the deadline; one before it may wake up as late. */
	assert_in_range(fake.attempts, 2, wait_ms / least + 2);
	assert_int_equal(fake.hints, 0);
	assert_int_equal(fake.places, 0);
	fake.held = false;
	lease_release(must_acquire("a"));
}

TEST(whoever_polls_leaves_the_time_between_two_tries_that_was_set)
{
	struct waiting waiting;

	poll_as_other_programs();
	fake.held = true;
	thread_start(&waiting.thread, "waiting", wait_in_thread, &waiting);
	wait_for(&fake.attempts, 4);
	fake.held = false;
	thread_join(waiting.thread);
	assert_non_null(waiting.lease);
	assert_true(fake.least_gap >= POLL_MS - JITTER_MS);
	lease_release(waiting.lease);
}

/* Others find it free in between. */
TEST(whoever_polls_is_handed_nothing_within_its_process)
{
	struct waiting waiting;
	struct lease *lease;

	poll_as_other_programs();
	lease = must_acquire("a");
	thread_start(&waiting.thread, "waiting", wait_in_thread, &waiting);
	wait_until(somebody_waits());
	lease_release(lease);
	assert_int_equal(fake.releases, 1);
	thread_join(waiting.thread);
	assert_non_null(waiting.lease);
	assert_int_equal(fake.handed, 0);
	assert_int_equal(fake.passes, 0);
	lease_release(waiting.lease);
}

/* What other programs share is not renewed; what only nodes of the site hold, for as long
 * as they run, is. */
TEST(what_is_kept_is_renewed_where_other_leases_are_not)
{
	struct lease *ordinary, *kept, *lone;

	poll_as_other_programs();
	ordinary = must_acquire("a");
	assert_true(renewal_due_at() == INT64_MAX);
	kept = must_keep("b");
	assert_true(renewal_due_at() <= clock_boot_ms() + LONG_TTL / 3);
	const int64_t ordinary_until = valid_until(ordinary),
		      kept_until = valid_until(kept);
	usleep(2000); /* so that a renewal lasts longer */
	make_renewal_due(manager);
	wait_until(valid_until(kept) > kept_until);
	assert_true(valid_until(ordinary) == ordinary_until);
	assert_int_equal(fake.renewed, 1);
	assert_true(renewal_due_at() != INT64_MAX); /* again and again */
	fake.lost = true;
	make_renewal_due(manager);
	wait_until(is_lost(kept));
	assert_null(strstr(err.text, "lease.compatibility"));
	assert_ok(lease_check(ordinary, &err));
	lease_release(kept);
	fake.lost = false;
	lone = must_acquire("c");
	make_renewal_due(manager);
	wait_until(renewal_due_at() == INT64_MAX);
	assert_int_equal(fake.renewals, 2); /* for these it is not even asked */
	lease_release(lone);
	lease_release(ordinary);
}

/* ------------------------------------------------------------------ what is away */

static void keep_in(enum lease_where where)
{
	struct lease_ways ways = { .where = where };

	lease_manager_set_ways(manager, &ways);
}

static bool is_away(void)
{
	struct err why;

	return lease_manager_away_since(manager, &why) != 0;
}

/* Of the local database, too, which is looked at again although nobody asks for a lease.
 */
TEST(a_disk_or_directory_that_fails_is_away_until_it_is_back)
{
	static const enum lease_where places[] = { LEASE_AT_HOST, LEASE_IN_SHARE };
	static const int codes[] = { EIO, ENOSPC, ESTALE, EACCES, ETIMEDOUT };
	struct lease *none;

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		keep_in(places[i]);
		for (size_t j = 0; j < ARRAY_SIZE(codes); j++) {
			fake.fail = codes[j];
			assert_fails(acquire("a", 1000, &none), ERR_LOCK_UNAVAILABLE);
			assert_int_equal(err.reason, REASON_LOCK_UNAVAILABLE);
			assert_true(is_away());
			fake.fail = 0;
			lease_release(must_acquire("a"));
			assert_false(is_away());
		}
	}
	keep_in(LEASE_AT_HOST);
	fake.fail = EIO;
	assert_fails(acquire("a", 0, &none), ERR_LOCK_UNAVAILABLE);
	fake.fail = 0;
	wait_until(!is_away());
}

TEST(an_error_about_one_lease_says_nothing_of_all)
{
	struct lease *none;

	keep_in(LEASE_IN_SHARE);
	fake.fail = EBADMSG;
	assert_int_equal(acquire("a", 0, &none), -1);
	assert_int_not_equal(err.class, ERR_LOCK_UNAVAILABLE);
	assert_false(is_away());
	fake.fail = 0;
}

struct patient {
	pthread_t thread;
	struct stop stop;
	struct lease *lease;
	struct err why;
};

static void *wait_patiently(void *arg)
{
	struct patient *patient = arg;
	const struct lease_request request = {
		.key = "a", .operation = "sync", .stop = &patient->stop, .wait_ms = 60000
	};

	lease_acquire(manager, &request, &patient->lease, &patient->why);
	return NULL;
}

/* Not that somebody has it, which is not known. */
TEST(who_stands_behind_one_that_waits_for_an_answer_hears_that_there_is_none)
{
	struct lease_ways ways = { .where = LEASE_AT_SERVER, .is_patient = true };
	struct patient patient;
	struct lease *none;

	fake.fail = ETIMEDOUT;
	lease_manager_set_ways(manager, &ways);
	stop_init(&patient.stop);
	thread_start(&patient.thread, "patient", wait_patiently, &patient);
	wait_until(is_away() && somebody_waits());
	assert_fails(acquire("a", 0, &none), ERR_LOCK_UNAVAILABLE);
	assert_int_equal(err.reason, REASON_LOCK_UNAVAILABLE);
	assert_fails(acquire("a", 50, &none), ERR_LOCK_UNAVAILABLE);
	stop_request(&patient.stop);
	thread_join(patient.thread);
	assert_null(patient.lease);
	assert_int_equal(patient.why.class, ERR_CANCELED);
	stop_clear(&patient.stop);
	fake.fail = 0;
}

/* As of a file server that is gone: what asks it hangs. */
TEST(a_place_that_does_not_even_fail_is_away_after_a_while)
{
	struct lease *lease = must_acquire("a");
	struct err why;

	keep_in(LEASE_IN_SHARE);
	fake.hang = true;
	make_renewal_due(manager);
	wait_for(&fake.renewals, 1);
	assert_false(is_away());
	lock(&manager->mutex);
	manager->asked_at -= 60000;
	unlock(&manager->mutex);
	assert_true(lease_manager_away_since(manager, &why) <= clock_wall_ms() - 60000);
	assert_int_equal(why.class, ERR_LOCK_UNAVAILABLE);
	assert_non_null(strstr(why.text, "has not answered"));
	fake.hang = false;
	wait_until(!is_away());
	lease_release(lease);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_grant_that_took_half_its_ttl_is_given_back_and_tried_again),
		CASE(a_backend_that_is_always_too_slow_is_an_error),
		CASE(errors_of_the_backend_are_not_contention),
		CASE(who_gives_up_leaves_the_line),
		KEEPING_CASE(all_leases_are_renewed_in_one_go),
		KEEPING_CASE(a_renewal_that_fails_keeps_the_lease_until_its_deadline),
		LONG_CASE(what_the_backend_lost_is_lost_at_the_next_renewal),
		LONG_CASE(a_check_goes_by_the_clock_while_the_keeper_hangs),
		LONG_CASE(a_lease_may_be_released_while_it_is_renewed),
		LONG_CASE(a_release_with_somebody_behind_is_handed_on),
		LONG_CASE(what_was_handed_to_a_failing_waiter_is_released),
		PASSING_CASE(
			a_waiter_of_ones_own_has_the_grant_with_the_next_fence_unasked),
		PASSING_CASE(
			a_grant_is_handed_on_as_often_as_the_backend_keeps_its_fence),
		PASSING_CASE(
			what_the_backend_may_forget_is_handed_on_no_more_often_than_it_has_fences),
		PASSING_CASE(once_others_are_known_to_wait_the_backend_decides),
		PASSING_CASE(a_pass_that_the_backend_did_not_hear_of_is_the_last),
		PASSING_CASE(what_is_soon_over_is_not_handed_on),
		PASSING_CASE(whoever_needs_a_higher_fence_asks_for_it),
		PASSING_CASE(a_lease_that_was_handed_on_and_is_lost_is_noticed),
		PASSING_CASE(what_was_given_is_told_until_it_is_known_and_renewed_then),
		PASSING_CASE(what_was_given_and_is_anothers_by_now_is_lost_at_once),
		CASE(a_hint_that_comes_too_early_makes_us_look_twice),
		CASE(whoever_polls_asks_at_its_own_times_until_its_deadline),
		CASE(whoever_polls_leaves_the_time_between_two_tries_that_was_set),
		CASE(whoever_polls_is_handed_nothing_within_its_process),
		LONG_CASE(what_is_kept_is_renewed_where_other_leases_are_not),
		CASE(a_disk_or_directory_that_fails_is_away_until_it_is_back),
		CASE(an_error_about_one_lease_says_nothing_of_all),
		CASE(who_stands_behind_one_that_waits_for_an_answer_hears_that_there_is_none),
		LONG_CASE(a_place_that_does_not_even_fail_is_away_after_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
