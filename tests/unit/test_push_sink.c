/*
 * From changes to files in a real task store, by settings that are read from text.
 */
#include "git_test.h"

#include <dirent.h>
#include <sys/syscall.h>

#include "git/checksum.h"
#include "git/refs.h"
#include "push/destination.h"
#include "push/sink.h"
#include "push/uri_state.h"

static size_t flushes, fails_after; /* 0: none fails */

static bool must_fail(void)
{
	errno = EIO;
	return ++flushes > fails_after && fails_after > 0;
}

/* Stand in for the library's. */
int fsync(int fd)
{
	return must_fail() ? -1 : (int)syscall(SYS_fsync, fd);
}

int syncfs(int fd)
{
	return must_fail() ? -1 : (int)syscall(SYS_syncfs, fd);
}

static struct task_store *tasks;
static struct push_settings *settings;
static struct push_sink *sink;

static const char two_remotes[] = "[remote \"one\"]\n"
				  "	url = /d/a/${name}.git\n"
				  "	url = /d/b/${name}.git\n"
				  "	push = +refs/heads/*:refs/heads/*\n"
				  "	push = +refs/tags/*:refs/tags/*\n"
				  "[remote \"two\"]\n"
				  "	url = /e/a/${name}.git\n"
				  "	url = /e/b/${name}.git\n"
				  "	push = +refs/heads/*:refs/heads/*\n"
				  "	excludedRefsPattern = ^refs/heads/private.*\n"
				  "	replicateProjectDeletions = true\n"
				  "	projects = ^group/.*\n"
				  "	projects = p\n";

static struct push_settings *read_settings(const char *text)
{
	AUTO_CONF struct conf *conf = NULL;
	struct push_settings *read = NULL;

	assert_ok(conf_load_text("test.conf", text, strlen(text), &conf, &err));
	assert_ok(push_settings_read(conf, root, &read, &err));
	return read;
}

static int open_sink(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	settings = read_settings(two_remotes);
	assert_ok(task_store_open(settings->directory, &tasks, &err));
	sink = push_sink_new(tasks, settings);
	return 0;
}

static int close_sink(void **state)
{
	push_sink_free(sink);
	task_store_close(tasks);
	push_settings_unref(settings);
	return test_remove_root(state);
}

#define SINK_CASE(name) cmocka_unit_test_setup_teardown(name, open_sink, close_sink)

/* "main topic ref: refs/heads/main": branches at some object, and what HEAD says. */
static struct ref_snapshot picture(const char *head, const char *const *refs)
{
	struct ref_snapshot snapshot = REF_SNAPSHOT_INIT;

	snapshot.head_target = xstrdup(head);
	for (size_t i = 0; refs[i]; i++) {
		struct ref ref = { .name = refs[i], .oid = { .len = 20 } };
		ref.oid.bytes[0] = 1;
		vec_add(&snapshot.refs, ref);
	}
	return snapshot;
}

#define REFS(...) ((const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL })

static bool is_scanned;

static int tell(const char *name, enum event_what what, const struct ref_snapshot *before,
		const struct ref_snapshot *after)
{
	struct change_sink reported = push_sink_as_change_sink(sink);
	char checksum[CHECKSUM_TEXT_SIZE], checksum_before[CHECKSUM_TEXT_SIZE];
	AUTO_DIFF struct ref_diff diff = { 0 };
	struct checksum sum;

	if (before) {
		checksum_of(before, &sum);
		checksum_format(&sum, checksum_before);
	}
	if (before && after)
		ref_diff_compute(before, after, &diff);
	if (after) {
		checksum_of(after, &sum);
		checksum_format(&sum, checksum);
	}
	return reported.take(reported.arg,
			     &(struct change){ .name = name,
					       .what = what,
					       .is_scanned = is_scanned,
					       .before = before ? checksum_before : NULL,
					       .checksum = after ? checksum : NULL,
					       .diff = before && after ? &diff : NULL,
					       .after = after },
			     &err);
}

/* Sorted lines "uri refs". The caller frees. */
static char *waiting(void)
{
	return output_of("for f in replication/ref-updates/waiting/*; do "
			 "[ ! -f $f ] || python3 -c 'import json,sys; "
			 "t=json.load(open(sys.argv[1])); "
			 "print(t[\"remote\"], t[\"uri\"], *sorted(t[\"refs\"]))' $f; "
			 "done | LC_ALL=C sort");
}

static size_t count_files(const char *path)
{
	DIR *dir = dir_list(root_fd, path);
	struct dirent *entry;
	size_t count = 0;

	assert_non_null(dir);
	while ((entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static size_t count_waiting(void)
{
	return count_files("replication/ref-updates/waiting");
}

static size_t count_building(void)
{
	return count_files("replication/ref-updates/building");
}

static void assert_waiting(const char *expected)
{
	AUTO_FREE char *found = waiting();

	assert_string_equal(found, expected);
	must("rm -f replication/ref-updates/waiting/*");
}

static bool is_requested(const char *uri, enum uri_request request)
{
	struct requested requested = { 0 };
	requested_list list = { 0 };
	char key[URI_KEY_SIZE];

	uri_key_of(uri, key);
	if (uri_request_get(tasks, key, request, &requested, &err) == 0)
		return false;
	vec_add(&list, requested);
	requested_list_clear(&list);
	return true;
}

TEST(a_change_becomes_a_task_for_each_url_of_each_remote)
{
	AUTO_SNAPSHOT struct ref_snapshot before =
		picture("refs/heads/main", REFS("refs/heads/main"));
	AUTO_SNAPSHOT struct ref_snapshot after =
		picture("refs/heads/main", REFS("refs/heads/main", "refs/heads/topic"));

	assert_ok(tell("p", EVENT_UPDATED, &before, &after));
	assert_waiting("one /d/a/p.git refs/heads/topic\n"
		       "one /d/b/p.git refs/heads/topic\n"
		       "two /e/a/p.git refs/heads/topic\n"
		       "two /e/b/p.git refs/heads/topic\n");
	assert_false(is_requested("/d/a/p.git", REQUEST_HEAD));
}

/* Else the first may be done, and be told as done everywhere, before there is another. */
static int tell_anew(const struct ref_snapshot *after)
{
	flushes = 0;
	return tell("group/p", EVENT_CREATED, NULL, after);
}

/* How many flushes there are is a matter of the file system. */
TEST(no_task_of_a_change_is_there_before_all_can_be)
{
	AUTO_SNAPSHOT struct ref_snapshot after =
		picture("refs/heads/main", REFS("refs/heads/main"));

	for (fails_after = 1; fails_after < 100 && tell_anew(&after) != 0;
	     fails_after++) {
		AUTO_FREE char *text =
			output_of("ls replication/ref-updates/waiting | wc -l");
		if (strcmp(text, "0\n") != 0 && strcmp(text, "4\n") != 0)
			fail_msg("%zu flushes: %s tasks", fails_after, text);
		must("rm -f replication/ref-updates/waiting/*");
	}
	assert_in_range(fails_after, 2, 99);
	fails_after = 0;
}

TEST(a_remote_gets_only_its_projects_and_its_refs)
{
	AUTO_SNAPSHOT struct ref_snapshot none = picture("refs/heads/main", REFS());
	AUTO_SNAPSHOT struct ref_snapshot after =
		picture("refs/heads/main", REFS("refs/changes/01/1/1",
						"refs/heads/private/x", "refs/tags/t"));
	AUTO_SNAPSHOT struct ref_snapshot more = picture(
		"refs/heads/main", REFS("refs/changes/01/1/1", "refs/changes/02/2/1",
					"refs/heads/private/x", "refs/tags/t"));

	assert_ok(tell("p", EVENT_UPDATED, &none, &after));
	assert_waiting("one /d/a/p.git refs/heads/private/x refs/tags/t\n"
		       "one /d/b/p.git refs/heads/private/x refs/tags/t\n");
	assert_ok(tell("p", EVENT_UPDATED, &after, &more));
	assert_waiting("");
	assert_ok(tell("other", EVENT_CREATED, NULL, &after));
	assert_waiting("one /d/a/other.git ..all..\none /d/b/other.git ..all..\n");
}

TEST(what_is_not_known_is_a_task_for_all_refs)
{
	AUTO_SNAPSHOT struct ref_snapshot after =
		picture("refs/heads/main", REFS("refs/heads/main"));

	assert_ok(tell("group/x", EVENT_UPDATED, NULL, &after));
	assert_waiting("one /d/a/group/x.git ..all..\none /d/b/group/x.git ..all..\n"
		       "two /e/a/group/x.git ..all..\ntwo /e/b/group/x.git ..all..\n");
	assert_true(is_requested("/e/a/group/x.git", REQUEST_HEAD)); /* nor is that */
}

static void add_many(struct ref_snapshot *snapshot, int count)
{
	for (int i = 0; i < count; i++) {
		char name[40];
		struct ref ref = { .oid = { .len = 20 } };
		snprintf(name, sizeof(name), "refs/heads/n%04d", i);
		ref.name = ref_snapshot_keep(snapshot, name, strlen(name));
		vec_add(&snapshot->refs, ref);
	}
}

TEST(more_than_five_hundred_names_are_all_refs)
{
	AUTO_SNAPSHOT struct ref_snapshot none = picture("refs/heads/main", REFS());
	AUTO_SNAPSHOT struct ref_snapshot some = picture("refs/heads/main", REFS());
	AUTO_SNAPSHOT struct ref_snapshot many = picture("refs/heads/main", REFS());

	add_many(&some, 500);
	add_many(&many, 501);
	assert_ok(tell("other", EVENT_UPDATED, &none, &some));
	AUTO_FREE char *listed = waiting();
	assert_non_null(strstr(listed, " refs/heads/n0499\n"));
	must("rm replication/ref-updates/waiting/*");
	assert_ok(tell("other", EVENT_UPDATED, &none, &many));
	assert_waiting("one /d/a/other.git ..all..\none /d/b/other.git ..all..\n");
}

TEST(another_head_is_asked_for)
{
	AUTO_SNAPSHOT struct ref_snapshot before =
		picture("refs/heads/main", REFS("refs/heads/main"));
	AUTO_SNAPSHOT struct ref_snapshot after =
		picture("refs/heads/topic", REFS("refs/heads/main"));

	assert_ok(tell("p", EVENT_UPDATED, &before, &after));
	assert_waiting("");
	assert_true(is_requested("/d/a/p.git", REQUEST_HEAD));
	assert_true(is_requested("/e/b/p.git", REQUEST_HEAD));
	assert_false(is_requested("/e/b/p.git", REQUEST_DELETE));
}

/* While it named them, tasks may have been left out. */
TEST(a_head_that_leaves_the_permissions_is_a_task_for_all_refs_where_they_are_left_out)
{
	AUTO_SNAPSHOT struct ref_snapshot before =
		picture("refs/meta/config", REFS("refs/heads/main"));
	AUTO_SNAPSHOT struct ref_snapshot after =
		picture("refs/heads/main", REFS("refs/heads/main", "refs/heads/topic"));
	struct push_settings *other =
		read_settings("[remote \"one\"]\nurl = /d/a/${name}.git\n"
			      "[remote \"two\"]\nurl = /e/a/${name}.git\n"
			      "replicatePermissions = false\n");

	push_sink_set(sink, other);
	assert_ok(tell("p", EVENT_UPDATED, &before, &after));
	assert_waiting("one /d/a/p.git refs/heads/topic\ntwo /e/a/p.git ..all..\n");
	assert_true(is_requested("/e/a/p.git", REQUEST_HEAD));
	assert_ok(tell("p", EVENT_UPDATED, &after, &before));
	assert_waiting("one /d/a/p.git refs/heads/topic\n"
		       "two /e/a/p.git refs/heads/topic\n");
	push_settings_unref(other);
}

TEST(a_deletion_reaches_who_wants_it_and_has_the_repository)
{
	AUTO_SNAPSHOT struct ref_snapshot again =
		picture("refs/heads/main", REFS("refs/heads/main"));

	assert_ok(tell("p", EVENT_DELETED, NULL, NULL));
	assert_ok(tell("other", EVENT_DELETED, NULL, NULL));
	assert_waiting("");
	assert_true(is_requested("/e/a/p.git", REQUEST_DELETE));
	assert_true(is_requested("/e/b/p.git", REQUEST_DELETE));
	assert_false(is_requested("/d/a/p.git", REQUEST_DELETE));
	assert_false(is_requested("/e/a/other.git", REQUEST_DELETE));
	/* It is there again before the destination was reached. */
	assert_ok(tell("p", EVENT_CREATED, NULL, &again));
	assert_false(is_requested("/e/a/p.git", REQUEST_DELETE));
}

static void allow_deletions(const char *project)
{
	AUTO_DESTINATIONS destination_list list = { 0 };

	destinations_of(settings, project, &list);
	for (size_t i = 0; i < list.count; i++)
		assert_ok(uri_request_add(tasks, &list.items[i], REQUEST_FORCE, &err));
}

TEST(what_was_allowed_before_a_deletion_is_not_for_it)
{
	allow_deletions("p");
	assert_ok(tell("p", EVENT_DELETED, NULL, NULL));
	assert_true(is_requested("/e/a/p.git", REQUEST_DELETE));
	assert_false(is_requested("/e/a/p.git", REQUEST_FORCE));
	assert_true(is_requested("/d/a/p.git", REQUEST_FORCE)); /* of its refs */
	/* Another node is later in telling of the same. */
	allow_deletions("p");
	assert_ok(tell("p", EVENT_DELETED, NULL, NULL));
	assert_true(is_requested("/e/a/p.git", REQUEST_FORCE));
}

TEST(a_symbolic_ref_moves_with_what_it_names)
{
	AUTO_SNAPSHOT struct ref_snapshot before =
		picture("refs/heads/main", REFS("refs/heads/main"));
	AUTO_SNAPSHOT struct ref_snapshot after = picture(
		"refs/heads/main", REFS("refs/heads/main", "refs/heads/release/1"));
	struct ref latest = { .name = "refs/heads/latest",
			      .target = "refs/heads/stable" };
	struct ref stable = { .name = "refs/heads/stable",
			      .target = "refs/heads/release/1" };

	vec_add(&before.refs, latest);
	vec_add(&before.refs, stable);
	vec_add(&after.refs, latest);
	vec_add(&after.refs, stable);
	assert_ok(tell("other", EVENT_UPDATED, &before, &after));
	assert_waiting("one /d/a/other.git refs/heads/latest refs/heads/release/1 "
		       "refs/heads/stable\n"
		       "one /d/b/other.git refs/heads/latest refs/heads/release/1 "
		       "refs/heads/stable\n");
}

/* The other node knew nothing of the topic, so its tasks do not name it. */
TEST(what_another_node_reached_from_elsewhere_is_no_reason_to_add_nothing)
{
	AUTO_SNAPSHOT struct ref_snapshot start =
		picture("refs/heads/main", REFS("refs/heads/main"));
	AUTO_SNAPSHOT struct ref_snapshot topic =
		picture("refs/heads/main", REFS("refs/heads/main", "refs/heads/topic"));
	AUTO_SNAPSHOT struct ref_snapshot end =
		picture("refs/heads/main", REFS("refs/heads/main", "refs/heads/x"));
	struct push_sink *first = sink;

	assert_ok(tell("other", EVENT_UPDATED, &start, &topic));
	sink = push_sink_new(tasks, settings);
	assert_ok(tell("other", EVENT_UPDATED, &start, &end));
	push_sink_free(sink);
	sink = first;
	must("rm replication/ref-updates/waiting/*"); /* pushed */
	is_scanned = true;
	assert_ok(tell("other", EVENT_UPDATED, &topic, &end));
	is_scanned = false;
	assert_waiting("one /d/a/other.git refs/heads/topic refs/heads/x\n"
		       "one /d/b/other.git refs/heads/topic refs/heads/x\n");
}

TEST(a_second_node_that_sees_the_same_adds_nothing)
{
	AUTO_SNAPSHOT struct ref_snapshot before =
		picture("refs/heads/main", REFS("refs/heads/main"));
	AUTO_SNAPSHOT struct ref_snapshot after =
		picture("refs/heads/main", REFS("refs/heads/main", "refs/heads/topic"));
	struct push_sink *first = sink;

	assert_ok(tell("other", EVENT_UPDATED, &before, &after));
	must("rm replication/ref-updates/waiting/*"); /* pushed */
	sink = push_sink_new(tasks, settings);
	is_scanned = true;
	assert_ok(tell("other", EVENT_UPDATED, &before, &after));
	assert_waiting("");
	assert_ok(tell("other", EVENT_UPDATED, &after, &before)); /* and back */
	assert_waiting("one /d/a/other.git refs/heads/topic\n"
		       "one /d/b/other.git refs/heads/topic\n");
	is_scanned = false; /* a hook says so: whatever was seen, it is a change */
	assert_ok(tell("other", EVENT_UPDATED, &after, &before));
	assert_waiting("one /d/a/other.git refs/heads/topic\n"
		       "one /d/b/other.git refs/heads/topic\n");
	push_sink_free(sink);
	sink = first;
}

TEST(what_is_of_first_sight_is_left_to_a_start_and_says_nothing_to_others)
{
	AUTO_SNAPSHOT struct ref_snapshot after =
		picture("refs/heads/main", REFS("refs/heads/main"));
	struct change_sink reported = push_sink_as_change_sink(sink);
	char checksum[CHECKSUM_TEXT_SIZE];
	struct checksum sum;

	checksum_of(&after, &sum);
	checksum_format(&sum, checksum);
	assert_ok(reported.take(reported.arg,
				&(struct change){ .name = "other",
						  .what = EVENT_CREATED,
						  .is_first_observation = true,
						  .checksum = checksum,
						  .after = &after },
				&err));
	assert_waiting("");
	assert_ok(tell("other", EVENT_CREATED, NULL, &after));
	assert_waiting("one /d/a/other.git ..all..\none /d/b/other.git ..all..\n");
}

TEST(other_settings_are_obeyed_at_once)
{
	AUTO_SNAPSHOT struct ref_snapshot after =
		picture("refs/heads/main", REFS("refs/heads/main"));
	struct push_settings *other =
		read_settings("[remote \"three\"]\n\turl = /f/${name}.git\n");

	push_sink_set(sink, other);
	push_settings_unref(other);
	assert_ok(tell("p", EVENT_CREATED, NULL, &after));
	assert_waiting("three /f/p.git ..all..\n");
}

TEST(a_store_that_takes_nothing_is_an_error_and_not_seen)
{
	AUTO_SNAPSHOT struct ref_snapshot after =
		picture("refs/heads/main", REFS("refs/heads/main"));

	must("mv replication/ref-updates/building away && "
	     "touch replication/ref-updates/building");
	assert_int_equal(tell("other", EVENT_CREATED, NULL, &after), -1);
	must("rm replication/ref-updates/building && "
	     "mv away replication/ref-updates/building");
	assert_ok(tell("other", EVENT_CREATED, NULL, &after));
	assert_waiting("one /d/a/other.git ..all..\none /d/b/other.git ..all..\n");
}

TEST(what_is_owed_is_taken_although_the_same_was_seen_since)
{
	AUTO_SNAPSHOT struct ref_snapshot after =
		picture("refs/heads/main", REFS("refs/heads/main", "refs/heads/topic"));
	AUTO_SNAPSHOT struct ref_snapshot before =
		picture("refs/heads/main", REFS("refs/heads/main"));
	struct change_sink reported = push_sink_as_change_sink(sink);
	char checksum[CHECKSUM_TEXT_SIZE];
	struct checksum sum;

	/* The change of main is owed; that of topic came later, and was taken. */
	assert_ok(tell("other", EVENT_UPDATED, &before, &after));
	must("rm replication/ref-updates/waiting/*");
	checksum_of(&after, &sum);
	checksum_format(&sum, checksum);
	assert_ok(reported.take(reported.arg,
				&(struct change){ .name = "other",
						  .what = EVENT_UPDATED,
						  .checksum = checksum,
						  .after = &after },
				&err));
	assert_waiting("one /d/a/other.git ..all..\none /d/b/other.git ..all..\n");
}

TEST(a_start_can_be_narrowed_and_hurried)
{
	static const char *const remotes[] = { "two", NULL };
	const struct push_start_filter two = { .remotes = remotes };
	const struct push_start_filter url = { .url = "/d/b", .now = true };
	char name[] = "p", *names[] = { name };
	const text_list projects = { .items = names, .count = 1, .capacity = 1 };
	text_list keys = { 0 };
	int64_t now;

	assert_ok(push_start_repositories(tasks, settings, &projects, &two, &keys, &err));
	assert_int_equal(keys.count, 2);
	assert_waiting("two /e/a/p.git ..all..\ntwo /e/b/p.git ..all..\n");
	assert_ok(push_start_repositories(tasks, settings, &projects, &url, &keys, &err));
	assert_int_equal(keys.count, 3);
	assert_ok(task_store_now(tasks, &now, &err));
	AUTO_FREE char *path =
		xasprintf("replication/ref-updates/waiting/%s", keys.items[2]);
	struct stat st;
	assert_int_equal(fstatat(root_fd, path, &st, 0), 0);
	assert_true(st.st_mtime * 1000 + settings->remotes.items[0].delay_ms <= now);
	assert_waiting("one /d/b/p.git ..all..\n");
	for (size_t i = 0; i < keys.count; i++)
		free(keys.items[i]);
	vec_clear(&keys);
}

static void free_keys(text_list *keys)
{
	for (size_t i = 0; i < keys->count; i++)
		free(keys->items[i]);
	vec_clear(keys);
}

/* A disk takes some 20 ms for each. */
TEST(many_tasks_share_what_it_costs_to_have_them_on_disk)
{
	const struct push_start_filter all = { .url = NULL };
	text_list projects = { 0 }, keys = { 0 }, again = { 0 };

	for (int i = 0; i < 150; i++)
		vec_add(&projects, xasprintf("group/p%d", i));
	flushes = 0;
	assert_ok(push_start_repositories(tasks, settings, &projects, &all, &keys, &err));
	assert_true(flushes > 0 && flushes < 50);
	assert_int_equal(count_waiting(), 600);
	/* They all wait already. */
	flushes = 0;
	assert_ok(
		push_start_repositories(tasks, settings, &projects, &all, &again, &err));
	assert_true(flushes > 0 && flushes < 50);
	assert_int_equal(count_waiting(), 600);
	assert_int_equal(again.count, 600);
	for (size_t i = 0; i < again.count; i++)
		assert_string_equal(again.items[i], keys.items[i]);
	assert_int_equal(count_building(), 0);
	free_keys(&projects);
	free_keys(&keys);
	free_keys(&again);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SINK_CASE(a_change_becomes_a_task_for_each_url_of_each_remote),
		SINK_CASE(no_task_of_a_change_is_there_before_all_can_be),
		SINK_CASE(a_remote_gets_only_its_projects_and_its_refs),
		SINK_CASE(what_is_not_known_is_a_task_for_all_refs),
		SINK_CASE(more_than_five_hundred_names_are_all_refs),
		SINK_CASE(another_head_is_asked_for),
		SINK_CASE(
			a_head_that_leaves_the_permissions_is_a_task_for_all_refs_where_they_are_left_out),
		SINK_CASE(a_deletion_reaches_who_wants_it_and_has_the_repository),
		SINK_CASE(what_was_allowed_before_a_deletion_is_not_for_it),
		SINK_CASE(a_symbolic_ref_moves_with_what_it_names),
		SINK_CASE(
			what_another_node_reached_from_elsewhere_is_no_reason_to_add_nothing),
		SINK_CASE(a_second_node_that_sees_the_same_adds_nothing),
		SINK_CASE(
			what_is_of_first_sight_is_left_to_a_start_and_says_nothing_to_others),
		SINK_CASE(other_settings_are_obeyed_at_once),
		SINK_CASE(a_store_that_takes_nothing_is_an_error_and_not_seen),
		SINK_CASE(what_is_owed_is_taken_although_the_same_was_seen_since),
		SINK_CASE(a_start_can_be_narrowed_and_hurried),
		SINK_CASE(many_tasks_share_what_it_costs_to_have_them_on_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
