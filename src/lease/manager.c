/*
 * Acquiring: join the line of this process (manager.c); at one's turn ask the backend
 * until it grants, sleeping on its hints; then the keeper renews (manager.c).
 *
 * Why a holder that checks its lease is alone: validity is counted from before the
 * attempt was sent and ends earlier than the backend's own, on the same clock; so the
 * holder's lease_check() fails before the backend grants the key to anybody else,
 * whatever threads or processes were stopped in between. What runs longer than a check
 * is stopped by the deadline, and what escapes even that by the fence.
 */
#include "lease/manager.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "lease/lease_json.h"

static void lease_count_held(int by);
static void lease_count_lost(void);

/*
 * The keeper: one thread that renews all held leases every ttl/3, in one transaction,
 * and moves their deadlines. It need not be punctual for anything to be safe: each
 * lease's validity and its children's deadline are absolute times that only a renewal
 * moves on, read by lease_check() and by the children's supervisors themselves. What
 * the keeper adds is that threads and children hear of a loss at once.
 *
 * While the backend is asked, without the mutex, a lease may be released: it then takes
 * itself out of the renewal under way.
 */

struct loss {
	struct lease_grant grant;
	const char *cause;
};

typedef VEC(struct loss) losses;
typedef VEC(struct lease_extension) extensions;

static int64_t period(const struct lease_manager *manager)
{
	return manager->backend->ttl_ms / 3;
}

/* From now on the lease is held and renewed. */
static void keeper_add_locked(struct lease_manager *manager, struct lease *lease)
{
	TAILQ_INSERT_TAIL(&manager->held, lease, link);
	lease_count_held(1);
	if (manager->renew_at != INT64_MAX)
		return;
	manager->renew_at = clock_boot_ms() + period(manager);
	pthread_cond_signal(&manager->keeper_wake);
}

/* No longer: it may be freed. Tells whether it was ours to the last. */
static bool keeper_remove_locked(struct lease_manager *manager, struct lease *lease)
{
	TAILQ_REMOVE(&manager->held, lease, link);
	if (!lease->lost)
		lease_count_held(-1);
	if (lease->renewal)
		lease->renewal->lease = NULL;
	return !lease->lost && clock_boot_ms() < lease->valid_until;
}

/* The next one in the line may ask the backend, which knows best. */
static void lose_locked(struct lease_manager *manager, struct lease *lease,
			const char *cause, losses *lost)
{
	struct loss loss = { .grant = lease->grant, .cause = cause };

	lease->lost = true;
	deadline_expire(&lease->deadline);
	queue_drop_holder_locked(manager, lease->queue, NULL);
	lease->queue = NULL;
	lease_count_held(-1);
	lease_count_lost();
	vec_add(lost, loss);
}

static void lose_lapsed_locked(struct lease_manager *manager, losses *lost)
{
	int64_t now = clock_boot_ms();
	struct lease *lease;

	TAILQ_FOREACH(lease, &manager->held, link)
	{
		if (!lease->lost && now >= lease->valid_until)
			lose_locked(manager, lease, "expired", lost);
	}
}

static void collect_locked(struct lease_manager *manager, extensions *all)
{
	size_t at = 0;
	struct lease *lease;

	TAILQ_FOREACH(lease, &manager->held, link)
	{
		struct lease_extension one = { .grant = lease->grant, .lease = lease };
		if (!lease->lost)
			vec_add(all, one);
	}
	TAILQ_FOREACH(lease, &manager->held, link)
	{
		if (!lease->lost)
			lease->renewal = &all->items[at++];
	}
}

/* A renewal that comes back after the lease lapsed does not revive it: others may have
 * acted on the lapse. */
static void apply_locked(struct lease_manager *manager, const extensions *all,
			 int64_t sent_at, bool done, losses *lost)
{
	int64_t valid_until = lease_valid_until(manager, sent_at);

	for (size_t i = 0; i < all->count; i++) {
		struct lease *lease = all->items[i].lease;
		if (!lease)
			continue;
		lease->renewal = NULL;
		if (!done || clock_boot_ms() >= lease->valid_until)
			continue;
		if (all->items[i].lost) {
			lose_locked(manager, lease, "taken", lost);
		} else {
			lease->valid_until = valid_until;
			deadline_move(&lease->deadline,
				      lease_kill_at(manager, valid_until));
		}
	}
}

/* Gives the mutex away while it asks. */
static void renew_locked(struct lease_manager *manager, losses *lost)
{
	struct lease_backend *backend = manager->backend;
	extensions all = { 0 };
	struct err err;

	collect_locked(manager, &all);
	manager->renew_at = INT64_MAX;
	if (all.count == 0)
		return;
	unlock(&manager->mutex);
	int64_t sent_at = clock_boot_ms();
	bool done = backend->ops->extend_all(backend, all.items, all.count, sent_at,
					     &err) == 0;
	if (!done)
		log_warn("lease.renewal_failed", LOG_NUMBER("leases", all.count),
			 LOG_ERR(&err));
	lock(&manager->mutex);
	apply_locked(manager, &all, sent_at, done, lost);
	int64_t due = clock_boot_ms() + period(manager) / (done ? 1 : 4);
	if (due < manager->renew_at) /* else a new lease wants it earlier */
		manager->renew_at = due;
	vec_clear(&all);
}

static void keeper_report_losses(losses *lost)
{
	for (size_t i = 0; i < lost->count; i++)
		log_error("lease.lost", LOG_TEXT("lease_key", lost->items[i].grant.key),
			  LOG_NUMBER("fence", lost->items[i].grant.fence),
			  LOG_TEXT("cause", lost->items[i].cause));
	vec_clear(lost);
}

static int64_t next_due_locked(const struct lease_manager *manager)
{
	int64_t due = manager->renew_at;
	const struct lease *lease;

	TAILQ_FOREACH(lease, &manager->held, link)
	{
		if (!lease->lost && lease->valid_until < due)
			due = lease->valid_until;
	}
	return due;
}

/* Renews what is held, until manager->closing. */
static void *keeper_run(void *arg)
{
	struct lease_manager *manager = arg;
	losses lost = { 0 };

	lock(&manager->mutex);
	while (!manager->closing) {
		lose_lapsed_locked(manager, &lost);
		if (clock_boot_ms() >= manager->renew_at)
			renew_locked(manager, &lost);
		if (lost.count > 0) {
			unlock(&manager->mutex);
			keeper_report_losses(&lost);
			lock(&manager->mutex);
			continue;
		}
		cond_wait_until(&manager->keeper_wake, &manager->mutex,
				next_due_locked(manager));
	}
	unlock(&manager->mutex);
	keeper_report_losses(&lost);
	return NULL;
}

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

#define REPORT_EVERY_MS 10000
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

/* Joins the line for request->key. */
static void waiter_enter(struct waiter *waiter, struct lease_manager *manager,
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
		.report_at = now,
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

	if (now < waiter->report_at)
		return;
	waiter->report_at = now + REPORT_EVERY_MS;
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
	if (until > waiter->report_at)
		until = waiter->report_at;
	int64_t left = until - clock_boot_ms();
	poll(watched, ARRAY_SIZE(watched), left > 0 ? (int)left : 0);
	if (request->stop && stop_is_requested(request->stop))
		return err_set(err, ERR_CANCELED, "lease %.300s: no longer wanted",
			       request->key);
	return (watched[0].revents & POLLIN) != 0;
}

/* Waits until it is first in the line and nobody here holds the key. ERR_BUSY after
 * request->wait_ms; ERR_CANCELED. */
static int waiter_wait_turn(struct waiter *waiter, struct err *err)
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

/* Gives the attempt a hint_fd, if the backend has such and it has none: then the next
 * attempt arms it. */
static bool waiter_get_hint(struct waiter *waiter)
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

/* Notes who is in the way, by waiter->attempt. */
static void waiter_note_holder(struct waiter *waiter)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&waiter->manager->mutex);
	waiter->queue->seen = waiter->attempt.holder;
}

/* Sleeps until the backend's hint, or until `until`; *hinted says which. ERR_CANCELED. */
static int waiter_wait_hint(struct waiter *waiter, int64_t until, bool *hinted,
			    struct err *err)
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

/* Leaves the line. The lease that it got, or NULL, becomes the queue's holder. */
static void waiter_exit(struct waiter *waiter, struct lease *lease)
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

json_t *lease_holder_json(const struct lease_holder *holder)
{
	json_t *object = json_object();

	json_put_text(object, "key", holder->key);
	json_put_number(object, "fence", (int64_t)holder->fence);
	json_put_bool(object, "held", holder->held);
	json_put_text(object, "proof", holder->proof);
	json_put_text(object, "node", holder->node);
	json_put_text(object, "boot_id", holder->boot_id);
	json_put_number(object, "pid", holder->pid);
	json_put_text(object, "job", holder->job);
	json_put_text(object, "operation", holder->operation);
	json_put_time(object, "acquired_at", holder->acquired_at);
	json_put_seconds(object, "ttl_left", holder->held ? holder->ttl_left_ms : 0);
	return object;
}

static struct metric *acquires;
static struct metric_series *waits, *lease_held_metric, *lease_lost_metric, *takeovers;

static void register_all(void)
{
	acquires = metric_counter("refrelay_lease_acquire_total",
				  "Attempts to get a lease that ended.", "class");
	waits = metric_at(metric_histogram("refrelay_lease_wait_seconds",
					   "How long leases that were got took to get.",
					   metric_buckets_seconds));
	lease_held_metric = metric_at(
		metric_gauge("refrelay_lease_held", "Leases that this process holds."));
	lease_lost_metric = metric_at(metric_counter(
		"refrelay_lease_lost_total", "Leases that ended before their release."));
	takeovers =
		metric_at(metric_counter("refrelay_lease_takeover_total",
					 "Leases taken from a dead or silent holder."));
}

static void ready(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_all);
}

/* An acquire that ended: ERR_NONE, or why it failed. */
static void lease_count_acquire(enum err_class class, int64_t waited_ms)
{
	ready();
	metric_add(metric_at(acquires, class == ERR_NONE ? "ok" : err_class_name(class)),
		   1);
	if (class == ERR_NONE)
		metric_observe(waits, (double)waited_ms / 1000);
}

static void lease_count_held(int by)
{
	ready();
	metric_add(lease_held_metric, by);
}

static void lease_count_lost(void)
{
	ready();
	metric_add(lease_lost_metric, 1);
}

static void lease_count_takeover(void)
{
	ready();
	metric_add(takeovers, 1);
}

/* A grant that took half its ttl to arrive is given back; so often. */
#define SLOW_GRANTS 3

/* The kernel tells that a descriptor is being closed an instant before its flock goes;
 * after a hint we look twice. */
#define AFTER_HINT_MS 20

static const char *const predecessor_names[] = {
	[LEASE_AFTER_NOBODY] = "nobody", [LEASE_AFTER_RELEASE] = "release",
	[LEASE_AFTER_DEATH] = "death",   [LEASE_AFTER_LAPSE] = "lapse",
	[LEASE_AFTER_FORCE] = "force",
};

void lease_backend_init(struct lease_backend *backend,
			const struct lease_backend_ops *ops,
			const struct lease_options *options)
{
	backend->ops = ops;
	backend->ttl_ms = options->ttl_ms > 0 ? options->ttl_ms : LEASE_TTL_MS;
	if (options->node)
		snprintf(backend->node, sizeof(backend->node), "%s", options->node);
	else if (gethostname(backend->node, sizeof(backend->node) - 1) != 0)
		snprintf(backend->node, sizeof(backend->node), "localhost");
}

struct lease_manager *lease_manager_new(struct lease_backend *backend)
{
	struct lease_manager *manager = xcalloc(1, sizeof(*manager));

	mutex_init(&manager->mutex);
	cond_init(&manager->keeper_wake);
	manager->backend = backend;
	manager->renew_at = INT64_MAX;
	TAILQ_INIT(&manager->held);
	thread_start(&manager->keeper, "lease-keeper", keeper_run, manager);
	return manager;
}

void lease_manager_close(struct lease_manager *manager)
{
	struct lease *lease;

	if (!manager)
		return;
	lock(&manager->mutex);
	manager->closing = true;
	pthread_cond_signal(&manager->keeper_wake);
	unlock(&manager->mutex);
	thread_join(manager->keeper);
	while ((lease = TAILQ_FIRST(&manager->held)) != NULL)
		lease_release(lease);
	assert(manager->queues.count == 0); /* nobody may wait any more */
	for (size_t i = 0; i < manager->spare_hints.count; i++)
		close(manager->spare_hints.items[i]);
	vec_clear(&manager->spare_hints);
	map_clear(&manager->queues);
	manager->backend->ops->close(manager->backend);
	pthread_cond_destroy(&manager->keeper_wake);
	pthread_mutex_destroy(&manager->mutex);
	free(manager);
}

int64_t lease_valid_until(const struct lease_manager *manager, int64_t sent_at)
{
	int64_t ttl = manager->backend->ttl_ms;

	return sent_at + ttl - (ttl / 100 + 2);
}

int64_t lease_kill_at(const struct lease_manager *manager, int64_t valid_until)
{
	int64_t grace = manager->backend->ttl_ms / 4;

	return valid_until - (grace < LEASE_KILL_GRACE_MS ? grace : LEASE_KILL_GRACE_MS);
}

void lease_describe_self(const struct lease_manager *manager,
			 const struct lease_request *request, struct lease_holder *holder)
{
	*holder = (struct lease_holder){
		.held = true,
		.pid = getpid(),
		.acquired_at = clock_wall_ms(),
		.proof = "alive",
	};
	snprintf(holder->key, sizeof(holder->key), "%s", request->key);
	snprintf(holder->node, sizeof(holder->node), "%s", manager->backend->node);
	snprintf(holder->boot_id, sizeof(holder->boot_id), "%s", clock_boot_id());
	snprintf(holder->job, sizeof(holder->job), "%s",
		 request->job ? request->job : "");
	snprintf(holder->operation, sizeof(holder->operation), "%s", request->operation);
}

static struct lease *lease_new(struct lease_manager *manager,
			       const struct lease_attempt *attempt)
{
	struct lease *lease = xcalloc(1, sizeof(*lease));

	lease->manager = manager;
	lease->grant = attempt->grant;
	lease->predecessor = attempt->predecessor;
	lease->valid_until = lease_valid_until(manager, attempt->sent_at);
	lease_describe_self(manager, attempt->request, &lease->self);
	lease->self.fence = attempt->grant.fence;
	deadline_init(&lease->deadline, lease_kill_at(manager, lease->valid_until));
	return lease;
}

static void log_acquired(const struct waiter *waiter)
{
	const struct lease_attempt *attempt = &waiter->attempt;
	const struct lease_holder *before = &attempt->holder;
	const char *why = predecessor_names[attempt->predecessor];

	log_debug("lease.acquired", LOG_TEXT("lease_key", attempt->grant.key),
		  LOG_NUMBER("fence", attempt->grant.fence),
		  LOG_NUMBER("wait_ms", clock_boot_ms() - waiter->since),
		  LOG_TEXT("after", why));
	if (attempt->predecessor != LEASE_AFTER_DEATH &&
	    attempt->predecessor != LEASE_AFTER_LAPSE)
		return;
	lease_count_takeover();
	log_warn("lease.takeover", LOG_TEXT("lease_key", attempt->grant.key),
		 LOG_NUMBER("fence", attempt->grant.fence), LOG_TEXT("after", why),
		 LOG_NUMBER("holder_fence", before->fence),
		 LOG_TEXT("holder_node", before->node),
		 LOG_NUMBER("holder_pid", before->pid),
		 LOG_TEXT("holder_job", before->job),
		 LOG_NUMBER("silent_ms", attempt->silent_ms),
		 LOG_TEXT("orphans", attempt->orphans ? "yes" : "no"));
}

/* 1: granted, and in time; 0: held by others; -1: *err. */
static int ask_once(struct lease_manager *manager, struct lease_attempt *attempt,
		    struct err *err)
{
	const struct lease_backend_ops *ops = manager->backend->ops;
	int64_t half = manager->backend->ttl_ms / 2;
	enum lease_released how;

	for (int i = 0; i < SLOW_GRANTS; i++) {
		attempt->sent_at = clock_boot_ms();
		if (ops->try_acquire(manager->backend, attempt, err) != 0)
			return -1;
		if (attempt->outcome != LEASE_GRANTED)
			return 0;
		if (lease_valid_until(manager, attempt->sent_at) - clock_boot_ms() >=
		    half)
			return 1;
		ops->release(manager->backend, &attempt->grant, &how, ERR_IGNORED);
	}
	err_set(err, ERR_TIMEOUT,
		"lease %.300s: granted %d times, each time after more than half of its "
		"%" PRId64 " ms",
		attempt->request->key, SLOW_GRANTS, manager->backend->ttl_ms);
	return err_remedy(err, "the store's disk is too slow, or lease.ttl too short");
}

static int lease_manager_ask_backend(struct waiter *waiter, struct err *err)
{
	struct lease_attempt *attempt = &waiter->attempt;
	bool hinted = false;

	for (;;) {
		int result = ask_once(waiter->manager, attempt, err);
		if (result != 0)
			return result < 0 ? -1 : 0;
		waiter_note_holder(waiter);
		int64_t now = clock_boot_ms(), retry = attempt->retry_ms;
		if (now >= waiter->until)
			return waiter_deny(waiter, err);
		if (waiter_get_hint(waiter))
			continue;
		if (hinted && retry > AFTER_HINT_MS)
			retry = AFTER_HINT_MS;
		if (waiter_wait_hint(waiter, now + retry, &hinted, err) != 0)
			return -1;
	}
}

static int check_request(const struct lease_request *request, struct err *err)
{
	size_t len = strlen(request->key);

	if (len == 0 || len >= LEASE_KEY_SIZE)
		return err_set(err, ERR_CONFIG,
			       "a lease's key has 1 to %d bytes, not %zu",
			       LEASE_KEY_SIZE - 1, len);
	if (request->fence_floor >= INT64_MAX)
		return err_set(err, ERR_CORRUPT,
			       "lease %.300s: the fence %" PRIu64
			       " is beyond all numbers "
			       "that were ever granted",
			       request->key, request->fence_floor);
	return 0;
}

int lease_acquire(struct lease_manager *manager, const struct lease_request *request,
		  struct lease **lease, struct err *err)
{
	struct waiter waiter;

	*lease = NULL;
	if (check_request(request, err) != 0)
		return -1;
	waiter_enter(&waiter, manager, request);
	if (waiter_wait_turn(&waiter, err) == 0 &&
	    lease_manager_ask_backend(&waiter, err) == 0) {
		*lease = lease_new(manager, &waiter.attempt);
		(*lease)->queue = waiter.queue;
		log_acquired(&waiter);
	}
	lease_count_acquire(*lease ? ERR_NONE : err->class,
			    clock_boot_ms() - waiter.since);
	waiter_exit(&waiter, *lease);
	return *lease ? 0 : -1;
}

/* Whether somebody of this process got it in our stead. */
static bool hand_over(struct lease *lease, bool *ours)
{
	struct lease_manager *manager = lease->manager;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);

	*ours = keeper_remove_locked(manager, lease);
	return *ours && queue_drop_holder_locked(manager, lease->queue, &lease->grant);
}

static void lease_manager_give_up(struct lease *lease, bool ours)
{
	struct lease_manager *manager = lease->manager;
	struct lease_backend *backend = manager->backend;
	enum lease_released how = LEASE_GONE;
	struct err err;

	/* The backend empties the grant. */
	if (backend->ops->release(backend, &lease->grant, &how, &err) != 0)
		log_warn("lease.release_failed", LOG_TEXT("lease_key", lease->self.key),
			 LOG_NUMBER("fence", lease->self.fence), LOG_ERR(&err));
	else if (!ours || how == LEASE_GONE)
		log_warn("lease.released_late", LOG_TEXT("lease_key", lease->self.key),
			 LOG_NUMBER("fence", lease->self.fence),
			 LOG_TEXT("now", how == LEASE_GONE ? "taken" : "free"));
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);
	if (lease->queue)
		queue_drop_holder_locked(manager, lease->queue, NULL);
}

void lease_release(struct lease *lease)
{
	bool ours;

	if (!lease)
		return;
	if (!hand_over(lease, &ours))
		lease_manager_give_up(lease, ours);
	deadline_clear(&lease->deadline);
	free(lease);
}

uint64_t lease_fence(const struct lease *lease)
{
	return lease->grant.fence;
}

const char *lease_key(const struct lease *lease)
{
	return lease->grant.key;
}

enum lease_predecessor lease_predecessor(const struct lease *lease)
{
	return lease->predecessor;
}

int lease_check(struct lease *lease, struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&lease->manager->mutex);

	if (!lease->lost && clock_boot_ms() < lease->valid_until)
		return 0;
	return err_set(err, ERR_LOST, "lease %.300s: no longer ours (fence %" PRIu64 ")",
		       lease->grant.key, lease->grant.fence);
}

struct deadline *lease_deadline(struct lease *lease)
{
	return &lease->deadline;
}

int lease_guard_fd(const struct lease *lease)
{
	return lease->grant.guard_fd;
}

int lease_list(struct lease_manager *manager, lease_holders *holders, struct err *err)
{
	return manager->backend->ops->list(manager->backend, holders, err);
}

int lease_inspect(struct lease_manager *manager, const char *key,
		  struct lease_holder *holder, struct err *err)
{
	return manager->backend->ops->inspect(manager->backend, key, holder, err);
}

int lease_force_release(struct lease_manager *manager, const char *key, uint64_t fence,
			const char *actor, const char *reason, struct err *err)
{
	if (manager->backend->ops->force_release(manager->backend, key, fence, err) != 0)
		return -1;
	log_warn("lease.force_released", LOG_TEXT("lease_key", key),
		 LOG_NUMBER("fence", fence), LOG_TEXT("actor", actor),
		 LOG_TEXT("reason", reason));
	return 0;
}

void lease_key_for(const char *replicable_name, uint64_t id, char key[LEASE_KEY_SIZE])
{
	snprintf(key, LEASE_KEY_SIZE, "geo_sync_ssf_service:%s:%" PRIu64, replicable_name,
		 id);
}
