/*
 * The line within this process. Whoever is first and finds the key not held here has
 * the turn, keeps it until it leaves, and alone talks to the backend; all others sleep
 * on an eventfd of their own. So a key costs the backend one contender a process, and a
 * release wakes exactly one thread.
 *
 * When a holder gives the lease up while somebody waits behind it, its grant is handed
 * to that one: the backend hears of the release and of the next attempt in one
 * transaction. The grant is always owned by one of: the holder's lease, the queue (for
 * its first waiter), that waiter's attempt. A waiter that leaves passes it on, or gives
 * it back.
 */
#include <poll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/log.h"
#include "lease/manager.h"

#define TELL_EVERY_MS 10000
#define NO_FD_POLL_MS 50 /* out of descriptors: look now and then */

static struct waiter_queue *queue_of_locked(struct lease_manager *manager,
					    const char *key)
{
	struct waiter_queue *queue = map_get(&manager->queues, key);

	if (queue)
		return queue;
	queue = xcalloc(1, sizeof(*queue));
	queue->key = xstrdup(key);
	queue->handed = LEASE_NO_GRANT;
	TAILQ_INIT(&queue->waiters);
	map_put(&manager->queues, key, queue);
	return queue;
}

static void drop_if_idle_locked(struct lease_manager *manager, struct waiter_queue *queue)
{
	if (!TAILQ_EMPTY(&queue->waiters) || queue->holder)
		return;
	map_remove(&manager->queues, queue->key);
	free(queue->key);
	free(queue);
}

static bool has_turn_locked(const struct waiter *waiter)
{
	return TAILQ_FIRST(&waiter->queue->waiters) == waiter && !waiter->queue->holder;
}

static void wake_first_locked(struct waiter_queue *queue)
{
	struct waiter *first = TAILQ_FIRST(&queue->waiters);
	uint64_t one = 1;

	if (!first || queue->holder || first->turn_fd < 0)
		return;
	ssize_t ignored = write(first->turn_fd, &one, sizeof(one));
	(void)ignored; /* full only when it is readable already */
}

bool queue_drop_holder_locked(struct lease_manager *manager, struct waiter_queue *queue,
			      const struct lease_grant *handed)
{
	if (handed && TAILQ_EMPTY(&queue->waiters))
		return false;
	if (handed)
		queue->handed = *handed;
	queue->holder = NULL;
	wake_first_locked(queue);
	drop_if_idle_locked(manager, queue);
	return handed != NULL;
}

void waiter_enter(struct waiter *waiter, struct lease_manager *manager,
		  const struct lease_request *request)
{
	int64_t now = clock_boot_ms();

	*waiter = (struct waiter){
		.manager = manager,
		.attempt = { .request = request,
			     .hint_fd = -1,
			     .grant = LEASE_NO_GRANT,
			     .handed = LEASE_NO_GRANT },
		.turn_fd = -1,
		.since = now,
		.until = now + request->wait_ms,
		.tell_at = now,
	};
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);
	waiter->queue = queue_of_locked(manager, request->key);
	TAILQ_INSERT_TAIL(&waiter->queue->waiters, waiter, link);
	if (!has_turn_locked(waiter))
		waiter->turn_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* Takes the turn, with what was handed on. */
static bool take_turn(struct waiter *waiter)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&waiter->manager->mutex);
	struct waiter_queue *queue = waiter->queue;

	if (!has_turn_locked(waiter))
		return false;
	if (queue->handed.nonce[0]) {
		waiter->attempt.handed = queue->handed;
		queue->handed = LEASE_NO_GRANT;
	}
	return true;
}

static void look_at_holder(const struct waiter *waiter, struct lease_holder *holder)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&waiter->manager->mutex);
	const struct waiter_queue *queue = waiter->queue;

	*holder = queue->holder ? queue->holder->self : queue->seen;
	if (queue->holder)
		holder->ttl_left_ms = queue->holder->valid_until - clock_boot_ms();
	if (holder->node[0] == '\0') /* one of us is just asking the backend */
		lease_describe_self(waiter->manager, waiter->attempt.request, holder);
}

#define HOLDER_FIELDS(holder)                                                            \
	LOG_TEXT("holder_node", (holder)->node),                                         \
		LOG_NUMBER("holder_pid", (holder)->pid),                                 \
		LOG_TEXT("holder_job", (holder)->job),                                   \
		LOG_TEXT("holder_operation", (holder)->operation),                       \
		LOG_NUMBER("held_ms", held_ms(holder)),                                  \
		LOG_NUMBER("ttl_left_ms", (holder)->ttl_left_ms),                        \
		LOG_TEXT("proof", (holder)->proof)

static int64_t held_ms(const struct lease_holder *holder)
{
	return holder->acquired_at ? clock_wall_ms() - holder->acquired_at : 0;
}

static void waiter_report_holder(struct waiter *waiter)
{
	int64_t now = clock_boot_ms();
	struct lease_holder holder;

	if (now < waiter->tell_at)
		return;
	waiter->tell_at = now + TELL_EVERY_MS;
	look_at_holder(waiter, &holder);
	log_warn("lease.waiting", LOG_TEXT("lease_key", waiter->queue->key),
		 LOG_NUMBER("waited_ms", now - waiter->since), HOLDER_FIELDS(&holder));
}

/* -1: ERR_CANCELED; 1: fd is readable; 0: it is `until`, or anything else. */
static int waiter_sleep_until(struct waiter *waiter, int fd, int64_t until,
			      struct err *err)
{
	const struct lease_request *request = waiter->attempt.request;
	struct pollfd watched[] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = request->stop ? request->stop->fd : -1, .events = POLLIN },
	};

	waiter_report_holder(waiter);
	if (until > waiter->tell_at)
		until = waiter->tell_at;
	int64_t left = until - clock_boot_ms();
	poll(watched, ARRAY_SIZE(watched), left > 0 ? (int)left : 0);
	if (request->stop && stop_is_requested(request->stop))
		return err_set(err, ERR_CANCELED, "lease %.300s: no longer wanted",
			       request->key);
	return (watched[0].revents & POLLIN) != 0;
}

int waiter_wait_turn(struct waiter *waiter, struct err *err)
{
	while (!take_turn(waiter)) {
		int64_t now = clock_boot_ms(), until = waiter->until;
		if (now >= until)
			return waiter_deny(waiter, err);
		if (waiter->turn_fd < 0 && until > now + NO_FD_POLL_MS)
			until = now + NO_FD_POLL_MS;
		if (waiter_sleep_until(waiter, waiter->turn_fd, until, err) < 0)
			return -1;
	}
	return 0;
}

bool waiter_get_hint(struct waiter *waiter)
{
	struct lease_manager *manager = waiter->manager;
	int *hint_fd = &waiter->attempt.hint_fd;

	if (*hint_fd >= 0)
		return false;
	lock(&manager->mutex);
	if (manager->spare_hints.count > 0)
		*hint_fd = manager->spare_hints.items[--manager->spare_hints.count];
	unlock(&manager->mutex);
	if (*hint_fd < 0)
		*hint_fd = manager->backend->ops->hint_open(manager->backend);
	return *hint_fd >= 0;
}

void waiter_note_holder(struct waiter *waiter)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&waiter->manager->mutex);
	waiter->queue->seen = waiter->attempt.holder;
}

int waiter_wait_hint(struct waiter *waiter, int64_t until, bool *hinted, struct err *err)
{
	if (until > waiter->until)
		until = waiter->until;
	int result = waiter_sleep_until(waiter, waiter->attempt.hint_fd, until, err);
	*hinted = result > 0;
	return result < 0 ? -1 : 0;
}

int waiter_deny(struct waiter *waiter, struct err *err)
{
	const struct lease_request *request = waiter->attempt.request;
	int64_t waited = clock_boot_ms() - waiter->since;
	struct lease_holder holder;

	look_at_holder(waiter, &holder);
	if (request->holder)
		*request->holder = holder;
	err_set(err, ERR_BUSY,
		"Cannot obtain an exclusive lease for %.200s: held by %s, process "
		"%" PRId64 ", job %s (%s)",
		request->key, holder.node, holder.pid,
		holder.job[0] ? holder.job : "unknown", holder.operation);
	if (request->wait_ms > 0)
		log_error("lease.timeout", LOG_ERR(err),
			  LOG_TEXT("lease_key", request->key),
			  LOG_NUMBER("waited_ms", waited), HOLDER_FIELDS(&holder));
	else
		log_warn("lease.denied", LOG_ERR(err),
			 LOG_TEXT("lease_key", request->key), HOLDER_FIELDS(&holder));
	return -1;
}

/* What was handed to us, or is just being handed, goes to the next one in the line; if
 * there is none, to the backend while we still stand here, so that nobody else asks it
 * meanwhile and finds the key held for nobody. */
static void pass_on_locked(struct waiter *waiter)
{
	struct lease_manager *manager = waiter->manager;
	struct waiter_queue *queue = waiter->queue;
	enum lease_released how;

	if (waiter->attempt.handed.nonce[0])
		queue->handed = waiter->attempt.handed;
	while (queue->handed.nonce[0] && TAILQ_FIRST(&queue->waiters) == waiter &&
	       !TAILQ_NEXT(waiter, link)) {
		struct lease_grant handed = queue->handed;
		queue->handed = LEASE_NO_GRANT;
		unlock(&manager->mutex);
		manager->backend->ops->release(manager->backend, &handed, &how,
					       ERR_IGNORED);
		lock(&manager->mutex);
	}
}

void waiter_exit(struct waiter *waiter, struct lease *lease)
{
	struct lease_manager *manager = waiter->manager;
	struct waiter_queue *queue = waiter->queue;

	if (waiter->attempt.place != 0)
		manager->backend->ops->leave(manager->backend, &waiter->attempt);
	lock(&manager->mutex);
	pass_on_locked(waiter);
	TAILQ_REMOVE(&queue->waiters, waiter, link);
	if (lease) {
		queue->holder = lease;
		keeper_add_locked(manager, lease);
	}
	if (waiter->attempt.hint_fd >= 0)
		vec_add(&manager->spare_hints, waiter->attempt.hint_fd);
	wake_first_locked(queue);
	drop_if_idle_locked(manager, queue);
	unlock(&manager->mutex);
	if (waiter->turn_fd >= 0)
		close(waiter->turn_fd);
}
