/*
 * A node that lacks what every push needs, with real git (push_engine_test.h): that is no
 * failure of a destination, and keeps no other node from it.
 */
#include "push_engine_test.h"

#include <dlfcn.h>
#include <sys/syscall.h>

static atomic_bool has_full_views;

int renameat(int from, const char *path, int to, const char *name)
{
	if (has_full_views && strstr(name, "/view-")) {
		errno = ENOSPC;
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

/* It counts for nothing, and is over with what this node lacks. */
static void assert_is_put_off_and_then_done(struct node *node)
{
	wait_until(was_tried(node, "p"));
	has_full_views = has_no_processes = false;
	unopened = NULL;
	assert_only_waits();
	close_node(node);
	start_node(node, "a", settings_with("replicationMaxRetries = 1\n"));
	wait_until(is_all_done());
	assert_true(is_true("git -C dst/p.git rev-parse --verify refs/heads/main"));
	close_node(node);
}

TEST(a_full_disk_of_this_node_is_no_failure_of_a_destination)
{
	struct node node = { 0 };

	has_full_views = true;
	start_and_add(&node);
	assert_is_put_off_and_then_done(&node);
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

TEST(a_node_without_descriptors_counts_no_failure_of_head)
{
	struct node node = { 0 };
	uri_states states = { 0 };

	start_and_add(&node);
	wait_until(is_all_done() && was_tried(&node, "p"));
	refusals = 0;
	unopened = "/dst/p.git";
	request(&node, "p", REQUEST_HEAD);
	wait_until(refusals > 0 && was_tried(&node, "p"));
	unopened = NULL;
	assert_ok(uri_state_list(node.tasks, &states, &err));
	assert_int_equal(states.count, 0);
	assert_int_equal(count_of("ls ev/refrelay/requests"), 1);
	close_node(&node);
}

TEST(a_node_without_descriptors_counts_no_failure_of_a_deletion)
{
	struct node node = { 0 };
	uri_states states = { 0 };

	make_source("q"); /* the tree is not empty */
	make_target();
	open_node(&node, "a", settings_with("replicateProjectDeletions = true\n"));
	request(&node, "p", REQUEST_DELETE);
	must("touch -d '10 seconds ago' ev/refrelay/requests/*");
	refusals = 0;
	unopened = "/dst";
	start_push(&node, "a");
	wait_until(refusals > 0 && was_tried(&node, "p"));
	unopened = NULL;
	assert_ok(uri_state_list(node.tasks, &states, &err));
	assert_int_equal(states.count, 0);
	assert_int_equal(count_of("ls ev/refrelay/requests"), 1);
	assert_true(is_true("test -e dst/p.git"));
	close_node(&node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_CASE(a_full_disk_of_this_node_is_no_failure_of_a_destination),
		ENGINE_CASE(a_node_without_processes_counts_no_failure),
		ENGINE_CASE(a_node_without_descriptors_counts_no_failure),
		ENGINE_CASE(a_node_without_descriptors_counts_no_failure_of_head),
		ENGINE_CASE(a_node_without_descriptors_counts_no_failure_of_a_deletion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
