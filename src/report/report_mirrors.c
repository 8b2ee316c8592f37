/*
 * Mirrors in a report: whether each is equal to its upstream, as far as that is known.
 */
#include "replicable/name.h"
#include "replicable/registry.h"
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
	int64_t behind_since; /* 0: it lacks no change, or that is not known */
	int64_t state;        /* of its row; -1: there is none yet */
	bool is_proved, is_gone;
	bool is_lacking; /* objects of LFS */
	const char *held_reason, *failure, *remedy;
};

static void report_mirrors_note(struct report_mirror_example *example,
				const struct report_mirror *one, const char *why)
{
	if (example->name)
		return;
	*example = (struct report_mirror_example){
		.name = xstrdup(one->name),
		.why = xstrdup(why ? why : "its upstream was not polled in time"),
		.remedy = xstrdup_or_null(one->remedy),
	};
}

static bool report_mirrors_is_old(const struct report *report, int64_t at,
				  int64_t interval_ms)
{
	const int64_t age_ms = report->now - at;

	return age_ms > INTERVALS * interval_ms + MOMENT_MS || age_ms < -MOMENT_MS;
}

int64_t report_mirror_equal_at(int64_t now, int64_t checked_at, int64_t synced_at)
{
	const int64_t latest = now + MOMENT_MS;

	return (checked_at > latest) == (synced_at > latest)
		       ? int64_max(checked_at, synced_at)
		       : int64_min(checked_at, synced_at);
}

static void report_mirrors_note_since(int64_t since, int64_t *oldest)
{
	if (since > 0 && (*oldest == 0 || since < *oldest))
		*oldest = since;
}

static void report_mirrors_add(struct report *report, const struct report_mirror *one)
{
	struct report_mirrors *mirrors = &report->mirrors;
	const bool is_stale =
		!one->is_gone &&
		report_mirrors_is_old(report, one->equal_at, one->interval_ms);
	const bool is_failing =
		one->state == REGISTRY_FAILED ||
		one->state == REGISTRY_MISSING_ON_PRIMARY ||
		(one->failure && (one->is_lacking || one->state == REGISTRY_SYNCED));

	mirrors->all++;
	mirrors->synced +=
		one->state == REGISTRY_SYNCED && one->is_proved && !one->is_lacking;
	mirrors->failing += is_failing;
	mirrors->held += one->held_reason != NULL;
	mirrors->stale += is_stale;
	const char *why = one->held_reason ? one->held_reason : one->failure;
	if (is_failing || one->held_reason)
		report_mirrors_note(&mirrors->any, one, why);
	if (one->held_reason)
		report_mirrors_note(&mirrors->one_held, one, why);
	if (!is_failing)
		return;
	report_mirrors_note(&mirrors->one_failing, one,
			    one->failure ? one->failure : why);
	report_mirrors_note_since(one->behind_since, &mirrors->failing_since);
}

static int report_mirrors_read_present(struct store_tx *tx, struct report *report,
				       struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_ask(tx, &query, err,
		      "SELECT mirror.name, interval_ms, checked_at, last_success_at,"
		      " state, proved, held_reason, failure, registry.remedy,"
		      " next_at, message, mirror_lfs.remedy, behind_since FROM mirror"
		      " LEFT JOIN registry ON registry.kind = ?1"
		      " AND registry.name = mirror.name"
		      " LEFT JOIN mirror_lfs ON mirror_lfs.mirror = mirror.name"
		      " ORDER BY mirror.name",
		      QUERY_TEXT(KIND_MIRROR)) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0) {
		const bool has_own = !query_is_null(query, 6) || !query_is_null(query, 7);
		const struct report_mirror one = {
			.name = query_text(query, 0),
			.interval_ms = query_int(query, 1),
			.equal_at = report_mirror_equal_at(
				report->now, query_int(query, 2), query_int(query, 3)),
			.behind_since = query_int(query, 12),
			.state = query_is_null(query, 4) ? -1 : query_int(query, 4),
			.is_proved = query_int(query, 5) != 0,
			.held_reason = query_text(query, 6),
			.is_lacking = !query_is_null(query, 9),
			.failure = query_text(query, has_own ? 7 : 10),
			.remedy = query_text(query, has_own ? 8 : 11),
		};
		report_mirrors_add(report, &one);
	}
	return found;
}

/* Those that no list has any more, and that wait for a person. */
static int report_mirrors_read_held(struct store_tx *tx, struct report *report,
				    struct err *err)
{
	const struct registry_filter gone = { .kind = KIND_MIRROR,
					      .state = REGISTRY_ANY,
					      .limit = INT32_MAX,
					      .gone_only = true,
					      .held_only = true };
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };

	if (registry_list_in(tx, &gone, &rows, err) != 0)
		return -1;
	for (size_t i = 0; i < rows.count; i++)
		report_mirrors_add(
			report,
			&(struct report_mirror){ .name = rows.items[i].name,
						 .state = REGISTRY_PENDING,
						 .is_gone = true,
						 .held_reason = rows.items[i].held_reason,
						 .remedy = rows.items[i].remedy });
	return 0;
}

static void report_mirrors_add_list(struct report_mirrors *mirrors, struct query *query,
				    bool is_stale)
{
	const bool is_failing = query_int(query, 3) > 0;

	mirrors->lists++;
	mirrors->lists_failing += is_failing;
	mirrors->lists_stale += is_stale;
	if (mirrors->list || (!is_failing && !is_stale))
		return;
	mirrors->list = query_copy_text(query, 0);
	mirrors->list_why = is_failing ? query_copy_text(query, 4)
				       : xstrdup("it was not read in time");
	mirrors->list_remedy = is_failing ? query_copy_text(query, 5) : NULL;
}

static int report_mirrors_read_lists(struct store_tx *tx, struct report *report,
				     struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx,
		       "SELECT list, interval_ms, read_at, failed_at, message, remedy"
		       " FROM mirror_list WHERE interval_ms > 0 ORDER BY list",
		       &query, err) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0)
		report_mirrors_add_list(&report->mirrors, query,
					report_mirrors_is_old(report, query_int(query, 2),
							      query_int(query, 1)));
	return found;
}

static int report_mirrors_read_checkouts(struct store_tx *tx, struct report *report,
					 struct err *err)
{
	struct report_mirrors *mirrors = &report->mirrors;
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx,
		       "SELECT name, message, remedy, failing_since FROM mirror_checkout"
		       " WHERE failing_since > 0 ORDER BY name",
		       &query, err) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0) {
		report_mirrors_note_since(query_int(query, 3),
					  &mirrors->checkouts_failing_since);
		if (mirrors->checkouts_failing++ > 0)
			continue;
		mirrors->checkout = query_copy_text(query, 0);
		mirrors->checkout_why = query_copy_text(query, 1);
		mirrors->checkout_remedy = query_copy_text(query, 2);
	}
	return found;
}

int report_mirrors_read(struct store_tx *tx, struct report *report, struct err *err)
{
	report_mirrors_clear(&report->mirrors);
	report->mirrors = (struct report_mirrors){ 0 };
	return report_mirrors_read_present(tx, report, err) != 0 ||
			       report_mirrors_read_held(tx, report, err) != 0 ||
			       report_mirrors_read_checkouts(tx, report, err) != 0
		       ? -1
		       : report_mirrors_read_lists(tx, report, err);
}

static void report_mirrors_clear_example(struct report_mirror_example *example)
{
	free(example->name);
	free(example->why);
	free(example->remedy);
}

void report_mirrors_clear(struct report_mirrors *mirrors)
{
	report_mirrors_clear_example(&mirrors->any);
	report_mirrors_clear_example(&mirrors->one_failing);
	report_mirrors_clear_example(&mirrors->one_held);
	free(mirrors->checkout);
	free(mirrors->checkout_why);
	free(mirrors->checkout_remedy);
	free(mirrors->list);
	free(mirrors->list_why);
	free(mirrors->list_remedy);
}

static void report_mirrors_add_example(const char *what, const char *why,
				       const char *remedy, struct str *out)
{
	str_addf(out, "; %s: ", what);
	str_add_printable(out, why);
	if (remedy)
		str_addf(out, " (%s)", remedy);
}

void report_mirrors_sentence(const struct report *report, struct str *out)
{
	const struct report_mirrors *mirrors = &report->mirrors;

	if (mirrors->all > 0)
		str_addf(out, "; %" PRId64 " of %" PRId64 " mirror%s up to date",
			 mirrors->synced, mirrors->all,
			 mirrors->all == 1 ? " is" : "s are");
	if (mirrors->stale > 0)
		str_addf(out, ", unknown for %" PRId64, mirrors->stale);
	if (mirrors->any.name)
		report_mirrors_add_example(mirrors->any.name, mirrors->any.why,
					   mirrors->any.remedy, out);
	if (mirrors->checkout) {
		AUTO_FREE char *tree =
			xasprintf("the working tree of %s", mirrors->checkout);
		report_mirrors_add_example(tree, mirrors->checkout_why,
					   mirrors->checkout_remedy, out);
	}
	if (!mirrors->list)
		return;
	AUTO_FREE char *what = xasprintf("the list %s", mirrors->list);
	report_mirrors_add_example(what, mirrors->list_why, mirrors->list_remedy, out);
}

static json_t *report_mirrors_lists_json(const struct report_mirrors *mirrors)
{
	json_t *object = json_object();

	json_put_number(object, "all", mirrors->lists);
	json_put_number(object, "failing", mirrors->lists_failing);
	json_put_number(object, "stale", mirrors->lists_stale);
	json_put_text(object, "example", mirrors->list);
	json_put_text(object, "failure", mirrors->list_why);
	json_put_text(object, "remedy", mirrors->list_remedy);
	return object;
}

static json_t *report_mirrors_checkouts_json(const struct report_mirrors *mirrors)
{
	json_t *object = json_object();

	json_put_number(object, "failing", mirrors->checkouts_failing);
	json_put_text(object, "example", mirrors->checkout);
	json_put_text(object, "failure", mirrors->checkout_why);
	json_put_text(object, "remedy", mirrors->checkout_remedy);
	return object;
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
	json_put_text(object, "example", mirrors->any.name);
	json_put_text(object, "failure", mirrors->any.why);
	json_put_text(object, "remedy", mirrors->any.remedy);
	json_put(object, "checkouts", report_mirrors_checkouts_json(mirrors));
	json_put(object, "lists", report_mirrors_lists_json(mirrors));
	return object;
}

bool report_mirror_is_lacking(const struct registry_row *row, const struct lfs_lack *lack)
{
	return lack->next_at >= 0 && row->state == REGISTRY_SYNCED && !row->is_gone &&
	       !row->held_reason && !row->failure;
}

const char *report_mirror_lacking_state(const struct lfs_lack *lack)
{
	return lack->message ? "failed" : "pending";
}

void report_mirror_put_lacking(const struct lfs_lack *lack, json_t *object)
{
	json_put_text(object, "state", report_mirror_lacking_state(lack));
	json_put_text(object, "word", lack->message ? "failing" : "copying");
	json_put_text(object, "failure_class", lack->class);
	if (lack->message)
		json_put_message(object, "failure", lack->message);
	else
		json_put(object, "failure", json_null());
	json_put_text(object, "remedy", lack->remedy);
}
