#include "test.h"

#include "base/clock.h"
#include "pull/freshness.h"
#include "replicable/name.h"
#include "report/report.h"
#include "report/report_parts.h"

#include "registry_write.h"

/* Of a node that is well. */
static struct vital_signs well(void)
{
	return (struct vital_signs){ .node = NODE_ANSWERS, .failing_age_ms = -1 };
}

TEST(what_a_secondary_says_twice_is_no_failure)
{
	static const char said[] =
		"{\"behind\": 3, \"failing\": 1, \"held\": 0, \"lag\": 1.5,"
		" \"synced\": 4, \"replicables\": 7}";
	struct report report;
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	for (int i = 0; i < 3; i++)
		assert_ok(followers_record(store, "paris", 5, said, &err));
	assert_ok(report_make(&(struct report_options){ .role = SITE_PRIMARY,
							.site = "london",
							.data = "/nowhere",
							.store = store },
			      &report, &err));
	assert_int_equal(report.secondaries.count, 1);
	assert_int_equal(report.secondaries.items[0].behind, 3);
	assert_int_equal(report.secondaries.items[0].failing, 1);
	assert_int_equal(report.secondaries.items[0].cursor, 5);
	report_clear(&report);
	store_close(store);
}

/* On a large site one is nearly always under way. */
TEST(a_copy_that_is_read_again_is_still_in_sync)
{
	struct report report = { .role = SITE_SECONDARY,
				 .signs = well(),
				 .compared_at = 1 };
	struct registry_counts *counts = &report.repositories;

	counts->all = 4;
	counts->states[REGISTRY_SYNCED] = 4;
	counts->verification[VERIFICATION_SUCCEEDED] = 2;
	counts->verification[VERIFICATION_STARTED] = 2;
	counts->proved = 4;
	assert_true(report_is_good(&report));
	counts->proved = 3; /* one was never proved since it changed */
	assert_false(report_is_good(&report));
	assert_int_equal(report_verified(&report), 3);
}

TEST(rows_that_were_removed_by_order_void_the_comparison)
{
	struct report report = { .role = SITE_SECONDARY,
				 .signs = well(),
				 .compared_at = 1 };

	assert_true(report_is_good(&report));
	report.is_comparison_void = true;
	assert_false(report_is_good(&report));
}

TEST(a_silent_primary_is_as_far_behind_as_its_silence)
{
	struct vital_signs signs = well();
	struct report report;
	struct store *store;
	AUTO_STR struct str text = STR_INIT;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	const struct report_options options = { .role = SITE_SECONDARY,
						.site = "paris",
						.data = "/nowhere",
						.signs = &signs,
						.store = store };
	signs.heard_age_ms = VERDICT_HEARD_MS;
	assert_ok(report_make(&options, &report, &err));
	assert_int_equal(report.lag_ms, 0);
	report_clear(&report);
	signs.heard_age_ms = 400000;
	assert_ok(report_make(&options, &report, &err));
	assert_int_equal(report.lag_ms, 400000);
	report_sentence(&report, &text);
	assert_string_equal(text.data, "paris has not heard from its primary for 6 min; "
				       "0 of 0 repositories verified");
	report_clear(&report);
	store_close(store);
}

TEST(what_cannot_be_written_is_said_with_its_remedy)
{
	char site[] = "paris";
	struct report report = {
		.role = SITE_SECONDARY, .site = site, .signs = well(), .compared_at = 1
	};
	AUTO_STR struct str text = STR_INIT;

	report.signs.failing_age_ms = 40000;
	err_set(&report.signs.write_failure, ERR_DISK, "no space");
	err_remedy(&report.signs.write_failure, "free some");
	assert_false(report_is_good(&report));
	report_sentence(&report, &text);
	assert_string_equal(text.data, "paris could not write to its disk for 40 s: no "
				       "space (free some); 0 of 0 repositories verified");
}

static void assert_sentence(const struct report *report, const char *expected)
{
	AUTO_STR struct str text = STR_INIT;

	report_sentence(report, &text);
	assert_string_equal(text.data, expected);
}

TEST(copies_that_were_not_looked_at_since_the_start_are_said)
{
	char site[] = "paris";
	struct report report = {
		.role = SITE_SECONDARY, .site = site, .signs = well(), .compared_at = 1
	};

	assert_true(report_is_good(&report));
	report.signs.unchecked = 1;
	assert_sentence(&report, "paris has not checked all of its copies since it "
				 "started; 0 of 0 repositories verified");
}

TEST(what_is_to_be_verified_at_a_primary_is_counted)
{
	char site[] = "london";
	struct report report = { .role = SITE_PRIMARY,
				 .site = site,
				 .signs = well(),
				 .repositories = { .all = 2 } };

	report.repositories.verification[VERIFICATION_SUCCEEDED] = 1;
	report.repositories.verification[VERIFICATION_PENDING] = 1;
	assert_false(report_is_good(&report));
	AUTO_STR struct str text = STR_INIT;
	report_sentence(&report, &text);
	assert_true(text_ends_with(text.data, "; 2 repositories (1 not verified yet)"));
}

/* Of secondaries a node that does not run knows nothing. */
TEST(a_node_that_does_not_run_is_said_first_and_no_secondary_is_blamed)
{
	char site[] = "london", paris[] = "paris";
	struct report report = { .role = SITE_PRIMARY, .site = site, .now = 10000 };

	vec_add(&report.secondaries,
		((struct report_secondary){
			.site = paris, .seen_at = 5000, .age_ms = -1 }));
	report.repositories.all = 2;
	report.last_sign = (struct vitals_last){ .at = 9700, .is_stop = true };
	assert_sentence(&report,
			"london is not known to be in sync: no node is running here, "
			"stopped 0.3 s ago (start it: refrelay serve); 2 repositories");
	report.last_sign = (struct vitals_last){ .at = 2000 }; /* killed */
	assert_sentence(
		&report,
		"london is not known to be in sync: no node is running here, last sign "
		"of life 8.0 s ago (start it: refrelay serve); 2 repositories");
	report.signs.node = NODE_MUTE;
	assert_sentence(
		&report,
		"the node of london does not answer: it is suspended, starting or "
		"overloaded, and its last sign of life was 8.0 s ago; 2 repositories");
	report.role = SITE_SECONDARY;
	report.is_root_lost = true;
	assert_sentence(&report, "london cannot find its copies; 0 of 2 repositories "
				 "verified (its node does not answer)");
	report.signs.node = NODE_NONE;
	report.last_sign = (struct vitals_last){ 0 };
	assert_sentence(&report,
			"london cannot find its copies; 0 of 2 repositories verified (no "
			"node is running here; start it: refrelay serve)");
	report.is_root_lost = false;
	assert_sentence(&report,
			"london is not known to be in sync: no node is running here "
			"(start it: refrelay serve); 0 of 2 repositories verified");
	report.role = SITE_STANDALONE;
	assert_sentence(&report, "no node is running here (start it: refrelay serve); "
				 "london has no remotes and no mirrors; 2 repositories");
	vec_clear(&report.secondaries);
}

TEST(what_a_secondary_lacks_is_said_in_words)
{
	char site[] = "london", paris[] = "paris", why[] = "not_compared";
	char later[] = "a_later_word";
	struct report report = { .role = SITE_PRIMARY, .site = site, .signs = well() };
	struct report_secondary one = {
		.site = paris, .seen_at = 1, .says = SAYS_NOT_IN_SYNC, .why = why
	};

	vec_add(&report.secondaries, one);
	assert_sentence(&report, "paris is not in sync: it has not finished a full "
				 "comparison yet; 0 repositories");
	report.secondaries.items[0].why = later;
	assert_sentence(&report, "paris is not in sync: a_later_word; 0 repositories");
	vec_clear(&report.secondaries);
}

TEST(a_primary_that_was_heard_is_not_called_unheard)
{
	char site[] = "paris";
	struct report report = {
		.role = SITE_SECONDARY, .site = site, .signs = well(), .heard_at = 1
	};

	report.signs.heard_age_ms = -1;
	assert_sentence(&report, "paris has not heard from its primary yet since its "
				 "node was started; 0 of 0 repositories verified");
	report.signs.news_void = NEWS_OF_ANOTHER_LOG;
	assert_sentence(&report,
			"paris is comparing everything with its primary, whose event log "
			"was restored or recreated; 0 of 0 repositories verified");
	report.signs.news_void = NEWS_LOST;
	assert_sentence(
		&report,
		"paris is comparing everything with its primary, which no longer has the "
		"events since paris was last connected; 0 of 0 repositories verified");
}

TEST(what_keeps_copies_from_coming_is_said)
{
	char site[] = "paris";
	struct report report = { .role = SITE_SECONDARY,
				 .site = site,
				 .signs = well(),
				 .compared_at = 1,
				 .limits = { .is_known = true,
					     .bandwidth = 1000,
					     .verification_capacity = 1 } };
	AUTO_STR struct str text = STR_INIT;

	report.repositories.all = 1;
	report.repositories.states[REGISTRY_PENDING] = 1;
	report_sentence(&report, &text);
	assert_non_null(strstr(text.data,
			       "; no repository is being copied: sync.repositoryCapacity "
			       "is 0; limited by sync.bandwidth to 1.0 kB a second"));
	assert_null(strstr(text.data, "read again"));
}

/* Returns how many causes of delay the JSON has; the text goes into *text. */
static size_t delays_in(const struct report *report, struct str *text)
{
	json_auto_t *json = report_json(report);

	str_reset(text);
	report_sentence(report, text);
	return json_array_size(json_object_get(json, "delays"));
}

TEST(a_primary_that_leaves_a_request_unanswered_is_slow)
{
	static const char why[] = "; the primary is slow: a request has been waiting for "
				  "an answer for 10 s";
	char site[] = "paris";
	struct report report = {
		.role = SITE_SECONDARY, .site = site, .signs = well(), .compared_at = 1
	};
	AUTO_STR struct str text = STR_INIT;

	report.repositories.all = 1;
	report.repositories.states[REGISTRY_PENDING] = 1;
	report.signs.primary_wait_ms = 9999;
	assert_int_equal(delays_in(&report, &text), 0);
	assert_null(strstr(text.data, "slow"));
	report.signs.primary_wait_ms = 10000;
	assert_int_equal(delays_in(&report, &text), 1);
	assert_non_null(strstr(text.data, why));
	report.repositories.states[REGISTRY_PENDING] = 0; /* then nothing is delayed */
	report.repositories.states[REGISTRY_SYNCED] = 1;
	assert_int_equal(delays_in(&report, &text), 0);
	assert_null(strstr(text.data, "slow"));
}

static void assert_bytes_to_come(const struct report *report, const char *said,
				 const char *bytes, int64_t unknown)
{
	json_auto_t *json = report_json(report);
	const json_t *states = json_object_get(json, "repositories");
	AUTO_FREE char *value =
		json_dumps(json_object_get(states, "bytes_to_come"), JSON_ENCODE_ANY);
	AUTO_STR struct str text = STR_INIT;

	report_sentence(report, &text);
	assert_non_null(strstr(text.data, said));
	assert_string_equal(value, bytes);
	assert_int_equal(json_integer_value(json_object_get(states, "of_unknown_size")),
			 unknown);
}

TEST(bytes_to_come_are_said_as_far_as_they_are_known)
{
	char site[] = "paris";
	struct report report = { .role = SITE_SECONDARY,
				 .site = site,
				 .signs = well(),
				 .heard_at = 1,
				 .compared_at = 1,
				 .lag_ms = 4000 };
	struct registry_counts *counts = &report.repositories;

	counts->all = 4;
	counts->states[REGISTRY_SYNCED] = counts->proved = 2;
	counts->states[REGISTRY_STARTED] = counts->states[REGISTRY_PENDING] = 1;
	assert_bytes_to_come(&report, "2 repositories of 4 to copy, 2", "null", 2);
	report.signs.sized = 1;
	report.signs.bytes_to_come = 1500;
	assert_bytes_to_come(&report, "2 repositories of 4 (at least 1.5 kB) to copy, 2",
			     "1500", 1);
	report.signs.sized = 2;
	assert_bytes_to_come(&report, "2 repositories of 4 (1.5 kB) to copy, 2", "1500",
			     0);
	report.signs.copied = 1;
	assert_bytes_to_come(
		&report,
		"2 repositories of 4 (1.5 kB; 1 copied, not verified yet) to "
		"copy, 2",
		"1500", 0);
	report.signs.sized = report.signs.bytes_to_come = report.signs.copied = 0;
	counts->states[REGISTRY_SYNCED] = 4;
	counts->states[REGISTRY_STARTED] = counts->states[REGISTRY_PENDING] = 0;
	assert_bytes_to_come(&report, "2 of 4 repositories verified", "0", 0);
}

TEST(what_only_fails_is_not_said_to_be_copied)
{
	char site[] = "paris";
	struct report report = { .role = SITE_SECONDARY,
				 .site = site,
				 .signs = well(),
				 .heard_at = 1,
				 .compared_at = 1,
				 .lag_ms = 4000 };
	struct registry_counts *counts = &report.repositories;
	AUTO_STR struct str text = STR_INIT;

	counts->all = 4;
	counts->states[REGISTRY_SYNCED] = 3;
	counts->states[REGISTRY_FAILED] = 1;
	counts->proved = 3;
	report_sentence(&report, &text);
	assert_string_equal(text.data,
			    "paris is 4.0 s behind: 3 of 4 repositories verified; 1 "
			    "failing (see refrelay repository list --failed)");
	counts->states[REGISTRY_SYNCED] = 2;
	counts->states[REGISTRY_PENDING] = 1;
	str_reset(&text);
	report_sentence(&report, &text);
	assert_non_null(strstr(text.data, "1 repository of 4 to copy, 3 verified"));
}

static void shows_clock(struct report *report, const char *wanted)
{
	AUTO_STR struct str text = STR_INIT;

	report_text(report, &text);
	assert_non_null(strstr(text.data, wanted));
}

TEST(a_lease_server_that_is_away_is_named_where_it_keeps_copies_back)
{
	char site[] = "paris";
	struct report report = { .role = SITE_SECONDARY,
				 .site = site,
				 .signs = well(),
				 .compared_at = 1,
				 .repositories = { .all = 4, .proved = 3 } };
	static const char why[] = "; no copying starts: the lease server does not answer";

	report.repositories.states[REGISTRY_SYNCED] = 3;
	report.repositories.states[REGISTRY_PENDING] = 1;
	report.signs.leases_away = 1;
	AUTO_STR struct str text = STR_INIT;
	report_text(&report, &text);
	assert_non_null(strstr(text.data, why));
	str_reset(&text);
	report.repositories.states[REGISTRY_SYNCED] = 4;
	report.repositories.states[REGISTRY_PENDING] = 0;
	report_text(&report, &text);
	assert_null(strstr(text.data, why));
}

TEST(a_clock_is_right_or_not_and_unknown_before_it_was_heard)
{
	char site[] = "paris";
	struct report report = { .role = SITE_SECONDARY, .site = site, .signs = well() };

	shows_clock(&report, "heard never, event 0 of 0\n");
	report.heard_at = 1;
	report.skew_ms = -999; /* as much as a Date is cut by */
	shows_clock(&report, ", event 0 of 0\n");
	report.skew_ms = 999;
	shows_clock(&report, ", event 0 of 0\n");
	report.skew_ms = -1000;
	shows_clock(&report, ", clock difference -1.0 s\n");
	report.skew_ms = 1200;
	shows_clock(&report, ", clock difference +1.2 s\n");
}

static int read_record(struct store_tx *tx, void *arg, struct err *error)
{
	return scan_record_read(tx, KIND_REPOSITORY, arg, error);
}

TEST(a_primary_that_cannot_look_at_its_repositories_says_so)
{
	struct vital_signs signs = well();
	struct scan_record scan = { .whole_at = 5000, .left_out = 2, .example = "x: y" };
	struct scan_record kept;
	struct report report;
	struct store *store;
	AUTO_STR struct str text = STR_INIT;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(scan_record_keep(store, KIND_REPOSITORY, &scan, &err));
	for (int i = 1; i <= 2; i++) {
		scan = (struct scan_record){ .failing_since = i * 1000 };
		err_set(&scan.failure, ERR_DISK, "away");
		err_remedy(&scan.failure, "mount it");
		assert_ok(scan_record_keep(store, KIND_REPOSITORY, &scan, &err));
	}
	assert_ok(store_read(store, read_record, &kept, &err));
	assert_int_equal(kept.whole_at, 5000); /* what was, still was */
	assert_int_equal(kept.failing_since, 1000);
	assert_ok(report_make(&(struct report_options){ .role = SITE_PRIMARY,
							.site = "london",
							.data = "/nowhere",
							.signs = &signs,
							.store = store },
			      &report, &err));
	assert_false(report_is_good(&report));
	report_sentence(&report, &text);
	assert_true(text_starts_with(
		text.data, "london has been unable to scan its repositories for "));
	assert_non_null(strstr(text.data, ": away (mount it); "));
	assert_non_null(strstr(text.data, "; 2 left out, e.g. x: y"));
	report_clear(&report);
	assert_ok(scan_record_keep(store, KIND_REPOSITORY,
				   &(struct scan_record){ .whole_at = 6000 }, &err));
	assert_ok(store_read(store, read_record, &kept, &err));
	assert_int_equal(kept.left_out, 0);
	assert_int_equal(kept.failing_since, 0);
	assert_int_equal(kept.failure.class, ERR_NONE);
	store_close(store);
}

static int drop_secondaries(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx, "DROP TABLE secondary", error);
}

TEST(nothing_is_left_of_a_report_that_could_not_be_made)
{
	struct report report;
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(store_write(store, drop_secondaries, NULL, &err));
	assert_int_equal(report_make(&(struct report_options){ .role = SITE_PRIMARY,
							       .site = "london",
							       .data = "/nowhere",
							       .store = store },
				     &report, &err),
			 -1);
	assert_null(report.site);
	store_close(store);
}

TEST(what_makes_no_sense_is_refused)
{
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_fails(followers_record(store, "paris", 5, "[1", &err), ERR_CORRUPT);
	assert_non_null(strstr(err.text, "Refrelay-Report"));
	store_close(store);
}

static struct report_remote remote_of(char *name, size_t waiting, size_t running,
				      int64_t lag_ms)
{
	return (struct report_remote){
		.name = name, .waiting = waiting, .running = running, .lag_ms = lag_ms
	};
}

static void says(const struct report *report, const char *wanted)
{
	AUTO_STR struct str text = STR_INIT;

	report_sentence(report, &text);
	assert_string_equal(text.data, wanted);
}

TEST(a_site_that_stands_alone_says_first_which_destination_is_behind)
{
	char site[] = "gerrit", m1[] = "m1", m2[] = "m2", name[] = "team/app";
	struct report_remote remotes[] = { remote_of(m1, 0, 0, 0),
					   remote_of(m2, 0, 0, 0) };
	struct report report = { .role = SITE_STANDALONE,
				 .site = site,
				 .signs = well(),
				 .repositories.all = 2,
				 .push = { .is_on = true } };

	says(&report, "gerrit has no remotes and no mirrors; 2 repositories");
	report.push.remotes.items = remotes;
	report.push.remotes.count = 2;
	assert_true(report_is_good(&report));
	says(&report, "everything is pushed to 2 remotes; 2 repositories");
	remotes[0] = remote_of(m1, 0, 1, 3000);
	assert_false(report_is_good(&report));
	says(&report, "m1 is 3.0 s behind: 1 push waiting; 2 repositories");
	remotes[1] = remote_of(m2, 5, 0, 200000);
	remotes[1].failing = 2;
	remotes[1].example = name;
	err_set(&remotes[1].failure, ERR_NETWORK, "refused");
	err_remedy(&remotes[1].failure, "start it");
	says(&report,
	     "m2 is 3 min behind: 5 pushes waiting, 2 failing, e.g. team/app: refused "
	     "(start it); m1 is 3.0 s behind: 1 push waiting; 2 repositories");
}

TEST(remotes_that_are_equally_behind_are_each_said_once)
{
	char site[] = "gerrit", name[] = "m";
	struct report_remote remotes[5];
	struct report report = { .role = SITE_STANDALONE,
				 .site = site,
				 .signs = well(),
				 .push = { .is_on = true } };

	for (size_t i = 0; i < ARRAY_SIZE(remotes); i++)
		remotes[i] = remote_of(name, 1, 0, 1000);
	report.push.remotes.items = remotes;
	report.push.remotes.count = ARRAY_SIZE(remotes);
	says(&report,
	     "m is 1.0 s behind: 1 push waiting; m is 1.0 s behind: 1 push waiting; m is "
	     "1.0 s behind: 1 push waiting; 2 more remotes are behind; 0 repositories");
}

/* As of a primary whose only secondary is in sync. */
static bool is_good_with_paris(struct report *report)
{
	char site[] = "paris";
	struct report_secondary paris = { .site = site, .says = SAYS_IN_SYNC };

	report->secondaries.items = &paris;
	report->secondaries.count = 1;
	bool is_good = report_is_good(report);
	report->secondaries.items = NULL;
	report->secondaries.count = 0;
	return is_good;
}

static void assert_paris(const struct report_secondary *paris, int in_sync,
			 const char *reason)
{
	struct report_secondary one = *paris;
	struct report report = { .role = SITE_PRIMARY, .signs = well(), .last_event = 7 };

	report.secondaries.items = &one;
	report.secondaries.count = 1;
	json_auto_t *object = report_json(&report);
	const json_t *item = json_array_get(json_object_get(object, "secondaries"), 0);
	assert_int_equal(json_typeof(json_object_get(item, "in_sync")), in_sync);
	const char *said = json_string_value(json_object_get(item, "reason"));
	if (reason)
		assert_string_equal(said, reason);
	else
		assert_null(said);
}

/* What it said may be older than what is known here. */
TEST(of_each_secondary_the_verdict_is_told_and_not_its_last_word)
{
	char site[] = "paris", why[] = "not_verified";
	struct report_secondary paris = { .site = site,
					  .says = SAYS_IN_SYNC,
					  .cursor = 7 };

	assert_paris(&paris, JSON_TRUE, NULL);
	paris.cursor = 6;
	assert_paris(&paris, JSON_FALSE, "events_wait");
	paris.says = SAYS_NOT_IN_SYNC;
	paris.why = why;
	assert_paris(&paris, JSON_FALSE, "not_verified");
	paris.age_ms = VERDICT_HEARD_MS + 1;
	assert_paris(&paris, JSON_NULL, "secondary_silent");
	paris.age_ms = 0;
	paris.is_twice = true;
	assert_paris(&paris, JSON_NULL, "secondary_twice");
}

TEST(what_was_given_up_set_aside_or_is_owed_is_not_good)
{
	char site[] = "london", m1[] = "m1", name[] = "team/app";
	struct report_remote remotes[] = { remote_of(m1, 0, 0, 0) };
	struct report report = { .role = SITE_PRIMARY,
				 .site = site,
				 .signs = well(),
				 .push = { .is_on = true } };

	report.push.remotes.items = remotes;
	report.push.remotes.count = 1;
	says(&report, "no secondary has connected yet; 0 repositories");
	report.push.given_up = 1;
	report.push.example_given_up = name;
	err_set(&report.push.given_up_why, ERR_CONFLICT, "not a fast-forward");
	assert_false(is_good_with_paris(&report));
	says(&report, "1 push was given up, e.g. team/app: not a fast-forward (see "
		      "refrelay push queue, then retry or discard); no secondary has "
		      "connected yet; 0 repositories");
	report.push.given_up = 0;
	report.push.owed =
		(struct owed_summary){ .count = 2, .example = "a", .why = { 0 } };
	err_set(&report.push.owed.why, ERR_DISK, "full");
	assert_false(is_good_with_paris(&report));
	says(&report, "no push task could be written for 2 changed repositories, e.g. a: "
		      "full; no secondary has connected yet; 0 repositories");
	report.push.owed.count = 0;
	report.push.unreadable = 1;
	assert_false(is_good_with_paris(&report));
	report.push.unreadable = 0;
	report.push.orphans = 1;
	assert_false(is_good_with_paris(&report));
	report.push.orphans = 0;
	assert_true(is_good_with_paris(&report));
}

TEST(a_task_store_that_is_away_is_a_finding_not_the_end)
{
	char name[] = "m1";
	struct vital_signs signs = well();
	struct push_settings settings = { 0 };
	struct push_remote remote = { .name = name };
	struct err away = { 0 };
	struct report report;
	struct store *store;
	AUTO_STR struct str sentence = STR_INIT;

	vec_add(&settings.remotes, remote);
	err_set(&away, ERR_DISK, "cannot open /mnt/tasks");
	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(report_make(&(struct report_options){ .role = SITE_STANDALONE,
							.site = "gerrit",
							.data = "/nowhere",
							.signs = &signs,
							.store = store,
							.push_settings = &settings,
							.push_failure = &away },
			      &report, &err));
	assert_false(report_is_good(&report));
	report_sentence(&report, &sentence);
	assert_true(text_starts_with(
		sentence.data,
		"gerrit cannot read its push tasks: cannot open /mnt/tasks; "));
	json_auto_t *object = report_json(&report);
	assert_string_equal(
		json_string_value(json_object_get(
			json_object_get(json_object_get(object, "push"), "failure"),
			"code")),
		"disk");
	report_clear(&report);
	store_close(store);
	vec_clear(&settings.remotes);
}

/* A mirror of an hour's interval. */
struct mirror_at {
	int64_t checked_ms, synced_ms; /* from now */
	enum registry_state state;
	bool is_proved;
};

static int write_mirror(struct store_tx *tx, void *arg, struct err *error)
{
	const struct mirror_at *mirror = arg;
	const int64_t now = clock_wall_ms();

	if (query_write(tx, error,
			"INSERT INTO mirror (name, interval_ms, checked_at)"
			" VALUES ('acme/r', 3600000, ?1)"
			" ON CONFLICT (name) DO UPDATE SET checked_at = ?1",
			QUERY_INT(now + mirror->checked_ms)) != 0)
		return -1;
	return query_write(tx, error,
			   "UPDATE registry SET state = ?1, proved = ?2,"
			   " last_success_at = ?3 WHERE name = 'acme/r'",
			   QUERY_INT(mirror->state), QUERY_INT(mirror->is_proved),
			   QUERY_INT(now + mirror->synced_ms));
}

/* What a standalone site says of what its database has. */
static void standalone_says(struct store *store, enum verdict_code wanted,
			    const char *sentence)
{
	struct vital_signs signs = well();
	AUTO_STR struct str text = STR_INIT;
	struct verdict verdict;
	struct report report;

	assert_ok(report_make(&(struct report_options){ .role = SITE_STANDALONE,
							.site = "paris",
							.data = "/nowhere",
							.signs = &signs,
							.store = store },
			      &report, &err));
	report_judge(&report, &verdict);
	assert_string_equal(verdict_code_name(verdict.code), verdict_code_name(wanted));
	assert_int_equal(report_is_good(&report), wanted == VERDICT_IN_SYNC);
	report_sentence(&report, &text);
	if (!strstr(text.data, sentence))
		fail_msg("no \"%s\" in: %s", sentence, text.data);
	report_clear(&report);
}

static void mirror_says(struct store *store, struct mirror_at mirror,
			enum verdict_code wanted, const char *sentence)
{
	assert_ok(store_write(store, write_mirror, &mirror, &err));
	standalone_says(store, wanted, sentence);
}

TEST(a_mirror_is_equal_only_if_it_was_found_so_in_time)
{
	const char *const name = "acme/r";
	const int64_t minute = 60000, late = -121 * minute - 1000;
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(registry_add(store, KIND_MIRROR, &name, 1, &err));
	mirror_says(store, (struct mirror_at){ 0, 0, REGISTRY_SYNCED, true },
		    VERDICT_IN_SYNC, "1 of 1 mirror is up to date");
	mirror_says(store,
		    (struct mirror_at){ -119 * minute, late, REGISTRY_SYNCED, true },
		    VERDICT_IN_SYNC, "1 of 1 mirror is up to date");
	mirror_says(store,
		    (struct mirror_at){ late, -119 * minute, REGISTRY_SYNCED, true },
		    VERDICT_IN_SYNC, "1 of 1 mirror is up to date");
	mirror_says(store, (struct mirror_at){ late, late, REGISTRY_SYNCED, true },
		    VERDICT_MIRROR_OLD, "up to date, unknown for 1");
	/* A clock that was set back by more than a moment. */
	mirror_says(store, (struct mirror_at){ minute / 2, 0, REGISTRY_SYNCED, true },
		    VERDICT_IN_SYNC, "1 of 1 mirror is up to date");
	mirror_says(store,
		    (struct mirror_at){ 2 * minute, 3 * minute, REGISTRY_SYNCED, true },
		    VERDICT_MIRROR_OLD, "up to date, unknown for 1");
	mirror_says(store, (struct mirror_at){ 2 * minute, late, REGISTRY_SYNCED, true },
		    VERDICT_MIRROR_OLD, "up to date, unknown for 1");
	mirror_says(store, (struct mirror_at){ late, 2 * minute, REGISTRY_SYNCED, true },
		    VERDICT_MIRROR_OLD, "up to date, unknown for 1");
	mirror_says(store, (struct mirror_at){ 2 * minute, 0, REGISTRY_SYNCED, true },
		    VERDICT_IN_SYNC, "1 of 1 mirror is up to date");
	mirror_says(store, (struct mirror_at){ 0, 2 * minute, REGISTRY_SYNCED, true },
		    VERDICT_IN_SYNC, "1 of 1 mirror is up to date");
	mirror_says(store, (struct mirror_at){ 0, 0, REGISTRY_SYNCED, false },
		    VERDICT_MIRROR_BEHIND, "0 of 1 mirror is up to date");
	mirror_says(store, (struct mirror_at){ 0, 0, REGISTRY_FAILED, true },
		    VERDICT_MIRROR_BEHIND, "0 of 1 mirror is up to date");
	store_close(store);
}

/* "a" is held, "b" and "c" fail, "c" is held as well. */
static int write_failing_and_held(struct store_tx *tx, void *arg, struct err *error)
{
	static const char *const texts[] = {
		"INSERT INTO mirror (name, interval_ms, checked_at)"
		" SELECT name, 60000, 0 FROM registry",
		"UPDATE registry SET held_reason = 'too many', remedy = 'permit'"
		" WHERE name = 'a'",
		"UPDATE registry SET state = 3, failure = 'no host', remedy = 'wait'"
		" WHERE name = 'b'",
		"UPDATE registry SET state = 3, failure = 'no', held_reason = 'many'"
		" WHERE name = 'c'",
	};

	(void)arg;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (query_write(tx, error, texts[i]) != 0)
			return -1;
	return 0;
}

static void is_example(const struct report_mirror_example *one, const char *name,
		       const char *why, const char *remedy)
{
	assert_string_equal(one->name, name);
	assert_string_equal(one->why, why);
	assert_string_equal(one->remedy, remedy);
}

TEST(failing_and_held_mirrors_have_an_example_each)
{
	const char *const names[] = { "a", "b", "c" };
	struct vital_signs signs = well();
	struct report report;
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(registry_add(store, KIND_MIRROR, names, ARRAY_SIZE(names), &err));
	assert_ok(store_write(store, write_failing_and_held, NULL, &err));
	assert_ok(report_make(&(struct report_options){ .role = SITE_STANDALONE,
							.site = "paris",
							.data = "/nowhere",
							.signs = &signs,
							.store = store },
			      &report, &err));
	assert_int_equal(report.mirrors.failing, 2);
	assert_int_equal(report.mirrors.held, 2);
	is_example(&report.mirrors.any, "a", "too many", "permit");
	is_example(&report.mirrors.one_held, "a", "too many", "permit");
	is_example(&report.mirrors.one_failing, "b", "no host", "wait");
	json_t *object = report_mirrors_json(&report);
	assert_string_equal(json_string_value(json_object_get(object, "example")), "a");
	json_decref(object);
	report_clear(&report);
	store_close(store);
}

static int write_failing_mirrors(struct store_tx *tx, void *arg, struct err *error)
{
	static const char *const texts[] = {
		"INSERT INTO mirror (name, interval_ms, checked_at)"
		" SELECT name, 60000, 0 FROM registry",
		"UPDATE registry SET state = 3, behind_since = 2000 WHERE name = 'a'",
		"UPDATE registry SET state = 3, behind_since = 1500 WHERE name = 'b'",
		"UPDATE registry SET state = 3 WHERE name = 'c'",
		"UPDATE registry SET behind_since = 1000 WHERE name = 'd'",
		"INSERT INTO mirror_checkout (name, failing_since, message)"
		" VALUES ('a', 4000, 'no'), ('b', 3000, 'no'), ('c', 0, NULL)",
	};

	(void)arg;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		if (query_write(tx, error, texts[i]) != 0)
			return -1;
	return 0;
}

TEST(of_mirrors_that_fail_it_is_known_since_when)
{
	const char *const names[] = { "a", "b", "c", "d" };
	struct vital_signs signs = well();
	struct report report;
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(registry_add(store, KIND_MIRROR, names, ARRAY_SIZE(names), &err));
	assert_ok(store_write(store, write_failing_mirrors, NULL, &err));
	assert_ok(report_make(&(struct report_options){ .role = SITE_STANDALONE,
							.site = "paris",
							.data = "/nowhere",
							.signs = &signs,
							.store = store },
			      &report, &err));
	assert_int_equal(report.mirrors.failing, 3);
	assert_int_equal(report.mirrors.failing_since, 1500);
	assert_int_equal(report.mirrors.checkouts_failing, 2);
	assert_int_equal(report.mirrors.checkouts_failing_since, 3000);
	report_clear(&report);
	store_close(store);
}

/* A list of an hour's interval. */
struct list_at {
	int64_t read_ms; /* from now */
	const char *failure;
	bool is_configured;
};

static int write_list(struct store_tx *tx, void *arg, struct err *error)
{
	const struct list_at *list = arg;

	return query_write(tx, error,
			   "INSERT INTO mirror_list (list, interval_ms, read_at,"
			   " failed_at, message, remedy) VALUES ('acme', ?1, ?2, ?3, ?4,"
			   " 'mend it') ON CONFLICT (list) DO UPDATE SET"
			   " interval_ms = ?1, read_at = ?2, failed_at = ?3,"
			   " message = ?4",
			   QUERY_INT(list->is_configured ? 3600000 : 0),
			   QUERY_INT(clock_wall_ms() + list->read_ms),
			   QUERY_INT(list->failure ? 1 : 0), QUERY_TEXT(list->failure));
}

static void list_says(struct store *store, struct list_at list, enum verdict_code wanted,
		      const char *sentence)
{
	assert_ok(store_write(store, write_list, &list, &err));
	standalone_says(store, wanted, sentence);
}

/* What appeared on a list that was not read is not known. */
TEST(a_list_is_to_be_read_in_time)
{
	const int64_t minute = 60000, late = -121 * minute - 1000;
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	list_says(store, (struct list_at){ -119 * minute, NULL, true }, VERDICT_IN_SYNC,
		  "");
	list_says(store, (struct list_at){ -119 * minute, "away", true }, VERDICT_IN_SYNC,
		  "; the list acme: away (mend it)");
	list_says(store, (struct list_at){ late, NULL, true }, VERDICT_MIRROR_OLD,
		  "; the list acme: it was not read in time");
	list_says(store, (struct list_at){ late, "away", true }, VERDICT_MIRROR_OLD,
		  "; the list acme: away (mend it)");
	list_says(store, (struct list_at){ late, "away", false }, VERDICT_IN_SYNC, "");
	store_close(store);
}

static int hold_gone(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	(void)arg;
	if (registry_get_in(tx, KIND_MIRROR, "acme/r", &row, error) <= 0)
		return -1;
	const struct registry_move gone = { .id = row.id, .event = REGISTRY_GONE };
	const struct registry_move held = { .id = row.id,
					    .event = REGISTRY_HELD,
					    .held_reason = "too many",
					    .remedy = "decide" };
	return registry_move_in(tx, &gone, error) < 0 ||
			       registry_move_in(tx, &held, error) != 0
		       ? -1
		       : 0;
}

/* It is among the mirrors no more. */
TEST(what_waits_to_be_removed_is_not_good)
{
	const char *const name = "acme/r";
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(registry_add(store, KIND_MIRROR, &name, 1, &err));
	standalone_says(store, VERDICT_IN_SYNC, "");
	assert_ok(store_write(store, hold_gone, NULL, &err));
	standalone_says(store, VERDICT_MIRROR_BEHIND,
			"0 of 1 mirror is up to date; acme/r: too many (decide)");
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_site_that_stands_alone_says_first_which_destination_is_behind),
		cmocka_unit_test(remotes_that_are_equally_behind_are_each_said_once),
		cmocka_unit_test(what_was_given_up_set_aside_or_is_owed_is_not_good),
		cmocka_unit_test(a_task_store_that_is_away_is_a_finding_not_the_end),
		cmocka_unit_test(a_list_is_to_be_read_in_time),
		cmocka_unit_test(what_waits_to_be_removed_is_not_good),
		cmocka_unit_test(what_a_secondary_says_twice_is_no_failure),
		cmocka_unit_test(
			of_each_secondary_the_verdict_is_told_and_not_its_last_word),
		cmocka_unit_test(a_copy_that_is_read_again_is_still_in_sync),
		cmocka_unit_test(rows_that_were_removed_by_order_void_the_comparison),
		cmocka_unit_test(copies_that_were_not_looked_at_since_the_start_are_said),
		cmocka_unit_test(what_is_to_be_verified_at_a_primary_is_counted),
		cmocka_unit_test(a_silent_primary_is_as_far_behind_as_its_silence),
		cmocka_unit_test(what_cannot_be_written_is_said_with_its_remedy),
		cmocka_unit_test(
			a_node_that_does_not_run_is_said_first_and_no_secondary_is_blamed),
		cmocka_unit_test(what_a_secondary_lacks_is_said_in_words),
		cmocka_unit_test(a_primary_that_was_heard_is_not_called_unheard),
		cmocka_unit_test(what_keeps_copies_from_coming_is_said),
		cmocka_unit_test(a_primary_that_leaves_a_request_unanswered_is_slow),
		cmocka_unit_test(bytes_to_come_are_said_as_far_as_they_are_known),
		cmocka_unit_test(what_only_fails_is_not_said_to_be_copied),
		cmocka_unit_test(
			a_lease_server_that_is_away_is_named_where_it_keeps_copies_back),
		cmocka_unit_test(a_clock_is_right_or_not_and_unknown_before_it_was_heard),
		cmocka_unit_test(a_primary_that_cannot_look_at_its_repositories_says_so),
		cmocka_unit_test(nothing_is_left_of_a_report_that_could_not_be_made),
		cmocka_unit_test(a_mirror_is_equal_only_if_it_was_found_so_in_time),
		cmocka_unit_test(failing_and_held_mirrors_have_an_example_each),
		cmocka_unit_test(of_mirrors_that_fail_it_is_known_since_when),
		cmocka_unit_test(what_makes_no_sense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
