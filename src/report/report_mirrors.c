/*
 * Mirrors in a report: whether each is equal to its upstream, as far as that is known.
 */
#include "replicable/name.h"
#include "report/report.h"
#include "report/report_parts.h"

/* One is known to be equal if it was found so within two intervals, and a moment. What
 * lies ahead by more than that moment was written by another clock, and proves nothing.
 */
#define INTERVALS 2
#define MOMENT_MS 60000

struct report_mirror {
	const char *name; /* borrowed, as the others */
	int64_t interval_ms, equal_at;
	int64_t state; /* of its row; -1: there is none yet */
	bool is_proved;
	const char *held_reason, *failure, *remedy;
};

static void report_mirrors_say(struct report_mirrors *mirrors,
			       const struct report_mirror *one)
{
	if (mirrors->example)
		return;
	mirrors->example = xstrdup(one->name);
	mirrors->why = xstrdup(one->held_reason ? one->held_reason
			       : one->failure   ? one->failure
						: "its upstream was not asked in time");
	mirrors->remedy = one->remedy ? xstrdup(one->remedy) : NULL;
}

static void report_mirrors_add(struct report *report, const struct report_mirror *one)
{
	struct report_mirrors *mirrors = &report->mirrors;
	const int64_t age_ms = report->now - one->equal_at;
	const bool is_stale =
		age_ms > INTERVALS * one->interval_ms + MOMENT_MS || age_ms < -MOMENT_MS;
	const bool is_failing = one->state == REGISTRY_FAILED ||
				one->state == REGISTRY_MISSING_ON_PRIMARY;

	mirrors->all++;
	mirrors->synced += one->state == REGISTRY_SYNCED && one->is_proved;
	mirrors->failing += is_failing;
	mirrors->held += one->held_reason != NULL;
	mirrors->stale += is_stale;
	if (is_failing || one->held_reason)
		report_mirrors_say(mirrors, one);
}

int report_mirrors_read(struct store_tx *tx, struct report *report, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	report_mirrors_clear(&report->mirrors);
	report->mirrors = (struct report_mirrors){ 0 };
	if (query_ask(tx, &query, err,
		      "SELECT mirror.name, interval_ms, checked_at, last_success_at,"
		      " state, proved, held_reason, failure, remedy FROM mirror"
		      " LEFT JOIN registry ON registry.kind = ?1"
		      " AND registry.name = mirror.name ORDER BY mirror.name",
		      QUERY_TEXT(KIND_MIRROR)) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0) {
		int64_t checked_at = query_int(query, 2), synced_at = query_int(query, 3);
		const struct report_mirror one = {
			.name = query_text(query, 0),
			.interval_ms = query_int(query, 1),
			.equal_at = checked_at > synced_at ? checked_at : synced_at,
			.state = query_is_null(query, 4) ? -1 : query_int(query, 4),
			.is_proved = query_int(query, 5) != 0,
			.held_reason = query_text(query, 6),
			.failure = query_text(query, 7),
			.remedy = query_text(query, 8),
		};
		report_mirrors_add(report, &one);
	}
	return found;
}

void report_mirrors_clear(struct report_mirrors *mirrors)
{
	free(mirrors->example);
	free(mirrors->why);
	free(mirrors->remedy);
}

void report_mirrors_sentence(const struct report *report, struct str *out)
{
	const struct report_mirrors *mirrors = &report->mirrors;

	if (mirrors->all == 0)
		return;
	str_addf(out, "; %" PRId64 " of %" PRId64 " mirror%s up to date", mirrors->synced,
		 mirrors->all, mirrors->all == 1 ? " is" : "s are");
	if (mirrors->stale > 0)
		str_addf(out, ", of %" PRId64 " it is not known", mirrors->stale);
	if (!mirrors->example)
		return;
	str_addf(out, "; %s: ", mirrors->example);
	str_add_printable(out, mirrors->why);
	if (mirrors->remedy)
		str_addf(out, " (%s)", mirrors->remedy);
}

json_t *report_mirrors_json(const struct report *report)
{
	const struct report_mirrors *mirrors = &report->mirrors;
	json_t *object = json_object();

	json_put_number(object, "all", mirrors->all);
	json_put_number(object, "synced", mirrors->synced);
	json_put_number(object, "failing", mirrors->failing);
	json_put_number(object, "held", mirrors->held);
	json_put_number(object, "stale", mirrors->stale);
	json_put_text(object, "example", mirrors->example);
	json_put_text(object, "failure", mirrors->why);
	json_put_text(object, "remedy", mirrors->remedy);
	return object;
}
