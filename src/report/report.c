#include "report/report.h"

#include "base/clock.h"
#include "base/file.h"
#include "change/event_log.h"
#include "net/http_time.h"
#include "pull/pull.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "report/report_blobs.h"
#include "report/report_lfs.h"
#include "report/report_push.h"
#include "store/data_lock.h"
#include "store/site_value.h"
#include "upkeep/copies_root.h"

const char *site_role_name(enum site_role role)
{
	static const char *const names[] = { "primary", "secondary", "standalone" };

	return names[role];
}

static char *copy(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

static int64_t json_ms(const json_t *object, const char *key)
{
	return (int64_t)(json_number_value(json_object_get(object, key)) * 1000);
}

static int64_t json_count(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* When the first event came that this cursor has not read; 0: there is none. */
static int next_event_at(struct store_tx *tx, uint64_t cursor, int64_t *at,
			 struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	*at = 0;
	if (query_open(tx, "SELECT at FROM event WHERE id > ?1 ORDER BY id LIMIT 1",
		       &query, err) != 0)
		return -1;
	query_bind_int(query, 1, (int64_t)cursor);
	found = query_step(query, err);
	if (found > 0)
		*at = query_int(query, 0);
	return found < 0 ? -1 : 0;
}

/* What it said of itself may be old by now, and it may not know of the newest events. */
static int judge_lag(struct store_tx *tx, const struct report *report,
		     struct report_secondary *one, struct err *err)
{
	int64_t unread_at;

	if (next_event_at(tx, one->cursor, &unread_at, err) != 0)
		return -1;
	if (one->lag_ms > 0)
		one->lag_ms += report->now - one->seen_at;
	if (unread_at > 0 && report->now - unread_at > one->lag_ms)
		one->lag_ms = report->now - unread_at;
	return 0;
}

static int read_secondaries(struct store_tx *tx, struct report *report, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx,
		       "SELECT site, cursor_id, seen_at, report FROM secondary"
		       " ORDER BY site",
		       &query, err) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0) {
		const char *text = query_text(query, 3);
		json_auto_t *said = text ? json_loads(text, 0, NULL) : NULL;
		struct report_secondary one = {
			.site = xstrdup(query_text(query, 0)),
			.cursor = (uint64_t)query_int(query, 1),
			.seen_at = query_int(query, 2),
			.behind = json_count(said, "behind"),
			.failing = json_count(said, "failing"),
			.held = json_count(said, "held"),
			.synced = json_count(said, "synced"),
			.replicables = json_count(said, "replicables"),
			.lag_ms = json_ms(said, "lag"),
		};
		vec_add(&report->secondaries, one);
	}
	for (size_t i = 0; found == 0 && i < report->secondaries.count; i++)
		found = judge_lag(tx, report, &report->secondaries.items[i], err);
	return found;
}

static int read_primary(struct store_tx *tx, void *arg, struct err *err)
{
	struct report *report = arg;
	struct origin_counts counts;
	struct event_ends ends;

	if (origin_count(tx, KIND_REPOSITORY, &counts, err) != 0 ||
	    event_log_ends(tx, &ends, err) != 0 ||
	    scan_record_read(tx, &report->scan, err) != 0)
		return -1;
	report->repositories.all = counts.all;
	memcpy(report->repositories.verification, counts.verification,
	       sizeof(counts.verification));
	report->first_event = ends.first;
	report->last_event = ends.last;
	report->last_event_at = ends.last_at;
	if (read_secondaries(tx, report, err) != 0)
		return -1;
	if (counts.verification[VERIFICATION_FAILED] == 0)
		return 0;
	return report_examples_of_origin(tx, KIND_REPOSITORY, &report->examples, err);
}

static int read_number(struct store_tx *tx, const char *key, int64_t *value,
		       struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	int found = site_value_get(tx, key, &text, err);

	*value = strtoll(text.data, NULL, 10);
	return found < 0 ? -1 : 0;
}

static int read_failure(struct store_tx *tx, struct report *report, struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	int found = site_value_get(tx, PULL_FAILURE, &text, err);
	json_auto_t *said = found > 0 ? json_loads(text.data, 0, NULL) : NULL;
	const char *message = json_string_value(json_object_get(said, "message"));
	const char *remedy = json_string_value(json_object_get(said, "remedy"));
	const char *class = json_string_value(json_object_get(said, "class"));
	const char *since = json_string_value(json_object_get(said, "since"));

	report->is_failing = message != NULL;
	if (since && !http_time_parse_iso(since, &report->failing_since))
		report->failing_since = 0;
	if (message)
		err_set(&report->failure, err_class_of_name(class ? class : ""), "%s",
			message);
	if (message && remedy)
		err_remedy(&report->failure, "%s", remedy);
	return found < 0 ? -1 : 0;
}

static int read_cursor(struct store_tx *tx, struct report *report, struct err *err)
{
	AUTO_STR struct str cursor = STR_INIT;
	AUTO_STR struct str last = STR_INIT;

	if (site_value_get(tx, PULL_CURSOR, &cursor, err) < 0 ||
	    site_value_get(tx, PULL_LAST_EVENT, &last, err) < 0)
		return -1;
	report->cursor = strtoull(cursor.data, NULL, 10);
	report->primary_last_event = strtoull(last.data, NULL, 10);
	return 0;
}

static int read_secondary(struct store_tx *tx, void *arg, struct err *err)
{
	struct report *report = arg;

	if (read_number(tx, PULL_HEARD, &report->heard_at, err) != 0 ||
	    read_number(tx, PULL_SKEW, &report->skew_ms, err) != 0 ||
	    read_number(tx, PULL_COMPARED, &report->compared_at, err) != 0 ||
	    read_cursor(tx, report, err) != 0)
		return -1;
	return read_failure(tx, report, err);
}

/* The oldest change of any kind that is not here. */
static int64_t behind_since(const struct report *report)
{
	int64_t since = report->repositories.behind_since;

	for (size_t i = 0; i < report->blobs.count; i++) {
		int64_t other = report->blobs.items[i].counts.behind_since;
		if (other > 0 && (since == 0 || other < since))
			since = other;
	}
	return since;
}

/* Nothing is copied to, or removed from, a directory that is not the one that it was. */
static bool is_root_lost(const struct report_options *options, struct err *why)
{
	const struct blob_kinds *kinds = options->kinds;

	if (!options->root)
		return false;
	if (copies_root_judge(options->store, options->root, why) != 0)
		return true;
	for (size_t i = 0; kinds && i < kinds->items.count; i++)
		if (copies_root_judge_blobs(options->store, &kinds->items.items[i],
					    why) != 0)
			return true;
	return false;
}

static int make_secondary(const struct report_options *options, struct report *report,
			  struct err *err)
{
	struct store *store = options->store;
	int64_t since;

	if (store_read(store, read_secondary, report, err) != 0 ||
	    registry_counts(store, KIND_REPOSITORY, &report->repositories, err) != 0 ||
	    registry_never_copied(store, KIND_REPOSITORY, &report->never_copied, err) !=
		    0 ||
	    report_examples_of_copies(store, KIND_REPOSITORY, &report->repositories,
				      &report->examples, err) != 0 ||
	    report_blobs_of_copies(options, report, err) != 0)
		return -1;
	since = behind_since(report);
	if (since > 0 && report->now + report->skew_ms > since)
		report->lag_ms = report->now + report->skew_ms - since;
	report->is_root_lost = is_root_lost(options, &report->root_failure);
	return 0;
}

static int read_all(const struct report_options *options, struct report *report,
		    struct err *err)
{
	if (report_push_read(options, report, err) != 0 ||
	    report_lfs_read(options, report, err) != 0)
		return -1;
	if (options->role != SITE_SECONDARY)
		return store_read(options->store, read_primary, report, err) == 0
			       ? report_blobs_of_origin(options, report, err)
			       : -1;
	return make_secondary(options, report, err);
}

int report_make(const struct report_options *options, struct report *report,
		struct err *err)
{
	*report = (struct report){ .role = options->role,
				   .site = xstrdup(options->site),
				   .primary_url = copy(options->primary_url),
				   .now = clock_wall_ms(),
				   .node_runs = data_lock_is_held(options->data) };
	if (read_all(options, report, err) == 0)
		return 0;
	report_clear(report);
	return -1;
}

void report_clear(struct report *report)
{
	for (size_t i = 0; i < report->secondaries.count; i++)
		free(report->secondaries.items[i].site);
	vec_clear(&report->secondaries);
	report_push_clear(report);
	free(report->site);
	free(report->primary_url);
	report_examples_clear(&report->examples);
	report_blobs_clear(report);
	lfs_scans_clear(&report->lfs_lacking);
	*report = (struct report){ 0 };
}

/* A secondary asks at least once a minute. */
#define SILENT_MS 120000

static bool secondary_is_good(const struct report *report,
			      const struct report_secondary *one)
{
	return one->lag_ms == 0 && one->behind == 0 && one->failing == 0 &&
	       one->held == 0 && report->now - one->seen_at < SILENT_MS;
}

static bool is_caught_up(const struct report *report)
{
	return report->compared_at > 0 && !report->is_failing &&
	       report->cursor >= report->primary_last_event;
}

int64_t report_verified(const struct report *report)
{
	const int64_t *counts = report->repositories.verification;

	return counts[VERIFICATION_SUCCEEDED] + counts[VERIFICATION_STARTED] +
	       counts[VERIFICATION_PENDING];
}

/* Who stands alone need not have proved all: it is pushed as it is. */
static bool is_verified(const struct report *report)
{
	const struct registry_counts *counts = &report->repositories;

	return report->role == SITE_STANDALONE
		       ? counts->verification[VERIFICATION_FAILED] == 0
		       : report_verified(report) == counts->all;
}

bool report_is_good_but_push(const struct report *report)
{
	const struct registry_counts *counts = &report->repositories;

	if (!is_verified(report) || !report_blobs_are_good(report))
		return false;
	if (report->role == SITE_SECONDARY)
		return is_caught_up(report) && !report->is_root_lost &&
		       counts->states[REGISTRY_SYNCED] == counts->all;
	if (report->scan.failing_since > 0 || report->scan.left_out > 0)
		return false;
	for (size_t i = 0; i < report->secondaries.count; i++)
		if (!secondary_is_good(report, &report->secondaries.items[i]))
			return false;
	return true;
}

bool report_is_good(const struct report *report)
{
	return report_push_is_good(&report->push) && report_is_good_but_push(report);
}
