/*
 * Pull as a whole, its primary a fake one: real threads, registry, leases and git.
 */
#include "fake_primary.h"

#include "base/failpoint.h"
#include "base/metrics.h"
#include "pull/copy_record.h"
#include "pull/copy_watch.h"
#include "pull/pull.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"
#include "store/site_value.h"

#include "registry_write.h"

static struct store *store;
static struct lease_manager *leases;
static struct pull *pull;
static struct pull_settings settings;
static char copies[96];

static char *path_before; /* of replace_git; owned */

/* Done where a failpoint is passed; once. */
static const char *_Atomic passed;
static void (*then)(void);

void failpoint(const char *name)
{
	const char *wanted = passed;

	if (wanted && strcmp(name, wanted) == 0 &&
	    atomic_compare_exchange_strong(&passed, &wanted, NULL))
		then();
}

static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	AUTO_FREE char *directory = xasprintf("%s/leases", root);
	const struct lease_options options = { .directory = directory };

	fake_init();
	snprintf(copies, sizeof(copies), "%s/copies", root);
	settings = (struct pull_settings){ .repository_capacity = 4,
					   .verification_capacity = 2,
					   .consistency_interval_ms = 60000,
					   .timeout_ms = 60000,
					   .reverify_ms = 3600000,
					   .delete_brake = 0.05 };
	assert_ok(git_setup(root, &err));
	assert_ok(store_open(url, &store, &err));
	assert_ok(lease_manager_open_local(store, &options, &leases, &err));
	return 0;
}

/* Blobs of which the primary has none. */
static struct blob_kind files;
static struct kinds_here here;

static void begin(void)
{
	kinds_clear(&here);
	if (files.path)
		blob_kinds_add(&here.blobs, &files);
	kinds_fill(&here, copies);
	const struct pull_options options = { .store = store,
					      .leases = leases,
					      .primary = &fake,
					      .here = &here,
					      .settings = settings };

	assert_ok(pull_start(&options, &pull, &err));
}

static void end(void)
{
	pull_stop(TAKE(pull), 5000);
}

static int tear_down(void **state)
{
	passed = NULL;
	fake.refs_hang = false;
	if (pull)
		pull_stop(TAKE(pull), 0);
	if (path_before)
		setenv("PATH", path_before, 1);
	free(TAKE(path_before));
	lease_manager_close(leases);
	store_close(store);
	kinds_clear(&here);
	files = (struct blob_kind){ 0 };
	fake_clear();
	return test_remove_root(state);
}

static struct registry_row row_of(const char *name)
{
	struct registry_row row;

	if (registry_get(store, KIND_REPOSITORY, name, &row, &err) != 0)
		row = (struct registry_row){ .state = REGISTRY_STATES };
	return row;
}

static enum registry_state state_of(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = row_of(name);

	return row.state;
}

/* The row says so, and the disk, too. */
static bool is_here(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = row_of(name);
	AUTO_FREE char *theirs = sum_of(name);
	AUTO_FREE char *other = xasprintf("../copies/%s", name);
	AUTO_FREE char *ours = sum_of(other);
	const uint64_t generation = generation_of(name);

	return row.state == REGISTRY_SYNCED &&
	       row.verification == VERIFICATION_SUCCEEDED && generation && theirs &&
	       ours && row.generation == generation && strcmp(theirs, ours) == 0 &&
	       row.checksum && strcmp(row.checksum, ours) == 0;
}

struct site_value {
	const char *key;
	struct str text;
	bool is_there;
};

static int read_value(struct store_tx *tx, void *arg, struct err *error)
{
	struct site_value *value = arg;
	int found;

	str_reset(&value->text);
	found = site_value_get(tx, value->key, &value->text, error);
	value->is_there = found > 0;
	return found < 0 ? -1 : 0;
}

/* "" if there is none; the caller frees. */
static char *value_of(const char *key)
{
	struct site_value value = { .key = key, .text = STR_INIT };

	assert_ok(store_read(store, read_value, &value, &err));
	return str_take(&value.text);
}

static bool has_value(const char *key)
{
	AUTO_FREE char *text = value_of(key);

	return *text != '\0';
}

static bool is_at_last_event(void)
{
	struct pull_state state;

	pull_look(pull, &state);
	return state.has_cursor && state.cursor == last_event();
}

static bool is_idle(void)
{
	struct pull_state state;

	pull_look(pull, &state);
	return state.bringing[PULL_SYNC_WORKERS] + state.verifying == 0;
}

static int run_sql(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

static void sql(const char *text)
{
	AUTO_FREE char *copy = xstrdup(text);

	assert_ok(store_write(store, run_sql, copy, &err));
}

TEST(a_new_secondary_copies_everything)
{
	appear("group/a", REPORTED);
	appear("b", REPORTED);
	appear("c", UNTOLD);
	begin();
	eventually(is_here("group/a") && is_here("b") && is_here("c"));
	eventually(is_at_last_event());
	assert_true(has_value(PULL_COMPARED));
	assert_true(has_value(PULL_HEARD));
	assert_false(has_value(PULL_FAILURE));
}

TEST(a_change_is_brought_by_its_event)
{
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event());
	int pages = fake.pages;
	change("a", "refs/heads/new", REPORTED);
	eventually(is_here("a") && is_at_last_event());
	appear("b", REPORTED);
	eventually(is_here("b"));
	assert_int_equal(fake.pages, pages);
}

TEST(a_restarted_secondary_goes_on_where_it_was)
{
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event());
	end();
	change("a", "refs/heads/new", REPORTED);
	change("a", "refs/heads/newer", REPORTED);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
}

/* The event is gone; only the comparison can find what it told. */
TEST(lost_events_lead_to_a_comparison)
{
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event());
	end();
	change("a", "refs/heads/new", REPORTED);
	change("a", "refs/heads/newer", REPORTED);
	fake.first = fake.events.count + 1;
	begin();
	eventually(is_here("a") && is_at_last_event());
}

TEST(another_log_leads_to_a_comparison)
{
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event());
	end();
	event_list_clear(&fake.events);
	draw(fake.timeline);
	change("a", "refs/heads/new", UNTOLD);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
}

/* The position is set only when all was compared: until then there is none. */
TEST(a_comparison_that_was_cut_short_is_repeated)
{
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event());
	end();
	change("a", "refs/heads/new", UNTOLD);
	sql("DELETE FROM site_value WHERE key = 'pull.cursor'");
	begin();
	eventually(is_here("a") && is_at_last_event());
}

TEST(what_was_deleted_at_the_primary_goes_to_the_trash)
{
	appear("a", REPORTED);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b"));
	vanish("a", REPORTED);
	eventually(state_of("a") == REGISTRY_STATES);
	must("test ! -e copies/a.git && ls copies/.refrelay/trash | grep -q .");
	appear("a", REPORTED);
	eventually(is_here("a"));
}

TEST(what_was_deleted_goes_though_its_fence_is_no_file)
{
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_idle());
	must("cd copies/a.git/refrelay && rm fence && mkdir fence");
	vanish("a", REPORTED);
	eventually(state_of("a") == REGISTRY_STATES);
	must("test ! -e copies/a.git && ls copies/.refrelay/trash | grep -q .");
}

TEST(the_comparison_finds_what_no_event_told)
{
	settings.consistency_interval_ms = 50;
	appear("a", REPORTED);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
	vanish("a", UNTOLD);
	change("b", "refs/heads/new", UNTOLD);
	appear("c", UNTOLD);
	appear("z", REPORTED); /* the inventory's tag follows the log */
	eventually(is_here("b") && is_here("c") && is_here("z"));
	eventually(state_of("a") == REGISTRY_STATES);
}

/* Without a position, nobody tells that this site has read further. */
TEST(a_primary_that_went_back_unnoticed_is_followed)
{
	appear("a", REPORTED);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
	end();
	sql("UPDATE registry SET generation = 9, generation_wanted = 9;"
	    "UPDATE registry SET state = 0, generation = 0 WHERE name = 'b';"
	    "DELETE FROM site_value WHERE key = '" PULL_CURSOR "'");
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
}

/* It may lie in a directory that the primary could not read. */
TEST(what_a_part_of_the_inventory_lacks_is_not_deleted)
{
	settings.consistency_interval_ms = 50;
	fake.is_part = true;
	appear("a", REPORTED);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
	vanish("a", UNTOLD);
	appear("z", REPORTED);
	eventually(is_here("z"));
	int unchanged = fake.unchanged; /* asked again when all was compared */
	eventually(fake.unchanged > unchanged + 1);
	assert_int_equal(state_of("a"), REGISTRY_SYNCED);
	fake.is_part = false;
	eventually(state_of("a") == REGISTRY_STATES);
}

TEST(an_idle_inventory_costs_one_short_answer)
{
	settings.consistency_interval_ms = 20;
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && fake.unchanged > 3);
	int pages = fake.pages;
	usleep(200000);
	assert_int_equal(fake.pages, pages);
}

static atomic_int touches;

/* As the thread does that takes events over. */
static void touch_b(void)
{
	if (touches++ < 10)
		names_touch(pull, KIND_REPOSITORY, "b");
}

/* Perhaps that does not come to it. */
TEST(a_comparison_that_left_something_to_events_is_made_again)
{
	touches = 0;
	settings.consistency_interval_ms = 20;
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event() && fake.unchanged > 3);
	fake.between = touch_b;
	appear("b", UNTOLD);
	change("a", "refs/heads/new", REPORTED); /* another inventory */
	eventually(is_here("b"));
	assert_true(touches > 10);
}

/* As an operator removes it, no event tells, and the inventory is as it was. */
TEST(a_row_that_was_removed_here_is_missed_at_once)
{
	const struct registry_move gone = { .id = replicable_id(KIND_REPOSITORY, "a"),
					    .event = REGISTRY_GONE };

	settings.consistency_interval_ms = 20;
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event() && fake.unchanged > 3);
	settings.consistency_interval_ms = 60000; /* or it is asked before it is gone */
	pull_set(pull, &settings);
	int pages = fake.pages;
	assert_ok(registry_move(store, &gone, &err));
	pull_wake(pull);
	eventually(state_of("a") == REGISTRY_STATES);
	must("ls copies/.refrelay/trash | grep -q .");
	settings.consistency_interval_ms = 20;
	pull_set(pull, &settings);
	eventually(fake.pages > pages);
	eventually(is_here("a"));
}

static struct registry_counts counts_now(void)
{
	struct registry_counts counts;

	assert_ok(registry_counts(store, KIND_REPOSITORY, &counts, &err));
	return counts;
}

/* The brake keeps the copies; and that the tag says nothing has changed since is no
 * reason to believe it for an hour. */
TEST(an_inventory_that_was_empty_for_a_moment_is_not_believed_longer)
{
	char name[8];

	settings.consistency_interval_ms = 20;
	for (int i = 10; i < 22; i++) {
		snprintf(name, sizeof(name), "r%d", i);
		appear(name, REPORTED);
	}
	begin();
	eventually(is_here("r10") && is_here("r21") && is_at_last_event());
	fake.is_blind = true;
	appear("z", REPORTED);
	eventually(counts_now().held >= 12); /* z may be one of them */
	int pages = fake.pages;
	eventually(fake.pages > pages + 2); /* one that found nothing */
	fake.is_blind = false;
	eventually(is_here("r10") && is_here("r21") && is_here("z"));
	assert_int_equal(counts_now().gone, 0);
	must("test ! -e copies/.refrelay/trash || ! ls copies/.refrelay/trash | grep -q "
	     ".");
}

static const char *comes_between;

static void create_between(void)
{
	const char *name = TAKE(comes_between);

	if (!name)
		return;
	appear(name, REPORTED);
	eventually(state_of(name) != REGISTRY_STATES);
}

/* The page is older than the event: it says nothing about it. */
TEST(what_an_event_tells_while_a_page_is_read_stays)
{
	settings.consistency_interval_ms = 50;
	appear("b", REPORTED);
	begin();
	eventually(is_here("b") && is_at_last_event() && fake.unchanged > 0);
	sql("CREATE TRIGGER told AFTER UPDATE ON registry WHEN NEW.gone <> 0 BEGIN"
	    " INSERT OR REPLACE INTO site_value VALUES ('test.gone', NEW.name); END");
	comes_between = "a";
	fake.between = create_between;
	change("b", "refs/heads/new", REPORTED);
	eventually(is_here("a") && is_here("b"));
	assert_false(has_value("test.gone"));
}

TEST(a_silent_primary_is_told_and_forgotten_when_it_is_back)
{
	fake.is_down = true;
	appear("a", REPORTED);
	begin();
	eventually(has_value(PULL_FAILURE));
	AUTO_FREE char *failure = value_of(PULL_FAILURE);
	assert_non_null(strstr(failure, "\"network\""));
	fake.is_down = false;
	eventually(is_here("a"));
	eventually(!has_value(PULL_FAILURE));
}

static bool failure_has(const char *text)
{
	AUTO_FREE char *failure = value_of(PULL_FAILURE);

	return strstr(failure, text) != NULL;
}

/* The first is often the least telling. Each write is 10 s apart without that. */
TEST(what_the_primary_failed_with_last_is_told_with_a_remedy)
{
	int64_t since = clock_boot_ms();

	fake.is_down = true;
	begin();
	eventually(failure_has("connection refused"));
	assert_true(failure_has("see whether its node runs"));
	fake.fault = "no route to host";
	pull_set(pull, &settings); /* asks at once */
	eventually(failure_has("no route to host"));
	assert_in_range(clock_boot_ms() - since, 0, 9500);
}

static void fail_row(const char *name, const char *class)
{
	AUTO_FREE char *text =
		xasprintf("UPDATE registry SET state = 3, failure_class = '%s',"
			  " retry_count = 7, due_at = 99999999999999 WHERE name = '%s'",
			  class, name);

	sql(text);
}

TEST(what_failed_without_the_primary_is_tried_when_it_is_back)
{
	appear("a", REPORTED);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b") && is_at_last_event());
	fail_row("a", "network");
	fail_row("b", "disk");
	fake.is_down = true;
	eventually(has_value(PULL_FAILURE));
	assert_int_equal(state_of("a"), REGISTRY_FAILED);
	fake.is_down = false;
	eventually(is_here("a"));
	assert_int_equal(state_of("b"), REGISTRY_FAILED);
}

/* Two ask: without reloads no more than ten times within 20 s, and the pauses that follow
 * would be of more than 20 s. */
TEST(a_reload_asks_and_tries_at_once)
{
	appear("a", REPORTED);
	fake.is_down = true;
	begin();
	int64_t since = clock_boot_ms();
	while (fake.refused < 16 && clock_boot_ms() < since + 20000) {
		usleep(20000);
		pull_set(pull, &settings);
	}
	assert_true(fake.refused >= 16);
	fake.is_down = false;
	since = clock_boot_ms();
	pull_set(pull, &settings);
	/* The first question was answered. How long the copy takes then says nothing. */
	eventually(fake.pages > 0);
	assert_in_range(clock_boot_ms() - since, 0, 10000);
	eventually(is_here("a"));
	fail_row("a", "auth");
	settings.timeout_ms = 9000;
	pull_set(pull, &settings);
	eventually(is_here("a") && fake.valid_s == 9);
}

TEST(what_runs_at_the_end_is_given_back)
{
	int64_t started;

	appear("a", REPORTED);
	fake.refs_hang = true;
	begin();
	eventually(fake.hanging > 0);
	started = clock_boot_ms();
	pull_stop(TAKE(pull), 100);
	assert_in_range(clock_boot_ms() - started, 90, 20000); /* it hangs for ever */
	assert_int_equal(state_of("a"), REGISTRY_PENDING);
	fake.refs_hang = false;
	begin();
	eventually(is_here("a"));
}

TEST(a_row_that_a_dead_node_had_is_taken_up_at_once)
{
	appear("a", REPORTED);
	begin();
	eventually(is_here("a"));
	end();
	sql("UPDATE registry SET state = 1, due_at = 99999999999999;"
	    "UPDATE counters SET value = 1 WHERE what = 'state.1';"
	    "INSERT INTO counters SELECT 'repository', 'state.1', 1"
	    " WHERE NOT EXISTS (SELECT 1 FROM counters WHERE what = 'state.1')");
	change("a", "refs/heads/new", UNTOLD);
	begin();
	eventually(is_here("a"));
}

/* Written while the clock was a year ahead. */
TEST(what_was_put_off_by_a_wrong_clock_is_due_at_the_start)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	appear("a", REPORTED);
	appear("b", REPORTED);
	begin();
	eventually(is_here("a") && is_here("b"));
	end();
	sql("UPDATE registry SET state = 3, verification_due_at = NULL,"
	    " due_at = 99999999999999, retry_at = 99999999999999 WHERE name = 'a';"
	    "UPDATE registry SET verified_at = 1,"
	    " verification_due_at = 99999999999999 WHERE name = 'b'");
	begin();
	eventually(is_here("a"));
	eventually((registry_row_clear(&row), row = row_of("b"), row.verified_at > 1));
}

TEST(capacity_is_obeyed_at_once)
{
	appear("a", REPORTED);
	appear("b", REPORTED);
	appear("c", REPORTED);
	settings.repository_capacity = 0;
	fake.refs_hang = true;
	begin();
	eventually(is_at_last_event());
	usleep(50000);
	assert_int_equal(state_of("a"), REGISTRY_PENDING);
	settings.repository_capacity = 2;
	pull_set(pull, &settings);
	eventually(fake.hanging == 2);
	usleep(50000);
	assert_int_equal(fake.hanging, 2);
	fake.refs_hang = false;
	eventually(is_here("a") && is_here("b") && is_here("c"));
}

TEST(a_copy_that_was_changed_by_hand_is_found_and_healed)
{
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_idle());
	struct copy_watch *watch = TAKE(pull->copy_watch);
	copy_watch_stop(watch); /* which may find it first */
	must("git -C copies/a.git update-ref refs/heads/main v2^{}");
	sql("UPDATE registry SET verification_due_at = 1");
	pull_wake(pull);
	eventually(fake.asked_again > 0);
	eventually(is_here("a")); /* what fails so for the first time is due at once */
	end();
	copy_watch_free(watch);
}

TEST(a_verified_copy_is_due_again_later)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	appear("a", REPORTED);
	begin();
	eventually(is_here("a"));
	sql("UPDATE registry SET verification_due_at = 1, verified_at = 1");
	pull_wake(pull);
	eventually((registry_row_clear(&row), row = row_of("a"), row.verified_at > 1));
	assert_in_range(row.verification_due_at - row.verified_at, 1800000, 3600000);
	assert_int_equal(fake.asked_again, 0);
}

/* Of a newer version, or hostile: neither is a reason to stop. */
static enum copy_stamps look_at_record(const char *name, bool renews)
{
	AUTO_FREE char *path = xasprintf("%s/%s.git", copies, name);
	AUTO_CLOSE int fd = dir_open(AT_FDCWD, path, ERR_IGNORED);
	AUTO_RECORD struct copy_record record = { 0 };

	copy_record_read(fd, &record);
	if (renews)
		copy_record_renew(fd, &record);
	return copy_record_look(&record, fd);
}

static double count_changes(void)
{
	AUTO_STR struct str metrics = STR_INIT;
	const char *name = "\nrefrelay_copy_changes_total ";

	metrics_render_as(METRICS_PROMETHEUS, &metrics);
	const char *at = strstr(metrics.data, name);
	return at ? strtod(at + strlen(name), NULL) : -1;
}

static void change_and_report(void)
{
	must("git -C copies/a.git update-ref refs/heads/main v2^{}");
	copy_watch_report(pull->copy_watch, "a");
}

TEST(a_copy_that_changes_while_it_is_looked_at_is_looked_at_again)
{
	appear("a", REPORTED);
	begin();
	const double changes = count_changes();
	eventually(is_here("a") && is_idle());
	then = change_and_report;
	passed = "copy.looked";
	copy_watch_report(pull->copy_watch, "a");
	eventually(count_changes() > changes && is_here("a"));
}

/* From now on `deed` comes before that command of git. */
static void replace_git(const char *command, const char *deed)
{
	path_before = xstrdup(getenv("PATH"));
	AUTO_FREE char *path = xasprintf("%s/bin:%s", root, path_before);

	must("mkdir bin && cat >bin/git <<'E'\n#!/bin/sh\nPATH=${PATH#*:}\n"
	     "[ \"$1\" != %s ] || %s\nexec git \"$@\"\nE\nchmod +x bin/git",
	     command, deed);
	setenv("PATH", path, 1);
	assert_ok(git_setup(root, &err));
}

/* As a disk damages a file: it was ours, and nobody has written to it. Whoever watches
 * the copy sees it go, and git is still at work. */
TEST(a_verification_that_removes_a_damaged_file_leaves_a_copy_that_is_ours)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	appear("a", REPORTED);
	begin();
	eventually(is_here("a"));
	end();
	must("git -C copies/a.git multi-pack-index write && "
	     "echo nonsense >copies/a.git/objects/info/commit-graph");
	assert_int_equal(look_at_record("a", true), COPY_STAMPS_SAME);
	sql("UPDATE registry SET verification_due_at = 1, verified_at = 1");
	const double changes = count_changes();
	replace_git("multi-pack-index", "sleep 1");
	begin();
	eventually((registry_row_clear(&row), row = row_of("a"), row.verified_at > 1));
	end();
	must("test ! -e copies/a.git/objects/info/commit-graph && "
	     "test -e copies/a.git/objects/pack/multi-pack-index");
	assert_int_equal(look_at_record("a", false), COPY_STAMPS_SAME);
	assert_true(count_changes() == changes);
}

/* More than a sync leaves, each too large to be merged without git. No node runs. */
static void add_packs(const char *name)
{
	must("cd copies/%s.git && for i in $(seq 33); do head -c 300000 /dev/urandom | "
	     "git hash-object -w --stdin | git pack-objects -q objects/pack/pack; done "
	     ">/dev/null && git prune-packed",
	     name);
	assert_int_equal(look_at_record(name, true), COPY_STAMPS_SAME);
}

/* As where the disk cannot read what git has mapped into its memory. What failed so rests
 * for an hour. */
TEST(a_copy_that_a_fold_could_not_read_is_read_as_a_whole)
{
	appear("bad", REPORTED);
	begin();
	eventually(is_here("bad") && is_at_last_event());
	end();
	add_packs("bad");
	sql("CREATE TRIGGER wished AFTER UPDATE ON registry WHEN NEW.wishes & 4 BEGIN"
	    " INSERT OR REPLACE INTO site_value VALUES ('test.wished', NEW.name); END");
	replace_git("repack", "kill -BUS $$");
	begin();
	change("bad", "refs/heads/new", REPORTED);
	eventually(is_here("bad"));
	assert_true(has_value("test.wished"));
}

static void make_grafts(void)
{
	if (run("mkdir -p copies/a.git/info && "
		"git -C copies/a.git rev-parse main >copies/a.git/info/grafts") != 0)
		abort();
}

/* Else it would count as what was left there, and stay. */
TEST(what_misleads_git_does_not_get_into_a_record_by_a_fold)
{
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event());
	end();
	add_packs("a");
	then = make_grafts;
	passed = "sync.tidied";
	begin();
	change("a", "refs/heads/new", REPORTED);
	eventually(!passed && is_here("a"));
	eventually(run("test ! -e copies/a.git/info/grafts") == 0);
	eventually(is_here("a"));
}

static struct stat record_before;
static atomic_bool is_record_same;

static void look_who_wrote(void)
{
	struct stat now;

	is_record_same = fstatat(root_fd, "copies/a.git/refrelay/copy", &now, 0) == 0 &&
			 now.st_mtim.tv_sec == record_before.st_mtim.tv_sec &&
			 now.st_mtim.tv_nsec == record_before.st_mtim.tv_nsec;
}

static void lose_lease(void)
{
	AUTO_CLOSE int copy = openat(root_fd, "copies/a.git", O_RDONLY | O_DIRECTORY);
	char key[LEASE_KEY_SIZE];
	struct err why;
	uint64_t ours;

	if (fstatat(copy, "refrelay/copy", &record_before, 0) != 0 ||
	    fence_read(copy, &ours, &why) != 0 ||
	    !lease_key_for(leases, KIND_REPOSITORY, replicable_id(KIND_REPOSITORY, "a"),
			   NULL, key) ||
	    lease_force_release(leases, key, ours, "test", "to see what happens", &why) !=
		    0)
		abort();
	usleep(1200000); /* longer than the ttl: the keeper has noticed */
	then = look_who_wrote;
	passed = "sync.leased"; /* by the next */
}

TEST(who_has_lost_the_lease_in_a_fold_leaves_the_record_alone)
{
	AUTO_FREE char *directory = xasprintf("%s/leases", root);
	const struct lease_options options = { .directory = directory, .ttl_ms = 900 };

	lease_manager_close(leases);
	assert_ok(lease_manager_open_local(store, &options, &leases, &err));
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event());
	end();
	add_packs("a");
	is_record_same = false;
	then = lose_lease;
	passed = "sync.tidied";
	begin();
	change("a", "refs/heads/new", REPORTED);
	eventually(!passed && is_here("a"));
	assert_true(is_record_same);
}

TEST(events_that_cannot_be_understood_are_passed_by)
{
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event());
	lock(&fake.mutex);
	log_event("lfs", "a", EVENT_DELETED);
	log_event("repository", "../evil", EVENT_CREATED);
	unlock(&fake.mutex);
	appear("b", REPORTED);
	eventually(is_here("b") && is_at_last_event());
	assert_true(is_here("a"));
	assert_int_equal(state_of("../evil"), REGISTRY_STATES);
}

/* Or the events' position would never be known. */
TEST(a_kind_that_the_primary_does_not_have_keeps_no_comparison_waiting)
{
	AUTO_FREE char *path = xasprintf("%s/files", root);
	const char *names[] = { "stays" };

	files = (struct blob_kind){ .type = (char[]){ "files" }, .path = path };
	assert_ok(registry_add(store, "files", names, 1, &err));
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event());
	change("a", "refs/heads/new", REPORTED);
	eventually(is_here("a") && is_at_last_event());
	end();
	files = (struct blob_kind){ 0 };
	AUTO_REGISTRY_ROW struct registry_row row;
	assert_ok(registry_get(store, "files", "stays", &row, &err));
	assert_false(row.is_gone);
}

static bool is_compared(void)
{
	AUTO_FREE char *at = value_of(PULL_COMPARED);

	return at[0] && strcmp(at, "0") != 0;
}

/* Nor is it passed over: what the log told before our position is found by nothing else.
 */
TEST(a_kind_that_the_primary_did_not_look_at_yet_counts_as_not_compared)
{
	AUTO_FREE char *path = xasprintf("%s/files", root);

	files = (struct blob_kind){ .type = (char[]){ "files" }, .path = path };
	fake.is_unscanned = true;
	sql("INSERT INTO site_value VALUES ('" PULL_COMPARED "', '1')");
	appear("a", REPORTED);
	begin();
	eventually(is_here("a") && is_at_last_event());
	change("a", "refs/heads/new", REPORTED);
	eventually(is_here("a") && is_at_last_event());
	assert_false(is_compared());
	fake.is_unscanned = false;
	eventually(is_compared());
	end();
	files = (struct blob_kind){ 0 };
}

/* Or a million copies that are here already would be compared by a page an interval. */
TEST(a_comparison_that_was_put_off_goes_through_all_pages_at_once)
{
	const char *names[] = { "a", "b", "c", "d", "e" };

	settings.consistency_interval_ms = 3600000;
	fake.is_new = true;
	fake.most = 1;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		appear(names[i], UNTOLD);
	begin();
	eventually(fake.refused > 1);
	assert_false(is_compared());
	fake.is_new = false;
	eventually(is_compared());
	assert_true(fake.pages >= (int)ARRAY_SIZE(names));
}

static bool is_syncing(void)
{
	struct pull_state state;

	pull_look(pull, &state);
	return state.bringing[PULL_SYNC_WORKERS] > 0;
}

/* As on a full disk: a worker ends, and what it says of its row is not written. */
TEST(a_row_whose_end_could_not_be_written_is_given_back_as_soon_as_that_can_be)
{
	fake.refs_hang = true;
	appear("a", REPORTED);
	begin();
	eventually(fake.hanging > 0);
	assert_int_equal(state_of("a"), REGISTRY_STARTED);
	sql("CREATE TRIGGER full BEFORE UPDATE OF state ON registry WHEN OLD.state = 1"
	    " BEGIN SELECT RAISE(ABORT, 'full'); END");
	fake.refs_hang = false;
	eventually(!is_syncing());
	assert_int_equal(state_of("a"), REGISTRY_STARTED);
	sql("DROP TRIGGER full");
	eventually(is_here("a"));
}

#define LOOP_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOOP_CASE(a_new_secondary_copies_everything),
		LOOP_CASE(a_change_is_brought_by_its_event),
		LOOP_CASE(a_restarted_secondary_goes_on_where_it_was),
		LOOP_CASE(lost_events_lead_to_a_comparison),
		LOOP_CASE(another_log_leads_to_a_comparison),
		LOOP_CASE(a_comparison_that_was_cut_short_is_repeated),
		LOOP_CASE(what_was_deleted_at_the_primary_goes_to_the_trash),
		LOOP_CASE(what_was_deleted_goes_though_its_fence_is_no_file),
		LOOP_CASE(the_comparison_finds_what_no_event_told),
		LOOP_CASE(a_primary_that_went_back_unnoticed_is_followed),
		LOOP_CASE(what_a_part_of_the_inventory_lacks_is_not_deleted),
		LOOP_CASE(an_idle_inventory_costs_one_short_answer),
		LOOP_CASE(a_comparison_that_left_something_to_events_is_made_again),
		LOOP_CASE(a_row_that_was_removed_here_is_missed_at_once),
		LOOP_CASE(
			an_inventory_that_was_empty_for_a_moment_is_not_believed_longer),
		LOOP_CASE(what_an_event_tells_while_a_page_is_read_stays),
		LOOP_CASE(a_silent_primary_is_told_and_forgotten_when_it_is_back),
		LOOP_CASE(what_the_primary_failed_with_last_is_told_with_a_remedy),
		LOOP_CASE(what_failed_without_the_primary_is_tried_when_it_is_back),
		LOOP_CASE(a_reload_asks_and_tries_at_once),
		LOOP_CASE(what_runs_at_the_end_is_given_back),
		LOOP_CASE(a_row_that_a_dead_node_had_is_taken_up_at_once),
		LOOP_CASE(what_was_put_off_by_a_wrong_clock_is_due_at_the_start),
		LOOP_CASE(capacity_is_obeyed_at_once),
		LOOP_CASE(a_copy_that_was_changed_by_hand_is_found_and_healed),
		LOOP_CASE(a_verified_copy_is_due_again_later),
		LOOP_CASE(a_copy_that_changes_while_it_is_looked_at_is_looked_at_again),
		LOOP_CASE(
			a_verification_that_removes_a_damaged_file_leaves_a_copy_that_is_ours),
		LOOP_CASE(a_copy_that_a_fold_could_not_read_is_read_as_a_whole),
		LOOP_CASE(what_misleads_git_does_not_get_into_a_record_by_a_fold),
		LOOP_CASE(who_has_lost_the_lease_in_a_fold_leaves_the_record_alone),
		LOOP_CASE(events_that_cannot_be_understood_are_passed_by),
		LOOP_CASE(
			a_kind_that_the_primary_does_not_have_keeps_no_comparison_waiting),
		LOOP_CASE(
			a_kind_that_the_primary_did_not_look_at_yet_counts_as_not_compared),
		LOOP_CASE(a_comparison_that_was_put_off_goes_through_all_pages_at_once),
		LOOP_CASE(
			a_row_whose_end_could_not_be_written_is_given_back_as_soon_as_that_can_be),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
