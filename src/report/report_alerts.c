/*
 * From the table that alert/store.c writes: whoever looks at status learns there that
 * nobody is told of what is wrong.
 */
#include "base/clock.h"
#include "report/report.h"
#include "report/report_parts.h"

static int report_alerts_select(struct store_tx *tx, void *arg, struct err *err)
{
	report_alerts *alerts = arg;
	AUTO_QUERY struct query *query = NULL;
	int found;

	report_alerts_clear(alerts);
	if (query_open(tx,
		       "SELECT name, failing_since, class, message, remedy FROM alert"
		       " WHERE failing_since > 0 ORDER BY name",
		       &query, err) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0) {
		struct report_alert one = { .name = query_copy_text(query, 0),
					    .since = query_int(query, 1) };
		err_set(&one.why, err_class_of_name(query_text(query, 2)), "%s",
			query_text(query, 3));
		err_remedy(&one.why, "%s", query_text(query, 4));
		vec_add(alerts, one);
	}
	return found;
}

int report_alerts_read(const struct report_options *options, struct report *report,
		       struct err *err)
{
	return options->is_brief ? 0
				 : store_read(options->store, report_alerts_select,
					      &report->alerts, err);
}

void report_alerts_clear(report_alerts *alerts)
{
	vec_clear_members(alerts, name);
}

void report_alerts_text(const struct report *report, struct str *out)
{
	for (size_t i = 0; i < report->alerts.count; i++) {
		const struct report_alert *one = &report->alerts.items[i];
		const int64_t ms = report->now - one->since;
		str_addf(out, "\n  alert %s has not been delivered for ", one->name);
		report_duration(ms > 0 ? ms : 0, out);
		str_addf(out, ": %s", one->why.text);
		if (one->why.remedy[0])
			str_addf(out, "; hint: %s", one->why.remedy);
		str_add(out, "\n");
	}
}

json_t *report_alerts_json(const report_alerts *alerts)
{
	json_t *array = json_array();

	for (size_t i = 0; i < alerts->count; i++) {
		const struct report_alert *one = &alerts->items[i];
		json_t *object = json_object();
		json_put_text(object, "name", one->name);
		json_put_time(object, "since", one->since);
		json_put(object, "failure", json_from_err(&one->why));
		json_array_append_new(array, object);
	}
	return array;
}
