#include "base/thread.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>

#include "base/clock.h"

#define NICENESS 15

static void thread_require_success(int result)
{
	if (result != 0)
		abort();
}

/* What cannot be had now cannot be done without: a node that ends is started again, and
 * nothing is lost by it. Children end with their supervisors. */
static _Noreturn void thread_give_up(const char *what, const char *name, int cause,
				     const char *remedy)
{
	fprintf(stderr, "refrelay: cannot %s%s: %s\n  hint: %s\n", what, name,
		strerror(cause), remedy);
	fflush(stderr);
	_exit(EXIT_FAILURE);
}

pthread_mutex_t *lock(pthread_mutex_t *mutex)
{
	thread_require_success(pthread_mutex_lock(mutex));
	return mutex;
}

void unlock(pthread_mutex_t *mutex)
{
	thread_require_success(pthread_mutex_unlock(mutex));
}

void mutex_init(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attributes;

	thread_require_success(pthread_mutexattr_init(&attributes));
#ifdef REFRELAY_DEBUG
	thread_require_success(
		pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK));
#endif
	thread_require_success(pthread_mutex_init(mutex, &attributes));
	thread_require_success(pthread_mutexattr_destroy(&attributes));
}

void cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attributes;

	thread_require_success(pthread_condattr_init(&attributes));
	thread_require_success(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC));
	thread_require_success(pthread_cond_init(cond, &attributes));
	thread_require_success(pthread_condattr_destroy(&attributes));
}

bool cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
	struct timespec at;
	int64_t left;

	if (until == INT64_MAX) {
		thread_require_success(pthread_cond_wait(cond, mutex));
		return true;
	}
	left = until - clock_boot_ms();
	if (left <= 0)
		return false;
	if (left > 60 * 1000)
		left = 60 * 1000; /* a sleep of the machine is noticed within a minute */
	clock_gettime(CLOCK_MONOTONIC, &at);
	at.tv_sec += left / 1000;
	at.tv_nsec += left % 1000 * 1000000;
	if (at.tv_nsec >= 1000000000) {
		at.tv_sec++;
		at.tv_nsec -= 1000000000;
	}
	int result = pthread_cond_timedwait(cond, mutex, &at);
	if (result != ETIMEDOUT)
		thread_require_success(result);
	return result == 0 || clock_boot_ms() < until;
}

void thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *arg)
{
	sigset_t all, before;

	sigfillset(&all);
	thread_require_success(pthread_sigmask(SIG_SETMASK, &all, &before));
	int cause = pthread_create(thread, NULL, run, arg);
	if (cause != 0)
		thread_give_up(
			"start the thread ", name, cause,
			"raise the limits of processes and memory (ulimit -u and -v; "
			"TasksMax= and MemoryMax= in the unit)");
	/* Not found when the thread has ended already, or without /proc: only people
	 * miss the name then. */
	int result = pthread_setname_np(*thread, name);
	assert(result != ERANGE);
	thread_require_success(pthread_sigmask(SIG_SETMASK, &before, NULL));
}

void thread_join(pthread_t thread)
{
	thread_require_success(pthread_join(thread, NULL));
}

/* On Linux the priority is the thread's own. */
void thread_lower_priority(void)
{
	setpriority(PRIO_PROCESS, 0, NICENESS);
}

void stop_init(struct stop *stop)
{
	atomic_init(&stop->requested, false);
	stop->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (stop->fd < 0)
		thread_give_up(
			"make an eventfd", "", errno,
			"raise the limit of open files (ulimit -n, or LimitNOFILE= in "
			"the unit)");
}

void stop_clear(struct stop *stop)
{
	close(stop->fd);
	stop->fd = -1;
}

void stop_request(struct stop *stop)
{
	uint64_t one = 1;
	int saved = errno;

	atomic_store(&stop->requested, true);
	ssize_t ignored = write(stop->fd, &one, sizeof(one));
	(void)ignored; /* full only when it is readable already */
	errno = saved;
}

bool stop_is_requested(const struct stop *stop)
{
	return atomic_load(&stop->requested);
}

bool stop_wait(const struct stop *stop, int64_t ms)
{
	int64_t until;

	if (__builtin_add_overflow(clock_boot_ms(), ms, &until))
		until = INT64_MAX;
	while (!stop_is_requested(stop)) {
		struct pollfd watched = { .fd = stop->fd, .events = POLLIN };
		int64_t left = until - clock_boot_ms();
		if (left <= 0)
			return false;
		poll(&watched, 1, (int)(left < 60 * 1000 ? left : 60 * 1000));
	}
	return true;
}
