#include "wire/wire_report.h"

#define LIMIT 4096

#define BEHIND "behind"
#define FAILING "failing"
#define HELD "held"
#define LAG "lag"
#define SYNCED "synced"
#define REPLICABLES "replicables"
#define IN_SYNC "in_sync"
#define REASON "reason"
#define NODE "node"
#define BLOB_TYPES "blob_types"

void wire_report_clear(struct wire_report *report)
{
	free(report->reason);
	free(report->node);
	text_list_clear(&report->blob_types);
	*report = (struct wire_report){ 0 };
}

void wire_report_render(const struct wire_report *report, struct str *out)
{
	json_auto_t *object = json_object();

	json_put_number(object, BEHIND, report->behind);
	json_put_number(object, FAILING, report->failing);
	json_put_number(object, HELD, report->held);
	json_put_seconds(object, LAG, report->lag_ms);
	json_put_number(object, SYNCED, report->synced);
	json_put_number(object, REPLICABLES, report->replicables);
	json_put_bool(object, IN_SYNC, report->in_sync);
	json_put_text(object, REASON, report->reason);
	json_put_text(object, NODE, report->node);
	if (report->knows_blob_types)
		json_put(object, BLOB_TYPES,
			 json_texts(report->blob_types.items, report->blob_types.count));
	json_render(object, out);
}

static int64_t wire_report_count(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* A lag that cannot be is none. */
static int64_t wire_report_lag(const json_t *object)
{
	double seconds = json_number_value(json_object_get(object, LAG));

	return seconds > 0 && seconds < 1e12 ? (int64_t)(seconds * 1000) : 0;
}

int wire_report_parse(const char *text, struct wire_report *report, struct err *err)
{
	json_auto_t *object = json_parse_object(text, strlen(text), LIMIT, err);
	const json_t *in_sync = json_object_get(object, IN_SYNC);

	*report = (struct wire_report){
		.behind = wire_report_count(object, BEHIND),
		.failing = wire_report_count(object, FAILING),
		.held = wire_report_count(object, HELD),
		.lag_ms = wire_report_lag(object),
		.synced = wire_report_count(object, SYNCED),
		.replicables = wire_report_count(object, REPLICABLES),
		.knows_in_sync = in_sync != NULL,
		.in_sync = json_is_true(in_sync),
		.reason = wire_get_text(object, REASON),
		.node = wire_get_text(object, NODE),
		.knows_blob_types = json_is_array(json_object_get(object, BLOB_TYPES)),
	};
	json_add_texts(json_object_get(object, BLOB_TYPES), &report->blob_types);
	return object ? 0 : -1;
}
