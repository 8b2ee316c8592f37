#include "test.h"

#include "lease/directory.h"
#include "push/push.h"
#include "push/queue_view.h"
#include "push/sink.h"
#include "push/uri_state.h"
#include "report/report.h"

static struct task_store *store;
static struct lease_manager *leases;
static struct push_settings *settings;
static struct queue_view view;

static const char text[] = "[remote \"m1\"]\n"
			   "url = git://m1.example.com/${name}.git\n"
			   "replicationDelay = 15\n"
			   "[remote \"m2\"]\n"
			   "url = git://m2.example.com/${name}.git\n";

static int setup(void **state)
{
	AUTO_CONF struct conf *conf = NULL;
	AUTO_FREE char *path = NULL;

	if (test_make_root(state))
		return -1;
	path = xasprintf("%s/leases", root);
	assert_ok(task_store_open(root, &store, &err));
	assert_ok(lease_manager_open_directory(
		&(struct lease_options){ .directory = path, .node = "here" }, &leases,
		&err));
	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(push_settings_read(conf, root, &settings, &err));
	view = (struct queue_view){ 0 };
	return 0;
}

static int teardown(void **state)
{
	queue_view_clear(&view);
	push_settings_unref(settings);
	lease_manager_close(leases);
	task_store_close(store);
	return test_remove_root(state);
}

static char *uri_of(const char *remote, const char *project)
{
	return xasprintf("git://%s.example.com/%s.git", remote, project);
}

/* Returns since when it waits. */
static int64_t add(const char *remote, const char *project, const char *ref,
		   int64_t age_ms)
{
	AUTO_TASK struct task task = { .project = xstrdup(project),
				       .uri = uri_of(remote, project),
				       .remote = xstrdup(remote) };
	int64_t now;
	bool is_new;

	vec_add(&task.refs, xstrdup(ref));
	assert_ok(task_store_now(store, &now, &err));
	assert_ok(task_store_add(store, &task, now - age_ms, &is_new, &err));
	return now - age_ms;
}

static void look(void)
{
	queue_view_clear(&view);
	assert_ok(queue_view_read(store, leases, settings, &view, &err));
}

static void claim(const char *remote, const char *project, claimed_tasks *tasks)
{
	AUTO_FREE char *uri = uri_of(remote, project);

	assert_ok(task_store_claim(store, uri, tasks, &err));
}

static struct lease *hold(const char *prefix, const char *name)
{
	AUTO_FREE char *key = xasprintf("%s%s", prefix, name);
	struct lease *lease;

	assert_ok(lease_acquire(
		leases, &(struct lease_request){ .key = key, .operation = "push" },
		&lease, &err));
	return lease;
}

static struct lease *hold_uri(const char *remote, const char *project)
{
	AUTO_FREE char *uri = uri_of(remote, project);
	char key[URI_KEY_SIZE];

	uri_key_of(uri, key);
	return hold(PUSH_URI_LEASE, key);
}

static void write_failure(const char *remote, const char *project, int64_t retry_in_ms)
{
	AUTO_URI_STATE struct uri_state state = { .uri = uri_of(remote, project),
						  .remote = xstrdup(remote),
						  .project = xstrdup(project),
						  .failures = 2 };
	char key[URI_KEY_SIZE];
	int64_t now;

	uri_key_of(state.uri, key);
	assert_ok(task_store_now(store, &now, &err));
	state.retry_at = now + retry_in_ms;
	state.failing_since = now - 5000;
	err_set(&state.failure, ERR_NETWORK, "connection refused");
	assert_ok(uri_state_write(store, key, &state, &err));
}

TEST(tasks_of_a_uri_are_one_entry_with_each_ref_once)
{
	add("m1", "p", "refs/heads/b", 3000);
	int64_t oldest = add("m1", "p", "refs/heads/a", 9000);
	look();
	assert_int_equal(view.uris.count, 1);
	const struct queued_uri *uri = &view.uris.items[0];
	assert_int_equal(uri->waiting, 2);
	assert_int_equal(uri->keys.count, 2);
	assert_int_equal(uri->refs.count, 2);
	assert_string_equal(uri->refs.items[0], "refs/heads/a");
	assert_string_equal(queued_uri_word(uri), "waiting");
	/* The oldest decides, after the remote's delay. */
	assert_int_equal(uri->since, oldest);
	assert_true(view.now - uri->since >= 9000);
	assert_int_equal(uri->next_at - uri->since, 15000);
	add("m1", "p", TASK_ALL_REFS, 0);
	look();
	assert_int_equal(view.uris.items[0].refs.count, 1);
	assert_string_equal(view.uris.items[0].refs.items[0], TASK_ALL_REFS);
}

static void hold_deletion(const char *remote, const char *project)
{
	AUTO_DESTINATION struct destination to = { 0 };
	AUTO_FREE char *uri = uri_of(remote, project);
	AUTO_URI_STATE struct uri_state state = { .uri = uri_of(remote, project),
						  .remote = xstrdup(remote),
						  .project = xstrdup(project),
						  .failures = 1,
						  .held_since = 1 };
	char key[URI_KEY_SIZE];

	uri_key_of(uri, key);
	assert_ok(destination_find(settings, remote, project, uri, &to, &err));
	assert_ok(uri_request_add(store, &to, REQUEST_DELETE, &err));
	assert_ok(uri_state_write(store, key, &state, &err));
}

TEST(deletions_that_are_held_are_counted_for_the_report)
{
	struct report_options options = { .role = SITE_STANDALONE,
					  .site = "gerrit",
					  .data = "/nowhere",
					  .tasks = store,
					  .push_leases = leases,
					  .push_settings = settings };
	struct report report;

	add("m1", "p", "refs/heads/a", 0);
	hold_deletion("m1", "q");
	hold_deletion("m2", "q");
	assert_ok(store_open("sqlite::memory:", &options.store, &err));
	assert_ok(report_make(&options, &report, &err));
	assert_int_equal(report.push.held, 2);
	assert_string_equal(report.push.example_held, "q");
	report_clear(&report);
	store_close(options.store);
}

TEST(a_uri_runs_where_its_lease_is_held)
{
	claimed_tasks tasks = { 0 };
	struct lease *lease = hold_uri("m2", "q");
	struct lease *node = hold(PUSH_NODE_LEASE, "paris");

	assert_ok(push_nodes_note(store, "paris", &err));
	assert_ok(push_nodes_note(store, "gone", &err));
	add("m1", "p", "refs/heads/a", 60000);
	add("m2", "q", "refs/heads/a", 0);
	claim("m2", "q", &tasks);
	look();
	assert_int_equal(view.uris.count, 2);
	assert_string_equal(view.uris.items[0].project, "q"); /* running ones first */
	assert_true(view.uris.items[0].is_running);
	assert_string_equal(view.uris.items[0].node, "here");
	assert_int_equal(view.uris.items[0].next_at, 0);
	assert_true(view.uris.items[0].running_since > 0);
	assert_false(view.uris.items[1].is_running);
	assert_int_equal(view.nodes.count, 1);
	assert_string_equal(view.nodes.items[0], "paris");
	lease_release(lease);
	lease_release(node);
	look();
	/* What is left in running/ waits to be taken up. */
	assert_int_equal(view.nodes.count, 0);
	for (size_t i = 0; i < 2; i++)
		assert_string_equal(queued_uri_word(&view.uris.items[i]), "waiting");
	queue_view_clear(&view);
	assert_ok(queue_view_read(store, NULL, settings, &view, &err));
	assert_true(view.uris.items[0].is_running);
	claimed_tasks_clear(&tasks);
}

TEST(a_failure_says_why_and_when_it_is_tried_again)
{
	struct remote_sum sum;

	int64_t oldest = add("m1", "p", "refs/heads/a", 60000);
	add("m1", "q", "refs/heads/a", 1000);
	write_failure("m1", "p", 90000);
	write_failure("m2", "gone", 90000); /* nothing waits: it is no entry */
	look();
	assert_int_equal(view.uris.count, 2);
	const struct queued_uri *uri = &view.uris.items[1];
	assert_string_equal(uri->project, "p");
	assert_string_equal(queued_uri_word(uri), "failing");
	assert_int_equal(uri->failure.class, ERR_NETWORK);
	assert_in_range(uri->next_at - view.now, 80000, 90000);
	queue_view_sum(&view, "m1", &sum);
	assert_int_equal(sum.waiting, 2);
	assert_int_equal(sum.failing, 1);
	assert_ptr_equal(sum.example, uri);
	assert_int_equal(sum.oldest, oldest);
	assert_true(view.now - sum.oldest >= 60000);
	queue_view_sum(&view, "m2", &sum);
	assert_int_equal(sum.waiting + sum.failing, 0);
	assert_int_equal(sum.oldest, 0);
}

TEST(what_no_remote_takes_is_an_orphan_and_never_due)
{
	struct remote_sum sum;

	add("m3", "p", "refs/heads/a", 60000);
	add("m1", "p", "refs/heads/a", 0);
	look();
	assert_int_equal(view.uris.count, 2);
	assert_true(view.uris.items[1].is_orphan);
	assert_int_equal(view.uris.items[1].next_at, 0);
	assert_string_equal(queued_uri_word(&view.uris.items[1]), "orphan");
	queue_view_sum(&view, "m3", &sum);
	assert_int_equal(sum.waiting, 0);
}

TEST(a_request_alone_is_an_entry)
{
	AUTO_DESTINATION struct destination one = { 0 };

	assert_ok(destination_make(&settings->remotes.items[0], 0, "p", &one, &err));
	assert_ok(uri_request_add(store, &one, REQUEST_FORCE, &err));
	look();
	assert_int_equal(view.uris.count, 0); /* it only allows something */
	assert_ok(uri_request_add(store, &one, REQUEST_HEAD, &err));
	look();
	assert_int_equal(view.uris.count, 1);
	assert_true(view.uris.items[0].is_requested[REQUEST_HEAD]);
	assert_int_equal(view.uris.items[0].refs.count, 0);
	assert_true(view.uris.items[0].since > 0);
}

static void give_up(const char *remote, const char *project)
{
	claimed_tasks tasks = { 0 };
	ref_failures refs = { 0 };
	struct err why;

	add(remote, project, "refs/heads/a", 0);
	claim(remote, project, &tasks);
	err_set(&why, ERR_CONFLICT, "not a fast-forward");
	vec_add(&refs,
		((struct ref_failure){ xstrdup("refs/heads/a"), xstrdup("refused") }));
	assert_ok(task_store_fail(store, &tasks.items[0], &why, &refs, &err));
	ref_failures_clear(&refs);
	claimed_tasks_clear(&tasks);
}

TEST(what_was_given_up_is_kept_apart)
{
	const char *const remotes[] = { "m2", NULL };
	struct remote_sum sum;

	give_up("m1", "p");
	give_up("m2", "q");
	add("m1", "r", "refs/heads/a", 0);
	look();
	assert_int_equal(view.uris.count, 1);
	assert_int_equal(view.letters.count, 2);
	queue_view_sum(&view, "m1", &sum);
	assert_int_equal(sum.letters, 1);
	assert_int_equal(sum.waiting, 1);
	json_auto_t *object = queue_view_json(&view);
	const json_t *letter = json_array_get(json_object_get(object, "given_up"), 0);
	assert_string_equal(
		json_string_value(json_object_get(
			json_array_get(json_object_get(letter, "failed_refs"), 0),
			"text")),
		"refused");
	queue_view_filter(&view, &(struct queue_filter){ .remotes = remotes });
	assert_int_equal(view.uris.count, 0);
	assert_int_equal(view.letters.count, 1);
	assert_string_equal(view.letters.items[0].task.project, "q");
}

TEST(failed_only_leaves_what_needs_a_look)
{
	add("m1", "p", "refs/heads/a", 0);
	add("m1", "q", "refs/heads/a", 0);
	add("m9", "o", "refs/heads/a", 0);
	write_failure("m1", "q", 1000);
	look();
	queue_view_filter(&view, &(struct queue_filter){ .failed_only = true });
	assert_int_equal(view.uris.count, 2);
	assert_string_equal(view.uris.items[0].project, "q");
	assert_string_equal(view.uris.items[1].project, "o");
}

#define STORED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORED(tasks_of_a_uri_are_one_entry_with_each_ref_once),
		STORED(deletions_that_are_held_are_counted_for_the_report),
		STORED(a_uri_runs_where_its_lease_is_held),
		STORED(a_failure_says_why_and_when_it_is_tried_again),
		STORED(what_no_remote_takes_is_an_orphan_and_never_due),
		STORED(a_request_alone_is_an_entry),
		STORED(what_was_given_up_is_kept_apart),
		STORED(failed_only_leaves_what_needs_a_look),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
