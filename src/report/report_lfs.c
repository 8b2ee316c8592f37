#include "report/report_lfs.h"

#include "replicable/lfs_rows.h"
#include "replicable/name.h"

enum { EXAMPLES = 3 };

/* store_work; arg: lfs_scans */
static int read_lacking(struct store_tx *tx, void *arg, struct err *err)
{
	lfs_scans_clear(arg);
	return lfs_scans_lacking(tx, arg, err);
}

int report_lfs_read(const struct report_options *options, struct report *report,
		    struct err *err)
{
	return store_read(options->store, read_lacking, &report->lfs_lacking, err);
}

void report_lfs_sentence(const struct report *report, struct str *out)
{
	const lfs_scans *lacking = &report->lfs_lacking;

	if (lacking->count == 0)
		return;
	str_addf(out, "; %zu repositor%s LFS objects that are not here: ", lacking->count,
		 lacking->count == 1 ? "y names" : "ies name");
	for (size_t i = 0; i < lacking->count && i < EXAMPLES; i++) {
		const struct lfs_scan *scan = &lacking->items[i];
		str_addf(out, "%s%s (%" PRId64 " of %" PRId64 ")", i > 0 ? ", " : "",
			 scan->name, scan->absent, scan->named);
	}
	if (lacking->count > EXAMPLES)
		str_add(out, ", ...");
}

static json_t *counts_json(const struct lfs_scan *scan)
{
	json_t *object = json_object();

	json_put_number(object, "named", scan->named);
	json_put_number(object, "absent", scan->absent);
	return object;
}

json_t *report_lfs_json(const struct report *report)
{
	json_t *array = json_array();

	for (size_t i = 0; i < report->lfs_lacking.count; i++) {
		json_t *object = counts_json(&report->lfs_lacking.items[i]);
		json_put_text(object, "name", report->lfs_lacking.items[i].name);
		json_array_append_new(array, object);
	}
	return array;
}

struct one {
	uint64_t repository;
	struct lfs_scan scan;
};

/* store_work; arg: struct one */
static int report_lfs_read_scan(struct store_tx *tx, void *arg, struct err *err)
{
	struct one *one = arg;

	lfs_scan_clear(&one->scan);
	return lfs_scan_get(tx, one->repository, &one->scan, err) < 0 ? -1 : 0;
}

int report_lfs_put(struct store *store, const char *name, json_t *object, struct err *err)
{
	struct one one = { .repository = replicable_id(KIND_REPOSITORY, name) };
	int result = store_read(store, report_lfs_read_scan, &one, err);

	if (result == 0)
		json_put(object, "lfs",
			 one.scan.named > 0 || one.scan.absent > 0
				 ? counts_json(&one.scan)
				 : json_null());
	lfs_scan_clear(&one.scan);
	return result;
}
