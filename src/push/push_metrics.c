#include "push/push_metrics.h"

#include <ctype.h>

#include "base/log.h"
#include "base/metrics.h"
#include "push/dead_letters.h"
#include "push/task_list.h"

void report_class(const char *remote, enum err_class class)
{
	static const char help[] = "Pushes that ended, by how: ok, or the error's class.";

	metric_add(metric_at(metric_counter("refrelay_pushes_total", help, "remote",
					    "class"),
			     remote, class == ERR_NONE ? "ok" : err_class_name(class)),
		   1);
}

static void count_ref(const char *remote, enum ref_status status)
{
	char state[64];
	size_t i;

	snprintf(state, sizeof(state), "%s", ref_status_name(status));
	for (i = 0; state[i]; i++)
		state[i] = (char)tolower((unsigned char)state[i]);
	metric_add(metric_at(metric_counter("refrelay_push_refs_total",
					    "Refs that were pushed, by their result.",
					    "remote", "state"),
			     remote, state),
		   1);
}

static void observe(const struct push_account *account, const struct push_remote *remote)
{
	metric_observe(metric_at(metric_histogram("refrelay_push_seconds",
						  "How long pushes took.",
						  metric_buckets_seconds, "remote"),
				 remote->name),
		       (double)account->took_ms / 1000);
	metric_observe(metric_at(metric_histogram("refrelay_push_delay_seconds",
						  "How old the oldest change of a push "
						  "was when it began.",
						  metric_buckets_seconds, "remote"),
				 remote->name),
		       (double)account->delay_ms / 1000);
	struct metric_series *slow =
		metric_at(metric_counter("refrelay_push_slow_total",
					 "Pushes that took longer than the remote's "
					 "slowLatencyThreshold.",
					 "remote"),
			  remote->name);
	metric_add(slow, remote->slow_ms > 0 && account->took_ms > remote->slow_ms);
}

static bool push_metrics_is_ref_good(enum ref_status status)
{
	return status == REF_OK || status == REF_UP_TO_DATE || status == REF_NON_EXISTING;
}

static void log_ref(const struct ref_result *result)
{
	log_at(push_metrics_is_ref_good(result->status) ? LOG_LEVEL_INFO : LOG_LEVEL_WARN,
	       "push.ref", LOG_TEXT("ref", result->ref), LOG_TEXT("dst", result->dst),
	       LOG_TEXT("status", ref_status_name(result->status)),
	       LOG_TEXT("text", result->text));
}

static size_t log_refs(const struct push_account *account, const char *remote)
{
	const ref_results *refs = &account->result->refs;
	size_t bad = 0, most = account->max_refs > 0 ? account->max_refs : SIZE_MAX;

	for (size_t i = 0; i < refs->count; i++) {
		bad += !push_metrics_is_ref_good(refs->items[i].status);
		count_ref(remote, refs->items[i].status);
		if (i < most)
			log_ref(&refs->items[i]);
	}
	return bad;
}

void report_done(const struct push_account *account)
{
	const struct push_remote *remote = account->group->destination.remote;
	size_t bad = log_refs(account, remote->name);

	observe(account, remote);
	report_class(remote->name, bad > 0 ? ERR_CONFLICT : ERR_NONE);
	log_at(bad > 0 ? LOG_LEVEL_WARN : LOG_LEVEL_INFO, "push.done",
	       LOG_NUMBER("dur_ms", account->took_ms),
	       LOG_NUMBER("bytes", account->result->sent_bytes),
	       LOG_TEXT("remote", remote->name), LOG_TEXT("uri", account->uri),
	       LOG_NUMBER("refs", account->result->refs.count),
	       LOG_NUMBER("not_taken", bad),
	       LOG_NUMBER("pushes", account->result->pushes),
	       LOG_NUMBER("delay_ms", account->delay_ms),
	       LOG_NUMBER("retries", account->retries));
}

void report_failed(const struct push_run *run, int64_t retry_in_ms)
{
	log_at(err_is_transient(run->why.class) ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR,
	       "push.failed", LOG_ERR(&run->why), LOG_TEXT("repo", run->state.project),
	       LOG_TEXT("remote", run->state.remote), LOG_TEXT("uri", run->uri),
	       LOG_TEXT("remedy", run->why.remedy),
	       LOG_NUMBER("failures", run->state.failures),
	       LOG_NUMBER("retry_in_ms", retry_in_ms));
}

void report_gave_up(const struct push_group *group, const char *uri,
		    const struct err *why)
{
	log_error("push.gave_up", LOG_ERR(why),
		  LOG_TEXT("remote", group->destination.remote->name),
		  LOG_TEXT("uri", uri), LOG_TEXT("remedy", why->remedy));
}

static void push_metrics_set_gauge(struct metric *metric, const char *remote,
				   double value)
{
	metric_set(metric_at(metric, remote), value);
}

/* The age of the oldest by remote; in the order of the lanes, 0: none. Returns how many
 * URIs have no remote. */
static size_t find_oldest(const struct schedule *schedule, int64_t *oldest)
{
	const struct map_entry *at;
	size_t orphans = 0;

	for (size_t i = 0; (at = map_next(&schedule->entries, &i)) != NULL;) {
		const struct schedule_entry *entry = at->value;
		orphans += entry->state == ENTRY_ORPHAN;
		for (size_t lane = 0; lane < schedule->lanes.count; lane++)
			if (schedule->lanes.items[lane] == entry->lane &&
			    entry->tasks > 0 &&
			    (oldest[lane] == 0 || entry->since < oldest[lane]))
				oldest[lane] = entry->since;
	}
	return orphans;
}

static struct metric *waiting_gauge(void)
{
	return metric_gauge("refrelay_push_waiting", "URIs with tasks that wait.",
			    "remote");
}

static struct metric *running_gauge(void)
{
	return metric_gauge("refrelay_push_running", "URIs that this node is pushing to.",
			    "remote");
}

static struct metric *age_gauge(void)
{
	return metric_gauge("refrelay_push_oldest_seconds",
			    "How long the oldest task has been waiting.", "remote");
}

void report_forget(void)
{
	metric_forget(waiting_gauge());
	metric_forget(running_gauge());
	metric_forget(age_gauge());
}

void report_queue(const struct schedule *schedule, int64_t now)
{
	struct metric *waiting = waiting_gauge(), *running = running_gauge();
	struct metric *age = age_gauge();
	AUTO_FREE int64_t *oldest = xcalloc(schedule->lanes.count + 1, sizeof(*oldest));
	int64_t server_now = now + schedule->server_lead_ms;

	metric_set(metric_at(metric_gauge("refrelay_push_orphans",
					  "URIs that no remote takes any more.")),
		   (double)find_oldest(schedule, oldest));
	for (size_t i = 0; i < schedule->lanes.count; i++) {
		const struct schedule_lane *lane = schedule->lanes.items[i];
		int64_t since = oldest[i] > 0 ? oldest[i] : server_now;
		if (lane->threads == 0 && lane->running == 0)
			continue; /* it is not configured any more */
		push_metrics_set_gauge(waiting, lane->name, (double)lane->waiting);
		push_metrics_set_gauge(running, lane->name, (double)lane->running);
		push_metrics_set_gauge(age, lane->name,
				       (double)(server_now - since) / 1000);
	}
}

void report_letters(struct task_store *tasks, const struct push_settings *settings)
{
	struct metric *gauge =
		metric_gauge("refrelay_push_dead_letters",
			     "Tasks that were given up and wait for a person.", "remote");
	dead_letters letters = { 0 };
	struct unreadable unreadable = { 0 };

	if (task_store_unreadable(tasks, &unreadable, ERR_IGNORED) == 0)
		metric_set(metric_at(metric_gauge("refrelay_push_unreadable",
						  "Files of the task store that were set "
						  "aside.")),
			   (double)unreadable.count);
	if (task_store_letters(tasks, &letters, ERR_IGNORED) != 0)
		return;
	metric_forget(gauge);
	for (size_t i = 0; i < settings->remotes.count; i++)
		push_metrics_set_gauge(gauge, settings->remotes.items[i].name, 0);
	for (size_t i = 0; i < letters.count; i++)
		metric_add(metric_at(gauge, letters.items[i].task.remote), 1);
	dead_letters_clear(&letters);
}
