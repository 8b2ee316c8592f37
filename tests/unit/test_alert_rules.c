#include "test.h"

#include "alert/state.h"
#include "pull/freshness.h"

#define MINUTE 60000

/* A text that its struct would own. */
#define T(text) ((char[]){ text })

static char site[] = "paris", alert_name[] = "oncall";
static struct alert alert;
static struct report report;
static struct alert_facts facts;
static alert_troubles found;

static int begin(void **state)
{
	(void)state;
	alert = (struct alert){ .name = alert_name,
				.kinds = (1u << ALERT_KINDS) - 1,
				.lag_ms = 10 * MINUTE,
				.failures_ms = 60 * MINUTE,
				.silence_ms = 5 * MINUTE,
				.expiry_ms = (int64_t)14 * 24 * 60 * MINUTE,
				.disk_share = 0.05,
				.settle_ms = MINUTE };
	report = (struct report){ .role = SITE_SECONDARY,
				  .site = site,
				  .now = 1795252443120,
				  .signs = VITAL_SIGNS_NONE };
	report.signs.heard_age_ms = report.signs.written_age_ms = 1000;
	facts = (struct alert_facts){ .report = &report,
				      .now = report.now,
				      .uptime_ms = 60 * MINUTE,
				      .damage_age_ms = -1 };
	return 0;
}

static int end(void **state)
{
	(void)state;
	alert_troubles_clear(&found);
	return 0;
}

#define RULE(name) cmocka_unit_test_setup_teardown(name, begin, end)

static void judge(void)
{
	alert_troubles_clear(&found);
	alert_rules(&facts, &alert, &found);
}

static void expect_nothing(void)
{
	judge();
	if (found.count > 0)
		fail_msg("%s: %s", alert_kind_name(found.items[0].kind),
			 found.items[0].text);
}

static const struct alert_trouble *expect_one(enum alert_kind kind, const char *subject,
					      bool is_open)
{
	judge();
	assert_int_equal(found.count, 1);
	const struct alert_trouble *one = &found.items[0];
	if (one->kind != kind || strcmp(one->subject, subject) != 0)
		fail_msg("%s %s: %s", alert_kind_name(one->kind), one->subject,
			 one->text);
	assert_int_equal(one->is_open, is_open);
	return one;
}

/* Of another kind it says nothing of it. */
static void expect_filtered(enum alert_kind kind)
{
	alert.kinds = (1u << ALERT_KINDS) - 1;
	alert.kinds &= ~(1u << kind);
	expect_nothing();
	alert.kinds = 1u << kind;
	judge();
	assert_int_equal(found.count, 1);
}

TEST(a_site_that_is_well_has_no_trouble)
{
	expect_nothing();
}

TEST(lag_has_an_upper_and_a_lower_bound)
{
	report.lag_ms = 5 * MINUTE;
	expect_nothing();
	report.lag_ms = 6 * MINUTE;
	expect_one(ALERT_LAG, "paris", true);
	report.lag_ms = 10 * MINUTE + 1;
	const struct alert_trouble *one = expect_one(ALERT_LAG, "paris", false);
	assert_string_equal(one->text, "paris is 10 min behind (the limit is 10 min)");
	assert_int_equal(one->since, facts.now - report.lag_ms);
	expect_filtered(ALERT_LAG);
}

TEST(a_silent_primary_is_silence_and_not_lag)
{
	report.lag_ms = report.signs.heard_age_ms = 20 * MINUTE;
	judge();
	assert_int_equal(found.count, 2);
	assert_int_equal(found.items[0].kind, ALERT_LAG);
	assert_true(found.items[0].is_open);
	assert_int_equal(found.items[1].kind, ALERT_SILENCE);
	assert_false(found.items[1].is_open);
	alert.kinds = 1u << ALERT_LAG; /* who wants lag alone is told so */
	expect_one(ALERT_LAG, "paris", false);
}

/* For hours no event is asked for then, but page after page. */
TEST(a_primary_that_answers_while_all_is_compared_is_not_silent)
{
	alert.kinds = 1u << ALERT_SILENCE;
	report.signs.heard_age_ms = -1;
	facts.uptime_ms = (int64_t)24 * 60 * MINUTE;
	report.heard_at = report.now - 1000; /* before this start, as far as is known */
	expect_one(ALERT_SILENCE, "primary", false);
	report.signs.news_void = NEWS_FIRST;
	expect_nothing();
	report.heard_at = report.now - 6 * MINUTE;
	const struct alert_trouble *one = expect_one(ALERT_SILENCE, "primary", false);
	assert_string_equal(one->text, "nothing heard from the primary for 6 min");
	report.heard_at = report.now + MINUTE; /* the clock was set */
	expect_nothing();
}

/* There may be more that is not known yet. */
TEST(while_all_is_compared_the_lag_is_at_least_what_is_known)
{
	report.signs.heard_age_ms = -1;
	report.signs.news_void = NEWS_LOST;
	report.heard_at = report.now - 1000;
	expect_one(ALERT_LAG, "paris", true);
	report.lag_ms = 11 * MINUTE;
	expect_one(ALERT_LAG, "paris", false);
}

TEST(a_secondary_that_was_not_heard_of_is_told_of)
{
	struct report_secondary one = { .site = T("rome"),
					.is_expected = true,
					.seen_at = report.now - MINUTE,
					.age_ms = MINUTE };

	report.role = SITE_PRIMARY;
	report.secondaries.items = &one;
	report.secondaries.count = 1;
	alert.kinds = 1u << ALERT_SILENCE; /* how far behind it is nobody knows */
	expect_nothing();
	one.age_ms = 6 * MINUTE;
	expect_one(ALERT_SILENCE, "rome", false);
	/* Right after a start nobody knows. */
	one.age_ms = -1;
	facts.uptime_ms = MINUTE;
	expect_one(ALERT_SILENCE, "rome", true);
	facts.uptime_ms = 6 * MINUTE;
	expect_one(ALERT_SILENCE, "rome", false);
	one.is_expected = false; /* its section is gone */
	expect_nothing();
}

TEST(failures_are_told_by_class_and_count_from_the_oldest_change)
{
	struct report_failures failing[] = {
		{ T("network"), 3, 0, T("a"), T("no route"), NULL },
		{ T("corrupt"), 1, 0, T("b"), T("it is not what it was"), NULL },
	};

	failing[0].since = report.now - 30 * MINUTE;
	report.examples.failing.items = failing;
	report.examples.failing.count = 1;
	const struct alert_trouble *one =
		expect_one(ALERT_FAILURES, "repositories: network", false);
	assert_int_equal(one->bound_ms, 60 * MINUTE);
	assert_int_equal(one->since, failing[0].since);
	assert_string_equal(one->text, "repositories failing: 3 (network), e.g. a: no "
				       "route");
	/* Damage waits for no bound. */
	report.examples.failing.items = failing + 1;
	one = expect_one(ALERT_DAMAGE, "repositories: corrupt", false);
	assert_int_equal(one->bound_ms, 0);
	expect_filtered(ALERT_DAMAGE);
}

TEST(what_a_primary_reads_wrong_is_damage)
{
	struct report_failures failing = { T("missing"),           1,   0, T("a"),
					   T("an object is lost"), NULL };

	report.role = SITE_PRIMARY;
	report.examples.failing.items = &failing;
	report.examples.failing.count = 1;
	expect_one(ALERT_DAMAGE, "repositories: missing", false);
	failing.class = T("disk");
	expect_one(ALERT_FAILURES, "repositories: disk", false);
}

TEST(what_is_tried_again_now_neither_fails_nor_is_mended)
{
	struct alert_retrying retrying = { T("repository"), T("network"), T("a") };

	facts.retrying.items = &retrying;
	facts.retrying.count = 1;
	expect_one(ALERT_FAILURES, "repositories: network", true);
}

/* One look at the failures of rome, where so many rows fail, or are tried again. */
static const struct alert_entry *look_at_rome(struct alert_state *known,
					      struct report_secondary *rome,
					      int64_t failing, int64_t behind)
{
	rome->failing = failing;
	rome->behind = behind;
	rome->lag_ms = behind > 0 ? 50 * MINUTE : 0;
	judge();
	alert_state_take(known, &found, true, &alert, facts.now);
	return known->entries.count > 0 ? &known->entries.items[0] : NULL;
}

TEST(what_a_secondary_tries_again_has_not_ended)
{
	struct report_secondary rome = { .site = T("rome"),
					 .is_expected = true,
					 .age_ms = 0 };
	struct alert_state known = { 0 };

	report.role = SITE_PRIMARY;
	report.secondaries.items = &rome;
	report.secondaries.count = 1;
	alert.kinds = 1u << ALERT_FAILURES;
	assert_null(look_at_rome(&known, &rome, 0, 1)); /* it just works */
	assert_false(look_at_rome(&known, &rome, 1, 0)->is_due);
	facts.now += 50 * MINUTE;
	look_at_rome(&known, &rome, 1, 0);
	look_at_rome(&known, &rome, 0, 1);
	facts.now += 10 * MINUTE;
	const struct alert_entry *entry = look_at_rome(&known, &rome, 1, 0);
	assert_true(entry && entry->is_due);
	assert_string_equal(entry->text, "failing at rome: 1");
	alert_state_told(&known, &alert, facts.now, SIZE_MAX);
	look_at_rome(&known, &rome, 0, 1);
	facts.now += 2 * MINUTE;
	assert_false(look_at_rome(&known, &rome, 0, 1)->is_over);
	assert_string_equal(known.entries.items[0].text,
			    "failed at rome before; by now tried again, or done: 1 still "
			    "to copy there, behind by 50 min");
	entry = look_at_rome(&known, &rome, 2, 1);
	assert_string_equal(entry->text, "failing at rome: 2");
	rome.failing = rome.lag_ms = 0; /* a copy that is damaged lacks no change */
	const struct alert_trouble *one = expect_one(ALERT_FAILURES, "at rome", true);
	assert_string_equal(one->text, "failed at rome before; by now tried again, or "
				       "done: 1 still to copy there");
	rome.lag_ms = 1000; /* it is busy, and lacks nothing for long */
	judge();
	assert_int_equal(found.count, 0);
	look_at_rome(&known, &rome, 0, 0);
	facts.now += MINUTE;
	assert_true(look_at_rome(&known, &rome, 0, 0)->is_over);
	alert_state_clear(&known);
}

TEST(what_of_any_kind_is_missing_on_the_primary_fails)
{
	struct report_kind lfs = { .type = T("lfs") };

	report.repositories.states[REGISTRY_MISSING_ON_PRIMARY] = 1;
	expect_one(ALERT_FAILURES, "missing on the primary", false);
	report.repositories.states[REGISTRY_MISSING_ON_PRIMARY] = 0;
	report.blobs.items = &lfs;
	report.blobs.count = 1;
	expect_nothing();
	lfs.counts.states[REGISTRY_MISSING_ON_PRIMARY] = 2;
	const struct alert_trouble *one =
		expect_one(ALERT_FAILURES, "lfs: missing on the primary", false);
	assert_int_equal(one->bound_ms, 60 * MINUTE);
	assert_string_equal(one->text, "lfs missing on the primary: 2");
	assert_string_equal(one->remedy, "see refrelay blob list --type lfs --state "
					 "missing_on_primary");
}

TEST(damage_that_was_mended_is_told_of_for_a_while)
{
	facts.damage_age_ms = MINUTE;
	snprintf(facts.damage.text, sizeof(facts.damage.text), "repository a: wrong");
	assert_true(expect_one(ALERT_DAMAGE, "found", false)->is_past);
	facts.damage_age_ms = 3 * MINUTE;
	expect_nothing();
	facts.look_ms = MINUTE; /* on a large site a second look comes late */
	expect_one(ALERT_DAMAGE, "found", false);
}

TEST(held_work_is_told_of)
{
	report.repositories.held = 2;
	report.examples.held = T("a");
	report.examples.reason = T("40 deletions");
	report.examples.remedy = T("run it");
	const struct alert_trouble *one = expect_one(ALERT_HELD, "repositories", false);
	assert_string_equal(one->text, "held repositories: 2, e.g. a: 40 deletions");
	assert_string_equal(one->remedy, "run it");
	expect_filtered(ALERT_HELD);
	report.repositories.held = 0;
	alert.kinds = (1u << ALERT_KINDS) - 1;
	report.push.given_up = 1;
	report.push.example_given_up = T("b");
	expect_one(ALERT_HELD, "push tasks", false);
	report.push.given_up = 0;
	report.push.example_given_up = NULL;
	report.push.held = 2;
	report.push.example_held = T("c");
	one = expect_one(ALERT_HELD, "push tasks", false);
	assert_string_equal(one->text, "push tasks given up: 0, without a remote: 0, "
				       "unreadable: 0; held deletions of repositories: "
				       "2, e.g. c");
	assert_non_null(strstr(one->remedy, "--force"));
}

TEST(disks_are_judged_by_share_or_bytes_and_by_inodes)
{
	struct alert_disk disk = { .what = "site.data",
				   .path = T("/data"),
				   .all = 1000,
				   .room = 56,
				   .all_files = 1000,
				   .room_files = 1000 };

	facts.disks.items = &disk;
	facts.disks.count = 1;
	expect_nothing();
	disk.room = 52;
	expect_one(ALERT_DISK, "/data", true);
	disk.room = 49;
	expect_one(ALERT_DISK, "/data", false);
	alert.disk_share = 0;
	alert.disk_bytes = 40;
	expect_nothing();
	disk.room = 39;
	disk.room_files = 0;
	expect_one(ALERT_DISK, "/data", false);
	alert.disk_share = 0.01;
	expect_one(ALERT_DISK, "files at /data", false);
	expect_filtered(ALERT_DISK);
}

TEST(what_expires_soon_is_told_of)
{
	struct alert_ending ending = { .what = T("the token ci"), .remedy = "make one" };
	const int64_t day = (int64_t)24 * 60 * MINUTE;

	facts.endings.items = &ending;
	facts.endings.count = 1;
	ending.at_ms = facts.now + 15 * day;
	expect_nothing();
	ending.at_ms = facts.now + 3 * day;
	const struct alert_trouble *one = expect_one(ALERT_EXPIRY, "the token ci", false);
	assert_string_equal(one->text, "the token ci expires in 3 d");
	ending.at_ms = 0; /* it was not asked yet, or cannot be */
	expect_one(ALERT_EXPIRY, "the token ci", true);
	ending.at_ms = facts.now - day;
	one = expect_one(ALERT_EXPIRY, "the token ci", false);
	assert_string_equal(one->text, "the token ci has expired");
	expect_filtered(ALERT_EXPIRY);
}

TEST(hooks_are_missed_only_where_there_were_some)
{
	report.role = SITE_PRIMARY;
	report.scan.has_hooks = true;
	report.scan.hooks.states[HOOK_MISSING] = 2;
	expect_nothing();
	facts.had_hooks = true;
	expect_one(ALERT_HOOKS, "hooks", false);
	expect_filtered(ALERT_HOOKS);
	report.scan.hooks.states[HOOK_MISSING] = 0;
	report.scan.hooks.states[HOOK_INSTALLED] = 2;
	alert.kinds = (1u << ALERT_KINDS) - 1;
	expect_nothing();
	report.scan.has_hooks = false; /* no scan yet */
	expect_one(ALERT_HOOKS, "hooks", true);
}

TEST(a_server_of_leases_that_is_away_is_told_of)
{
	report.signs.leases_away = report.now - MINUTE;
	err_set(&report.signs.leases_failure, ERR_LOCK_UNAVAILABLE, "refused");
	const struct alert_trouble *one = expect_one(ALERT_LEASES, "leases", false);
	assert_int_equal(one->since, report.signs.leases_away);
	report.signs.leases_away = 0;
	expect_nothing();
	facts.uptime_ms = 1000; /* it was not asked yet */
	expect_one(ALERT_LEASES, "leases", true);
}

TEST(what_cannot_be_written_or_found_is_told_of)
{
	err_set(&report.signs.write_failure, ERR_DISK, "no space left");
	expect_one(ALERT_STORAGE, "writing", false);
	report.signs.write_failure = (struct err){ 0 };
	report.signs.written_age_ms = -1;
	facts.uptime_ms = 20000;
	expect_one(ALERT_STORAGE, "writing", true);
	facts.uptime_ms = 60 * MINUTE;
	report.signs.written_age_ms = 0;
	report.is_root_lost = true;
	err_set(&report.root_failure, ERR_CONFIG, "it is empty");
	expect_one(ALERT_STORAGE, "copies", false);
	expect_filtered(ALERT_STORAGE);
}

TEST(a_write_that_hangs_is_told_of)
{
	report.signs.written_age_ms = VERDICT_WRITTEN_MS;
	expect_nothing();
	report.signs.written_age_ms = 3 * MINUTE;
	const struct alert_trouble *one = expect_one(ALERT_STORAGE, "writing", false);
	assert_string_equal(one->text, "the database or a directory of copies was not "
				       "written for 3 min");
	assert_int_equal(one->since, facts.now - 3 * MINUTE);
	report.signs.written_age_ms = -1; /* not even the first */
	facts.uptime_ms = VERDICT_WRITTEN_MS + 1;
	expect_one(ALERT_STORAGE, "writing", false);
	expect_filtered(ALERT_STORAGE);
}

TEST(a_scan_that_is_overdue_is_told_of)
{
	struct report_kind media = { .type = T("media") };

	report.role = SITE_PRIMARY;
	expect_nothing(); /* none since the start */
	report.signs.scan_age_ms = 3 * MINUTE;
	report.signs.scan_left_ms = 0;
	expect_nothing();
	report.signs.scan_left_ms = -1;
	const struct alert_trouble *one = expect_one(ALERT_STORAGE, "scans", false);
	assert_string_equal(one->text, "no full scan has finished for 3 min");
	assert_int_equal(one->since, facts.now - 3 * MINUTE);
	expect_filtered(ALERT_STORAGE);
	/* Of one that fails it is told why. */
	media.scan.failing_since = report.now - MINUTE;
	report.blobs.items = &media;
	report.blobs.count = 1;
	judge();
	assert_int_equal(found.count, 2);
	assert_string_equal(found.items[0].subject, "media");
	assert_string_equal(found.items[1].subject, "scans");
	assert_true(found.items[1].is_open);
}

/* A standalone site has them, too; of copies nothing is scanned. */
TEST(each_kind_that_cannot_be_scanned_is_told_of)
{
	static const enum site_role roles[] = { SITE_PRIMARY, SITE_STANDALONE };
	struct report_kind kinds[] = { { .type = T("lfs") }, { .type = T("media") } };

	kinds[1].scan.failing_since = report.now - MINUTE;
	err_set(&kinds[1].scan.failure, ERR_DISK, "it is not mounted");
	err_remedy(&kinds[1].scan.failure, "mount it");
	report.blobs.items = kinds;
	report.blobs.count = ARRAY_SIZE(kinds);
	expect_nothing();
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++) {
		report.role = roles[i];
		const struct alert_trouble *one =
			expect_one(ALERT_STORAGE, "media", false);
		assert_string_equal(one->text, "the blobs of kind media cannot be "
					       "scanned: it is not mounted");
		assert_string_equal(one->remedy, "mount it");
	}
	expect_filtered(ALERT_STORAGE);
	kinds[1].scan.failing_since = 0;
	alert.kinds = (1u << ALERT_KINDS) - 1;
	report.scan.failing_since = report.now;
	expect_one(ALERT_STORAGE, "repositories", false);
}

TEST(a_database_that_cannot_be_read_is_all_that_is_known)
{
	facts.report = NULL;
	err_set(&facts.why_not, ERR_CORRUPT, "malformed");
	expect_one(ALERT_STORAGE, "database", false);
	alert.kinds = 1u << ALERT_LAG;
	expect_nothing();
}

TEST(remotes_and_mirrors_are_told_of)
{
	struct report_remote remote = { .name = T("backup"),
					.failing = 1,
					.example = T("a"),
					.lag_ms = 11 * MINUTE };

	err_set(&remote.failure, ERR_AUTH, "refused");
	report.push.remotes.items = &remote;
	report.push.remotes.count = 1;
	judge();
	assert_int_equal(found.count, 2);
	assert_int_equal(found.items[0].kind, ALERT_LAG);
	assert_string_equal(found.items[0].subject, "remote backup");
	assert_int_equal(found.items[1].kind, ALERT_FAILURES);
	report.push.remotes.count = 0;
	report.mirrors.all = 3;
	report.mirrors.failing = 1;
	report.mirrors.one_failing.name = T("acme/app");
	report.mirrors.one_failing.why = T("no such host");
	report.mirrors.failing_since = report.now - MINUTE;
	const struct alert_trouble *one = expect_one(ALERT_FAILURES, "mirrors", false);
	assert_int_equal(one->since, report.now - MINUTE);
	report.mirrors.failing = 0;
	report.mirrors.checkouts_failing = 1;
	report.mirrors.checkouts_failing_since = report.now - 2 * MINUTE;
	report.mirrors.checkout = T("acme/app");
	report.mirrors.checkout_why = T("no room");
	one = expect_one(ALERT_FAILURES, "working trees", false);
	assert_int_equal(one->since, report.now - 2 * MINUTE);
	report.mirrors.checkouts_failing = 0;
	report.mirrors.stale = 1;
	expect_one(ALERT_LAG, "mirrors", false);
}

TEST(of_failing_and_of_held_mirrors_one_each_is_named)
{
	report.mirrors = (struct report_mirrors){
		.all = 2,
		.failing = 1,
		.held = 1,
		.any = { T("a"), T("40 deletions"), T("permit it") },
		.one_held = { T("a"), T("40 deletions"), T("permit it") },
		.one_failing = { T("b"), T("no such host"), T("wait") },
	};
	judge();
	assert_int_equal(found.count, 2);
	assert_string_equal(found.items[0].text, "mirrors failing: 1, e.g. b: no such "
						 "host");
	assert_string_equal(found.items[0].remedy, "wait");
	assert_string_equal(found.items[1].text, "held mirrors: 1, e.g. a: 40 deletions");
	assert_string_equal(found.items[1].remedy, "permit it");
}

TEST(hostile_names_are_made_visible)
{
	report.repositories.held = 1;
	report.examples.held = T("a\x1b[31m\xff");
	report.examples.reason = T("https://user:secret@host/ is away");
	const struct alert_trouble *one = expect_one(ALERT_HELD, "repositories", false);
	assert_null(strchr(one->text, '\x1b'));
	assert_null(strstr(one->text, "secret"));
	assert_true(text_is_utf8(one->text, strlen(one->text)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RULE(a_site_that_is_well_has_no_trouble),
		RULE(lag_has_an_upper_and_a_lower_bound),
		RULE(a_silent_primary_is_silence_and_not_lag),
		RULE(a_primary_that_answers_while_all_is_compared_is_not_silent),
		RULE(while_all_is_compared_the_lag_is_at_least_what_is_known),
		RULE(a_secondary_that_was_not_heard_of_is_told_of),
		RULE(failures_are_told_by_class_and_count_from_the_oldest_change),
		RULE(what_a_primary_reads_wrong_is_damage),
		RULE(what_is_tried_again_now_neither_fails_nor_is_mended),
		RULE(what_a_secondary_tries_again_has_not_ended),
		RULE(what_of_any_kind_is_missing_on_the_primary_fails),
		RULE(damage_that_was_mended_is_told_of_for_a_while),
		RULE(held_work_is_told_of),
		RULE(disks_are_judged_by_share_or_bytes_and_by_inodes),
		RULE(what_expires_soon_is_told_of),
		RULE(hooks_are_missed_only_where_there_were_some),
		RULE(a_server_of_leases_that_is_away_is_told_of),
		RULE(what_cannot_be_written_or_found_is_told_of),
		RULE(a_write_that_hangs_is_told_of),
		RULE(a_scan_that_is_overdue_is_told_of),
		RULE(each_kind_that_cannot_be_scanned_is_told_of),
		RULE(a_database_that_cannot_be_read_is_all_that_is_known),
		RULE(remotes_and_mirrors_are_told_of),
		RULE(of_failing_and_of_held_mirrors_one_each_is_named),
		RULE(hostile_names_are_made_visible),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
