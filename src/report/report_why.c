/*
 * Why it is not known whether a site is in sync, as a clause of the sentence.
 */
#include "pull/news.h"
#include "report/report.h"

static void report_why_add_duration(int64_t ms, struct str *out)
{
	if (ms < 0)
		return;
	str_add(out, " for ");
	report_duration(ms, out);
}

static void add_error(const struct err *err, struct str *out)
{
	if (err->class == ERR_NONE)
		return;
	str_addf(out, ": %s", err->text);
	if (err->remedy[0])
		str_addf(out, " (%s)", err->remedy);
}

static int64_t sign_age(const struct report *report)
{
	int64_t age = report->now - report->last_sign.at;

	return age > 0 ? age : 0;
}

static void say_mute(const struct report *report, struct str *out)
{
	str_addf(out,
		 "the node of %s does not answer: it is stopped, starting or overloaded",
		 report->site);
	if (report->last_sign.at == 0)
		return;
	str_add(out, ", and last wrote that it lives ");
	report_duration(sign_age(report), out);
	str_add(out, " ago");
}

void report_no_node(const struct report *report, struct str *out)
{
	str_add(out, "no node runs here");
	if (report->last_sign.at == 0)
		return;
	str_add(out,
		report->last_sign.is_stop ? " for " : ", and the last sign of one is ");
	report_duration(sign_age(report), out);
	if (!report->last_sign.is_stop)
		str_add(out, " old");
}

/* What stands alone follows nobody. */
static void say_no_node(const struct report *report, struct str *out)
{
	if (report->role != SITE_STANDALONE)
		str_addf(out, "%s is not known to be in sync: ", report->site);
	report_no_node(report, out);
	str_add(out, " (start refrelay serve)");
}

static void say_not_written(const struct report *report, struct str *out)
{
	const struct vital_signs *signs = &report->signs;

	str_addf(out, "%s could write nothing down", report->site);
	report_why_add_duration(signs->failing_age_ms > 0 ? signs->failing_age_ms
							  : signs->written_age_ms,
				out);
	add_error(&signs->write_failure, out);
}

static void say_silent(const struct report *report, const struct verdict *verdict,
		       struct str *out)
{
	str_addf(out, "%s has not heard from its primary", report->site);
	report_why_add_duration(verdict->age_ms, out);
}

static void say_unheard(const struct report *report, struct str *out)
{
	switch (report->signs.news_void) {
	case NEWS_FIRST:
		str_addf(out, "%s compares everything with its primary, as it does first",
			 report->site);
		return;
	case NEWS_LOST:
		str_addf(out,
			 "%s compares everything with its primary, which does not keep "
			 "events for as long as %s was away",
			 report->site, report->site);
		return;
	case NEWS_OF_ANOTHER_LOG:
		str_addf(out,
			 "%s compares everything with its primary, whose log of events "
			 "is another one than before: it was restored, or made anew",
			 report->site);
		return;
	default:
		str_addf(out, "%s has not heard of its primary yet", report->site);
		if (report->heard_at > 0)
			str_add(out, " since its node was started");
	}
}

void report_why(const struct report *report, const struct verdict *verdict,
		struct str *out)
{
	switch (verdict->code) {
	case VERDICT_NO_NODE:
		say_no_node(report, out);
		return;
	case VERDICT_NODE_SILENT:
		say_mute(report, out);
		return;
	case VERDICT_NOT_WRITTEN:
		say_not_written(report, out);
		return;
	case VERDICT_ROOT_LOST:
		str_addf(out, "%s does not find its copies", report->site);
		add_error(&report->root_failure, out);
		return;
	case VERDICT_PRIMARY_UNHEARD:
		say_unheard(report, out);
		return;
	case VERDICT_PRIMARY_SILENT:
		say_silent(report, verdict, out);
		return;
	case VERDICT_COMPARISON_OLD:
		str_addf(out, "%s has not compared everything with its primary",
			 report->site);
		report_why_add_duration(verdict->age_ms, out);
		return;
	case VERDICT_NOT_SCANNED:
		str_addf(out, "%s has not looked through everything since its start",
			 report->site);
		return;
	case VERDICT_SCAN_OLD:
		str_addf(out, "%s has not looked through everything", report->site);
		report_why_add_duration(verdict->age_ms, out);
		return;
	default:
		str_addf(out, "%s is not in sync: %s", report->site,
			 verdict_words(verdict_code_name(verdict->code)));
	}
}
