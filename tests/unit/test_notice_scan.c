#include "notice_test.h"

#include "rights.h"
#include "store/site_value.h"

static struct scan_result result;

static int scan(void)
{
	return scan_site(NULL, &result);
}

static void settle(void)
{
	usleep(30000);
}

static int make_three(void **state)
{
	if (make_site(state) != 0)
		return -1;
	make_bare("a.git");
	make_bare("group/b.git");
	make_bare("group/c");
	settle();
	assert_ok(scan());
	return 0;
}

static int remove_three(void **state)
{
	event_list_clear(&events);
	return remove_site(state);
}

#define THREE_CASE(name) cmocka_unit_test_setup_teardown(name, make_three, remove_three)

static void assert_last(size_t back, enum event_what what, const char *name)
{
	all_events();
	assert_true(events.count > back);
	const struct event *event = &events.items[events.count - 1 - back];
	assert_int_equal(event->what, what);
	assert_string_equal(event->name, name);
}

TEST(a_scan_finds_all_that_is_there)
{
	assert_int_equal(result.found, 3);
	assert_int_equal(result.changed, 3);
	assert_true(result.is_complete);
	assert_int_equal(all_events()->count, 3);
	assert_last(0, EVENT_CREATED, "group/c");
	assert_last(2, EVENT_CREATED, "a");
}

TEST(what_is_proved_unchanged_is_not_looked_into)
{
	assert_ok(scan());
	assert_int_equal(result.looked_into, 0);
	assert_int_equal(result.changed, 0);
}

TEST(every_change_that_no_hook_told_is_found)
{
	char oid[OID_MAX_TEXT];

	must("echo %s >srv/a.git/refs/heads/main", oid_text(&commits[2], oid));
	must("git -C srv/group/b.git symbolic-ref HEAD refs/heads/x");
	must("rm -r srv/group/c");
	make_bare("new.git");
	assert_ok(scan());
	assert_int_equal(result.changed, 4);
	assert_last(0, EVENT_DELETED, "group/c");
	assert_last(1, EVENT_CREATED, "new");
	assert_last(2, EVENT_UPDATED, "group/b");
	assert_last(3, EVENT_UPDATED, "a");
	settle();
	assert_ok(scan());
	assert_int_equal(result.changed, 0);
	assert_ok(scan());
	assert_int_equal(result.looked_into, 0);
}

TEST(a_renamed_one_is_never_nowhere)
{
	must("mv srv/a.git srv/z.git");
	assert_ok(scan());
	assert_last(0, EVENT_DELETED, "a");
	assert_last(1, EVENT_CREATED, "z");
}

/* It is not recorded under its new name, since it is not whole yet. */
TEST(a_rename_that_cannot_be_recorded_yet_is_no_deletion)
{
	AUTO_ORIGIN_ROW struct origin_row before = row_of("a");

	must("mv srv/a.git srv/z.git && mv srv/z.git/HEAD srv");
	assert_ok(scan());
	assert_int_equal(all_events()->count, 3);
	must("mv srv/HEAD srv/z.git");
	assert_ok(scan());
	assert_last(0, EVENT_DELETED, "a");
	assert_last(1, EVENT_CREATED, "z");
	AUTO_ORIGIN_ROW struct origin_row row = row_of("z");
	assert_string_equal(row.timeline, before.timeline);
}

TEST(another_form_of_the_name_is_no_event)
{
	must("mv srv/group/c srv/group/c.git");
	assert_ok(scan());
	assert_int_equal(result.changed, 0);
	AUTO_ORIGIN_ROW struct origin_row row = row_of("group/c");
	assert_string_equal(row.path, "group/c.git");
}

/* Whoever scans may read what modes permit only, as a node's own user. */
static int scan_without_override(void)
{
	rights_set_override(false);
	int done = scan();
	rights_set_override(true);
	return done;
}

TEST(a_directory_that_cannot_be_read_deletes_nothing)
{
	must("mkdir srv/hidden && mv srv/a.git srv/hidden && chmod 0 srv/hidden");
	assert_ok(scan_without_override());
	assert_false(result.is_complete);
	assert_int_equal(all_events()->count, 3);
	must("chmod 700 srv/hidden && rm -r srv/hidden");
	assert_ok(scan_without_override());
	assert_true(result.is_complete);
	assert_last(0, EVENT_DELETED, "a");
}

TEST(a_directory_that_lies_too_deep_deletes_nothing)
{
	must("cd srv && mkdir -p $(printf 'd/%%.0s' $(seq 70)) && rm -r a.git");
	assert_ok(scan());
	assert_false(result.is_complete);
	assert_int_equal(all_events()->count, 3);
	must("rm -r srv/d");
	assert_ok(scan());
	assert_true(result.is_complete);
	assert_last(0, EVENT_DELETED, "a");
}

TEST(what_is_left_out_is_counted_with_an_example)
{
	assert_int_equal(result.left_out, 0);
	make_bare("a");               /* beside a.git */
	must("ln -s group srv/link"); /* harmless */
	assert_ok(scan());
	assert_int_equal(result.left_out, 1);
	assert_string_equal(result.example, "a: a.git stands beside it and has the same "
					    "name; skipped (rename one of the two)");
	must("cp -r srv/a.git \"$(printf 'srv/tab\\tname.git')\"");
	must("rm -r srv/a");
	assert_ok(scan());
	assert_int_equal(result.left_out, 1);
	assert_string_equal(result.example,
			    "tab\\x09name.git: not a repository's name: it has control "
			    "characters (rename it)");
	assert_true(result.is_complete);
}

static int run_sql(struct store_tx *tx, void *sql, struct err *error)
{
	return store_exec(tx, sql, error);
}

static void sql(const char *statement)
{
	AUTO_FREE char *text = xstrdup(statement);

	assert_ok(store_write(store, run_sql, text, &err));
}

/* As on a disk that has room for small writes only. */
TEST(a_change_that_cannot_be_recorded_is_left_out)
{
	sql("CREATE TRIGGER full BEFORE INSERT ON event"
	    " BEGIN SELECT RAISE(ABORT, 'full'); END");
	set_ref("a.git", "refs/heads/main", 2);
	for (int i = 0; i < 2; i++) {
		assert_ok(scan());
		assert_int_equal(result.left_out, 1);
		assert_true(text_starts_with(result.example, "a: "));
	}
	sql("DROP TRIGGER full");
	assert_ok(scan());
	assert_int_equal(result.left_out, 0);
	assert_int_equal(result.changed, 1);
}

/* As one with which the disk, or a limit, is at fault for a moment. */
TEST(what_was_found_and_has_no_row_is_lacking)
{
	assert_false(result.lacks_rows);
	make_bare("z.git");
	sql("CREATE TRIGGER full BEFORE INSERT ON event WHEN NEW.name = 'z'"
	    " BEGIN SELECT RAISE(ABORT, 'full'); END");
	assert_ok(scan());
	assert_true(result.is_complete);
	assert_true(result.lacks_rows);
	sql("DROP TRIGGER full");
	assert_ok(scan());
	assert_false(result.lacks_rows);
	assert_last(0, EVENT_CREATED, "z");
}

TEST(what_its_row_says_is_not_left_out_as_well)
{
	must("mv srv/a.git/HEAD srv/a.git/saved");
	assert_ok(scan());
	assert_int_equal(result.left_out, 0);
	assert_false(result.lacks_rows);
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");
	assert_int_equal(row.verification, VERIFICATION_FAILED);
}

TEST(what_may_be_well_in_a_moment_is_left_out_by_the_next_scan)
{
	must("mkdir -p srv/b.git/refs && echo 'ref: refs/heads/main' >srv/b.git/HEAD");
	assert_ok(scan());
	assert_int_equal(result.left_out, 0);
	assert_true(result.lacks_rows);
	assert_ok(scan());
	assert_int_equal(result.left_out, 1);
}

TEST(a_root_that_is_away_deletes_nothing)
{
	must("mv srv away");
	assert_fails(scan(), ERR_DISK);
	assert_false(result.is_complete);
	must("mkdir srv"); /* as an empty mount point */
	assert_fails(scan(), ERR_DISK);
	assert_int_equal(all_events()->count, 3);
	must("rmdir srv && mv away srv");
	assert_ok(scan());
	assert_int_equal(result.changed, 0);
}

static int remember_mount(struct store_tx *tx, void *arg, struct err *error)
{
	return site_value_set(tx, "origin.mounts", arg, error);
}

/* As the folder looks whose file system was there at the last scan. */
static void unmount_group(void)
{
	char mounts[] = "[\"group\"]";

	assert_ok(store_write(store, remember_mount, mounts, &err));
	must("mv srv/group away && mkdir srv/group");
}

TEST(a_folder_that_is_not_mounted_deletes_nothing)
{
	unmount_group();
	for (int i = 0; i < 2; i++) {
		AUTO_NOTICED struct noticed noticed = { 0 };
		assert_ok(scan());
		assert_false(result.is_complete);
		assert_fails(notice_compare(notice, "group/b", &noticed, &err), ERR_DISK);
		assert_non_null(strstr(err.text, "folder group is not mounted"));
	}
	assert_int_equal(all_events()->count, 3);
	must("rmdir srv/group && mv away srv/group");
	assert_ok(scan());
	assert_true(result.is_complete);
	assert_int_equal(all_events()->count, 3);
}

TEST(a_mount_point_that_is_removed_is_a_deletion)
{
	unmount_group();
	must("rmdir srv/group");
	assert_ok(scan());
	assert_true(result.is_complete);
	assert_last(0, EVENT_DELETED, "group/c");
	assert_last(1, EVENT_DELETED, "group/b");
}

/* The one that is away stands at the root, where nothing is left to be seen. */
TEST(a_root_that_is_away_forgets_no_mount_point)
{
	unmount_group();
	must("mv srv gone && mkdir srv");
	assert_fails(scan(), ERR_DISK);
	must("rmdir srv && mv gone srv");
	assert_ok(scan());
	assert_false(result.is_complete);
	assert_int_equal(all_events()->count, 3);
}

TEST(a_folder_that_was_emptied_is_a_deletion)
{
	must("rm -r srv/group/*");
	assert_ok(scan());
	assert_last(0, EVENT_DELETED, "group/c");
	assert_last(1, EVENT_DELETED, "group/b");
}

TEST(the_last_repository_can_be_deleted)
{
	must("rm -r srv/*");
	assert_ok(scan());
	assert_int_equal(result.changed, 3);
	assert_last(0, EVENT_DELETED, "group/c");
}

TEST(a_tree_that_was_moved_is_accepted_with_what_it_has)
{
	must("cp -r srv other && rm -r other/a.git srv && mv other srv");
	assert_ok(scan());
	assert_int_equal(result.changed, 1);
	assert_last(0, EVENT_DELETED, "a");
}

TEST(one_that_cannot_be_read_does_not_stop_the_others)
{
	must("rm srv/a.git/HEAD");
	make_bare("z.git");
	assert_ok(scan());
	assert_last(0, EVENT_CREATED, "z");
	assert_last(1, EVENT_UPDATED, "a");
	assert_ok(scan());
	assert_int_equal(result.changed, 0);
}

TEST(a_scan_ends_when_it_is_asked_to)
{
	struct stop stop;

	stop_init(&stop);
	stop_request(&stop);
	must("rm -r srv/a.git");
	assert_fails(scan_site(&stop, &result), ERR_CANCELED);
	assert_int_equal(all_events()->count, 3);
	stop_clear(&stop);
}

TEST(more_repositories_than_a_page_are_merged_rightly)
{
	must("cd srv && for i in $(seq 300); do mkdir -p p$i.git/refs p$i.git/objects "
	     "&& "
	     "echo 'ref: refs/heads/m' >p$i.git/HEAD; done");
	settle();
	assert_ok(scan());
	assert_int_equal(result.changed, 300);
	must("rm -r srv/p299.git srv/p7.git");
	assert_ok(scan());
	assert_int_equal(result.changed, 2);
	assert_int_equal(result.found, 301);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		THREE_CASE(a_scan_finds_all_that_is_there),
		THREE_CASE(what_is_proved_unchanged_is_not_looked_into),
		THREE_CASE(every_change_that_no_hook_told_is_found),
		THREE_CASE(a_renamed_one_is_never_nowhere),
		THREE_CASE(a_rename_that_cannot_be_recorded_yet_is_no_deletion),
		THREE_CASE(another_form_of_the_name_is_no_event),
		THREE_CASE(a_directory_that_cannot_be_read_deletes_nothing),
		THREE_CASE(a_directory_that_lies_too_deep_deletes_nothing),
		THREE_CASE(what_is_left_out_is_counted_with_an_example),
		THREE_CASE(a_change_that_cannot_be_recorded_is_left_out),
		THREE_CASE(what_was_found_and_has_no_row_is_lacking),
		THREE_CASE(what_its_row_says_is_not_left_out_as_well),
		THREE_CASE(what_may_be_well_in_a_moment_is_left_out_by_the_next_scan),
		THREE_CASE(a_root_that_is_away_deletes_nothing),
		THREE_CASE(a_folder_that_is_not_mounted_deletes_nothing),
		THREE_CASE(a_mount_point_that_is_removed_is_a_deletion),
		THREE_CASE(a_root_that_is_away_forgets_no_mount_point),
		THREE_CASE(a_folder_that_was_emptied_is_a_deletion),
		THREE_CASE(the_last_repository_can_be_deleted),
		THREE_CASE(a_tree_that_was_moved_is_accepted_with_what_it_has),
		THREE_CASE(one_that_cannot_be_read_does_not_stop_the_others),
		THREE_CASE(a_scan_ends_when_it_is_asked_to),
		THREE_CASE(more_repositories_than_a_page_are_merged_rightly),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
