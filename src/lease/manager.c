/*
 * Acquiring: join the line of this process; at one's turn ask the backend until it
 * grants, sleeping on its hints; then the keeper renews.
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
#include "base/retry.h"

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
 *
 * Unless others wait at the backend, the waiter does not even ask (pass.c). A backend may
 * hand a grant to another process so, too.
 */

#define REPORT_EVERY_MS 10000
#define DENIALS_KEPT 10000
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

static bool is_polling(const struct lease_manager *manager)
{
	return manager->ways.poll_ms > 0;
}

static int64_t next_poll_ms(const struct lease_manager *manager)
{
	int64_t least = manager->ways.poll_ms - manager->ways.poll_jitter_ms;

	return random_between(least, least + 2 * manager->ways.poll_jitter_ms);
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

static void waiter_name_job(struct waiter *waiter, const struct lease_request *request)
{
	char id[LEASE_JOB_SIZE];

	if (!request->job)
		lease_job_new(id);
	snprintf(waiter->job_text, sizeof(waiter->job_text), "%s%s%s",
		 request->job ? request->job : id, request->name ? " " : "",
		 request->name ? request->name : "");
	waiter->request.job = waiter->job_text;
}

/* Joins the line for request->key. */
static void waiter_enter(struct waiter *waiter, struct lease_manager *manager,
			 const struct lease_request *request)
{
	int64_t now = clock_boot_ms();

	*waiter = (struct waiter){
		.manager = manager,
		.request = *request,
		.attempt = { .request = &waiter->request,
			     .hint_fd = -1,
			     .guard_fd = -1,
			     .grant = LEASE_NO_GRANT,
			     .handed = LEASE_NO_GRANT },
		.turn_fd = -1,
		.wait_ms = request->wait_ms,
		.since = now,
		.until = now + request->wait_ms,
		.report_at = now,
	};
	waiter_name_job(waiter, request);
	if (is_polling(manager))
		waiter->request.wait_ms = 0; /* which takes no place in the line */
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);
	waiter->queue = queue_of_locked(manager, request->key);
	TAILQ_INSERT_TAIL(&waiter->queue->waiters, waiter, link);
	if (!has_turn_locked(waiter) && !is_polling(manager))
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
		waiter->passed_until = queue->passed_until;
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

static const char *lease_job_of(const struct lease_holder *holder, char *id)
{
	lease_job_split(holder->job, id);
	return id;
}

#define HOLDER_FIELDS(holder)                                                            \
	LOG_TEXT("holder_node", (holder)->node),                                         \
		LOG_NUMBER("holder_pid", (holder)->pid),                                 \
		LOG_TEXT("holder_job",                                                   \
			 lease_job_of(holder, (char[LEASE_JOB_SIZE]){ 0 })),             \
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
static int waiter_pause(const struct waiter *waiter, int fd, int64_t until,
			struct err *err)
{
	const struct lease_request *request = waiter->attempt.request;
	struct pollfd watched[] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = request->stop ? request->stop->fd : -1, .events = POLLIN },
	};
	int64_t left = until - clock_boot_ms();
	poll(watched, ARRAY_SIZE(watched), left > 0 ? (int)left : 0);
	if (request->stop && stop_is_requested(request->stop))
		return err_set(err, ERR_CANCELED, "lease %.300s: no longer wanted",
			       request->key);
	return (watched[0].revents & POLLIN) != 0;
}

/* The same, and says now and then who is in the way. */
static int waiter_sleep_until(struct waiter *waiter, int fd, int64_t until,
			      struct err *err)
{
	waiter_report_holder(waiter);
	return waiter_pause(waiter, fd,
			    until < waiter->report_at ? until : waiter->report_at, err);
}

/* Until it is to ask again, or has waited for as long as it would. ERR_CANCELED. */
static int waiter_sleep_poll(struct waiter *waiter, struct err *err)
{
	int64_t until = clock_boot_ms() + next_poll_ms(waiter->manager);

	if (until > waiter->until)
		until = waiter->until;
	while (clock_boot_ms() < until)
		if (waiter_sleep_until(waiter, -1, until, err) < 0)
			return -1;
	return 0;
}

static bool waiter_has_holder(const struct waiter *waiter)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&waiter->manager->mutex);

	return waiter->queue->holder != NULL;
}

/* Where the one before it waits for an answer of the backend, nobody may have it. */
static int waiter_deny_turn(struct waiter *waiter, struct err *err)
{
	return !waiter_has_holder(waiter) &&
			       lease_manager_away_since(waiter->manager, err) != 0
		       ? -1
		       : waiter_deny(waiter, err);
}

/* Waits until it is first in the line and nobody here holds the key. ERR_BUSY after
 * request->wait_ms; ERR_LOCK_UNAVAILABLE; ERR_CANCELED. */
static int waiter_wait_turn(struct waiter *waiter, struct err *err)
{
	while (!take_turn(waiter)) {
		int64_t now = clock_boot_ms(), until = waiter->until;
		if (now >= until)
			return waiter_deny_turn(waiter, err);
		if (is_polling(waiter->manager)) {
			if (waiter_sleep_poll(waiter, err) != 0)
				return -1;
			continue;
		}
		if (waiter->turn_fd < 0 && until > now + NO_FD_POLL_MS)
			until = now + NO_FD_POLL_MS;
		if (waiter_sleep_until(waiter, waiter->turn_fd, until, err) < 0)
			return -1;
	}
	return 0;
}

/* Gives the attempt a hint_fd that was used before, if there is one: so an attempt that
 * finds the key held need not be made again to arm one. */
static void waiter_take_spare_hint(struct waiter *waiter)
{
	struct lease_manager *manager = waiter->manager;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);

	if (manager->spare_hints.count > 0)
		waiter->attempt.hint_fd =
			manager->spare_hints.items[--manager->spare_hints.count];
}

/* Gives the attempt a hint_fd, if the backend has such and it has none: then the next
 * attempt arms it. */
static bool waiter_get_hint(struct waiter *waiter)
{
	struct lease_manager *manager = waiter->manager;
	int *hint_fd = &waiter->attempt.hint_fd;

	if (*hint_fd >= 0)
		return false;
	waiter_take_spare_hint(waiter);
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

/* The holder last told of. */
struct denial {
	uint64_t fence, mark;
};

/* Whether the denial by this holder is news. One of which nothing is known may be the one
 * that was told of. Seed 000 wants it in the log, but a row that
 * is asked for each few seconds must not fill it. */
static bool is_first_denial(struct waiter *waiter, const struct lease_holder *holder)
{
	struct lease_manager *manager = waiter->manager;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);
	const char *key = waiter->request.key;
	const bool is_unknown = holder->fence == 0 && holder->mark == 0;
	struct denial *told = map_get(&manager->denials, key);

	if (told &&
	    (is_unknown || (told->fence == holder->fence && told->mark == holder->mark)))
		return false;
	if (manager->denials.count >= DENIALS_KEPT)
		map_clear_owned(&manager->denials);
	told = xcalloc(1, sizeof(*told));
	*told = (struct denial){ holder->fence, holder->mark };
	free(map_put(&manager->denials, key, told));
	return true;
}

static int deny_at_once(struct waiter *waiter, const struct lease_holder *holder,
			struct err *err)
{
	char id[LEASE_JOB_SIZE];

	lease_job_split(holder->job, id);
	err_set(err, ERR_BUSY,
		"Cannot obtain an exclusive lease for %.200s: held by %s, process "
		"%" PRId64 ", job %s (%s)",
		waiter->request.key, holder->node, holder->pid, id[0] ? id : "unknown",
		holder->operation);
	log_at(is_first_denial(waiter, holder) ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG,
	       "lease.denied", LOG_ERR(err), LOG_TEXT("lease_key", waiter->request.key),
	       HOLDER_FIELDS(holder));
	return -1;
}

int lease_say_timeout(const char *name, const struct lease_holder *holder,
		      struct err *err)
{
	char id[LEASE_JOB_SIZE] = "";

	if (!holder->node[0])
		err_set(err, ERR_LOCK_TIMEOUT, "Lock timeout waiting for repo: %.200s",
			name);
	else if (lease_job_split(holder->job, id))
		err_set(err, ERR_LOCK_TIMEOUT,
			"Lock timeout waiting for repo: %.200s: held by %s, process "
			"%" PRId64 ", job %s (%s), for %" PRId64 " s",
			name, holder->node, holder->pid, id[0] ? id : "unknown",
			holder->operation, held_ms(holder) / 1000);
	return err_because(err, REASON_LOCK_TIMEOUT);
}

static int deny_after_wait(struct waiter *waiter, const struct lease_holder *holder,
			   struct err *err)
{
	const struct lease_request *request = &waiter->request;

	lease_say_timeout(request->name ? request->name : request->key, holder, err);
	log_error("lease.timeout", LOG_ERR(err), LOG_TEXT("lease_key", request->key),
		  LOG_NUMBER("waited_ms", clock_boot_ms() - waiter->since),
		  HOLDER_FIELDS(holder));
	return -1;
}

int waiter_deny(struct waiter *waiter, struct err *err)
{
	struct lease_holder holder;

	look_at_holder(waiter, &holder);
	if (waiter->request.holder)
		*waiter->request.holder = holder;
	return waiter->wait_ms > 0 ? deny_after_wait(waiter, &holder, err)
				   : deny_at_once(waiter, &holder, err);
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
	if (TAILQ_FIRST(&queue->waiters) == waiter)
		queue->passed_until = 0; /* the backend was told of this one */
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

#define AWAY_RETRY_MS 1000

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
	manager->ways.wait_ms = LEASE_WAIT_MS;
	TAILQ_INIT(&manager->held);
	lease_metrics_start(manager);
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
	vec_clear(&manager->untold);
	map_clear(&manager->queues);
	map_clear_owned(&manager->denials);
	lease_ways_clear(&manager->ways);
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

/* What was handed on may end before its ttl. */
static int64_t attempt_valid_until(const struct lease_manager *manager,
				   const struct lease_attempt *attempt)
{
	int64_t ttl = manager->backend->ttl_ms;
	int64_t valid = attempt->valid_ms > 0 ? attempt->valid_ms : ttl;

	return lease_valid_until(manager, attempt->sent_at) - ttl +
	       (valid < ttl ? valid : ttl);
}

static int64_t lease_grace_ms(const struct lease_manager *manager)
{
	int64_t grace = manager->backend->ttl_ms / 4;

	return grace < LEASE_KILL_GRACE_MS ? grace : LEASE_KILL_GRACE_MS;
}

int64_t lease_kill_at(const struct lease_manager *manager, int64_t valid_until)
{
	return valid_until - lease_grace_ms(manager);
}

void lease_describe_self(const struct lease_manager *manager,
			 const struct lease_request *request, struct lease_holder *holder)
{
	lease_backend_describe(manager->backend, request, holder);
	holder->held = true;
	snprintf(holder->key, sizeof(holder->key), "%s", request->key);
	snprintf(holder->proof, sizeof(holder->proof), "alive");
}

static struct lease *lease_new(struct lease_manager *manager,
			       const struct lease_attempt *attempt, int64_t valid_until)
{
	struct lease *lease = xcalloc(1, sizeof(*lease));

	lease->manager = manager;
	lease->grant = attempt->grant;
	memcpy(lease->nonce, attempt->grant.nonce, sizeof(lease->nonce));
	lease->predecessor = attempt->predecessor;
	lease->is_fixed = manager->ways.is_fixed && !attempt->request->is_kept;
	lease->valid_until = valid_until;
	lease_describe_self(manager, attempt->request, &lease->self);
	lease->self.fence = attempt->grant.fence;
	deadline_init(&lease->deadline, lease_kill_at(manager, lease->valid_until));
	lease->deadline.grace_ms = lease_grace_ms(manager);
	return lease;
}

static void log_acquired(const struct waiter *waiter)
{
	const struct lease_manager *manager = waiter->manager;
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
	lease_count_takeover(manager);
	log_warn(
		"lease.takeover", LOG_TEXT("lease_key", attempt->grant.key),
		LOG_NUMBER("fence", attempt->grant.fence), LOG_TEXT("after", why),
		LOG_NUMBER("holder_fence", before->fence),
		LOG_TEXT("holder_node", before->node),
		LOG_NUMBER("holder_pid", before->pid),
		LOG_TEXT("holder_job", lease_job_of(before, (char[LEASE_JOB_SIZE]){ 0 })),
		LOG_NUMBER("silent_ms", attempt->silent_ms),
		LOG_TEXT("orphans", attempt->orphans ? "yes" : "no"));
}

static bool lasts_long_enough(const struct lease_manager *manager, int64_t valid_until)
{
	return valid_until - clock_boot_ms() >= manager->backend->ttl_ms / 2;
}

/* 1: granted, and in time; 0: held by others; -1: *err. */
static int ask_once(struct lease_manager *manager, struct lease_attempt *attempt,
		    struct err *err)
{
	const struct lease_backend_ops *ops = manager->backend->ops;
	enum lease_released how;

	for (int i = 0; i < SLOW_GRANTS; i++) {
		attempt->sent_at = clock_boot_ms();
		attempt->valid_ms = 0;
		attempt->is_untold = false;
		if (ops->try_acquire(manager->backend, attempt, err) != 0)
			return -1;
		if (attempt->outcome != LEASE_GRANTED)
			return 0;
		if (lasts_long_enough(manager, attempt_valid_until(manager, attempt)))
			return 1;
		ops->release(manager->backend, &attempt->grant, &how, ERR_IGNORED);
	}
	err_set(err, ERR_TIMEOUT,
		"lease %.300s: granted %d times, each time after more than half of its "
		"%" PRId64 " ms",
		attempt->request->key, SLOW_GRANTS, manager->backend->ttl_ms);
	return err_remedy(err, "the store's disk is too slow, or lease.ttl too short");
}

/* What keeps the leases did not answer, or refused, which says nothing about a lease.
 * True: it is asked again, and the time for it has not passed. */
static bool waiter_outlasts(struct waiter *waiter, struct err *err)
{
	const struct lease_manager *manager = waiter->manager;
	bool may_pass = err->class == ERR_NETWORK || err->class == ERR_TIMEOUT;
	int64_t until = clock_boot_ms() +
			(is_polling(manager) ? next_poll_ms(manager) : AWAY_RETRY_MS);
	struct err why;

	if (!keeper_is_away(waiter->manager, err))
		return false;
	keeper_note_answer(waiter->manager, err);
	err->class = ERR_LOCK_UNAVAILABLE;
	err_because(err, REASON_LOCK_UNAVAILABLE);
	if (!manager->ways.is_patient || !may_pass)
		return false;
	if (waiter_pause(waiter, -1, until < waiter->until ? until : waiter->until,
			 &why) < 0) {
		*err = why;
		return false;
	}
	return clock_boot_ms() < waiter->until;
}

static int lease_manager_ask_backend(struct waiter *waiter, struct err *err)
{
	struct lease_attempt *attempt = &waiter->attempt;
	bool hinted = false;

	for (;;) {
		int result = ask_once(waiter->manager, attempt, err);
		if (result < 0 && waiter_outlasts(waiter, err))
			continue;
		if (result < 0)
			return -1;
		keeper_note_answer(waiter->manager, NULL);
		if (result > 0)
			return 0;
		waiter_note_holder(waiter);
		int64_t now = clock_boot_ms(), retry = attempt->retry_ms;
		if (now >= waiter->until)
			return waiter_deny(waiter, err);
		if (is_polling(waiter->manager)) {
			if (waiter_sleep_poll(waiter, err) != 0)
				return -1;
			continue;
		}
		if (waiter_get_hint(waiter))
			continue;
		if (hinted && retry > AFTER_HINT_MS)
			retry = AFTER_HINT_MS;
		if (waiter_wait_hint(waiter, now + retry, &hinted, err) != 0)
			return -1;
	}
}

/* What was handed to it is its own. */
static bool waiter_take_passed(struct waiter *waiter)
{
	struct lease_attempt *attempt = &waiter->attempt;

	if (!waiter->passed_until || !pass_lasts(waiter->manager, waiter->passed_until))
		return false;
	attempt->grant = attempt->handed;
	attempt->handed = LEASE_NO_GRANT;
	attempt->predecessor = LEASE_AFTER_RELEASE;
	return true;
}

/* Takes the turn's lease; until when it is valid. 0: *err. */
static int64_t waiter_take_lease(struct waiter *waiter, struct err *err)
{
	struct waiter_queue *queue = waiter->queue;

	if (waiter_wait_turn(waiter, err) != 0)
		return 0;
	if (waiter_take_passed(waiter))
		return waiter->passed_until;
	if (waiter->request.wait_ms > 0)
		waiter_take_spare_hint(waiter);
	if (lease_manager_ask_backend(waiter, err) != 0)
		return 0;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&waiter->manager->mutex);
	queue->passes = waiter->attempt.grant.passes;
	queue->is_pass_untold = waiter->attempt.is_untold;
	queue->has_others = waiter->attempt.has_others;
	return attempt_valid_until(waiter->manager, &waiter->attempt);
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
	int64_t valid_until = waiter_take_lease(&waiter, err);
	if (valid_until != 0) {
		*lease = lease_new(manager, &waiter.attempt, valid_until);
		(*lease)->queue = waiter.queue;
		(*lease)->is_untold = waiter.attempt.is_untold;
		log_acquired(&waiter);
	}
	lease_count_acquire(manager, *lease ? ERR_NONE : err->class,
			    clock_boot_ms() - waiter.since);
	waiter_exit(&waiter, *lease);
	return *lease ? 0 : -1;
}

/* Whether somebody of this process got it in our stead. */
static bool hand_over(struct lease *lease, bool *ours, struct pass_note *note)
{
	struct lease_manager *manager = lease->manager;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);

	*ours = keeper_remove_locked(manager, lease);
	if (!*ours)
		return false;
	const struct waiter *first = TAILQ_FIRST(&lease->queue->waiters);
	const bool may_pass = pass_may_locked(lease);
	lease->queue->passed_until = 0;
	lease->grant.valid_until = !first && may_pass ? lease->valid_until : 0;
	lease->grant.passes = lease->queue->passes + 1;
	if (first && may_pass && !lease->queue->has_others &&
	    first->request.fence_floor <= lease->grant.fence)
		pass_to_locked(lease, &first->request, note);
	return !is_polling(manager) &&
	       queue_drop_holder_locked(manager, lease->queue, &lease->grant);
}

static void log_released(const struct lease *lease)
{
	log_debug("lease.released", LOG_TEXT("lease_key", lease->self.key),
		  LOG_NUMBER("fence", lease->self.fence));
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
	else if (ours && how == LEASE_RELEASED)
		log_released(lease);
	else
		log_warn("lease.released_late", LOG_TEXT("lease_key", lease->self.key),
			 LOG_NUMBER("fence", lease->self.fence),
			 LOG_TEXT("now", how == LEASE_GONE ? "taken" : "free"));
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);
	if (lease->queue)
		queue_drop_holder_locked(manager, lease->queue, NULL);
}

void lease_release(struct lease *lease)
{
	struct pass_note note = { 0 };
	bool ours;

	if (!lease)
		return;
	if (!hand_over(lease, &ours, &note))
		lease_manager_give_up(lease, ours);
	else
		log_released(lease);
	if (note.grant.nonce[0]) {
		sched_yield(); /* to the one that has it by now, and may wait for us */
		pass_tell(lease->manager, &note);
	}
	deadline_clear(&lease->deadline);
	free(lease);
}

static bool lease_has_waiter(struct lease *lease)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&lease->manager->mutex);

	return lease->queue && !TAILQ_EMPTY(&lease->queue->waiters);
}

bool lease_is_wanted(struct lease *lease)
{
	struct lease_backend *backend = lease->manager->backend;

	return lease_has_waiter(lease) ||
	       (backend->ops->is_wanted &&
		backend->ops->is_wanted(backend, lease->grant.key, ERR_IGNORED) > 0);
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

static int say_lost(const struct lease *lease, struct err *err)
{
	const struct lease_manager *manager = lease->manager;

	err_set(err, ERR_LOST, "lease %.300s: no longer ours (fence %" PRIu64 ")",
		lease->grant.key, lease->grant.fence);
	if (lease->is_fixed) {
		err_set(err, ERR_LOST,
			"lease %.200s: the work takes longer than lease.ttl (%" PRId64
			" s), which lease.compatibility = docora does not extend",
			lease->grant.key, manager->backend->ttl_ms / 1000);
		err_remedy(err, "raise lease.ttl above the time that the longest job "
				"needs, or remove lease.compatibility; do the same on "
				"all nodes of the site");
	}
	return err_because(err, REASON_LOCK_LOST);
}

int lease_check(struct lease *lease, struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&lease->manager->mutex);

	if (!lease->lost && clock_boot_ms() < lease->valid_until)
		return 0;
	return say_lost(lease, err);
}

int lease_blame(struct lease *lease, struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&lease->manager->mutex);

	if (err->class != ERR_LOST ||
	    (!lease->lost && clock_boot_ms() < deadline_at(&lease->deadline)))
		return -1;
	say_lost(lease, err);
	if (lease->is_fixed)
		err->class = ERR_TIMEOUT;
	return -1;
}

struct deadline *lease_deadline(struct lease *lease)
{
	return &lease->deadline;
}

int lease_guard_fd(const struct lease *lease)
{
	return lease->grant.guard_fd;
}

/* What is not known of a lease since nobody answers is told as such to those who only
 * look, too. Returns the result. */
static int say_if_away(const struct lease_manager *manager, int result, struct err *err)
{
	if (result == 0 || err->class == ERR_MISSING || err->class == ERR_CONFLICT ||
	    !keeper_is_away(manager, err))
		return result;
	err->class = ERR_LOCK_UNAVAILABLE;
	return err_because(err, REASON_LOCK_UNAVAILABLE);
}

int lease_list(struct lease_manager *manager, bool held_only, lease_holders *holders,
	       struct err *err)
{
	struct lease_backend *backend = manager->backend;
	const bool can_leave_out = held_only && backend->ops->list_held;
	int result = can_leave_out ? backend->ops->list_held(backend, holders, err)
				   : backend->ops->list(backend, holders, err);
	size_t kept = 0;

	for (size_t i = 0; i < holders->count; i++)
		if (!held_only || holders->items[i].held)
			holders->items[kept++] = holders->items[i];
	holders->count = kept;
	return say_if_away(manager, result, err);
}

int lease_inspect(struct lease_manager *manager, const char *key,
		  struct lease_holder *holder, struct err *err)
{
	return say_if_away(
		manager,
		manager->backend->ops->inspect(manager->backend, key, holder, err), err);
}

int lease_force_release(struct lease_manager *manager, const char *key, uint64_t fence,
			const char *actor, const char *reason, struct err *err)
{
	if (manager->backend->ops->force_release(manager->backend, key, fence, err) != 0)
		return say_if_away(manager, -1, err);
	log_warn("lease.force_released", LOG_TEXT("lease_key", key),
		 LOG_NUMBER("fence", fence), LOG_TEXT("actor", actor),
		 LOG_TEXT("reason", reason));
	return 0;
}
