#include "report/report_blobs.h"

#include "blob/file.h"
#include "blob/incoming.h"
#include "replicable/lfs_rows.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"

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

static int find_origin_kinds(struct store_tx *tx, void *arg, struct err *err)
{
	kind_names_clear(arg);
	return origin_kinds(tx, arg, err);
}

static int find_copied_kinds(struct store_tx *tx, void *arg, struct err *err)
{
	kind_names_clear(arg);
	return registry_kinds_in(tx, arg, err);
}

static void report_blobs_add_kind(struct report *report, const char *type)
{
	if (!kind_is_repository(type))
		vec_add(&report->blobs, (struct report_kind){ .type = xstrdup(type) });
}

/* Those of the configuration, or those that have rows. */
static int list_kinds(const struct report_options *options, store_work find,
		      struct report *report, struct err *err)
{
	AUTO_KIND_NAMES kind_names kinds = { 0 };
	const struct kind *kind = NULL;

	while ((kind = kinds_next(options->here, kind)) != NULL)
		report_blobs_add_kind(report, kind->type);
	if (!options->here && store_read(options->store, find, &kinds, err) != 0)
		return -1;
	for (size_t i = 0; i < kinds.count; i++)
		report_blobs_add_kind(report, kinds.items[i]);
	return 0;
}

static int report_blobs_read_origin(struct store_tx *tx, void *arg, struct err *err)
{
	struct report_kind *kind = arg;

	if (origin_count(tx, kind->type, &kind->counts, err) != 0)
		return -1;
	return scan_record_read(tx, kind->type, &kind->scan, err);
}

int report_blobs_of_origin(const struct report_options *options, struct report *report,
			   struct err *err)
{
	if (list_kinds(options, find_origin_kinds, report, err) != 0)
		return -1;
	for (size_t i = 0; i < report->blobs.count; i++) {
		struct report_kind *kind = &report->blobs.items[i];
		if (store_read(options->store, report_blobs_read_origin, kind, err) !=
			    0 ||
		    (!options->is_brief &&
		     report_examples_of_origin(options->store, kind->type, &kind->counts,
					       &kind->examples, err) != 0))
			return -1;
	}
	return 0;
}

static int read_copies(const struct report_options *options, struct report_kind *kind,
		       struct err *err)
{
	struct store *store = options->store;

	if (registry_counts(store, kind->type, &kind->counts, err) != 0 ||
	    pull_skipped_read(store, kind->type, &kind->scan, err) != 0)
		return -1;
	if (options->is_brief)
		return 0;
	return report_examples_of_copies(store, kind->type, &kind->counts,
					 &kind->examples, err);
}

/* What an incoming file has is written below the directory of its kind. */
static void count_arrived(const struct kind *kind, struct report_kind *report)
{
	AUTO_CLOSE int root =
		kind && kind->blobs ? blob_root_open(kind->blobs, ERR_IGNORED) : -1;
	int64_t here = root < 0 ? 0 : (int64_t)blob_incoming_bytes(root);

	report->arrived =
		here < report->counts.bytes_to_come ? here : report->counts.bytes_to_come;
}

int report_blobs_of_copies(const struct report_options *options, struct report *report,
			   struct err *err)
{
	if (list_kinds(options, find_copied_kinds, report, err) != 0)
		return -1;
	for (size_t i = 0; i < report->blobs.count; i++)
		if (read_copies(options, &report->blobs.items[i], err) != 0)
			return -1;
	for (size_t i = 0; !options->is_brief && i < report->blobs.count; i++)
		count_arrived(kinds_find(options->here, report->blobs.items[i].type),
			      &report->blobs.items[i]);
	return 0;
}

void report_blobs_clear(struct report *report)
{
	for (size_t i = 0; i < report->blobs.count; i++) {
		free(report->blobs.items[i].type);
		report_examples_clear(&report->blobs.items[i].examples);
	}
	vec_clear(&report->blobs);
}

int64_t report_kind_verified(const struct report *report, const struct report_kind *kind)
{
	return report->role == SITE_SECONDARY
		       ? kind->counts.proved
		       : kind->counts.verification[VERIFICATION_SUCCEEDED];
}

void report_size(int64_t bytes, struct str *out)
{
	static const char *const units[] = { "kB", "MB", "GB", "TB", "PB" };
	double value = (double)bytes / 1000;
	size_t unit = 0;

	if (bytes < 1000) {
		str_addf(out, "%" PRId64 " bytes", bytes);
		return;
	}
	/* 999.95 would be printed as 1000.0 */
	while (value >= 999.95 && unit + 1 < ARRAY_SIZE(units)) {
		value /= 1000;
		unit++;
	}
	str_addf(out, "%.1f %s", value, units[unit]);
}

static void add_blobs(const struct report_kind *kind, int64_t count, struct str *out)
{
	str_addf(out, "%" PRId64 " blob%s of kind %s", count, count == 1 ? "" : "s",
		 kind->type);
}

static void add_in_brackets(int64_t bytes, struct str *out)
{
	str_add(out, " (");
	report_size(bytes, out);
	str_add(out, ")");
}

void report_blobs_count(const struct report *report, struct str *out)
{
	for (size_t i = 0; i < report->blobs.count; i++) {
		const struct report_kind *kind = &report->blobs.items[i];
		str_add(out, ", ");
		add_blobs(kind, kind->counts.all, out);
		add_in_brackets(kind->counts.bytes, out);
	}
}

static bool is_not_copied(const struct report_kind *kind,
			  const struct report_secondary *one)
{
	if (one->leaves_out && text_list_has(one->leaves_out, kind->type))
		return false;
	return one->knows_blob_types && kind->counts.all > 0 &&
	       !text_list_has(&one->blob_types, kind->type);
}

bool report_lacks_kind(const struct report *report, const struct report_secondary *one)
{
	for (size_t i = 0; i < report->blobs.count; i++)
		if (is_not_copied(&report->blobs.items[i], one))
			return true;
	return false;
}

void report_blobs_not_copied(const struct report *report,
			     const struct report_secondary *one, struct str *out)
{
	const char *comma = "";

	for (size_t i = 0; i < report->blobs.count; i++) {
		const struct report_kind *kind = &report->blobs.items[i];
		if (!is_not_copied(kind, one))
			continue;
		str_add(out, comma);
		add_blobs(kind, kind->counts.all, out);
		comma = ", ";
	}
}

static void report_blobs_add_work(const struct report *report,
				  const struct report_kind *kind, struct str *out)
{
	int64_t verified = report_kind_verified(report, kind);
	int64_t waiting = report_waiting(&kind->counts);

	if (waiting > 0) {
		str_add(out, ", ");
		add_blobs(kind, waiting, out);
		add_in_brackets(kind->counts.bytes_to_come, out);
		str_add(out, " to copy");
	} else if (verified < kind->counts.all) {
		str_addf(out, ", %" PRId64 " of ", verified);
		add_blobs(kind, kind->counts.all, out);
		str_add(out, " verified");
	}
}

void report_blobs_work(const struct report *report, struct str *out)
{
	for (size_t i = 0; i < report->blobs.count; i++)
		report_blobs_add_work(report, &report->blobs.items[i], out);
}

static void report_blobs_add_troubles(const struct report *report,
				      const struct report_kind *kind, struct str *out)
{
	const struct registry_counts *counts = &kind->counts;
	int64_t failing = report->role == SITE_SECONDARY
				  ? report_failing_copies(counts, &kind->examples)
				  : counts->verification[VERIFICATION_FAILED];
	int64_t missing = counts->states[REGISTRY_MISSING_ON_PRIMARY];

	if (failing > 0) {
		str_add(out, "; ");
		add_blobs(kind, failing, out);
		str_add(out, " failing");
		report_failures_say(&kind->examples, out);
		str_addf(out, " (see refrelay blob list --type %s --failed)", kind->type);
	}
	if (missing > 0) {
		str_add(out, "; ");
		add_blobs(kind, missing, out);
		str_add(out, " missing on the primary");
	}
	if (counts->held > 0) {
		str_add(out, "; ");
		add_blobs(kind, counts->held, out);
		str_add(out, " held");
		AUTO_FREE char *list = xasprintf("blob list --type %s", kind->type);
		report_held_say(&kind->examples, list, out);
	}
}

static void report_blobs_add_scan(const struct report *report,
				  const struct report_kind *kind, struct str *out)
{
	const struct scan_record *scan = &kind->scan;

	if (scan->failing_since > 0) {
		str_addf(out, "; %s has been unable to scan its blobs of kind %s for ",
			 report->site, kind->type);
		report_cannot_scan(report, scan, out);
	}
	if (scan->left_out > 0)
		str_addf(out, "; %" PRId64 " file%s of kind %s left out, e.g. %s",
			 scan->left_out, scan->left_out == 1 ? "" : "s", kind->type,
			 scan->example);
}

void report_blobs_troubles(const struct report *report, struct str *out)
{
	for (size_t i = 0; i < report->blobs.count; i++)
		report_blobs_add_troubles(report, &report->blobs.items[i], out);
	for (size_t i = 0; i < report->blobs.count; i++)
		report_blobs_add_scan(report, &report->blobs.items[i], out);
}

static void add_copies_line(const struct report *report, const struct report_kind *kind,
			    struct str *out)
{
	const struct registry_counts *counts = &kind->counts;

	str_addf(out,
		 "  %-13s%8" PRId64 "%8" PRId64 "%9" PRId64 "%9" PRId64 "%8" PRId64
		 "%9" PRId64 "%6" PRId64 "  ",
		 kind->type, counts->all, counts->states[REGISTRY_SYNCED],
		 report_kind_verified(report, kind), report_waiting(counts),
		 counts->states[REGISTRY_FAILED],
		 counts->states[REGISTRY_MISSING_ON_PRIMARY], counts->held);
	report_size(counts->bytes, out);
	if (counts->bytes_to_come > 0) {
		str_add(out, ", ");
		report_size(counts->bytes_to_come, out);
		str_add(out, " still to copy");
	}
	if (kind->arrived > 0) {
		str_add(out, ", ");
		report_size(kind->arrived, out);
		str_add(out, " of that received");
	}
	str_add(out, "\n");
}

static void add_origin_line(const struct report *report, const struct report_kind *kind,
			    struct str *out)
{
	str_addf(out, "  blobs of kind %s %" PRId64, kind->type, kind->counts.all);
	add_in_brackets(kind->counts.bytes, out);
	str_addf(out, ", verified %" PRId64 ", failed %" PRId64 "\n",
		 report_kind_verified(report, kind),
		 kind->counts.verification[VERIFICATION_FAILED]);
}

void report_blobs_table(const struct report *report, struct str *out)
{
	for (size_t i = 0; i < report->blobs.count; i++) {
		if (report->role == SITE_SECONDARY)
			add_copies_line(report, &report->blobs.items[i], out);
		else
			add_origin_line(report, &report->blobs.items[i], out);
	}
}
