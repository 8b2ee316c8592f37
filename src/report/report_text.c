/*
 * For people. The first sentence says who is how far behind, why, and what to do; numbers
 * come behind it.
 */
#include "base/clock.h"
#include "report/report_blobs.h"
#include "report/report_parts.h"

#define SKEW_SAID_MS 1000

void report_duration(int64_t ms, struct str *out)
{
	static const struct {
		int64_t ms;
		const char *unit;
	} units[] = { { 86400000, "d" }, { 3600000, "h" }, { 60000, "min" } };

	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (ms >= 2 * units[i].ms) {
			str_addf(out, "%" PRId64 " %s", ms / units[i].ms, units[i].unit);
			return;
		}
	if (ms < 10000)
		str_addf(out, "%.1f s", (double)ms / 1000);
	else
		str_addf(out, "%" PRId64 " s", ms / 1000);
}

static const char *plural(int64_t count)
{
	return count == 1 ? "y" : "ies";
}

static void add_count(int64_t count, struct str *out)
{
	str_addf(out, "%" PRId64 " repositor%s", count, plural(count));
}

static void add_failing(const struct report *report, int64_t count, struct str *out)
{
	if (count == 0)
		return;
	str_addf(out, "; %" PRId64 " failing", count);
	report_failures_say(&report->examples, out);
	str_add(out, " (see refrelay repository list --failed)");
}

static void add_held(const struct report *report, struct str *out)
{
	if (report->repositories.held == 0)
		return;
	str_addf(out, "; %" PRId64 " held", report->repositories.held);
	report_held_say(&report->examples, "repository list", out);
}

void report_add_reason(const struct err *err, struct str *out)
{
	if (err->class == ERR_NONE && !err->text[0]) /* a row may tell a text alone */
		return;
	str_addf(out, ": %s", err->text);
	if (err->remedy[0])
		str_addf(out, " (%s)", err->remedy);
}

void report_cannot_scan(const struct report *report, const struct scan_record *scan,
			struct str *out)
{
	report_duration(
		report->now > scan->failing_since ? report->now - scan->failing_since : 0,
		out);
	report_add_reason(&scan->failure, out);
}

static void add_unreachable(const struct report *report, struct str *out)
{
	str_addf(out, "%s cannot reach its primary", report->site);
	if (report->failing_since > 0) {
		str_add(out, " for ");
		report_duration(report->now > report->failing_since
					? report->now - report->failing_since
					: 0,
				out);
	}
	if (report->heard_at > 0) {
		str_add(out, ", last heard ");
		report_duration(report->now - report->heard_at, out);
		str_add(out, " ago");
	}
	report_add_reason(&report->failure, out);
}

int64_t report_waiting(const struct registry_counts *counts)
{
	return counts->states[REGISTRY_PENDING] + counts->states[REGISTRY_STARTED] -
	       counts->held;
}

/* Git does not say how much it is going to fetch. */
static void report_text_add_bytes(const struct report *report, struct str *out)
{
	const struct vital_signs *signs = &report->signs;

	if (signs->sized == 0)
		return;
	str_addf(out, " (%s",
		 signs->sized < report_waiting(&report->repositories) ? "at least " : "");
	report_size(signs->bytes_to_come, out);
	if (signs->copied > 0)
		str_addf(out, "; %" PRId64 " copied, not verified yet", signs->copied);
	str_add_char(out, ')');
}

static void report_text_add_work(const struct report *report, struct str *out)
{
	const struct registry_counts *counts = &report->repositories;
	int64_t verified = report_verified(report);

	if (report_waiting(counts) == 0) {
		str_addf(out, "%" PRId64 " of ", verified);
		add_count(counts->all, out);
		str_add(out, " verified");
		return;
	}
	add_count(report_waiting(counts), out);
	str_addf(out, " of %" PRId64, counts->all);
	report_text_add_bytes(report, out);
	str_addf(out, " to copy, %" PRId64 " verified", verified);
}

static void add_copies(const struct report *report, struct str *out)
{
	report_text_add_work(report, out);
	report_blobs_work(report, out);
	report_delays_sentence(report, out);
}

static void add_behind(const struct report *report, struct str *out)
{
	str_addf(out, "%s is ", report->site);
	if (report->lag_ms > 0) {
		report_duration(report->lag_ms, out);
		str_add(out, " behind: ");
	} else {
		str_add(out, "catching up: ");
	}
	add_copies(report, out);
}

static void add_stock(const struct report *report, struct str *out)
{
	const struct registry_counts *counts = &report->repositories;

	str_addf(out, "%s is running its first full comparison: ", report->site);
	add_count(counts->states[REGISTRY_SYNCED], out);
	str_addf(out, " of %" PRId64 " known so far are here", counts->all);
	report_delays_sentence(report, out);
}

static void report_text_add_state(const struct report *report,
				  const struct verdict *verdict, struct str *out)
{
	switch (verdict->code) {
	case VERDICT_IN_SYNC:
		str_add(out, "in sync, verified: ");
		add_count(report->repositories.all, out);
		report_blobs_count(report, out);
		return;
	case VERDICT_PRIMARY_FAILS:
		add_unreachable(report, out);
		return;
	case VERDICT_NOT_COMPARED:
		add_stock(report, out);
		return;
	case VERDICT_EVENTS_WAIT:
	case VERDICT_LEFT_OUT:
	case VERDICT_NOT_SYNCED:
	case VERDICT_NOT_VERIFIED:
		add_behind(report, out);
		return;
	case VERDICT_PUSH_WAITS:
		report_text_add_work(report, out);
		report_blobs_work(report, out);
		return;
	case VERDICT_NO_NODE:
	case VERDICT_NODE_SILENT:
		add_copies(report, out);
		return;
	default:
		report_why(report, verdict, out);
		str_add(out, "; ");
		add_copies(report, out);
	}
}

static void add_left_out(const struct scan_record *scan, struct str *out)
{
	if (scan->left_out == 0)
		return;
	str_addf(out, "; %" PRId64 " left out, e.g. %s", scan->left_out, scan->example);
}

static void add_secondary_sentence(const struct report *report,
				   const struct verdict *verdict, struct str *out)
{
	const struct registry_counts *counts = &report->repositories;

	report_text_add_state(report, verdict, out);
	add_failing(report, report_failing_copies(counts, &report->examples), out);
	if (counts->states[REGISTRY_MISSING_ON_PRIMARY] > 0)
		str_addf(out, "; %" PRId64 " missing on the primary",
			 counts->states[REGISTRY_MISSING_ON_PRIMARY]);
	add_held(report, out);
	report_blobs_troubles(report, out);
	report_lfs_sentence(report, out);
	add_left_out(&report->scan, out);
}

static void add_silence(const struct report *report, const struct report_secondary *one,
			struct str *out)
{
	int64_t ms = one->age_ms >= 0 ? one->age_ms : report->now - one->seen_at;

	if (one->seen_at == 0) {
		str_addf(out, "%s has not connected yet", one->site);
		return;
	}
	str_addf(out, "%s has not been heard from for ", one->site);
	report_duration(ms > 0 ? ms : 0, out);
	str_add(out, " (see refrelay status there)");
}

static void add_follower(const struct report *report, const struct report_secondary *one,
			 struct str *out)
{
	if (one->age_ms < 0 || one->age_ms > VERDICT_HEARD_MS) {
		add_silence(report, one, out);
		return;
	}
	if (one->is_twice) {
		str_addf(out, "two nodes use the name %s: stop one of them, or rename it",
			 one->site);
		return;
	}
	if (one->lag_ms > 0 || one->behind > 0) {
		str_addf(out, "%s is ", one->site);
		report_duration(one->lag_ms, out);
		str_add(out, " behind");
	} else if (one->says == SAYS_NOTHING) {
		str_addf(out, "%s does not report whether it is in sync", one->site);
	} else if (report_secondary_judge(report, one) == VERDICT_IN_SYNC) {
		str_addf(out, "%s is in sync", one->site);
	} else if (report_secondary_judge(report, one) == VERDICT_SECONDARY_PARTIAL) {
		str_addf(out, "%s does not copy ", one->site);
		report_blobs_not_copied(report, one, out);
		str_add(out, " (see refrelay check there)");
	} else {
		str_addf(out, "%s is not in sync: %s", one->site,
			 verdict_words(one->why ? one->why : "events_wait"));
	}
	if (one->failing > 0)
		str_addf(out, ", %" PRId64 " failing there", one->failing);
	if (one->held > 0)
		str_addf(out, ", %" PRId64 " held there", one->held);
}

static void report_text_add_scan(const struct report *report, struct str *out)
{
	const struct scan_record *scan = &report->scan;

	if (scan->failing_since == 0)
		return;
	str_addf(out, "%s has been unable to scan its repositories for ", report->site);
	report_cannot_scan(report, scan, out);
	str_add(out, "; ");
}

/* Then that is said first, and nothing of others, of whom it would know. */
static bool lacks_node(const struct verdict *verdict)
{
	return verdict->code == VERDICT_NO_NODE || verdict->code == VERDICT_NODE_SILENT;
}

static void report_text_add_followers(const struct report *report,
				      const struct verdict *verdict, struct str *out)
{
	if (lacks_node(verdict))
		return;
	if (report->secondaries.count == 0)
		str_add(out, "no secondary has connected yet");
	for (size_t i = 0; i < report->secondaries.count; i++) {
		str_add(out, i > 0 ? "; " : "");
		add_follower(report, &report->secondaries.items[i], out);
	}
	str_add(out, "; ");
}

/* What the node does not know of itself goes first. */
static void add_own(const struct report *report, const struct verdict *verdict,
		    struct str *out)
{
	switch (verdict->code) {
	case VERDICT_NOT_WRITTEN:
	case VERDICT_NOT_SCANNED:
	case VERDICT_SCAN_OLD:
		report_why(report, verdict, out);
		str_add(out, "; ");
		return;
	default:
		report_text_add_scan(report, out);
	}
}

/* Those in doubt, or asked for, until their objects are read. */
static void add_to_verify(const struct report *report, struct str *out)
{
	int64_t count = report->repositories.verification[VERIFICATION_PENDING];

	if (count > 0)
		str_addf(out, " (%" PRId64 " not verified yet)", count);
}

static void add_primary_sentence(const struct report *report,
				 const struct verdict *verdict, struct str *out)
{
	const bool is_good = verdict->code == VERDICT_IN_SYNC;

	if (is_good) {
		str_add(out, "in sync, verified: ");
	} else {
		add_own(report, verdict, out);
		report_text_add_followers(report, verdict, out);
	}
	add_count(report->repositories.all, out);
	add_to_verify(report, out);
	report_blobs_count(report, out);
	if (!is_good)
		report_blobs_work(report, out);
	add_failing(report, report->repositories.verification[VERIFICATION_FAILED], out);
	report_blobs_troubles(report, out);
	report_lfs_sentence(report, out);
	add_left_out(&report->scan, out);
	report_mirrors_sentence(report, out);
}

static void add_standalone_sentence(const struct report *report,
				    const struct verdict *verdict, struct str *out)
{
	size_t start = out->len;
	size_t remotes = report->push.remotes.count;

	add_own(report, verdict, out);
	report_push_sentence(report, out);
	if (out->len > start && !text_ends_with(out->data, "; "))
		str_add(out, "; ");
	if (remotes == 0 && report->mirrors.all == 0 && report->mirrors.lists == 0)
		str_addf(out, "%s has no remotes and no mirrors; ", report->site);
	else if (remotes > 0 && verdict->code == VERDICT_IN_SYNC)
		str_addf(out, "everything is pushed to %zu remote%s; ", remotes,
			 remotes == 1 ? "" : "s");
	add_count(report->repositories.all, out);
	report_blobs_count(report, out);
	add_failing(report, report->repositories.verification[VERIFICATION_FAILED], out);
	report_blobs_troubles(report, out);
	report_lfs_sentence(report, out);
	add_left_out(&report->scan, out);
	report_mirrors_sentence(report, out);
}

static void add_sentence_of_role(const struct report *report,
				 const struct verdict *verdict, struct str *out)
{
	size_t start = out->len;

	if (report->role == SITE_STANDALONE) {
		add_standalone_sentence(report, verdict, out);
		return;
	}
	report_push_sentence(report, out);
	if (out->len > start)
		str_add(out, "; ");
	if (report->role == SITE_SECONDARY)
		add_secondary_sentence(report, verdict, out);
	else
		add_primary_sentence(report, verdict, out);
}

void report_sentence(const struct report *report, struct str *out)
{
	struct verdict verdict;

	report_judge(report, &verdict);
	if (lacks_node(&verdict)) {
		report_why(report, &verdict, out);
		str_add(out, "; ");
	}
	add_sentence_of_role(report, &verdict, out);
	if (report->signs.node == NODE_ANSWERS || lacks_node(&verdict))
		return;
	if (report->signs.node == NODE_MUTE) {
		str_add(out, " (its node does not answer)");
		return;
	}
	str_add(out, " (");
	report_no_node(report, out);
	str_add(out, "; start it: refrelay serve)");
}

static void add_ago(const struct report *report, int64_t at, struct str *out)
{
	if (at == 0) {
		str_add(out, "never");
		return;
	}
	report_duration(report->now > at ? report->now - at : 0, out);
	str_add(out, " ago");
}

/* Less may be the time that an answer took, or the rest of the second in its Date. */
static void add_skew(int64_t skew_ms, struct str *out)
{
	if (skew_ms <= -SKEW_SAID_MS || skew_ms >= SKEW_SAID_MS)
		str_addf(out, ", clock difference %+.1f s", (double)skew_ms / 1000);
}

static void add_secondary_table(const struct report *report, struct str *out)
{
	const struct registry_counts *counts = &report->repositories;

	str_addf(out,
		 "\n  %-13s%8s%8s%9s%9s%8s%9s%6s\n  %-13s%8" PRId64 "%8" PRId64
		 "%9" PRId64 "%9" PRId64 "%8" PRId64 "%9" PRId64 "%6" PRId64 "\n",
		 "kind", "all", "synced", "verified", "waiting", "failed", "missing",
		 "held", "repositories", counts->all, counts->states[REGISTRY_SYNCED],
		 report_verified(report), report_waiting(counts),
		 counts->states[REGISTRY_FAILED],
		 counts->states[REGISTRY_MISSING_ON_PRIMARY], counts->held);
	report_blobs_table(report, out);
	str_addf(out, "\n  primary %s, heard ",
		 report->primary_url ? report->primary_url : "?");
	add_ago(report, report->heard_at, out);
	str_addf(out, ", event %" PRIu64 " of %" PRIu64, report->cursor,
		 report->primary_last_event);
	if (report->heard_at)
		add_skew(report->skew_ms, out);
	str_add_char(out, '\n');
	str_add(out, "  last full comparison ");
	add_ago(report, report->compared_at, out);
	str_add(out, "\n");
}

static void add_primary_table(const struct report *report, struct str *out)
{
	const struct registry_counts *counts = &report->repositories;

	str_addf(out, "\n  repositories %" PRId64, counts->all);
	if (report->role == SITE_PRIMARY)
		str_addf(out, ", verified %" PRId64 ", failed %" PRId64,
			 report_verified(report),
			 counts->verification[VERIFICATION_FAILED]);
	str_addf(out, "; event %" PRIu64 ", ", report->last_event);
	add_ago(report, report->last_event_at, out);
	str_add(out, "; last full scan ");
	add_ago(report, report->scan.whole_at, out);
	str_add(out, "\n");
	report_blobs_table(report, out);
	if (report->secondaries.count > 0)
		str_addf(out, "\n  %-20s%10s%10s%8s%8s%6s  %s\n", "secondary", "event",
			 "lag", "behind", "failing", "held", "heard");
	for (size_t i = 0; i < report->secondaries.count; i++) {
		const struct report_secondary *one = &report->secondaries.items[i];
		AUTO_STR struct str lag = STR_INIT;
		report_duration(one->lag_ms, &lag);
		str_addf(out,
			 "  %-20s%10" PRIu64 "%10s%8" PRId64 "%8" PRId64 "%6" PRId64 "  ",
			 one->site, one->cursor, lag.data, one->behind, one->failing,
			 one->held);
		add_ago(report, one->seen_at, out);
		str_add(out, "\n");
	}
}

/* What goes on is not stopped by it, and what is here can be read; so it is no reason to
 * be out of sync, until there is a change to follow. */
static void add_leases(const struct report *report, struct str *out)
{
	const struct vital_signs *signs = &report->signs;

	if (signs->leases_away == 0)
		return;
	str_add(out, "\n  the leases became unavailable ");
	add_ago(report, signs->leases_away, out);
	str_addf(out, ", so no new work starts: %s", signs->leases_failure.text);
	if (signs->leases_failure.remedy[0])
		str_addf(out, "; hint: %s", signs->leases_failure.remedy);
	str_add(out, "\n");
}

void report_text(const struct report *report, struct str *out)
{
	report_sentence(report, out);
	str_add(out, "\n");
	if (report->role == SITE_SECONDARY)
		add_secondary_table(report, out);
	else
		add_primary_table(report, out);
	add_leases(report, out);
	report_alerts_text(report, out);
	report_push_table(report, out);
}
