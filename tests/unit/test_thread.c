#include "test.h"

#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/thread.h"

static struct stop stop;

static void *request_soon(void *unused)
{
	(void)unused;
	usleep(20000);
	stop_request(&stop);
	return NULL;
}

TEST(a_stop_ends_a_wait_at_once)
{
	pthread_t thread;
	int64_t began = clock_boot_ms();

	stop_init(&stop);
	assert_false(stop_is_requested(&stop));
	thread_start(&thread, "request", request_soon, NULL);
	assert_true(stop_wait(&stop, 60000));
	assert_true(clock_boot_ms() - began < 10000);
	assert_true(stop_is_requested(&stop));
	assert_true(stop_wait(&stop, 60000));
	thread_join(thread);
	stop_clear(&stop);
}

TEST(a_wait_without_a_stop_lasts_as_long_as_said)
{
	int64_t began = clock_boot_ms();

	stop_init(&stop);
	assert_false(stop_wait(&stop, 0));
	assert_false(stop_wait(&stop, -5));
	assert_false(stop_wait(&stop, 30));
	assert_true(clock_boot_ms() - began >= 30);
	stop_clear(&stop);
}

TEST(a_wait_may_be_for_ever)
{
	pthread_t thread;

	stop_init(&stop);
	thread_start(&thread, "request", request_soon, NULL);
	assert_true(stop_wait(&stop, INT64_MAX));
	thread_join(thread);
	stop_clear(&stop);
}

TEST(a_stop_wakes_poll_however_often_it_is_requested)
{
	stop_init(&stop);
	struct pollfd watched = { .fd = stop.fd, .events = POLLIN };
	assert_int_equal(poll(&watched, 1, 0), 0);
	for (int i = 0; i < 3; i++)
		stop_request(&stop);
	assert_int_equal(poll(&watched, 1, 0), 1);
	assert_int_equal(poll(&watched, 1, 0), 1);
	stop_clear(&stop);
}

static void on_signal(int number)
{
	(void)number;
	stop_request(&stop);
}

TEST(a_signal_handler_may_request_the_stop)
{
	stop_init(&stop);
	signal(SIGUSR1, on_signal);
	errno = ENOTEMPTY;
	raise(SIGUSR1);
	assert_int_equal(errno, ENOTEMPTY);
	assert_true(stop_wait(&stop, 60000));
	signal(SIGUSR1, SIG_DFL);
	stop_clear(&stop);
}

struct gate {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	bool open; /* guarded by mutex */
};

static void *open_soon(void *data)
{
	struct gate *gate = data;

	usleep(20000);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&gate->mutex);
	gate->open = true;
	pthread_cond_signal(&gate->cond);
	return NULL;
}

static bool wait_for_gate(struct gate *gate, int64_t until)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&gate->mutex);

	while (!gate->open)
		if (!cond_wait_until(&gate->cond, &gate->mutex, until))
			return false;
	return true;
}

static void gate_clear(struct gate *gate)
{
	pthread_cond_destroy(&gate->cond);
	pthread_mutex_destroy(&gate->mutex);
}

TEST(a_condition_wakes_its_waiter)
{
	const int64_t limits[] = { INT64_MAX, clock_boot_ms() + 100000,
				   clock_boot_ms() + 30000 };

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		struct gate gate = { .open = false };
		pthread_t thread;

		mutex_init(&gate.mutex);
		cond_init(&gate.cond);
		thread_start(&thread, "open", open_soon, &gate);
		assert_true(wait_for_gate(&gate, limits[i]));
		thread_join(thread);
		gate_clear(&gate);
	}
}

TEST(a_condition_gives_up_at_its_time_and_not_before)
{
	struct gate gate = { .open = false };
	int64_t until = clock_boot_ms() + 1030; /* nanoseconds are carried over */

	mutex_init(&gate.mutex);
	cond_init(&gate.cond);
	assert_false(wait_for_gate(&gate, 0));
	assert_false(wait_for_gate(&gate, until));
	assert_true(clock_boot_ms() >= until);
	assert_true(clock_boot_ms() < until + 10000);
	gate_clear(&gate);
}

static void *tell_about_me(void *data)
{
	sigset_t blocked;

	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	*(bool *)data = sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT);
	return data;
}

TEST(threads_run_with_signals_blocked_and_their_starter_does_not)
{
	pthread_t thread;
	bool blocked = false;
	sigset_t mine;

	thread_start(&thread, "fifteen letters", tell_about_me, &blocked);
	thread_join(thread);
	assert_true(blocked);
	pthread_sigmask(SIG_BLOCK, NULL, &mine);
	assert_false(sigismember(&mine, SIGTERM));
}

static void *do_nothing(void *data)
{
	return data;
}

/* It may be gone before it is given its name. */
TEST(threads_may_end_at_once)
{
	for (int i = 0; i < 2000; i++) {
		pthread_t thread;

		thread_start(&thread, "short", do_nothing, NULL);
		thread_join(thread);
	}
}

static void start_one(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, (size_t)1 << 46);
	pthread_setattr_default_np(&attributes);
	thread_start(&thread, "a name", request_soon, NULL);
}

static void open_stop(void)
{
	const struct rlimit none = { 3, 3 };

	setrlimit(RLIMIT_NOFILE, &none);
	stop_init(&stop);
}

/* In a process of its own: it says this, and ends with status 1. */
static void assert_gives_up(void (*run)(void), const char *what, const char *remedy)
{
	char said[1024] = "";
	int status, ends[2];
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (child == 0) {
		dup2(ends[1], 2);
		closefrom(3);
		run();
		_exit(0);
	}
	close(ends[1]);
	for (size_t len = 0; len < sizeof(said) - 1;) {
		ssize_t count = read(ends[0], said + len, sizeof(said) - 1 - len);
		if (count <= 0)
			break;
		len += (size_t)count;
	}
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 1 || !strstr(said, what) ||
	    !strstr(said, remedy))
		fail_msg("status %d: %s", status, said);
}

TEST(what_there_is_no_descriptor_for_is_said)
{
	assert_gives_up(open_stop, "cannot make an eventfd: Too many open files",
			"LimitNOFILE=");
}

TEST(what_there_is_no_thread_for_is_said)
{
	assert_gives_up(start_one, "cannot start the thread a name: ", "TasksMax=");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stop_ends_a_wait_at_once),
		cmocka_unit_test(a_wait_without_a_stop_lasts_as_long_as_said),
		cmocka_unit_test(a_wait_may_be_for_ever),
		cmocka_unit_test(a_stop_wakes_poll_however_often_it_is_requested),
		cmocka_unit_test(a_signal_handler_may_request_the_stop),
		cmocka_unit_test(a_condition_wakes_its_waiter),
		cmocka_unit_test(a_condition_gives_up_at_its_time_and_not_before),
		cmocka_unit_test(
			threads_run_with_signals_blocked_and_their_starter_does_not),
		cmocka_unit_test(threads_may_end_at_once),
		cmocka_unit_test(what_there_is_no_descriptor_for_is_said),
		cmocka_unit_test(what_there_is_no_thread_for_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
