#include "base/clock.h"
#include "replicable/name.h"
#include "report/report_blobs.h"
#include "report/report_parts.h"

json_t *report_verification_json(const int64_t counts[VERIFICATION_STATES])
{
	json_t *object = json_object();

	for (int i = 0; i < VERIFICATION_STATES; i++)
		json_put_number(object,
				registry_verification_name((enum registry_verification)i),
				counts[i]);
	return object;
}

static json_t *states_json(const struct registry_counts *counts,
			   const struct report_examples *examples, enum site_role role)
{
	json_t *object = json_object();

	json_put_number(object, "all", counts->all);
	for (int i = 0; i < REGISTRY_STATES && role == SITE_SECONDARY; i++)
		json_put_number(object, registry_state_name((enum registry_state)i),
				counts->states[i]);
	if (role == SITE_SECONDARY) {
		json_put_number(object, "held", counts->held);
		json_put_number(object, "gone", counts->gone);
		json_put_number(object, "verified", counts->proved);
	}
	json_put(object, "verification", report_verification_json(counts->verification));
	json_put(object, "failures", report_failures_json(examples));
	return object;
}

static void put_age(json_t *object, const char *key, int64_t age_ms)
{
	if (age_ms < 0)
		json_put(object, key, json_null());
	else
		json_put_seconds(object, key, age_ms);
}

static json_t *failure_json(const struct err *failure, int64_t since)
{
	json_t *object = json_from_err(failure);

	json_put_time(object, "since", since);
	return object;
}

static void put_left_out(const struct scan_record *scan, json_t *object)
{
	json_put_number(object, "left_out", scan->left_out);
	if (scan->left_out > 0)
		json_put_message(object, "left_out_example", scan->example);
	else
		json_put(object, "left_out_example", json_null());
}

static json_t *scan_json(const struct scan_record *scan)
{
	json_t *object = json_object();

	json_put_time(object, "whole_at", scan->whole_at);
	json_put(object, "failure",
		 scan->failing_since > 0
			 ? failure_json(&scan->failure, scan->failing_since)
			 : json_null());
	put_left_out(scan, object);
	return object;
}

/* By type. */
static json_t *blobs_json(const struct report *report)
{
	json_t *object = json_object();

	for (size_t i = 0; i < report->blobs.count; i++) {
		const struct report_kind *kind = &report->blobs.items[i];
		json_t *states =
			states_json(&kind->counts, &kind->examples, report->role);
		json_put_number(states, "bytes", kind->counts.bytes);
		if (report->role == SITE_SECONDARY) {
			json_put_number(states, "bytes_to_come",
					kind->counts.bytes_to_come);
			json_put_number(states, "bytes_arrived", kind->arrived);
			put_left_out(&kind->scan, states);
		} else {
			json_put(states, "scan", scan_json(&kind->scan));
		}
		json_put(object, kind->type, states);
	}
	return object;
}

/* Why a secondary is not in sync: in its own word, if it has one that is fresh. */
static const char *reason_of(const struct report_secondary *one, enum verdict_code code)
{
	if (code == VERDICT_IN_SYNC)
		return NULL;
	if (code != VERDICT_SECONDARY_BEHIND)
		return verdict_code_name(code);
	return one->says == SAYS_IN_SYNC ? verdict_code_name(VERDICT_EVENTS_WAIT)
					 : one->why;
}

/* null: that is not known; age null: it has not asked since the node's start. */
static void put_word(const struct report *report, const struct report_secondary *one,
		     json_t *item)
{
	enum verdict_code code = report_secondary_judge(report, one);
	bool is_known = code == VERDICT_IN_SYNC || code == VERDICT_SECONDARY_BEHIND ||
			code == VERDICT_SECONDARY_PARTIAL;

	json_put(item, "in_sync",
		 is_known ? json_boolean(code == VERDICT_IN_SYNC) : json_null());
	json_put_text(item, "reason", reason_of(one, code));
	put_age(item, "age", one->age_ms);
	json_put_bool(item, "twice", one->is_twice);
}

static void put_primary(const struct report *report, json_t *object)
{
	json_t *array;

	json_put_number(object, "first_event", (int64_t)report->first_event);
	json_put_number(object, "last_event", (int64_t)report->last_event);
	json_put_time(object, "last_event_at", report->last_event_at);
	json_put(object, "scan", scan_json(&report->scan));
	json_put(object, "mirrors", report_mirrors_json(report));
	if (report->role == SITE_STANDALONE)
		return;
	array = json_array();
	for (size_t i = 0; i < report->secondaries.count; i++) {
		const struct report_secondary *one = &report->secondaries.items[i];
		json_t *item = json_object();
		json_put_text(item, "site", one->site);
		json_put_number(item, "cursor", (int64_t)one->cursor);
		json_put_seconds(item, "lag", one->lag_ms);
		json_put_time(item, "seen_at", one->seen_at);
		json_put_number(item, "behind", one->behind);
		json_put_number(item, "failing", one->failing);
		json_put_number(item, "held", one->held);
		json_put_number(item, "synced", one->synced);
		json_put_number(item, "replicables", one->replicables);
		put_word(report, one, item);
		json_array_append_new(array, item);
	}
	json_put(object, "secondaries", array);
}

/* Only of copies whose size is known; null: of no waiting one. */
static void put_bytes_to_come(const struct report *report, json_t *states)
{
	const struct vital_signs *signs = &report->signs;
	const int64_t waiting = report_waiting(&report->repositories);

	json_put(states, "bytes_to_come",
		 signs->sized > 0 || waiting == 0 ? json_integer(signs->bytes_to_come)
						  : json_null());
	json_put_number(states, "of_unknown_size",
			waiting > signs->sized ? waiting - signs->sized : 0);
	json_put_number(states, "copied", signs->copied);
}

static void put_secondary(const struct report *report, json_t *object)
{
	put_bytes_to_come(report, json_object_get(object, "repositories"));
	json_put_text(object, "primary_url", report->primary_url);
	json_put_time(object, "heard_at", report->heard_at);
	json_put_seconds(object, "clock_difference", report->skew_ms);
	json_put_time(object, "compared_at", report->compared_at);
	put_age(object, "heard_age", report->signs.heard_age_ms);
	put_age(object, "compared_age", report->signs.compared_age_ms);
	json_put_number(object, "cursor", (int64_t)report->cursor);
	json_put_number(object, "primary_last_event",
			(int64_t)report->primary_last_event);
	json_put_seconds(object, "lag", report->lag_ms);
	json_put(object, "delays", report_delays_json(report));
	put_left_out(&report->scan, object);
	json_put(object, "failure",
		 report->is_failing
			 ? failure_json(&report->failure, report->failing_since)
			 : json_null());
	json_put(object, "root_failure",
		 report->is_root_lost ? json_from_err(&report->root_failure)
				      : json_null());
}

static void put_verdict(const struct report *report, json_t *object)
{
	struct verdict verdict;

	report_judge(report, &verdict);
	json_put_bool(object, "in_sync", verdict.code == VERDICT_IN_SYNC);
	json_put_text(object, "reason",
		      verdict.code == VERDICT_IN_SYNC ? NULL
						      : verdict_code_name(verdict.code));
	json_put_bool(object, "node_answers", report->signs.node == NODE_ANSWERS);
	put_age(object, "written_age", report->signs.written_age_ms);
	json_put(object, "write_failure",
		 report->signs.write_failure.class != ERR_NONE
			 ? json_from_err(&report->signs.write_failure)
			 : json_null());
	json_put_time(object, "leases_away_since", report->signs.leases_away);
	json_put(object, "leases_failure",
		 report->signs.leases_away > 0
			 ? json_from_err(&report->signs.leases_failure)
			 : json_null());
}

json_t *report_json(const struct report *report)
{
	AUTO_STR struct str sentence = STR_INIT;
	json_t *object = json_object();

	report_sentence(report, &sentence);
	json_put_message(object, "sentence", sentence.data);
	json_put_text(object, "site", report->site);
	json_put_text(object, "role", site_role_name(report->role));
	json_put_bool(object, "node_runs", report->signs.node != NODE_NONE);
	put_verdict(report, object);
	json_put_time(object, "at", report->now);
	json_put(object, "repositories",
		 states_json(&report->repositories, &report->examples, report->role));
	json_put(object, "blobs", blobs_json(report));
	if (report->role == SITE_SECONDARY)
		put_secondary(report, object);
	else
		put_primary(report, object);
	json_put(object, "lfs_lacking", report_lfs_json(report));
	report_push_json(report, object);
	json_put(object, "alerts_failing", report_alerts_json(&report->alerts));
	return object;
}

const char *report_row_word(const struct registry_row *row)
{
	if (row->held_reason)
		return "held";
	if (row->is_gone)
		return "gone";
	switch (row->state) {
	case REGISTRY_STARTED:
		return "copying";
	case REGISTRY_FAILED:
		return "failing";
	case REGISTRY_MISSING_ON_PRIMARY:
		return "missing on primary";
	case REGISTRY_SYNCED:
		return row->verification == VERIFICATION_SUCCEEDED ? "up to date"
		       : row->verification == VERIFICATION_FAILED || row->failure_class
			       ? "failing"
			       : "verifying";
	default:
		return row->last_success_at ? "behind" : "waiting";
	}
}

static void report_json_put_failure(const struct registry_row *row, json_t *object)
{
	json_put_text(object, "held_reason", row->held_reason);
	json_put_text(object, "failure_class", row->failure_class);
	json_put_text(object, "failure_reason", err_reason_name(row->failure_reason));
	if (row->failure)
		json_put_message(object, "failure", row->failure);
	else
		json_put(object, "failure", json_null());
	json_put_text(object, "remedy", row->remedy);
}

json_t *report_row_json(const struct registry_row *row, int64_t now)
{
	json_t *object = json_object();

	bool is_blob = strcmp(row->kind, KIND_REPOSITORY) != 0;

	json_put_text(object, "name", row->name);
	if (is_blob) {
		json_put_text(object, "kind", row->kind);
		json_put_number(object, "size", (int64_t)row->size);
	}
	json_put_text(object, "word", report_row_word(row));
	json_put_text(object, "state", registry_state_name(row->state));
	json_put_text(object, "verification_state",
		      registry_verification_name(row->verification));
	json_put_bool(object, "missing_on_primary",
		      row->state == REGISTRY_MISSING_ON_PRIMARY);
	json_put_bool(object, "gone", row->is_gone);
	json_put_text(object, "timeline", row->timeline);
	json_put_number(object, "generation", (int64_t)row->generation);
	json_put_number(object, "generation_wanted", (int64_t)row->generation_wanted);
	json_put_text(object, "checksum", row->checksum);
	json_put_text(object, "primary_checksum", row->primary_checksum);
	json_put_seconds(object, "lag",
			 row->behind_since && now > row->behind_since
				 ? now - row->behind_since
				 : 0);
	json_put_time(object, "last_attempt_at", row->last_attempt_at);
	json_put_time(object, "last_success_at", row->last_success_at);
	json_put_time(object, "verified_at", row->verified_at);
	json_put_number(object, "retry_count", row->retry_count);
	json_put_time(object, "retry_at", row->retry_at);
	json_put_number(object, "verification_retry_count",
			row->verification_retry_count);
	json_put_time(object, "due_at", row->due_at);
	json_put_time(object, "verification_due_at", row->verification_due_at);
	report_json_put_failure(row, object);
	return object;
}
