#include "report/report_metrics.h"

#include <math.h>

#include "base/metrics.h"
#include "replicable/name.h"
#include "report/report_blobs.h"

static void set_states(const char *kind, const struct registry_counts *counts,
		       const struct report_examples *examples, enum site_role role)
{
	struct metric *states =
		metric_gauge("refrelay_replicables",
			     "Replicables by state of their sync.", "kind", "state");
	struct metric *verified = metric_gauge(
		"refrelay_verifications", "Replicables by state of their verification.",
		"kind", "state");

	for (int i = 0; i < REGISTRY_STATES && role == SITE_SECONDARY; i++)
		metric_set(metric_at(states, kind,
				     registry_state_name((enum registry_state)i)),
			   (double)counts->states[i]);
	for (int i = 0; i < VERIFICATION_STATES; i++)
		metric_set(metric_at(verified, kind,
				     registry_verification_name(
					     (enum registry_verification)i)),
			   (double)counts->verification[i]);
	report_failures_metrics(kind, examples);
}

static void set_bytes(const struct report_kind *kind, enum site_role role)
{
	struct metric *bytes =
		metric_gauge("refrelay_replicable_bytes",
			     "Size of blobs, here and still to copy.", "kind", "state");
	const struct registry_counts *counts = &kind->counts;

	metric_set(metric_at(bytes, kind->type, "here"),
		   (double)(counts->bytes - counts->bytes_to_come));
	if (role == SITE_SECONDARY)
		metric_set(metric_at(bytes, kind->type, "to_come"),
			   (double)counts->bytes_to_come);
}

/* Of all kinds: all, and those held. */
static struct registry_counts set_kinds(const struct report *report)
{
	struct registry_counts sum = report->repositories;

	set_states(KIND_REPOSITORY, &report->repositories, &report->examples,
		   report->role);
	for (size_t i = 0; i < report->blobs.count; i++) {
		const struct report_kind *kind = &report->blobs.items[i];
		set_states(kind->type, &kind->counts, &kind->examples, report->role);
		set_bytes(kind, report->role);
		sum.all += kind->counts.all;
		sum.held += kind->counts.held;
	}
	return sum;
}

static void report_metrics_set_gauge(const char *name, const char *help, double value)
{
	metric_set(metric_at(metric_gauge(name, help)), value);
}

static void set_of_site(const char *name, const char *help, const char *site,
			double value)
{
	metric_set(metric_at(metric_gauge(name, help, "site"), site), value);
}

enum { OF_SECONDARY = 5 };

static const struct {
	const char *name, *help;
} of_secondary[OF_SECONDARY] = {
	{ "refrelay_secondary_lag_seconds",
	  "Age of the oldest change that a secondary does not have." },
	{ "refrelay_secondary_in_sync",
	  "1: a secondary is heard, has all events, and says so of itself." },
	{ "refrelay_secondary_age_seconds",
	  "Since a secondary asked; by the boot clock." },
	{ "refrelay_secondary_seen_timestamp_seconds", "When a secondary asked last." },
	{ "refrelay_secondary_cursor_event",
	  "The last event that a secondary has taken over." },
};

static void set_secondary(const char *site, const double values[OF_SECONDARY])
{
	for (size_t i = 0; i < OF_SECONDARY; i++)
		set_of_site(of_secondary[i].name, of_secondary[i].help, site, values[i]);
}

/* Series are never removed; but no alert fires for what is not a number. */
void report_metrics_forget(const char *site)
{
	set_secondary(site, (const double[OF_SECONDARY]){ NAN, NAN, NAN, NAN, NAN });
}

static void set_secondaries(const struct report *report)
{
	for (size_t i = 0; i < report->secondaries.count; i++) {
		const struct report_secondary *one = &report->secondaries.items[i];
		const double values[OF_SECONDARY] = {
			(double)one->lag_ms / 1000,
			report_secondary_judge(report, one) == VERDICT_IN_SYNC,
			one->age_ms < 0 ? NAN : (double)one->age_ms / 1000,
			one->seen_at == 0 ? NAN : (double)one->seen_at / 1000,
			(double)one->cursor,
		};
		set_secondary(one->site, values);
	}
}

static void set_left_out(const struct report *report)
{
	int64_t left_out = report->scan.left_out;

	for (size_t i = 0; i < report->blobs.count; i++)
		left_out += report->blobs.items[i].scan.left_out;
	report_metrics_set_gauge(
		"refrelay_left_out",
		"What was found and is not replicated, or could not be read.",
		(double)left_out);
}

/* Of repositories and all kinds of blobs in one: the longest ago. */
static void set_scan(const struct report *report)
{
	bool is_failing = report->scan.failing_since > 0;
	int64_t whole_at = report->scan.whole_at;

	for (size_t i = 0; i < report->blobs.count; i++) {
		const struct scan_record *scan = &report->blobs.items[i].scan;
		is_failing = is_failing || scan->failing_since > 0;
		whole_at = scan->whole_at < whole_at ? scan->whole_at : whole_at;
	}
	report_metrics_set_gauge(
		"refrelay_scan_failing",
		"1: the last look at all repositories, or blobs of a kind, failed.",
		is_failing);
	report_metrics_set_gauge("refrelay_last_scan_timestamp_seconds",
				 "When all repositories and blobs were last looked at.",
				 (double)whole_at / 1000);
}

static void set_age(const char *name, const char *help, int64_t age_ms)
{
	report_metrics_set_gauge(name, help, age_ms < 0 ? NAN : (double)age_ms / 1000);
}

/* One series a reason, so that an alert can name it: 1 for the verdict, else 0. */
static void set_verdict(const struct report *report)
{
	struct verdict verdict;
	struct metric *reasons =
		metric_gauge("refrelay_not_in_sync",
			     "1: why the site is not known to be in sync.", "class");

	report_judge(report, &verdict);
	report_metrics_set_gauge(
		"refrelay_in_sync",
		"1: in sync and verified, by proof that is fresh; pushes left out.",
		verdict.code == VERDICT_IN_SYNC);
	for (int code = VERDICT_IN_SYNC + 1; code < VERDICT_CODES; code++)
		metric_set(metric_at(reasons, verdict_code_name((enum verdict_code)code)),
			   (int)verdict.code == code);
	set_age("refrelay_written_age_seconds",
		"Since the database and all directories of copies were last written to.",
		report->signs.written_age_ms);
}

static void set_origin(const struct report *report)
{
	report_metrics_set_gauge("refrelay_last_event", "The newest event.",
				 (double)report->last_event);
	report_metrics_set_gauge("refrelay_last_event_timestamp_seconds",
				 "When the newest event happened.",
				 (double)report->last_event_at / 1000);
	set_scan(report);
	set_secondaries(report);
}

static void set_copies(const struct report *report, const struct registry_counts *sum)
{
	report_metrics_set_gauge("refrelay_replicables_held",
				 "Replicables that wait for a person.",
				 (double)sum->held);
	report_metrics_set_gauge("refrelay_root_lost",
				 "1: site.repositories is not where the copies are.",
				 report->is_root_lost);
	report_metrics_set_gauge(
		"refrelay_lag_seconds",
		"Age of the oldest change that is not here; of a silent primary, since "
		"it was "
		"heard.",
		(double)report->lag_ms / 1000);
	report_metrics_set_gauge("refrelay_cursor_event",
				 "The last event that was taken over.",
				 (double)report->cursor);
	report_metrics_set_gauge("refrelay_primary_last_event",
				 "The primary's newest event.",
				 (double)report->primary_last_event);
	report_metrics_set_gauge("refrelay_primary_heard_timestamp_seconds",
				 "When the primary was heard of last.",
				 (double)report->heard_at / 1000);
	set_age("refrelay_primary_heard_age_seconds",
		"Since all news of the primary were known; by the boot clock.",
		report->signs.heard_age_ms);
	set_age("refrelay_compared_age_seconds",
		"Since everything was last compared with the primary.",
		report->signs.compared_age_ms);
	report_metrics_set_gauge("refrelay_clock_difference_seconds",
				 "The primary's clock less this one.",
				 (double)report->skew_ms / 1000);
}

static void set_mirrors(const struct report_mirrors *mirrors)
{
	const struct {
		const char *state;
		int64_t count;
	} states[] = {
		{ "failing", mirrors->failing },
		{ "held", mirrors->held },
		{ "stale", mirrors->stale },
		{ "checkout_failing", mirrors->checkouts_failing },
	};
	struct metric *gauge =
		metric_gauge("refrelay_mirrors", "Mirrors that need attention.", "state");

	for (size_t i = 0; i < ARRAY_SIZE(states); i++)
		metric_set(metric_at(gauge, states[i].state), (double)states[i].count);
}

void report_metrics(const struct report *report)
{
	const struct registry_counts sum = set_kinds(report);

	set_verdict(report);
	set_left_out(report);
	report_metrics_set_gauge("refrelay_replicables_all", "Replicables known.",
				 (double)sum.all);
	report_push_metrics(report);
	if (report->role == SITE_SECONDARY)
		set_copies(report, &sum);
	else
		set_origin(report);
	if (report->role != SITE_SECONDARY)
		set_mirrors(&report->mirrors);
}
