/*
 * Changes that are told to a sink before they are recorded, and what becomes of them if
 * it does not take them.
 */
#include "notice_test.h"

#include "base/log.h"
#include "change/owed.h"
#include "git/refs.h"
#include "replicable/registry.h"

#include "registry_write.h"

static struct noticed noticed;
static VEC(char *) reported; /* "name what ..." */
static bool sink_fails, is_checking_events;
static bool was_scanned; /* the last one that it took */
static size_t events_before;

/* Long before the commit: the event cannot be there yet. */
static void check_not_recorded(void)
{
	if (is_checking_events)
		assert_int_equal(all_events()->count, events_before);
}

static char *describe(const struct change *change)
{
	AUTO_STR struct str text = STR_INIT;
	const struct ref_diff *diff = change->diff;

	str_addf(&text, "%s %s", change->name, event_what_name(change->what));
	if (change->is_first_observation)
		str_add(&text, " first");
	assert_int_equal(change->checksum == NULL, change->after == NULL);
	if (diff && change->after) {
		str_addf(&text, " %zu", diff->changes.count);
		for (size_t i = 0; i < diff->changes.count; i++)
			str_addf(&text, " %s", diff->changes.items[i].name);
		str_add(&text, diff->head_changed ? " HEAD" : "");
	} else if (change->after) {
		str_add(&text, " unknown");
	}
	return str_take(&text);
}

static int take(void *arg, const struct change *change, struct err *error)
{
	assert_ptr_equal(arg, &reported);
	check_not_recorded();
	if (sink_fails)
		return err_set(error, ERR_DISK, "the store is full");
	vec_add(&reported, describe(change));
	was_scanned = change->is_scanned;
	return 0;
}

static void forget_told(void)
{
	for (size_t i = 0; i < reported.count; i++)
		free(reported.items[i]);
	vec_clear(&reported);
}

static int no_check(struct store *any, const char *kind, const char *path,
		    struct err *error)
{
	(void)kind;
	(void)any;
	(void)path;
	(void)error;
	return 0;
}

static void start_with_sink(bool is_secondary)
{
	const struct notice_options options = {
		.store = store,
		.log = event_log,
		.root = srv,
		.data = data,
		.sink = { .take = take, .arg = &reported },
		.check_copies = is_secondary ? no_check : NULL,
	};

	notice_free(notice);
	notice = notice_new(&options);
}

static int compare(const char *name)
{
	noticed_clear(&noticed);
	return notice_compare(notice, name, &noticed, &err);
}

static int make_told(void **state)
{
	log_set_level(LOG_LEVEL_NONE);
	sink_fails = is_checking_events = false;
	if (make_site(state) != 0)
		return -1;
	start_with_sink(false);
	make_bare("a.git");
	assert_ok(compare("a"));
	return 0;
}

static int remove_told(void **state)
{
	noticed_clear(&noticed);
	event_list_clear(&events);
	forget_told();
	return remove_site(state);
}

#define TOLD_CASE(name) cmocka_unit_test_setup_teardown(name, make_told, remove_told)

static void assert_told(const char *expected)
{
	assert_int_equal(reported.count, 1);
	assert_string_equal(reported.items[0], expected);
	forget_told();
}

static int look(struct store_tx *tx, void *arg, struct err *error)
{
	return owed_look(tx, arg, error);
}

static struct owed_summary owed(void)
{
	struct owed_summary summary;

	assert_ok(store_read(store, look, &summary, &err));
	return summary;
}

static size_t settle(void)
{
	size_t left;

	assert_ok(owed_settle(notice, NULL, &left, &err));
	assert_int_equal(left, owed().count);
	return left;
}

TEST(the_sink_is_told_before_the_event_is_there)
{
	assert_told("a created unknown");
	events_before = all_events()->count;
	is_checking_events = true;
	set_ref("a.git", "refs/heads/topic", 2);
	assert_ok(compare("a"));
	assert_told("a updated 1 refs/heads/topic");
	assert_int_equal(all_events()->count, events_before + 1);
	events_before++;
	must("git -C srv/a.git symbolic-ref HEAD refs/heads/topic");
	assert_ok(compare("a"));
	assert_told("a updated 0 HEAD");
	events_before++;
	must("mv srv/a.git away");
	assert_fails(compare("a"), ERR_MISSING);
	assert_told("a deleted");
	assert_fails(compare("a"), ERR_MISSING);
	assert_int_equal(reported.count, 0);
}

TEST(another_description_is_a_change_of_no_ref)
{
	forget_told();
	must("echo hello >srv/a.git/description");
	assert_ok(compare("a"));
	assert_told("a updated 0");
}

/* More than an event has room for. */
TEST(old_refs_are_known_also_where_they_are_many)
{
	char oid[OID_MAX_TEXT];

	forget_told();
	must("cd srv/a.git && for i in $(seq 300); do echo %s >refs/heads/b$i; done",
	     oid_text(&commits[1], oid));
	assert_ok(compare("a"));
	assert_null(last_event()->changes);
	assert_int_equal(reported.count, 1);
	assert_true(text_starts_with(reported.items[0], "a updated 300 refs/heads/b1 "));
}

TEST(what_cannot_be_read_is_told_when_it_can_be)
{
	forget_told();
	must("mv srv/a.git/HEAD srv/a.git/saved");
	assert_fails(compare("a"), ERR_CORRUPT);
	assert_true(noticed.is_changed);
	assert_int_equal(reported.count, 0);
	must("mv srv/a.git/saved srv/a.git/HEAD");
	assert_ok(compare("a"));
	assert_told("a updated unknown");
}

TEST(only_what_the_first_scan_finds_is_of_first_sight)
{
	struct scan_result result;

	forget_told();
	make_bare("b.git");
	set_ref("a.git", "refs/heads/main", 2);
	assert_ok(scan_site(NULL, &result));
	assert_int_equal(reported.count, 2);
	assert_string_equal(reported.items[0], "a updated 1 refs/heads/main");
	assert_string_equal(reported.items[1], "b created first unknown");
	forget_told();
	make_bare("c.git");
	assert_ok(compare("c")); /* by a hook, meanwhile */
	assert_told("c created unknown");
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_PART, &err));
	make_bare("d.git");
	assert_ok(scan_site(NULL, &result));
	assert_told("d created unknown");
}

/* The database was moved, or restored: it is no new one. */
TEST(the_first_scan_of_another_timeline_tells_all_that_is_new)
{
	struct scan_result result;
	struct event_ends ends;

	forget_told();
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_ALL, &err));
	assert_ok(event_log_look(store, &ends, &err));
	assert_ok(event_log_renew(store, ends.timeline, &err));
	make_bare("e.git");
	assert_ok(scan_site(NULL, &result));
	assert_told("e created unknown");
}

TEST(what_the_sink_refuses_is_recorded_and_owed)
{
	forget_told();
	sink_fails = true;
	events_before = all_events()->count;
	set_ref("a.git", "refs/heads/main", 2);
	assert_ok(compare("a"));
	assert_int_equal(all_events()->count, events_before + 1);
	struct owed_summary summary = owed();
	assert_int_equal(summary.count, 1);
	assert_string_equal(summary.example, "a");
	assert_int_equal(summary.why.class, ERR_DISK);
	assert_string_equal(summary.why.text, "the store is full");
	assert_true(owed_may_be(notice));
	assert_int_equal(settle(), 1);
	sink_fails = false;
	assert_int_equal(settle(), 0);
	assert_told("a updated unknown");
	assert_false(owed_may_be(notice));
	assert_int_equal(settle(), 0);
	assert_int_equal(reported.count, 0);
}

/* Nor is it owed: whoever looks next tells it. */
TEST(what_is_not_recorded_is_not_owed)
{
	forget_told();
	sink_fails = true;
	set_ref("a.git", "refs/heads/main", 2);
	must("mv srv away && mkdir srv");
	assert_fails(compare("a"), ERR_DISK);
	assert_int_equal(owed().count, 0);
}

static int run_sql(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

static void change_database(const char *sql)
{
	assert_ok(store_write(store, run_sql, (void *)(uintptr_t)sql, &err));
}

static void change_unrecorded(void)
{
	forget_told();
	change_database("CREATE TRIGGER refuse BEFORE INSERT ON event"
			" BEGIN SELECT RAISE(FAIL, 'full'); END");
	set_ref("a.git", "refs/heads/new", 2);
	assert_int_equal(compare("a"), -1);
	assert_told("a updated 1 refs/heads/new");
	assert_int_equal(owed().count, 0);
	change_database("DROP TRIGGER refuse");
}

/* The comparison that records it tells it, too. */
TEST(a_change_that_is_recorded_at_a_second_try_is_not_owed)
{
	change_unrecorded();
	assert_ok(compare("a"));
	assert_true(noticed.is_changed);
	assert_ok(compare("a"));
	assert_int_equal(owed().count, 0);
}

/* Tasks of the first try may have ended with what was there between. */
TEST(a_scan_that_tells_again_what_was_not_recorded_is_no_mere_scan)
{
	struct scan_result result;

	change_unrecorded();
	assert_ok(scan_site(NULL, &result));
	assert_told("a updated 1 refs/heads/new");
	assert_false(was_scanned);
	set_ref("a.git", "refs/heads/new", 3);
	assert_ok(scan_site(NULL, &result));
	assert_told("a updated 1 refs/heads/new");
	assert_true(was_scanned);
}

/* Its deletion was told, and what comes anew is told as a whole. */
TEST(what_was_told_of_a_repository_that_is_gone_is_forgotten)
{
	change_unrecorded();
	must("mv srv/a.git away");
	assert_fails(compare("a"), ERR_MISSING);
	must("mv away srv/a.git && git -C srv/a.git update-ref -d refs/heads/new");
	assert_ok(compare("a"));
	assert_true(noticed.is_changed);
	assert_int_equal(owed().count, 0);
}

/* What was made of it would stay at the destinations. */
TEST(a_change_that_was_told_and_taken_back_unrecorded_is_told_again)
{
	change_unrecorded();
	must("git -C srv/a.git update-ref -d refs/heads/new");
	for (int i = 0; i < 2; i++) {
		assert_ok(compare("a"));
		assert_false(noticed.is_changed);
	}
	assert_int_equal(reported.count, 0);
	assert_int_equal(owed().count, 1);
	assert_int_equal(settle(), 0);
	assert_told("a updated unknown");
	assert_ok(compare("a"));
	assert_int_equal(owed().count, 0);
}

TEST(a_deletion_that_is_owed_is_told_as_one)
{
	forget_told();
	sink_fails = true;
	must("mv srv/a.git away");
	assert_fails(compare("a"), ERR_MISSING);
	assert_int_equal(owed().count, 1);
	sink_fails = false;
	assert_int_equal(settle(), 0);
	assert_told("a deleted");
}

TEST(all_that_is_owed_is_settled_but_what_fails_for_itself)
{
	sink_fails = true;
	for (int i = 0; i < 120; i++) {
		AUTO_FREE char *path = xasprintf("m%03d.git", i);
		AUTO_FREE char *name = xasprintf("m%03d", i);
		make_bare(path);
		assert_ok(compare(name));
	}
	forget_told();
	must("rm srv/m001.git/HEAD"); /* says nothing to the sink */
	assert_int_equal(settle(), 120);
	sink_fails = false;
	assert_int_equal(settle(), 0);
	assert_int_equal(reported.count, 119);
}

TEST(without_a_sink_nothing_is_owed)
{
	size_t left;

	sink_fails = true;
	set_ref("a.git", "refs/heads/main", 2);
	assert_ok(compare("a"));
	assert_int_equal(owed().count, 1);
	notice_free(notice);
	start_notice();
	assert_ok(owed_settle(notice, NULL, &left, &err));
	assert_int_equal(left, 0);
	assert_int_equal(owed().count, 0);
}

/* Runs in a process of its own, on the same database. */
static int compare_as_helper(char **argv)
{
	char url[160];

	log_set_level(LOG_LEVEL_NONE);
	snprintf(srv, sizeof(srv), "%s/srv", argv[4]);
	snprintf(data, sizeof(data), "%s/data", argv[4]);
	snprintf(url, sizeof(url), "sqlite:%s/db", data);
	if (store_open(url, &store, &err) != 0)
		return 2;
	start_with_sink(false);
	compare("a");
	return 1;
}

TEST(who_dies_after_the_sink_has_taken_it_leaves_it_to_be_told_again)
{
	forget_told();
	events_before = all_events()->count;
	set_ref("a.git", "refs/heads/main", 2);
	assert_int_equal(wait_end(start_helper("compare", root, "sink.taken=kill")),
			 128 + SIGKILL);
	assert_int_equal(all_events()->count, events_before);
	assert_ok(compare("a"));
	assert_told("a updated 1 refs/heads/main");
	assert_int_equal(all_events()->count, events_before + 1);
}

static int exec_work(struct store_tx *tx, void *arg, struct err *error)
{
	return store_exec(tx, arg, error);
}

static void exec_sql(char *sql)
{
	assert_ok(store_write(store, exec_work, sql, &err));
}

static void add_row(enum registry_state state)
{
	static const char *const names[] = { "a" };
	AUTO_FREE char *sql = xasprintf("UPDATE registry SET state = %d", state);

	assert_ok(registry_add(store, KIND_REPOSITORY, names, 1, &err));
	exec_sql(sql);
}

/* Copies: what is not there is brought again, unless pull has dropped the row. */
TEST(at_a_secondary_only_what_pull_dropped_is_deleted)
{
	struct scan_result result;
	char sql[] = "DELETE FROM registry";

	start_with_sink(true);
	forget_told();
	add_row(REGISTRY_SYNCED);
	must("mv srv/a.git away");
	assert_fails(compare("a"), ERR_CONFLICT);
	make_bare("b.git"); /* so that the tree is not empty */
	assert_ok(scan_site(NULL, &result));
	assert_told("b created first unknown");
	exec_sql(sql);
	assert_ok(scan_site(NULL, &result));
	assert_told("a deleted");
}

TEST(at_a_secondary_a_scan_leaves_alone_what_is_to_be_brought)
{
	struct scan_result result;

	start_with_sink(true);
	forget_told();
	add_row(REGISTRY_PENDING);
	set_ref("a.git", "refs/heads/main", 2);
	assert_ok(scan_site(NULL, &result));
	assert_int_equal(reported.count, 0);
	assert_ok(compare("a")); /* it was brought */
	assert_told("a updated 1 refs/heads/main");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TOLD_CASE(the_sink_is_told_before_the_event_is_there),
		TOLD_CASE(another_description_is_a_change_of_no_ref),
		TOLD_CASE(old_refs_are_known_also_where_they_are_many),
		TOLD_CASE(what_cannot_be_read_is_told_when_it_can_be),
		TOLD_CASE(only_what_the_first_scan_finds_is_of_first_sight),
		TOLD_CASE(the_first_scan_of_another_timeline_tells_all_that_is_new),
		TOLD_CASE(what_the_sink_refuses_is_recorded_and_owed),
		TOLD_CASE(what_is_not_recorded_is_not_owed),
		TOLD_CASE(a_change_that_is_recorded_at_a_second_try_is_not_owed),
		TOLD_CASE(a_scan_that_tells_again_what_was_not_recorded_is_no_mere_scan),
		TOLD_CASE(what_was_told_of_a_repository_that_is_gone_is_forgotten),
		TOLD_CASE(a_change_that_was_told_and_taken_back_unrecorded_is_told_again),
		TOLD_CASE(a_deletion_that_is_owed_is_told_as_one),
		TOLD_CASE(all_that_is_owed_is_settled_but_what_fails_for_itself),
		TOLD_CASE(without_a_sink_nothing_is_owed),
		TOLD_CASE(
			who_dies_after_the_sink_has_taken_it_leaves_it_to_be_told_again),
		TOLD_CASE(at_a_secondary_only_what_pull_dropped_is_deleted),
		TOLD_CASE(at_a_secondary_a_scan_leaves_alone_what_is_to_be_brought),
	};

	if (argc > 1)
		return compare_as_helper(argv);
	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
