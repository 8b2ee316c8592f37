/*
 * Who leaves hands its slot to the first that waits, so nobody who comes later can be
 * faster. A waiter sleeps on an eventfd of its own, beside the stop token; when its time
 * is up it looks once more under the lock, as it may just have been given the slot.
 */
#include "serve/slots.h"

#include <limits.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/metrics.h"

#define NO_FD_POLL_MS 50 /* out of descriptors: look now and then */

struct slot_waiter {
	TAILQ_ENTRY(slot_waiter) link; /* guarded by slots->mutex */
	bool is_given; /* guarded by slots->mutex; out of the queue then */
	int fd;        /* readable once it is given; -1: there is none */
};

struct slots {
	pthread_mutex_t mutex;
	struct slots_limits limits;        /* guarded by mutex */
	size_t running, waiting;           /* guarded by mutex */
	uint64_t refused;                  /* guarded by mutex */
	TAILQ_HEAD(, slot_waiter) waiters; /* guarded by mutex */
	struct metric_series *running_gauge, *waiting_gauge, *refused_counter;
};

struct slots *slots_new(const char *name, const struct slots_limits *limits)
{
	struct slots *slots = xcalloc(1, sizeof(*slots));

	mutex_init(&slots->mutex);
	slots->limits = *limits;
	TAILQ_INIT(&slots->waiters);
	slots->running_gauge = metric_at(
		metric_gauge("refrelay_upload_pack_running",
			     "Children that serve readers and run now.", "kind"),
		name);
	slots->waiting_gauge = metric_at(
		metric_gauge("refrelay_upload_pack_waiting",
			     "Requests that wait until such a child may start.", "kind"),
		name);
	slots->refused_counter =
		metric_at(metric_counter("refrelay_upload_pack_refused_total",
					 "Requests sent away because too many waited, or "
					 "because they had waited for too long.",
					 "kind"),
			  name);
	return slots;
}

void slots_free(struct slots *slots)
{
	if (!slots)
		return;
	pthread_mutex_destroy(&slots->mutex);
	free(slots);
}

static void show_locked(const struct slots *slots)
{
	metric_set(slots->running_gauge, (double)slots->running);
	metric_set(slots->waiting_gauge, (double)slots->waiting);
}

static void remove_locked(struct slots *slots, struct slot_waiter *waiter)
{
	TAILQ_REMOVE(&slots->waiters, waiter, link);
	slots->waiting--;
}

static void give_locked(struct slots *slots)
{
	struct slot_waiter *first;
	uint64_t one = 1;

	while (slots->running < slots->limits.running &&
	       (first = TAILQ_FIRST(&slots->waiters)) != NULL) {
		remove_locked(slots, first);
		slots->running++;
		first->is_given = true;
		if (first->fd >= 0) {
			ssize_t ignored = write(first->fd, &one, sizeof(one));
			(void)ignored; /* it is empty, and has room for one */
		}
	}
	show_locked(slots);
}

void slots_set(struct slots *slots, const struct slots_limits *limits)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&slots->mutex);

	slots->limits = *limits;
	give_locked(slots);
}

/* Clients that are sent away together come back one after another. */
static unsigned retry_after_locked(const struct slots *slots)
{
	int64_t wait_s = slots->limits.wait_ms / 1000;
	uint64_t spread = wait_s < 2 ? 1 : wait_s > 60 ? 30 : (uint64_t)wait_s / 2;

	return (unsigned)(spread + slots->refused % spread);
}

static int refuse_locked(struct slots *slots, const char *why, unsigned *retry_after_s,
			 struct err *err)
{
	unsigned seconds = retry_after_locked(slots);

	slots->refused++;
	metric_add(slots->refused_counter, 1);
	if (retry_after_s)
		*retry_after_s = seconds;
	err_set(err, ERR_BUSY, "%s", why);
	return err_remedy(err, "come again in %u s", seconds);
}

/* 1: it has a slot; 0: it stands in the line; -1: the line is too long. */
static int join(struct slots *slots, struct slot_waiter *waiter, unsigned *retry_after_s,
		int64_t *until, struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&slots->mutex);

	if (slots->running < slots->limits.running && TAILQ_EMPTY(&slots->waiters)) {
		slots->running++;
		show_locked(slots);
		return 1;
	}
	if (slots->waiting >= slots->limits.waiting)
		return refuse_locked(slots, "too many requests wait already",
				     retry_after_s, err);
	*until = clock_boot_ms() + slots->limits.wait_ms;
	waiter->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	TAILQ_INSERT_TAIL(&slots->waiters, waiter, link);
	slots->waiting++;
	show_locked(slots);
	return 0;
}

static bool is_given(struct slots *slots, const struct slot_waiter *waiter)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&slots->mutex);

	return waiter->is_given;
}

static void wait_for_it(struct slots *slots, struct slot_waiter *waiter,
			const struct stop *stop, int64_t until)
{
	struct pollfd watched[] = {
		{ .fd = waiter->fd, .events = POLLIN },
		{ .fd = stop ? stop->fd : -1, .events = POLLIN },
	};
	int64_t left;

	while (!is_given(slots, waiter) && !(stop && stop_is_requested(stop)) &&
	       (left = until - clock_boot_ms()) > 0) {
		if (waiter->fd < 0 && left > NO_FD_POLL_MS)
			left = NO_FD_POLL_MS;
		poll(watched, ARRAY_SIZE(watched), left > INT_MAX ? INT_MAX : (int)left);
	}
}

static int conclude(struct slots *slots, struct slot_waiter *waiter,
		    const struct stop *stop, unsigned *retry_after_s, struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&slots->mutex);
	bool is_stopped = stop && stop_is_requested(stop);

	if (waiter->is_given && !is_stopped)
		return 0;
	if (waiter->is_given)
		slots->running--;
	else
		remove_locked(slots, waiter);
	give_locked(slots);
	if (is_stopped)
		return err_set(err, ERR_CANCELED, "stopped while it waited for its turn");
	return refuse_locked(slots, "too many requests are being answered", retry_after_s,
			     err);
}

int slots_enter(struct slots *slots, const struct stop *stop, unsigned *retry_after_s,
		struct err *err)
{
	struct slot_waiter waiter = { .fd = -1 };
	int64_t until = 0;
	int joined = join(slots, &waiter, retry_after_s, &until, err);

	if (joined != 0)
		return joined > 0 ? 0 : -1;
	wait_for_it(slots, &waiter, stop, until);
	int result = conclude(slots, &waiter, stop, retry_after_s, err);
	if (waiter.fd >= 0)
		close(waiter.fd);
	return result;
}

void slots_leave(struct slots *slots)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&slots->mutex);

	slots->running--;
	give_locked(slots);
}
