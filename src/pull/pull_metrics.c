/*
 * What the metrics hear of jobs, of repositories and of blobs.
 */
#include "base/metrics.h"
#include "pull/pull_job.h"

void pull_count_sync(const char *kind, const char *state)
{
	struct metric *syncs = metric_counter("refrelay_syncs_total", "Syncs that ended.",
					      "kind", "state");

	metric_add(metric_at(syncs, kind, state), 1);
}

void pull_count_verification(const char *kind, enum registry_event event)
{
	static const char *const words[REGISTRY_EVENTS] = {
		[REGISTRY_PROVED] = "proved",
		[REGISTRY_DISPROVED] = "disproved",
		[REGISTRY_SUPERSEDED] = "superseded",
	};
	struct metric *ended =
		metric_counter("refrelay_verifications_total",
			       "Verifications that ended.", "kind", "state");

	metric_add(metric_at(ended, kind, words[event]), 1);
}

void pull_measure_job(const char *kind, int64_t took_ms, uint64_t bytes)
{
	struct metric *took =
		metric_histogram("refrelay_sync_duration_seconds", "How long syncs took.",
				 metric_buckets_seconds, "kind");
	struct metric *arrived =
		metric_counter("refrelay_sync_bytes_total",
			       "Bytes of packs and blobs that arrived.", "kind");

	metric_observe(metric_at(took, kind), (double)took_ms / 1000);
	metric_add(metric_at(arrived, kind), (double)bytes);
}

void pull_measure_lag(const char *kind, int64_t lag_ms)
{
	struct metric *lag =
		metric_histogram("refrelay_change_to_verified_seconds",
				 "From a change at the primary to its verified copy.",
				 metric_buckets_seconds, "kind");

	metric_observe(metric_at(lag, kind), (double)lag_ms / 1000);
}
