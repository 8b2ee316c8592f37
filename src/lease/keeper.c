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
#include "base/clock.h"
#include "base/log.h"
#include "lease/lease_metrics.h"
#include "lease/manager.h"

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

void keeper_add_locked(struct lease_manager *manager, struct lease *lease)
{
	TAILQ_INSERT_TAIL(&manager->held, lease, link);
	lease_count_held(1);
	if (manager->renew_at != INT64_MAX)
		return;
	manager->renew_at = clock_boot_ms() + period(manager);
	pthread_cond_signal(&manager->keeper_wake);
}

bool keeper_remove_locked(struct lease_manager *manager, struct lease *lease)
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

void *keeper_run(void *arg)
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
