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
#include "lease/manager.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"

static struct metric *acquires, *waits, *lease_held_metric, *lease_lost_metric,
	*takeovers;

static void register_all(void)
{
	acquires = metric_counter("refrelay_lease_acquire_total",
				  "Attempts to get a lease that ended.", "kind", "class");
	waits = metric_histogram("refrelay_lease_wait_seconds",
				 "How long leases that were got took to get.",
				 metric_buckets_seconds, "kind");
	lease_held_metric = metric_gauge("refrelay_lease_held",
					 "Leases that this process holds.", "kind");
	lease_lost_metric =
		metric_counter("refrelay_lease_lost_total",
			       "Leases that ended before their release.", "kind");
	takeovers = metric_counter("refrelay_lease_takeover_total",
				   "Leases taken from a dead or silent holder.", "kind");
}

void lease_metrics_start(const struct lease_manager *manager)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const char *name = manager->backend->ops->name;

	pthread_once(&once, register_all);
	metric_begin(acquires, METRIC_LIST(name), METRIC_LIST("ok"));
	metric_begin(acquires, METRIC_LIST(name), err_class_names);
	metric_at(waits, name);
	metric_add(metric_at(lease_held_metric, name), 0);
	metric_add(metric_at(lease_lost_metric, name), 0);
	metric_add(metric_at(takeovers, name), 0);
}

void lease_count_acquire(const struct lease_manager *manager, enum err_class class,
			 int64_t waited_ms)
{
	const char *name = manager->backend->ops->name;

	metric_add(metric_at(acquires, name,
			     class == ERR_NONE ? "ok" : err_class_name(class)),
		   1);
	if (class == ERR_NONE)
		metric_observe(metric_at(waits, name), (double)waited_ms / 1000);
}

void lease_count_held(const struct lease_manager *manager, int by)
{
	metric_add(metric_at(lease_held_metric, manager->backend->ops->name), by);
}

void lease_count_lost(const struct lease_manager *manager)
{
	metric_add(metric_at(lease_lost_metric, manager->backend->ops->name), 1);
}

void lease_count_takeover(const struct lease_manager *manager)
{
	metric_add(metric_at(takeovers, manager->backend->ops->name), 1);
}

struct loss {
	struct lease_grant grant;
	char job[LEASE_JOB_SIZE];
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
	lease_count_held(manager, 1);
	if (lease->is_untold)
		pass_add_untold_locked(lease);
	if (manager->renew_at != INT64_MAX || lease->is_fixed)
		return;
	manager->renew_at = clock_boot_ms() + period(manager);
	pthread_cond_signal(&manager->keeper_wake);
}

bool keeper_remove_locked(struct lease_manager *manager, struct lease *lease)
{
	TAILQ_REMOVE(&manager->held, lease, link);
	if (!lease->lost)
		lease_count_held(manager, -1);
	if (lease->renewal)
		lease->renewal->lease = NULL;
	return !lease->lost && clock_boot_ms() < lease->valid_until;
}

/* The next one in the line may ask the backend, which knows best. */
static void lose_locked(struct lease_manager *manager, struct lease *lease,
			const char *cause, losses *lost)
{
	struct loss loss = { .grant = lease->grant, .cause = cause };

	lease_job_split(lease->self.job, loss.job);

	lease->lost = true;
	deadline_expire(&lease->deadline);
	queue_drop_holder_locked(manager, lease->queue, NULL);
	lease->queue = NULL;
	lease_count_held(manager, -1);
	lease_count_lost(manager);
	vec_add(lost, loss);
}

/*
 * Whether what keeps the leases answers. Each attempt and renewal tells; where there is
 * none, the keeper asks a server or a shared directory now and then, so that an idle site
 * knows, too. A directory of a file server that is gone does not even fail: then it is
 * the keeper that has waited for too long.
 */

#define PROBE_EVERY_MS 5000
#define MUTE_MS 10000

bool keeper_is_away(const struct lease_manager *manager, const struct err *why)
{
	switch (manager->ways.where) {
	case LEASE_UNTOLD:
		return false;
	case LEASE_AT_SERVER:
		return true;
	case LEASE_AT_HOST:
	case LEASE_IN_SHARE:
	default:
		return why->class == ERR_DISK || why->class == ERR_NETWORK ||
		       why->class == ERR_TIMEOUT || why->class == ERR_CONFIG;
	}
}

static bool is_to_be_probed(const struct lease_manager *manager)
{
	return manager->ways.where >= LEASE_IN_SHARE || manager->away_since != 0;
}

static void note_answer_locked(struct lease_manager *manager, const struct err *why)
{
	manager->probe_at = clock_boot_ms() + PROBE_EVERY_MS;
	if (!why)
		manager->away_since = 0;
	else if (manager->away_since == 0)
		manager->away_since = clock_wall_ms();
	if (why)
		manager->away_reason = *why;
}

void keeper_note_answer(struct lease_manager *manager, const struct err *why)
{
	struct err unavailable;
	bool was_away;

	if (manager->ways.where == LEASE_UNTOLD || (why && !keeper_is_away(manager, why)))
		return;
	if (why) {
		unavailable = *why;
		unavailable.class = ERR_LOCK_UNAVAILABLE;
		err_because(&unavailable, REASON_LOCK_UNAVAILABLE);
	}
	lock(&manager->mutex);
	was_away = manager->away_since != 0;
	if (why && !was_away)
		pthread_cond_signal(&manager->keeper_wake); /* it looks when it is back */
	note_answer_locked(manager, why ? &unavailable : NULL);
	unlock(&manager->mutex);
	if (why && !was_away)
		log_error("lease.unavailable", LOG_ERR(&unavailable),
			  LOG_TEXT("backend", manager->backend->ops->name));
	else if (!why && was_away)
		log_info("lease.available",
			 LOG_TEXT("backend", manager->backend->ops->name));
}

/* Gives the mutex away while it asks for a key that nobody has. */
static void probe_locked(struct lease_manager *manager)
{
	char key[LEASE_KEY_SIZE] = "probe";
	struct lease_holder holder;
	struct err err;

	/* With the prefix: the rights of its user may end there. */
	lease_key_of_person(manager, "probe", key, ERR_IGNORED);
	manager->asked_at = clock_boot_ms();
	manager->probe_at = manager->asked_at + PROBE_EVERY_MS;
	unlock(&manager->mutex);
	int result = manager->backend->ops->inspect(manager->backend, key, &holder, &err);
	keeper_note_answer(manager,
			   result == 0 || err.class == ERR_MISSING ? NULL : &err);
	lock(&manager->mutex);
	manager->asked_at = 0;
}

int64_t lease_manager_away_since(struct lease_manager *manager, struct err *why)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&manager->mutex);

	int64_t mute_ms = manager->asked_at ? clock_boot_ms() - manager->asked_at : 0;

	if (manager->away_since != 0) {
		*why = manager->away_reason;
		return manager->away_since;
	}
	if (mute_ms < MUTE_MS)
		return 0;
	err_set(why, ERR_LOCK_UNAVAILABLE,
		"leases: %s has not answered for %" PRId64 " s",
		manager->backend->ops->name, mute_ms / 1000);
	err_because(why, REASON_LOCK_UNAVAILABLE);
	err_remedy(why, "see whether the disk or the file server of the leases is there");
	return clock_wall_ms() - mute_ms;
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

static bool keeper_renews_locked(const struct lease *lease)
{
	return !lease->lost && !lease->is_untold && !lease->is_fixed;
}

static void collect_locked(struct lease_manager *manager, extensions *all)
{
	size_t at = 0;
	struct lease *lease;

	TAILQ_FOREACH(lease, &manager->held, link)
	{
		struct lease_extension one = { .grant = lease->grant, .lease = lease };
		if (keeper_renews_locked(lease))
			vec_add(all, one);
	}
	TAILQ_FOREACH(lease, &manager->held, link)
	{
		if (keeper_renews_locked(lease))
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
		if (!done || all->items[i].unknown ||
		    clock_boot_ms() >= lease->valid_until)
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

static size_t count_unknown(const extensions *all)
{
	size_t unknown = 0;

	for (size_t i = 0; i < all->count; i++)
		unknown += all->items[i].unknown;
	return unknown;
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
	int64_t sent_at = manager->asked_at = clock_boot_ms();
	unlock(&manager->mutex);
	bool done = backend->ops->extend_all(backend, all.items, all.count, sent_at,
					     &err) == 0;
	size_t unknown = done ? count_unknown(&all) : all.count;
	keeper_note_answer(manager, done ? NULL : &err);
	if (unknown > 0)
		log_warn("lease.renewal_failed", LOG_NUMBER("leases", unknown),
			 LOG_ERR(&err));
	lock(&manager->mutex);
	manager->asked_at = 0;
	apply_locked(manager, &all, sent_at, done, lost);
	int64_t due = clock_boot_ms() + period(manager) / (unknown > 0 ? 4 : 1);
	if (due < manager->renew_at) /* else a new lease wants it earlier */
		manager->renew_at = due;
	vec_clear(&all);
}

static void keeper_report_losses(losses *lost)
{
	for (size_t i = 0; i < lost->count; i++)
		log_error("lease.lost", LOG_TEXT("lease_key", lost->items[i].grant.key),
			  LOG_NUMBER("fence", lost->items[i].grant.fence),
			  LOG_TEXT("holder_job", lost->items[i].job),
			  LOG_TEXT("cause", lost->items[i].cause));
	vec_clear(lost);
}

static int64_t next_due_locked(const struct lease_manager *manager)
{
	int64_t due = manager->renew_at;
	const struct lease *lease;

	if (is_to_be_probed(manager) && manager->probe_at < due)
		due = manager->probe_at;
	if (manager->untold.count > 0 && manager->tell_at < due)
		due = manager->tell_at;
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

	/* It is often woken by the thread that got a lease, from the processor of which
	 * it must not take its first moments. */
	if (sched_getscheduler(0) == SCHED_OTHER)
		sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){ 0 });
	lock(&manager->mutex);
	/* What is done without the mutex may miss a signal: only after a look that found
	 * nothing to do is there a wait. */
	while (!manager->closing) {
		lose_lapsed_locked(manager, &lost);
		if (clock_boot_ms() >= manager->renew_at)
			renew_locked(manager, &lost);
		else if (manager->untold.count > 0 && clock_boot_ms() >= manager->tell_at)
			pass_tell_untold_locked(manager);
		else if (is_to_be_probed(manager) && clock_boot_ms() >= manager->probe_at)
			probe_locked(manager);
		else if (lost.count == 0)
			cond_wait_until(&manager->keeper_wake, &manager->mutex,
					next_due_locked(manager));
		if (lost.count == 0)
			continue;
		unlock(&manager->mutex);
		keeper_report_losses(&lost);
		lock(&manager->mutex);
	}
	unlock(&manager->mutex);
	keeper_report_losses(&lost);
	return NULL;
}
