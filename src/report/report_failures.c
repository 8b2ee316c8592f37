/*
 * Very many may fail at once, as on a full disk, and for more than one reason: the first
 * by name is then nobody's example. All that fail are read once for each class, by the
 * index of what a person looks for; where nothing fails, nothing is read.
 */
#include "report/report_blobs.h"

#include "base/metrics.h"
#include "pull/freshness.h"
#include "report/report.h"

/*
 * Why it is not known whether a site is in sync, as a clause of the sentence.
 */

static void report_why_add_duration(int64_t ms, struct str *out)
{
	if (ms < 0)
		return;
	str_add(out, " for ");
	report_duration(ms, out);
}

static int64_t sign_age(const struct report *report)
{
	int64_t age = report->now - report->last_sign.at;

	return age > 0 ? age : 0;
}

static void say_mute(const struct report *report, struct str *out)
{
	str_addf(
		out,
		"the node of %s does not answer: it is suspended, starting or overloaded",
		report->site);
	if (report->last_sign.at == 0)
		return;
	str_add(out, ", and its last sign of life was ");
	report_duration(sign_age(report), out);
	str_add(out, " ago");
}

void report_no_node(const struct report *report, struct str *out)
{
	str_add(out, "no node is running here");
	if (report->last_sign.at == 0)
		return;
	str_add(out, report->last_sign.is_stop ? ", stopped " : ", last sign of life ");
	report_duration(sign_age(report), out);
	str_add(out, " ago");
}

/* What stands alone follows nobody. */
static void say_no_node(const struct report *report, struct str *out)
{
	if (report->role != SITE_STANDALONE)
		str_addf(out, "%s is not known to be in sync: ", report->site);
	report_no_node(report, out);
	str_add(out, " (start it: refrelay serve)");
}

static void say_not_written(const struct report *report, struct str *out)
{
	const struct vital_signs *signs = &report->signs;

	str_addf(out, "%s could not write to its disk", report->site);
	report_why_add_duration(signs->failing_age_ms > 0 ? signs->failing_age_ms
							  : signs->written_age_ms,
				out);
	report_add_reason(&signs->write_failure, out);
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
		str_addf(out,
			 "%s is comparing everything with its primary for the first time",
			 report->site);
		return;
	case NEWS_LOST:
		str_addf(out,
			 "%s is comparing everything with its primary, which no longer "
			 "has the events since %s was last connected",
			 report->site, report->site);
		return;
	case NEWS_OF_ANOTHER_LOG:
		str_addf(out,
			 "%s is comparing everything with its primary, whose event log "
			 "was restored or recreated",
			 report->site);
		return;
	default:
		str_addf(out, "%s has not heard from its primary yet", report->site);
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
		str_addf(out, "%s cannot find its copies", report->site);
		report_add_reason(&report->root_failure, out);
		return;
	case VERDICT_PRIMARY_UNHEARD:
		say_unheard(report, out);
		return;
	case VERDICT_PRIMARY_SILENT:
		say_silent(report, verdict, out);
		return;
	case VERDICT_COMPARISON_OLD:
		str_addf(out, "%s has not finished a full comparison with its primary",
			 report->site);
		report_why_add_duration(verdict->age_ms, out);
		return;
	case VERDICT_NOT_CHECKED:
		str_addf(out, "%s has not checked all of its copies since it started",
			 report->site);
		return;
	case VERDICT_NOT_SCANNED:
		str_addf(out, "%s has not finished a full scan since it started",
			 report->site);
		return;
	case VERDICT_SCAN_OLD:
		str_addf(out, "%s has not finished a full scan", report->site);
		report_why_add_duration(verdict->age_ms, out);
		return;
	default:
		str_addf(out, "%s is not in sync: %s", report->site,
			 verdict_words(verdict_code_name(verdict->code)));
	}
}

void report_examples_clear(struct report_examples *examples)
{
	for (size_t i = 0; i < examples->failing.count; i++) {
		struct report_failures *one = &examples->failing.items[i];
		free(one->class);
		free(one->example);
		free(one->failure);
		free(one->remedy);
	}
	vec_clear(&examples->failing);
	free(examples->held);
	free(examples->reason);
	free(examples->remedy);
	*examples = (struct report_examples){ 0 };
}

/* The words of the indexes registry_odd and origin_failing, so that they are used. */
#define CLASSES_SQL(table, where, since)                                                 \
	"SELECT COALESCE(failure_class, 'internal'), COUNT(*), MIN(name), " since        \
	" FROM " table " WHERE kind = ?1 AND " where                                     \
	" GROUP BY COALESCE(failure_class, 'internal')"                                  \
	" ORDER BY COUNT(*) DESC, MIN(name)"
#define ODD                                                                              \
	"(held_reason IS NOT NULL OR gone <> 0 OR state > 2"                             \
	" OR failure_class IS NOT NULL)"
#define UNVERIFIABLE "state = 2 AND failure_class IS NOT NULL"
#define OF_COPIES ODD " AND (state = 3 OR (" UNVERIFIABLE "))"

static int read_classes(struct store_tx *tx, const char *sql, const char *kind,
			struct report_examples *examples, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_ask(tx, &query, err, sql, QUERY_TEXT(kind)) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0)
		vec_add(&examples->failing,
			((struct report_failures){ .class = query_copy_text(query, 0),
						   .count = query_int(query, 1),
						   .since = query_int(query, 3),
						   .example =
							   query_copy_text(query, 2) }));
	return found;
}

static int report_failures_read_texts(struct store_tx *tx, const char *sql,
				      const char *kind, struct report_examples *examples,
				      struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, sql, &query, err) != 0)
		return -1;
	for (size_t i = 0; i < examples->failing.count; i++) {
		struct report_failures *one = &examples->failing.items[i];
		query_bind_text(query, 1, kind);
		query_bind_text(query, 2, one->example);
		int found;
		while ((found = query_step(query, err)) >
		       0) { /* once: names are unique */
			free(one->failure);
			free(one->remedy);
			one->failure = query_copy_text(query, 0);
			one->remedy = query_copy_text(query, 1);
		}
		if (found < 0)
			return -1;
	}
	return 0;
}

struct reading {
	const char *kind;
	struct report_examples *examples;
};

static int read_failing_originals(struct store_tx *tx, void *arg, struct err *err)
{
	const struct reading *reading = arg;

	report_examples_clear(reading->examples);
	if (read_classes(tx, CLASSES_SQL("origin", "verification_state = 3", "NULL"),
			 reading->kind, reading->examples, err) != 0)
		return -1;
	return report_failures_read_texts(
		tx, "SELECT failure, remedy FROM origin WHERE kind = ?1 AND name = ?2",
		reading->kind, reading->examples, err);
}

int report_examples_of_origin(struct store *store, const char *kind,
			      const struct registry_counts *counts,
			      struct report_examples *examples, struct err *err)
{
	struct reading reading = { kind, examples };

	report_examples_clear(examples);
	return counts->verification[VERIFICATION_FAILED] > 0
		       ? store_read(store, read_failing_originals, &reading, err)
		       : 0;
}

static int read_failing(struct store_tx *tx, void *arg, struct err *err)
{
	const struct reading *reading = arg;

	report_examples_clear(reading->examples);
	if (read_classes(tx, CLASSES_SQL("registry", OF_COPIES, "MIN(behind_since)"),
			 reading->kind, reading->examples, err) != 0)
		return -1;
	return report_failures_read_texts(
		tx, "SELECT failure, remedy FROM registry WHERE kind = ?1 AND name = ?2",
		reading->kind, reading->examples, err);
}

static int read_held(struct store *store, const struct reading *reading, struct err *err)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	const struct registry_filter held = { .kind = reading->kind,
					      .state = REGISTRY_ANY,
					      .held_only = true,
					      .limit = 1 };

	if (registry_list(store, &held, &rows, err) != 0)
		return -1;
	if (rows.count > 0) {
		reading->examples->held = TAKE(rows.items[0].name);
		reading->examples->reason = TAKE(rows.items[0].held_reason);
		reading->examples->remedy = TAKE(rows.items[0].remedy);
	}
	return 0;
}

int report_examples_of_copies(struct store *store, const char *kind,
			      const struct registry_counts *counts,
			      struct report_examples *examples, struct err *err)
{
	struct reading reading = { kind, examples };

	report_examples_clear(examples);
	/* One that is here, but cannot be verified, is not proved. */
	if ((counts->states[REGISTRY_FAILED] > 0 ||
	     counts->proved < counts->states[REGISTRY_SYNCED]) &&
	    store_read(store, read_failing, &reading, err) != 0)
		return -1;
	return counts->held > 0 ? read_held(store, &reading, err) : 0;
}

/* ", for instance NAME: WHY"; nothing without a name. */
static void report_example_say(const char *name, const char *why, struct str *out)
{
	if (name)
		str_addf(out, ", e.g. %s: %s", name, why ? why : "?");
}

void report_held_say(const struct report_examples *examples, const char *list,
		     struct str *out)
{
	report_example_say(examples->held, examples->reason, out);
	str_addf(out, " (see refrelay %s --state held", list);
	if (examples->remedy)
		str_addf(out, ": %s", examples->remedy);
	str_add_char(out, ')');
}

void report_failures_say(const struct report_examples *examples, struct str *out)
{
	const bool is_mixed = examples->failing.count > 1;

	for (size_t i = 0; i < examples->failing.count; i++) {
		const struct report_failures *one = &examples->failing.items[i];
		if (is_mixed)
			str_addf(out, "%s %" PRId64 " %s", i == 0 ? ":" : ";", one->count,
				 one->class);
		report_example_say(one->example, one->failure, out);
	}
}

/* A brief report has counts only. */
int report_count_unverifiable(struct store *store, int64_t *count, struct err *err)
{
	int found = store_one(store, query_take_number, count, err,
			      "SELECT COUNT(*) FROM registry WHERE " ODD
			      " AND " UNVERIFIABLE);

	return found < 0 ? -1 : 0;
}

int64_t report_failing_copies(const struct registry_counts *counts,
			      const struct report_examples *examples)
{
	int64_t count = 0;

	for (size_t i = 0; i < examples->failing.count; i++)
		count += examples->failing.items[i].count;
	return count > counts->states[REGISTRY_FAILED] ? count
						       : counts->states[REGISTRY_FAILED];
}

json_t *report_failures_json(const struct report_examples *examples)
{
	json_t *array = json_array();

	for (size_t i = 0; i < examples->failing.count; i++) {
		const struct report_failures *one = &examples->failing.items[i];
		json_t *object = json_object();
		json_put_text(object, "class", one->class);
		json_put_number(object, "count", one->count);
		json_put_text(object, "example", one->example);
		if (one->failure)
			json_put_message(object, "message", one->failure);
		if (one->remedy)
			json_put_message(object, "remedy", one->remedy);
		json_array_append_new(array, object);
	}
	return array;
}

static int64_t count_of(const struct report_examples *examples, const char *class)
{
	for (size_t i = 0; i < examples->failing.count; i++)
		if (strcmp(examples->failing.items[i].class, class) == 0)
			return examples->failing.items[i].count;
	return 0;
}

void report_failures_metrics(const char *kind, const struct report_examples *examples)
{
	struct metric *metric = metric_gauge(
		"refrelay_failing",
		"Replicables that fail, by the class of their errors.", "kind", "class");

	for (enum err_class class = ERR_AUTH; class <= ERR_INTERNAL; class ++) {
		const char *name = err_class_name(class);
		metric_set(metric_at(metric, kind, name),
			   (double)count_of(examples, name));
	}
}
