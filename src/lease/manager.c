/*
 * Acquiring: join the line of this process (waiter.c); at one's turn ask the backend
 * until it grants, sleeping on its hints; then the keeper renews (keeper.c).
 *
 * Why a holder that checks its lease is alone: validity is counted from before the
 * attempt was sent and ends earlier than the backend's own, on the same clock; so the
 * holder's lease_check() fails before the backend grants the key to anybody else,
 * whatever threads or processes were stopped in between. What runs longer than a check
 * is stopped by the deadline, and what escapes even that by the fence.
 */
#include "lease/manager.h"

#include <assert.h>

#include "base/clock.h"
#include "base/log.h"
#include "lease/lease_metrics.h"

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
