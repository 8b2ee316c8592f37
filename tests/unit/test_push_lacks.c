/*
 * A node that lacks what every push needs, with real git (push_engine_test.h): that is no
 * failure of a destination, and keeps no other node from it.
 */
#include "push_engine_test.h"

#include "base/metrics.h"
#include "push/push_run.h"

#include <dlfcn.h>
#include <sys/syscall.h>

static atomic_int view_error; /* 0: none */

int renameat(int from, const char *path, int to, const char *name)
{
	int error = view_error;

	if (error != 0 && strstr(name, "/view-")) {
		errno = error;
		return -1;
	}
	return (int)syscall(SYS_renameat2, from, path, to, name, 0);
}

static const char *_Atomic unopened; /* for want of descriptors: a path's end; or NULL */
static atomic_int refusals;

int openat(int dir, const char *path, int flags, ...)
{
	const char *end = unopened;
	va_list args;

	va_start(args, flags);
	mode_t mode = (flags & O_CREAT) ? va_arg(args, mode_t) : 0;
	va_end(args);
	if (end && text_ends_with(path, end)) {
		refusals++;
		errno = EMFILE;
		return -1;
	}
	return (int)syscall(SYS_openat, dir, path, flags, mode);
}

static atomic_bool has_no_processes;

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
		const posix_spawnattr_t *attributes, char *const argv[],
		char *const variables[])
{
	int (*real)(pid_t *, const char *, const posix_spawn_file_actions_t *,
		    const posix_spawnattr_t *, char *const[], char *const[]);

	*(void **)&real = dlsym(RTLD_NEXT, "posix_spawn");
	return has_no_processes ? EAGAIN
				: real(pid, path, actions, attributes, argv, variables);
}

static atomic_bool are_requests_unread, is_asked;
static pthread_t finder;

int uri_request_list(struct task_store *tasks, requested_list *list, struct err *error)
{
	int (*real)(struct task_store *, requested_list *, struct err *);

	*(void **)&real = dlsym(RTLD_NEXT, "uri_request_list");
	/* The first thread that asks is the one that finds the work. */
	if (!is_asked) {
		is_asked = true;
		finder = pthread_self();
	}
	if (!are_requests_unread || pthread_equal(finder, pthread_self()))
		return real(tasks, list, error);
	refusals++;
	errno = EMFILE;
	return err_errno(error, "cannot list requests");
}

static atomic_int announced;

void ref_events_add(const struct push_run *run, const struct push_group *group,
		    const struct transfer_result *result)
{
	(void)run;
	(void)group;
	(void)result;
	announced++;
}

/* Its hook makes git do the push. */
static void make_target(void)
{
	must("git init -q --bare -b main dst/p.git && cd dst/p.git && mkdir -p hooks && "
	     "echo '#!/bin/sh' >hooks/pre-receive && chmod +x hooks/pre-receive");
}

static void start_and_add(struct node *node)
{
	make_source("p");
	make_target();
	start_node(node, "a", settings_with("replicationMaxRetries = 1\n"));
	add_task(node, "p", "refs/heads/main");
}

/* It counts for nothing, is told to nobody as its end, and is over with what this node
 * lacks. */
static void assert_is_put_off_and_then_done(struct node *node)
{
	wait_until(was_tried(node, "p"));
	assert_int_equal(announced, 0);
	view_error = 0;
	has_no_processes = false;
	unopened = NULL;
	assert_only_waits();
	close_node(node);
	start_node(node, "a", settings_with("replicationMaxRetries = 1\n"));
	wait_until(is_all_done());
	assert_true(is_true("git -C dst/p.git rev-parse --verify refs/heads/main"));
	close_node(node);
	assert_int_equal(announced, 1);
	announced = 0;
}

/* Else it would be tried each minute, and nobody told. */
static void assert_is_a_failure(struct node *node, const char *words)
{
	uri_states states = { 0 };

	wait_until(was_tried(node, "p"));
	view_error = 0;
	assert_ok(uri_state_list(node->tasks, &states, &err));
	assert_int_equal(states.count, 1);
	assert_int_equal(states.items[0].failure.class, ERR_CONFIG);
	assert_non_null(strstr(states.items[0].failure.text, words));
	uri_states_clear(&states);
	close_node(node);
	assert_int_equal(announced, 1);
	announced = 0;
}

static bool metrics_say(const char *line)
{
	AUTO_STR struct str text = STR_INIT;

	metrics_render_as(METRICS_PROMETHEUS, &text);
	return strstr(text.data, line) != NULL;
}

TEST(a_full_disk_of_this_node_is_no_failure_of_a_destination)
{
	struct node node = { 0 };

	view_error = ENOSPC;
	start_and_add(&node);
	assert_is_put_off_and_then_done(&node);
	assert_true(metrics_say("refrelay_pushes_total{remote=\"m\",class=\"disk\"} "));
}

TEST(a_directory_of_this_node_that_is_closed_to_it_is_a_failure)
{
	struct node node = { 0 };

	view_error = EACCES;
	start_and_add(&node);
	assert_is_a_failure(&node, "view");
}

TEST(a_node_without_git_is_a_failure)
{
	AUTO_FREE char *path = xstrdup(getenv("PATH"));
	struct node node = { 0 };

	make_source("p");
	make_target();
	setenv("PATH", root, 1);
	assert_ok(git_setup(root, &err));
	setenv("PATH", path, 1);
	start_node(&node, "a", settings_with("replicationMaxRetries = 1\n"));
	add_task(&node, "p", "refs/heads/main");
	assert_is_a_failure(&node, "cannot run git");
}

TEST(a_node_without_processes_counts_no_failure)
{
	struct node node = { 0 };

	make_source("p");
	make_target();
	has_no_processes = true;
	start_node(&node, "a", settings_with("replicationMaxRetries = 1\n"));
	add_task(&node, "p", "refs/heads/main");
	assert_is_put_off_and_then_done(&node);
}

TEST(a_node_without_descriptors_counts_no_failure)
{
	struct node node = { 0 };

	unopened = "/site";
	start_and_add(&node);
	assert_is_put_off_and_then_done(&node);
}

static void assert_request_only_waits(struct node *node)
{
	uri_states states = { 0 };

	assert_ok(uri_state_list(node->tasks, &states, &err));
	assert_int_equal(states.count, 0);
	assert_int_equal(count_of("ls ev/refrelay/requests"), 1);
}

TEST(a_node_without_descriptors_counts_no_failure_of_head)
{
	struct node node = { 0 };

	start_and_add(&node);
	wait_until(is_all_done() && was_tried(&node, "p"));
	refusals = 0;
	unopened = "/dst/p.git";
	request(&node, "p", REQUEST_HEAD);
	wait_until(refusals > 0 && was_tried(&node, "p"));
	unopened = NULL;
	assert_request_only_waits(&node);
	close_node(&node);
}

static void open_with_deletion(struct node *node)
{
	make_source("q"); /* the tree is not empty */
	make_target();
	open_node(node, "a", settings_with("replicateProjectDeletions = true\n"));
	request(node, "p", REQUEST_DELETE);
	must("touch -d '10 seconds ago' ev/refrelay/requests/*");
	refusals = 0;
}

TEST(a_node_without_descriptors_counts_no_failure_of_a_deletion)
{
	struct node node = { 0 };

	open_with_deletion(&node);
	unopened = "/dst";
	start_push(&node, "a");
	wait_until(refusals > 0 && was_tried(&node, "p"));
	unopened = NULL;
	assert_request_only_waits(&node);
	assert_true(is_true("test -e dst/p.git"));
	close_node(&node);
}

TEST(a_deletion_that_cannot_be_judged_for_want_of_descriptors_counts_no_failure)
{
	struct node node = { 0 };

	open_with_deletion(&node);
	is_asked = false;
	are_requests_unread = true;
	start_push(&node, "a");
	wait_until(refusals > 0 && was_tried(&node, "p"));
	are_requests_unread = false;
	assert_request_only_waits(&node);
	close_node(&node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_CASE(a_full_disk_of_this_node_is_no_failure_of_a_destination),
		ENGINE_CASE(a_directory_of_this_node_that_is_closed_to_it_is_a_failure),
		ENGINE_CASE(a_node_without_git_is_a_failure),
		ENGINE_CASE(a_node_without_processes_counts_no_failure),
		ENGINE_CASE(a_node_without_descriptors_counts_no_failure),
		ENGINE_CASE(a_node_without_descriptors_counts_no_failure_of_head),
		ENGINE_CASE(a_node_without_descriptors_counts_no_failure_of_a_deletion),
		ENGINE_CASE(
			a_deletion_that_cannot_be_judged_for_want_of_descriptors_counts_no_failure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
