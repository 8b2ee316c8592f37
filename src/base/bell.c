/*
 * Who waits goes into the list first and looks at the count then: a change that comes
 * after that look finds the waiter there. Ringing counts first and looks at the list
 * then. Each waits for a descriptor of its own, as a stop is one, too.
 */
#include "base/bell.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/file.h"

#define BELL_WAITERS_MOST 64

struct bell_waiter {
	int fd;
	TAILQ_ENTRY(bell_waiter) link;
};

static pthread_mutex_t bell_mutex = PTHREAD_MUTEX_INITIALIZER;
static TAILQ_HEAD(, bell_waiter) bell_waiters = TAILQ_HEAD_INITIALIZER(bell_waiters);
static atomic_uint_fast64_t rung;
static atomic_size_t waiting; /* what bell_waiters has */
static pthread_once_t is_begun = PTHREAD_ONCE_INIT;
static char run[17]; /* of the process; fixed once is_begun */

void bell_ring(void)
{
	struct bell_waiter *waiter;

	atomic_fetch_add(&rung, 1);
	if (atomic_load(&waiting) == 0)
		return;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&bell_mutex);
	TAILQ_FOREACH(waiter, &bell_waiters, link)
	eventfd_write(waiter->fd, 1);
}

static void bell_begin(void)
{
	random_hex(run, (sizeof(run) - 1) / 2);
}

void bell_version(char version[BELL_VERSION_SIZE])
{
	pthread_once(&is_begun, bell_begin);
	snprintf(version, BELL_VERSION_SIZE, "%s.%" PRIu64, run,
		 (uint64_t)atomic_load(&rung));
}

static bool bell_is_still(const char *seen)
{
	char version[BELL_VERSION_SIZE];

	bell_version(version);
	return strcmp(version, seen) == 0;
}

/* False: there are too many. */
static bool bell_join(struct bell_waiter *waiter)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&bell_mutex);

	if (atomic_load(&waiting) >= BELL_WAITERS_MOST)
		return false;
	TAILQ_INSERT_TAIL(&bell_waiters, waiter, link);
	atomic_fetch_add(&waiting, 1);
	return true;
}

static void bell_leave(struct bell_waiter *waiter)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&bell_mutex);

	TAILQ_REMOVE(&bell_waiters, waiter, link);
	atomic_fetch_sub(&waiting, 1);
}

static void bell_wait_on(const struct bell_waiter *waiter, const char *seen,
			 int64_t wait_ms, const struct stop *stop)
{
	struct pollfd fds[2] = { { .fd = waiter->fd, .events = POLLIN },
				 { .fd = stop ? stop->fd : -1, .events = POLLIN } };
	int64_t until = clock_boot_ms() + wait_ms;
	int64_t left;

	while (bell_is_still(seen) && !(stop && stop_is_requested(stop)) &&
	       (left = until - clock_boot_ms()) > 0)
		poll(fds, ARRAY_SIZE(fds), left > 60000 ? 60000 : (int)left);
}

int bell_wait(const char *seen, int64_t wait_ms, const struct stop *stop, struct err *err)
{
	struct bell_waiter waiter = { .fd = -1 };

	if (wait_ms <= 0 || !bell_is_still(seen))
		return 0;
	waiter.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (waiter.fd < 0)
		return err_errno(err, "cannot wait for changes");
	if (bell_join(&waiter)) {
		bell_wait_on(&waiter, seen, wait_ms, stop);
		bell_leave(&waiter);
	}
	close(waiter.fd);
	return 0;
}
