#include "report/report.h"

#include "base/clock.h"
#include "base/file.h"
#include "change/event_log.h"
#include "pull/pull.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "report/report_blobs.h"
#include "report/report_parts.h"
#include "store/site_value.h"
#include "upkeep/copies_root.h"
#include "wire/wire_report.h"

const char *site_role_name(enum site_role role)
{
	static const char *const names[] = { "primary", "secondary", "standalone" };

	return names[role];
}

/* When the first event came that this cursor has not read; 0: there is none. */
static int next_event_at(struct store_tx *tx, uint64_t cursor, int64_t *at,
			 struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	*at = 0;
	if (query_ask(tx, &query, err,
		      "SELECT at FROM event WHERE id > ?1 ORDER BY id LIMIT 1",
		      QUERY_INT((int64_t)cursor)) != 0)
		return -1;
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

/* site, cursor_id, seen_at and report; an older version may have left no report. */
static struct report_secondary report_read_secondary(struct query *query)
{
	const char *text = query_text(query, 3);
	AUTO_WIRE_REPORT struct wire_report said = { 0 };

	if (text && wire_report_parse(text, &said, ERR_IGNORED) != 0)
		wire_report_clear(&said);
	struct report_secondary one = {
		.site = xstrdup(query_text(query, 0)),
		.cursor = (uint64_t)query_int(query, 1),
		.seen_at = query_int(query, 2),
		.age_ms = -1,
		.says = !said.knows_in_sync ? SAYS_NOTHING
			: said.in_sync      ? SAYS_IN_SYNC
					    : SAYS_NOT_IN_SYNC,
		.why = TAKE(said.reason),
		.behind = said.behind,
		.failing = said.failing,
		.held = said.held,
		.synced = said.synced,
		.replicables = said.replicables,
		.lag_ms = said.lag_ms,
		.knows_blob_types = said.knows_blob_types,
		.blob_types = said.blob_types,
	};

	said.blob_types = (text_list){ 0 };
	return one;
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
	while ((found = query_step(query, err)) > 0)
		vec_add(&report->secondaries, report_read_secondary(query));
	for (size_t i = 0; found == 0 && i < report->secondaries.count; i++)
		found = judge_lag(tx, report, &report->secondaries.items[i], err);
	return found;
}

static struct report_secondary *find_secondary(struct report *report, const char *site)
{
	for (size_t i = 0; i < report->secondaries.count; i++)
		if (strcmp(report->secondaries.items[i].site, site) == 0)
			return &report->secondaries.items[i];
	return NULL;
}

/* What the node knows of them, and those that it waits for in vain. */
static void report_add_followers(struct report *report)
{
	for (size_t i = 0; i < report->signs.followers.count; i++) {
		const struct follower *follower = &report->signs.followers.items[i];
		struct report_secondary *one = find_secondary(report, follower->site);
		if (!one) {
			vec_add(&report->secondaries,
				((struct report_secondary){
					.site = xstrdup(follower->site) }));
			one = &report->secondaries.items[report->secondaries.count - 1];
		}
		one->is_expected = true;
		one->age_ms = follower->age_ms;
		if (follower->told_age_ms < 0 || follower->told_age_ms > VERDICT_HEARD_MS)
			one->says = SAYS_NOTHING; /* its last word is too old */
		one->is_twice = follower->is_twice;
		one->leaves_out = &follower->leaves_out;
	}
}

static int report_read_primary(struct store_tx *tx, void *arg, struct err *err)
{
	struct report *report = arg;
	struct event_ends ends;

	if (origin_count(tx, KIND_REPOSITORY, &report->repositories, err) != 0 ||
	    event_log_ends(tx, &ends, err) != 0 ||
	    scan_record_read(tx, KIND_REPOSITORY, &report->scan, err) != 0)
		return -1;
	report->first_event = ends.first;
	report->last_event = ends.last;
	report->last_event_at = ends.last_at;
	if (read_secondaries(tx, report, err) != 0)
		return -1;
	report_add_followers(report);
	return report_mirrors_read(tx, report, err);
}

static int report_read_number(struct store_tx *tx, const char *key, int64_t *value,
			      struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	int found = site_value_get(tx, key, &text, err);

	*value = strtoll(text.data, NULL, 10);
	return found < 0 ? -1 : 0;
}

static int report_read_failure(struct store_tx *tx, struct report *report,
			       struct err *err)
{
	AUTO_STR struct str text = STR_INIT;
	int found = site_value_get(tx, PULL_FAILURE, &text, err);
	json_auto_t *said = found > 0 ? json_loads(text.data, 0, NULL) : NULL;
	const char *message = json_string_value(json_object_get(said, "message"));
	const char *remedy = json_string_value(json_object_get(said, "remedy"));
	const char *class = json_string_value(json_object_get(said, "class"));
	const char *since = json_string_value(json_object_get(said, "since"));

	report->is_failing = message != NULL;
	if (since && !clock_parse(since, &report->failing_since))
		report->failing_since = 0;
	if (message)
		err_set(&report->failure, err_class_of_name(class ? class : ""), "%s",
			message);
	if (message && remedy)
		err_remedy(&report->failure, "%s", remedy);
	return found < 0 ? -1 : 0;
}

static int report_read_cursor(struct store_tx *tx, struct report *report, struct err *err)
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

	if (report_read_number(tx, PULL_HEARD, &report->heard_at, err) != 0 ||
	    report_read_number(tx, PULL_SKEW, &report->skew_ms, err) != 0 ||
	    report_read_number(tx, PULL_COMPARED, &report->compared_at, err) != 0 ||
	    report_read_cursor(tx, report, err) != 0)
		return -1;
	return report_read_failure(tx, report, err);
}

/* arg: the report, with its kinds of blobs. */
static int read_void(struct store_tx *tx, void *arg, struct err *err)
{
	struct report *report = arg;
	int64_t known, sum, one;

	if (report_read_number(tx, PULL_COMPARED_ORDERED, &known, err) != 0 ||
	    registry_ordered_in(tx, KIND_REPOSITORY, &sum, err) != 0)
		return -1;
	for (size_t i = 0; i < report->blobs.count; i++) {
		if (registry_ordered_in(tx, report->blobs.items[i].type, &one, err) != 0)
			return -1;
		sum += one;
	}
	report->is_comparison_void = sum != known;
	return 0;
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

/* Others have examples, and count by these. Where all is proved, no row is looked at. */
static int count_unverifiable(const struct report_options *options, struct report *report,
			      struct err *err)
{
	const struct registry_counts *counts = &report->repositories;
	bool is_proved = counts->proved == counts->states[REGISTRY_SYNCED];

	for (size_t i = 0; i < report->blobs.count; i++) {
		counts = &report->blobs.items[i].counts;
		is_proved &= counts->proved == counts->states[REGISTRY_SYNCED];
	}
	return !options->is_brief || is_proved
		       ? 0
		       : report_count_unverifiable(options->store, &report->unverifiable,
						   err);
}

/* Nothing is copied to, or removed from, a directory that is not the one that it was. */
static bool is_root_lost(const struct report_options *options, struct err *why)
{
	const struct kind *kind = NULL;

	while ((kind = kinds_next(options->here, kind)) != NULL)
		if (kind->path &&
		    copies_root_judge(options->store, kind->type, kind->path, why) != 0)
			return true;
	return false;
}

/* How long ago the primary's news were all known. Before this run of the node only the
 * wall clock tells. */
static int64_t silent_ms(const struct report *report)
{
	if (report->signs.heard_age_ms >= 0)
		return report->signs.heard_age_ms;
	return report->heard_at > 0 ? report->now - report->heard_at : 0;
}

static struct report_limits report_make_limits(const struct pull_settings *settings)
{
	return (struct report_limits){
		.is_known = true,
		.repository_capacity = settings->repository_capacity,
		.blob_capacity = settings->blob_capacity,
		.verification_capacity = settings->verification_capacity,
		.bandwidth = settings->bandwidth,
	};
}

static int make_secondary(const struct report_options *options, struct report *report,
			  struct err *err)
{
	struct store *store = options->store;
	int64_t since;

	if (store_read(store, read_secondary, report, err) != 0 ||
	    registry_counts(store, KIND_REPOSITORY, &report->repositories, err) != 0 ||
	    (!options->is_brief &&
	     report_examples_of_copies(store, KIND_REPOSITORY, &report->repositories,
				       &report->examples, err) != 0) ||
	    pull_skipped_read(store, KIND_REPOSITORY, &report->scan, err) != 0 ||
	    report_blobs_of_copies(options, report, err) != 0 ||
	    count_unverifiable(options, report, err) != 0 ||
	    store_read(store, read_void, report, err) != 0)
		return -1;
	since = behind_since(report);
	if (since > 0 && report->now + report->skew_ms > since)
		report->lag_ms = report->now + report->skew_ms - since;
	since = silent_ms(report);
	if (since > VERDICT_HEARD_MS && since > report->lag_ms)
		report->lag_ms = since;
	if (options->settings)
		report->limits = report_make_limits(options->settings);
	report->is_root_lost = is_root_lost(options, &report->root_failure);
	return 0;
}

/* Or standalone. */
static int make_primary(const struct report_options *options, struct report *report,
			struct err *err)
{
	if (store_read(options->store, report_read_primary, report, err) != 0 ||
	    (!options->is_brief &&
	     report_examples_of_origin(options->store, KIND_REPOSITORY,
				       &report->repositories, &report->examples,
				       err) != 0))
		return -1;
	return report_blobs_of_origin(options, report, err);
}

static int read_last_sign(struct store_tx *tx, void *arg, struct err *err)
{
	return vitals_last(tx, arg, err);
}

static void copy_signs(const struct vital_signs *from, struct vital_signs *to)
{
	*to = *from;
	to->followers = (follower_list){ 0 };
	follower_list_copy(&from->followers, &to->followers);
}

static int report_read_all(const struct report_options *options, struct report *report,
			   struct err *err)
{
	if (store_read(options->store, read_last_sign, &report->last_sign, err) != 0 ||
	    report_push_read(options, report, err) != 0 ||
	    report_alerts_read(options, report, err) != 0 ||
	    (!options->is_brief && report_lfs_read(options, report, err) != 0))
		return -1;
	return options->role == SITE_SECONDARY ? make_secondary(options, report, err)
					       : make_primary(options, report, err);
}

int report_make(const struct report_options *options, struct report *report,
		struct err *err)
{
	*report = (struct report){ .role = options->role,
				   .site = xstrdup(options->site),
				   .primary_url = xstrdup_or_null(options->primary_url),
				   .now = clock_wall_ms(),
				   .signs = VITAL_SIGNS_NONE };
	if (options->signs)
		copy_signs(options->signs, &report->signs);
	if (report_read_all(options, report, err) == 0)
		return 0;
	report_clear(report);
	return -1;
}

static void secondary_clear(struct report_secondary *one)
{
	free(one->site);
	free(one->why);
	text_list_clear(&one->blob_types);
}

void report_clear(struct report *report)
{
	vec_clear_each(&report->secondaries, secondary_clear);
	vital_signs_clear(&report->signs);
	report_push_clear(report);
	report_alerts_clear(&report->alerts);
	report_mirrors_clear(&report->mirrors);
	free(report->site);
	free(report->primary_url);
	report_examples_clear(&report->examples);
	report_blobs_clear(report);
	lfs_scans_clear(&report->lfs_lacking);
	*report = (struct report){ 0 };
}

int64_t report_verified(const struct report *report)
{
	return report->role == SITE_SECONDARY
		       ? report->repositories.proved
		       : report->repositories.verification[VERIFICATION_SUCCEEDED];
}

/* Of rows of any kind. */
static void report_add_rows(const struct registry_counts *counts, int64_t proved,
			    struct verdict_inputs *inputs)
{
	inputs->all += counts->all;
	inputs->synced += counts->states[REGISTRY_SYNCED];
	inputs->failing += counts->verification[VERIFICATION_FAILED];
	inputs->proved += proved;
}

static void report_add_scan(const struct scan_record *scan, struct verdict_inputs *inputs)
{
	inputs->is_scan_failing = inputs->is_scan_failing || scan->failing_since > 0;
	inputs->left_out += scan->left_out;
}

static void add_all_rows(const struct report *report, struct verdict_inputs *inputs)
{
	report_add_rows(&report->repositories, report_verified(report), inputs);
	report_add_scan(&report->scan, inputs);
	for (size_t i = 0; i < report->blobs.count; i++) {
		const struct report_kind *kind = &report->blobs.items[i];
		report_add_rows(&kind->counts, report_kind_verified(report, kind),
				inputs);
		report_add_scan(&kind->scan, inputs);
	}
}

typedef VEC(struct verdict_follower) verdict_followers;

static struct verdict_follower follower_of(const struct report *report,
					   const struct report_secondary *one)
{
	return (struct verdict_follower){ .age_ms = one->age_ms,
					  .is_twice = one->is_twice,
					  .says = one->says,
					  .lacks_events =
						  one->cursor < report->last_event,
					  .lacks_kind = report_lacks_kind(report, one) };
}

enum verdict_code report_secondary_judge(const struct report *report,
					 const struct report_secondary *one)
{
	const struct verdict_follower follower = follower_of(report, one);

	return verdict_of_follower(&follower);
}

/* In the order of the report's secondaries; those that nobody waits for say nothing. */
static void list_followers(const struct report *report, verdict_followers *list)
{
	for (size_t i = 0; i < report->secondaries.count; i++)
		vec_add(list, follower_of(report, &report->secondaries.items[i]));
}

void report_judge(const struct report *report, struct verdict *verdict)
{
	const struct vital_signs *signs = &report->signs;
	const bool is_compared = report->compared_at > 0 && !report->is_comparison_void;
	verdict_followers followers = { 0 };
	struct verdict_inputs inputs = {
		.role = report->role,
		.node = signs->node,
		.write_fails = signs->write_failure.class != ERR_NONE,
		.written_age_ms = signs->written_age_ms,
		.is_root_lost = report->is_root_lost,
		.is_failing = report->is_failing,
		.heard_age_ms = signs->heard_age_ms,
		.compared_age_ms = is_compared ? signs->compared_age_ms : -1,
		.compared_left_ms = signs->compared_left_ms,
		.has_unchecked = signs->unchecked > 0,
		.cursor = report->cursor,
		.primary_last_event = report->primary_last_event,
		.scan_age_ms = signs->scan_age_ms,
		.scan_left_ms = signs->scan_left_ms,
		.mirrors_stale = report->mirrors.stale + report->mirrors.lists_stale,
		.mirrors_behind = report->mirrors.all - report->mirrors.synced,
		.checkouts_failing = report->mirrors.checkouts_failing,
		.pushes_are_done = report_push_is_good(&report->push),
	};

	add_all_rows(report, &inputs);
	list_followers(report, &followers);
	inputs.followers = followers.items;
	inputs.follower_count = followers.count;
	verdict_decide(&inputs, verdict);
	vec_clear(&followers);
}

bool report_is_good(const struct report *report)
{
	struct verdict verdict;

	report_judge(report, &verdict);
	return verdict.code == VERDICT_IN_SYNC;
}

/* Of all kinds together. */
static void report_count_all(const struct report *report, struct registry_counts *all)
{
	*all = report->repositories;
	for (size_t k = 0; k < report->blobs.count; k++) {
		const struct registry_counts *one = &report->blobs.items[k].counts;
		for (int i = 0; i < REGISTRY_STATES; i++)
			all->states[i] += one->states[i];
		all->all += one->all;
		all->held += one->held;
	}
}

void report_for_primary(const struct report *report, const char *node, struct str *out)
{
	struct registry_counts counts;
	struct verdict verdict;

	report_judge(report, &verdict);
	report_count_all(report, &counts);
	bool in_sync = verdict.code == VERDICT_IN_SYNC;
	AUTO_WIRE_REPORT struct wire_report reported = {
		.behind = report_waiting(&counts),
		.failing = counts.states[REGISTRY_FAILED] + report->unverifiable,
		.held = counts.held,
		.lag_ms = report->lag_ms,
		.synced = counts.states[REGISTRY_SYNCED],
		.replicables = counts.all,
		.in_sync = in_sync,
		.reason = in_sync ? NULL : xstrdup(verdict_code_name(verdict.code)),
		.node = xstrdup(node),
		.knows_blob_types = report->blobs.count <= WIRE_REPORT_TYPES_MAX,
	};
	for (size_t k = 0; reported.knows_blob_types && k < report->blobs.count; k++)
		vec_add(&reported.blob_types, xstrdup(report->blobs.items[k].type));
	wire_report_render(&reported, out);
}
