/*
 * Very many may fail at once, as on a full disk, and for more than one reason: the first
 * by name is then nobody's example. All that fail are read once for each class, by the
 * index of what a person looks for; where nothing fails, nothing is read.
 */
#include "report/report_failures.h"

#include "base/metrics.h"

static char *report_failures_copy_text(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

static void report_failures_set_text(char **text, const char *value)
{
	free(*text);
	*text = report_failures_copy_text(value);
}

void report_examples_clear(struct report_examples *examples)
{
	for (size_t i = 0; i < examples->failing.count; i++) {
		struct report_failures *one = &examples->failing.items[i];
		free(one->class);
		free(one->example);
		free(one->failure);
	}
	vec_clear(&examples->failing);
	free(examples->held);
	free(examples->reason);
	free(examples->remedy);
	*examples = (struct report_examples){ 0 };
}

/* The words of the indexes registry_odd and origin_failing, so that they are used. */
#define CLASSES_SQL(table, where)                                                        \
	"SELECT COALESCE(failure_class, 'internal'), COUNT(*), MIN(name) FROM " table    \
	" WHERE kind = ?1 AND " where " GROUP BY COALESCE(failure_class, 'internal')"    \
	" ORDER BY COUNT(*) DESC, MIN(name)"
#define OF_COPIES                                                                        \
	"(held_reason IS NOT NULL OR gone <> 0 OR state > 2)"                            \
	" AND state = 3"

static int read_classes(struct store_tx *tx, const char *sql, const char *kind,
			struct report_examples *examples, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx, sql, &query, err) != 0)
		return -1;
	query_bind_text(query, 1, kind);
	while ((found = query_step(query, err)) > 0)
		vec_add(&examples->failing,
			((struct report_failures){
				.class = report_failures_copy_text(query_text(query, 0)),
				.count = query_int(query, 1),
				.example = report_failures_copy_text(
					query_text(query, 2)) }));
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
		while ((found = query_step(query, err)) > 0) /* once: names are unique */
			report_failures_set_text(&one->failure, query_text(query, 0));
		if (found < 0)
			return -1;
	}
	return 0;
}

int report_examples_of_origin(struct store_tx *tx, const char *kind,
			      struct report_examples *examples, struct err *err)
{
	report_examples_clear(examples);
	if (read_classes(tx, CLASSES_SQL("origin", "verification_state = 3"), kind,
			 examples, err) != 0)
		return -1;
	return report_failures_read_texts(
		tx, "SELECT failure FROM origin WHERE kind = ?1 AND name = ?2", kind,
		examples, err);
}

struct reading {
	const char *kind;
	struct report_examples *examples;
};

static int read_failing(struct store_tx *tx, void *arg, struct err *err)
{
	const struct reading *reading = arg;

	report_examples_clear(reading->examples);
	if (read_classes(tx, CLASSES_SQL("registry", OF_COPIES), reading->kind,
			 reading->examples, err) != 0)
		return -1;
	return report_failures_read_texts(
		tx, "SELECT failure FROM registry WHERE kind = ?1 AND name = ?2",
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
		reading->examples->held = report_failures_copy_text(rows.items[0].name);
		reading->examples->reason =
			report_failures_copy_text(rows.items[0].held_reason);
		reading->examples->remedy =
			report_failures_copy_text(rows.items[0].remedy);
	}
	return 0;
}

int report_examples_of_copies(struct store *store, const char *kind,
			      const struct registry_counts *counts,
			      struct report_examples *examples, struct err *err)
{
	struct reading reading = { kind, examples };

	report_examples_clear(examples);
	if (counts->states[REGISTRY_FAILED] > 0 &&
	    store_read(store, read_failing, &reading, err) != 0)
		return -1;
	return counts->held > 0 ? read_held(store, &reading, err) : 0;
}

void report_example_say(const char *name, const char *why, struct str *out)
{
	if (name)
		str_addf(out, ", for instance %s: %s", name, why ? why : "?");
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
