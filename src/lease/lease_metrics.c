#include "lease/lease_metrics.h"

#include <pthread.h>

#include "base/metrics.h"

static struct metric *acquires;
static struct metric_series *waits, *held, *lost, *takeovers;

static void register_all(void)
{
	acquires = metric_counter("refrelay_lease_acquire_total",
				  "Attempts to get a lease that ended.", "class");
	waits = metric_at(metric_histogram("refrelay_lease_wait_seconds",
					   "How long leases that were got took to get.",
					   metric_buckets_seconds));
	held = metric_at(
		metric_gauge("refrelay_lease_held", "Leases that this process holds."));
	lost = metric_at(metric_counter("refrelay_lease_lost_total",
					"Leases that ended before their release."));
	takeovers =
		metric_at(metric_counter("refrelay_lease_takeover_total",
					 "Leases taken from a dead or silent holder."));
}

static void ready(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_all);
}

void lease_count_acquire(enum err_class class, int64_t waited_ms)
{
	ready();
	metric_add(metric_at(acquires, class == ERR_NONE ? "ok" : err_class_name(class)),
		   1);
	if (class == ERR_NONE)
		metric_observe(waits, (double)waited_ms / 1000);
}

void lease_count_held(int by)
{
	ready();
	metric_add(held, by);
}

void lease_count_lost(void)
{
	ready();
	metric_add(lost, 1);
}

void lease_count_takeover(void)
{
	ready();
	metric_add(takeovers, 1);
}
