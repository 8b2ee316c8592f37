/*
 * What a node that pushes does, with real git (push_engine_test.h). The hook of the
 * destinations is the witness: it notes what it was sent, when it begins and ends, and
 * waits for a file if there is a file "hold".
 */
#include "push_engine_test.h"

#include <dlfcn.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/metrics.h"
#include "push/nodes.h"
#include "push/sink.h"
#include "push/task_list.h"

#define PATIENCE_MS 30000
#define RUNNING "find ev/ref-updates/running -type f"

/* How often the names in waiting/ were brought to disk, where no log does that. */
static atomic_int waiting_syncs;

int fsync(int fd)
{
	char link[64], path[256] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) > 0)
		waiting_syncs += text_ends_with(path, "/ref-updates/waiting");
	return (int)syscall(SYS_fsync, fd);
}

static const char *_Atomic full; /* the end of a directory's path; or NULL */

int renameat(int from, const char *path, int to, const char *name)
{
	char link[64], place[256] = "";
	const char *end = full;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", to);
	if (end && readlink(link, place, sizeof(place) - 1) > 0 &&
	    text_ends_with(place, end)) {
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_renameat2, from, path, to, name, 0);
}

static const char *_Atomic next_head; /* of p, once a task of it is done; or NULL */

int unlinkat(int fd, const char *path, int flags)
{
	char link[64], place[256] = "";
	const char *head = next_head;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (head && flags == 0 && readlink(link, place, sizeof(place) - 1) > 0 &&
	    strstr(place, "/ref-updates/running/")) {
		next_head = NULL;
		file_replace(root_fd, "site/p.git/HEAD", head, strlen(head), FILE_NO_SYNC,
			     ERR_IGNORED);
	}
	return (int)syscall(SYS_unlinkat, fd, path, flags);
}

int fstatfs(int fd, struct statfs *fs)
{
	int result = (int)syscall(SYS_fstatfs, fd, fs);

	fs->f_type = TMPFS_MAGIC;
	return result;
}

static atomic_bool is_presence_refused;
static atomic_int presences_refused;

int push_nodes_note(struct task_store *store, const char *node, struct err *why)
{
	int (*real)(struct task_store *, const char *, struct err *);

	if (!is_presence_refused) {
		*(void **)&real = dlsym(RTLD_NEXT, "push_nodes_note");
		return real(store, node, why);
	}
	presences_refused++;
	return err_set(why, ERR_DISK, "the test refuses it");
}

/* What begins anew after a failure does so soon. */
bool stop_wait(const struct stop *stop, int64_t ms)
{
	bool (*real)(const struct stop *, int64_t);

	*(void **)&real = dlsym(RTLD_NEXT, "stop_wait");
	return real(stop, is_presence_refused ? 100 : ms);
}

static const char hook[] = "#!/bin/sh\n"
			   "d=${PWD##*/}\n"
			   "mkdir ../../busy/$d || echo $d >>../../overlaps\n"
			   "echo $d >>../../begun\n"
			   "while read old new ref; do echo $d $ref >>../../refs; done\n"
			   "while test -e ../../hold; do sleep 0.02; done\n"
			   "rmdir ../../busy/$d\n"
			   "echo $d >>../../ended\n";

static void make_target(const char *name)
{
	if (access("template", F_OK) != 0) {
		must("mkdir -p template/hooks");
		assert_ok(file_replace(root_fd, "template/hooks/pre-receive", hook,
				       strlen(hook), FILE_NO_SYNC, &err));
		must("chmod +x template/hooks/pre-receive");
	}
	must("git init -q --bare -b main --template=template dst/%s.git", name);
}

static bool metrics_have(const char *line)
{
	AUTO_STR struct str text = STR_INIT;

	metrics_render_as(METRICS_PROMETHEUS, &text);
	return strstr(text.data, line) != NULL;
}

static bool is_present(const struct node *node, const char *name)
{
	AUTO_FREE char *key = xasprintf(PUSH_NODE_LEASE "%s", name);
	struct lease_holder holder;

	return lease_inspect(node->leases, key, &holder, &err) == 0 && holder.held;
}

/* Whether that took less than the delay, and so tells something. */
static bool add_fifty_within(const struct node *node, int delay)
{
	int64_t began = clock_boot_ms();

	for (int i = 0; i < 50; i++) {
		AUTO_FREE char *ref = xasprintf("refs/heads/b%d", i);
		add_task(node, "p", ref);
	}
	return clock_boot_ms() - began < delay * 1000;
}

/* A machine too slow for one delay is given another try with twice that. */
TEST(fifty_changes_within_the_delay_are_one_push)
{
	bool is_within = false;

	make_source("p");
	must("cd site/p.git/refs/heads && for i in $(seq 0 49); do cp main b$i; done");
	for (int delay = 1; !is_within && delay <= 16; delay *= 2) {
		AUTO_FREE char *line = xasprintf("replicationDelay = %d", delay);
		struct node node = { 0 };
		must("rm -rf dst/p.git begun");
		make_target("p");
		start_node(&node, "a", settings_with(line));
		is_within = add_fifty_within(&node, delay);
		wait_until(is_all_done());
		close_node(&node);
	}
	assert_true(is_within);
	assert_int_equal(count_of("cat begun"), 1);
	assert_int_equal(count_of("ls dst/p.git/refs/heads"), 50);
	assert_int_equal(count_of("ls ev/refrelay/*.*"), 0);
}

TEST(without_delay_a_change_is_pushed_at_once)
{
	struct node node = { 0 };

	make_source("p");
	make_target("p");
	start_node(&node, "a", settings_with(""));
	wait_until(is_present(&node, "a"));
	int64_t began = clock_boot_ms();
	add_task(&node, "p", "refs/heads/main");
	wait_until(is_true("test -s begun"));
	if (getenv("SHOW_TIMES"))
		print_message("# hook began after %" PRId64 " ms\n",
			      clock_boot_ms() - began);
	assert_true(clock_boot_ms() - began < 10000); /* it would be 15 s by default */
	wait_until(is_all_done());
	close_node(&node);
}

TEST(a_change_during_a_push_is_pushed_by_a_second_one_after_it)
{
	struct node node = { 0 };

	make_source("p");
	make_target("p");
	must("touch hold");
	start_node(&node, "a", settings_with(""));
	add_task(&node, "p", "refs/heads/main");
	wait_until(is_true("test -s begun"));
	assert_int_equal(count_of(WAITING), 0);
	assert_int_equal(count_of(RUNNING), 1);
	must("cp site/p.git/refs/keep/two site/p.git/refs/heads/main");
	add_task(&node, "p", "refs/heads/main");
	usleep(300000);
	assert_int_equal(count_of(WAITING), 1);
	assert_int_equal(count_of(RUNNING), 1);
	assert_int_equal(count_of("cat begun"), 1);
	must("rm hold");
	wait_until(is_all_done());
	assert_int_equal(count_of("cat begun"), 2);
	assert_false(is_true("test -e overlaps"));
	assert_true(is_true("cmp dst/p.git/refs/heads/main site/p.git/refs/keep/two"));
	close_node(&node);
}

static bool says_only_what_was_given_up(struct node *node)
{
	uri_states states = { 0 };

	assert_ok(uri_state_list(node->tasks, &states, &err));
	bool is_all = states.count == 1 && states.items[0].failures == 0 &&
		      states.items[0].retry_at == 0 && states.items[0].letters.count == 1;
	uri_states_clear(&states);
	return is_all;
}

TEST(an_unreachable_url_is_tried_once_more_and_then_given_up)
{
	struct node node = { 0 };
	dead_letters letters = { 0 };

	make_source("p");
	start_node(&node, "a",
		   read_settings("[remote \"far\"]\nurl = git://127.0.0.1:1/${name}.git\n"
				 "replicationDelay = 0\nreplicationRetry = 1 s\n"
				 "replicationMaxRetries = 1\n"));
	add_task(&node, "p", "refs/heads/main");
	wait_until(count_letters(&node, &letters) == 1);
	wait_until(is_all_done());
	assert_int_equal(letters.items[0].why.class, ERR_NETWORK);
	assert_true(metrics_have(
		"refrelay_pushes_total{remote=\"far\",class=\"network\"} 2\n"));
	wait_until(says_only_what_was_given_up(&node));
	dead_letters_clear(&letters);
	close_node(&node);
}

static bool has_failed_often(struct node *node, uint64_t least)
{
	uri_states states = { 0 };
	bool has;

	assert_ok(uri_state_list(node->tasks, &states, &err));
	has = states.count == 1 && states.items[0].failures >= least;
	uri_states_clear(&states);
	return has;
}

TEST(a_failure_that_cannot_be_written_is_tried_again_at_its_time)
{
	struct node node = { 0 };

	make_source("p");
	start_node(
		&node, "a",
		read_settings("[remote \"away\"]\nurl = git://127.0.0.1:1/${name}.git\n"
			      "replicationDelay = 0\nreplicationRetry = 1 s\n"));
	full = "/ev/refrelay";
	add_task(&node, "p", "refs/heads/main");
	wait_until(metrics_have(
		"refrelay_pushes_total{remote=\"away\",class=\"network\"} 4\n"));
	assert_false(has_failed_often(&node, 1));
	full = NULL;
	wait_until(has_failed_often(&node, 1));
	close_node(&node);
}

TEST(what_cannot_be_given_up_counts_as_failed)
{
	struct node node = { 0 };
	dead_letters letters = { 0 };

	make_source("p");
	start_node(&node, "a",
		   read_settings("[remote \"m\"]\nurl = git://127.0.0.1:1/${name}.git\n"
				 "replicationDelay = 0\nreplicationRetry = 1 s\n"
				 "replicationMaxRetries = 1\n"));
	full = "/ev/refrelay/failed";
	add_task(&node, "p", "refs/heads/main");
	wait_until(has_failed_often(&node, 3));
	full = NULL;
	wait_until(count_letters(&node, &letters) == 1);
	wait_until(says_only_what_was_given_up(&node));
	dead_letters_clear(&letters);
	close_node(&node);
}

TEST(what_was_refused_and_cannot_be_put_away_counts_as_failed)
{
	struct node node = { 0 };
	dead_letters letters = { 0 };

	make_source("p");
	must("cp -r site/p.git dst && cp dst/p.git/refs/keep/two "
	     "dst/p.git/refs/heads/main");
	start_node(&node, "a", settings_with("replicationRetry = 1 s\n"));
	full = "/ev/refrelay/failed";
	add_task(&node, "p", "refs/heads/main");
	wait_until(has_failed_often(&node, 2));
	full = NULL;
	wait_until(count_letters(&node, &letters) == 1);
	wait_until(says_only_what_was_given_up(&node));
	dead_letters_clear(&letters);
	close_node(&node);
}

TEST(two_nodes_push_each_ref_once_and_never_two_at_a_time)
{
	struct node a = { 0 }, b = { 0 };

	open_node(&a, "a", settings_with("threads = 4"));
	open_node(&b, "b", settings_with("threads = 4"));
	for (int i = 0; i < 8; i++) {
		char name[8];
		snprintf(name, sizeof(name), "p%d", i);
		make_source(name);
		make_target(name);
		must("cd site/%s.git && for i in 1 2 3 4; do "
		     "cp refs/heads/main refs/heads/$i; done",
		     name);
	}
	start_push(&a, "a");
	start_push(&b, "b");
	for (int i = 0; i < 32; i++) {
		char name[8], ref[24];
		snprintf(name, sizeof(name), "p%d", i % 8);
		snprintf(ref, sizeof(ref), "refs/heads/%d", 1 + i / 8);
		add_task(i % 2 ? &a : &b, name, ref);
	}
	wait_until(is_all_done());
	assert_int_equal(count_of("cat refs"), 32);
	assert_int_equal(count_of("sort -u refs"), 32);
	assert_false(is_true("test -e overlaps"));
	close_node(&a);
	close_node(&b);
}

TEST(a_task_of_no_remote_stays_until_the_settings_have_one)
{
	struct node node = { 0 };
	struct push_settings *before;

	make_source("p");
	make_target("p");
	open_node(&node, "a", settings_with(""));
	add_task(&node, "p", "refs/heads/main");
	before = node.settings;
	node.settings = read_settings("[remote \"other\"]\nurl = /nowhere/${name}.git\n");
	start_push(&node, "a");
	usleep(300000);
	assert_int_equal(count_of(WAITING), 1);
	assert_false(is_true("test -e begun"));
	push_set(node.push, before);
	wait_until(is_all_done());
	assert_int_equal(count_of("cat begun"), 1);
	push_settings_unref(before);
	close_node(&node);
}

TEST(a_task_of_a_renamed_remote_goes_where_its_url_says)
{
	struct node node = { 0 };
	AUTO_FREE char *renamed = xasprintf(
		"[remote \"new\"]\nurl = %s/dst/${name}.git\nreplicationDelay = 0\n",
		root);

	make_source("p");
	make_target("p");
	open_node(&node, "a", settings_with(""));
	add_task(&node, "p", "refs/heads/main");
	push_settings_unref(node.settings);
	node.settings = read_settings(renamed);
	start_push(&node, "a");
	wait_until(is_all_done());
	assert_int_equal(count_of("cat begun"), 1);
	close_node(&node);
}

TEST(tasks_of_a_missing_repository_are_given_up_once_it_is_known_to_be_deleted)
{
	struct node node = { 0 };
	dead_letters letters = { 0 };

	make_source("p"); /* the tree is not empty */
	is_away = true;
	start_node(&node, "a", settings_with(""));
	add_task(&node, "gone", "refs/heads/main");
	wait_until(was_tried(&node, "gone"));
	assert_only_waits();
	close_node(&node);
	is_away = false;
	start_node(&node, "a", settings_with(""));
	wait_until(count_letters(&node, &letters) == 1);
	assert_int_equal(letters.items[0].why.class, ERR_MISSING);
	assert_non_null(strstr(letters.items[0].why.text, "local repository is missing"));
	dead_letters_clear(&letters);
	close_node(&node);
}

TEST(a_node_whose_tree_is_away_leaves_the_work_to_another_one)
{
	struct node away = { 0 }, healthy = { 0 };

	make_source("p");
	make_target("p");
	must("mkdir empty");
	open_node(&healthy, "healthy", settings_with(""));
	open_node(&away, "away", settings_with(""));
	start_push_in(&away, "away", "empty");
	add_task(&away, "p", "refs/heads/main");
	wait_until(was_tried(&away, "p"));
	assert_only_waits();
	start_push(&healthy, "healthy");
	wait_until(is_all_done());
	assert_int_equal(count_of("cat begun"), 1);
	close_node(&healthy);
	close_node(&away);
}

TEST(a_missing_destination_is_made_with_our_head)
{
	struct node node = { 0 };

	make_source("p");
	must("git -C site/p.git symbolic-ref HEAD refs/heads/trunk && "
	     "mv site/p.git/refs/heads/main site/p.git/refs/heads/trunk");
	start_node(&node, "a", settings_with(""));
	add_task(&node, "p", TASK_ALL_REFS);
	wait_until(is_true("git -C dst/p.git rev-parse HEAD"));
	wait_until(is_all_done());
	assert_int_equal(count_of("ls ev/refrelay/failed"), 0);
	close_node(&node);
}

static bool failed_elsewhere(struct node *node)
{
	uri_states states = { 0 };

	assert_ok(uri_state_list(node->tasks, &states, &err));
	bool has = states.count == 1 && states.items[0].failure.class == ERR_NETWORK &&
		   states.items[0].failure.reason == REASON_ELSEWHERE;
	uri_states_clear(&states);
	return has;
}

TEST(that_an_admin_url_fails_is_not_booked_on_the_destinations_host)
{
	struct node node = { 0 };

	make_source("p");
	start_node(&node, "a",
		   settings_with("adminUrl = ssh://127.0.0.1:1/${name}.git\n"));
	add_task(&node, "p", TASK_ALL_REFS);
	wait_until(failed_elsewhere(&node));
	close_node(&node);
}

TEST(a_destination_that_is_made_anew_gets_all_refs_by_one_push)
{
	struct node node = { 0 };

	make_source("p");
	must("cp site/p.git/refs/keep/two site/p.git/refs/heads/x");
	AUTO_FREE char *lines =
		xasprintf("[remote \"anew\"]\nurl = %s/dst/${name}.git\n"
			  "push = refs/heads/*:refs/heads/*\nreplicationDelay = 0\n",
			  root);
	start_node(&node, "a", read_settings(lines));
	add_task(&node, "p", "refs/heads/x");
	wait_until(is_true("cmp site/p.git/refs/heads/x dst/p.git/refs/heads/x && "
			   "cmp site/p.git/refs/heads/main dst/p.git/refs/heads/main"));
	wait_until(is_all_done());
	assert_true(is_true("git -C dst/p.git rev-parse --verify HEAD"));
	assert_false(is_true("test -e dst/p.git/refs/keep"));
	close_node(&node);
	assert_true(
		metrics_have("refrelay_pushes_total{remote=\"anew\",class=\"ok\"} 1\n"));
}

static void tell_of_head(struct node *node, const char *target)
{
	AUTO_SNAPSHOT struct ref_snapshot after = REF_SNAPSHOT_INIT;
	const struct ref_diff diff = { .head_changed = true };
	struct push_sink *sink = push_sink_new(node->tasks, node->settings);
	struct change_sink to = push_sink_as_change_sink(sink);

	after.head_target = xstrdup(target);
	assert_ok(to.take(to.arg,
			  &(struct change){ .name = "p",
					    .what = EVENT_UPDATED,
					    .before = "b",
					    .checksum = target,
					    .diff = &diff,
					    .after = &after },
			  &err));
	push_sink_free(sink);
}

TEST(a_repository_of_permissions_is_not_pushed_where_they_are_not_replicated)
{
	struct node node = { 0 };

	make_source("p");
	must("ln -sf refs/meta/config site/p.git/HEAD && "
	     "echo garbage >site/p.git/refs/heads/broken");
	start_node(&node, "a",
		   settings_with("replicatePermissions = false\n"
				 "replicationRetry = 1 s\n"));
	request(&node, "p", REQUEST_HEAD);
	add_task(&node, "p", TASK_ALL_REFS);
	wait_until(is_all_done());
	must("rm site/p.git/HEAD site/p.git/refs/heads/broken && "
	     "echo 'ref: refs/meta/config' >site/p.git/HEAD");
	add_task(&node, "p", TASK_ALL_REFS);
	wait_until(is_all_done() && count_of("ls ev/refrelay/requests") == 0);
	assert_int_equal(count_of("ls ev/refrelay/failed"), 0);
	assert_int_equal(count_of("ls dst"), 0);
	must("git -C site/p.git symbolic-ref HEAD refs/heads/main");
	tell_of_head(&node, "refs/heads/main");
	wait_until(is_true("test -e dst/p.git/refs/heads/main"));
	wait_until(is_all_done());
	close_node(&node);
}

TEST(a_head_that_is_set_while_its_repository_is_left_out_is_not_forgotten)
{
	struct node node = { 0 };

	make_source("p");
	must("cp -r site/p.git dst && cp site/p.git/refs/keep/two dst/p.git/refs/heads/x "
	     "&& git -C site/p.git symbolic-ref HEAD refs/meta/config");
	next_head = "ref: refs/heads/x\n";
	open_node(&node, "a", settings_with("replicatePermissions = false\n"));
	request(&node, "p", REQUEST_HEAD);
	add_task(&node, "p", TASK_ALL_REFS);
	start_push(&node, "a");
	wait_until(is_all_done() && count_of("ls ev/refrelay/requests") == 0);
	assert_true(is_true("grep refs/heads/x dst/p.git/HEAD"));
	close_node(&node);
}

TEST(what_is_refused_becomes_a_dead_letter_and_the_rest_goes)
{
	struct node node = { 0 };
	dead_letters letters = { 0 };

	make_source("p");
	must("cp -r site/p.git dst && cp dst/p.git/refs/keep/two "
	     "dst/p.git/refs/heads/main && cp site/p.git/refs/heads/main "
	     "site/p.git/refs/heads/x");
	start_node(&node, "a", settings_with(""));
	add_task(&node, "p", "refs/heads/main refs/heads/x");
	wait_until(count_letters(&node, &letters) == 1);
	wait_until(is_all_done());
	assert_int_equal(letters.items[0].refs.count, 1);
	assert_string_equal(letters.items[0].refs.items[0].ref, "refs/heads/main");
	assert_true(is_true("test -e dst/p.git/refs/heads/x"));
	assert_true(is_true("cmp dst/p.git/refs/heads/main dst/p.git/refs/keep/two"));
	assert_non_null(strstr(letters.items[0].why.remedy, "gerrit.defaultForceUpdate"));
	/* The same again, by a task of all refs: it is told of once. */
	add_task(&node, "p", TASK_ALL_REFS);
	wait_until(count_letters(&node, &letters) == 1 &&
		   task_is_all(&letters.items[0].task));
	assert_int_equal(letters.items[0].refs.count, 1);
	dead_letters_clear(&letters);
	close_node(&node);
}

TEST(a_locked_ref_is_tried_as_often_as_is_set)
{
	struct node node = { 0 };
	dead_letters letters = { 0 };

	make_source("p");
	make_target("p");
	must("touch dst/p.git/refs/heads/main.lock");
	start_node(&node, "a",
		   settings_with("replicationRetry = 1 s\n"
				 "[replication]\nupdateRefErrorMaxRetries = 1\n"));
	add_task(&node, "p", "refs/heads/main");
	wait_until(count_letters(&node, &letters) == 1);
	wait_until(is_all_done());
	assert_int_equal(count_of("cat begun"), 2);
	dead_letters_clear(&letters);
	close_node(&node);
}

TEST(a_stop_ends_a_push_and_its_task_waits_again)
{
	struct node node = { 0 };

	make_source("p");
	make_target("p");
	must("touch hold");
	start_node(&node, "a", settings_with(""));
	add_task(&node, "p", "refs/heads/main");
	wait_until(is_true("test -s begun"));
	waiting_syncs = 0;
	int64_t began = clock_boot_ms();
	push_stop(TAKE(node.push), 0);
	assert_true(clock_boot_ms() - began < 30000);
	assert_int_equal(waiting_syncs, 1); /* no power failure loses it */
	assert_int_equal(count_of(WAITING), 1);
	assert_int_equal(count_of(RUNNING), 0);
	must("rm -f hold && rm -rf busy/*");
	start_push(&node, "a");
	wait_until(is_all_done());
	assert_true(is_true("test -e dst/p.git/refs/heads/main"));
	close_node(&node);
}

static void seen_by_others(void *arg, const struct waiting_uri *waiting)
{
	size_t *count = arg;

	*count += waiting->tasks;
}

/* As by a distributor that was stopped before it heard that the task had moved. */
TEST(a_task_that_the_store_has_told_of_is_pushed_by_the_next_distributor)
{
	struct node node = { 0 };
	size_t told = 0;

	make_source("p");
	make_target("p");
	open_node(&node, "a", settings_with(""));
	add_task(&node, "p", "refs/heads/main");
	assert_ok(task_store_refresh(node.tasks, seen_by_others, NULL, &told, &err));
	assert_int_equal(told, 1);
	start_push(&node, "a");
	wait_until(is_all_done());
	assert_true(is_true("test -e dst/p.git/refs/heads/main"));
	close_node(&node);
}

TEST(what_waits_for_a_remote_that_is_drained_is_pushed_before_a_stop)
{
	struct node node = { 0 };

	make_source("p");
	make_target("p");
	start_node(&node, "a",
		   settings_with("replicationDelay = 1\ndrainQueueAttempts = 10\n"));
	add_task(&node, "p", "refs/heads/main");
	wait_until(({
		struct push_look look;
		push_look(node.push, &look);
		look.waiting_uris == 1;
	}));
	push_stop(TAKE(node.push), PATIENCE_MS);
	assert_true(is_all_done());
	assert_true(is_true("test -e dst/p.git/refs/heads/main"));
	close_node(&node);
}

TEST(what_a_dead_node_left_running_is_pushed)
{
	struct node node = { 0 };

	make_source("p");
	make_target("p");
	open_node(&node, "a", settings_with(""));
	add_task(&node, "p", "refs/heads/main");
	must("cd ev/ref-updates && f=$(ls waiting) && "
	     "u=$(printf %%s %s/dst/p.git | sha1sum | cut -c1-40) && "
	     "mkdir running/$u && mv waiting/$f running/$u/",
	     root);
	start_push(&node, "b");
	wait_until(is_all_done());
	assert_int_equal(count_of("cat begun"), 1);
	close_node(&node);
}

TEST(what_a_living_node_runs_is_left_alone)
{
	struct node a = { 0 }, b = { 0 };

	make_source("p");
	make_target("p");
	must("touch hold");
	start_node(&a, "a", settings_with(""));
	add_task(&a, "p", "refs/heads/main");
	wait_until(is_true("test -s begun"));
	start_node(&b, "b", settings_with("[replication]\ndistributionInterval = 1\n"));
	usleep(300000);
	push_wake(b.push);
	usleep(300000);
	assert_int_equal(count_of(RUNNING), 1);
	assert_int_equal(count_of(WAITING), 0);
	must("rm hold");
	wait_until(is_all_done());
	assert_int_equal(count_of("cat begun"), 1);
	close_node(&b);
	close_node(&a);
}

TEST(who_loses_the_lease_moves_nothing_and_another_pushes)
{
	struct node a = { 0 }, b = { 0 };
	AUTO_FREE char *uri = xasprintf("%s/dst/p.git", root);
	char key[] = PUSH_URI_LEASE "0123456789012345678901234567890123456789";
	struct lease_holder holder;

	make_source("p");
	make_target("p");
	must("touch hold");
	ttl_ms = 12000; /* it is not lost before that */
	start_node(&a, "a", settings_with(""));
	start_node(&b, "b", settings_with(""));
	ttl_ms = 0;
	push_stop(TAKE(b.push), 0);
	add_task(&a, "p", "refs/heads/main");
	wait_until(is_true("test -s begun"));
	uri_key_of(uri, key + strlen(PUSH_URI_LEASE));
	must("pgrep -f \"receive-pack.*$PWD/dst\" >children");
	assert_ok(lease_inspect(b.leases, key, &holder, &err));
	assert_ok(lease_force_release(b.leases, key, holder.fence, "me", "test", &err));
	/* These are killed when it finds out. There may be others soon: it recovers the
	 * task itself, under another lease. */
	wait_until(!is_true("for pid in $(cat children); do"
			    " kill -0 $pid && exit 0; done; exit 1"));
	/* or has recovered it already, perhaps between two looks */
	wait_until(count_of(RUNNING) + count_of(WAITING) == 1);
	must("rm -rf hold busy/*");
	start_push(&b, "b");
	wait_until(count_of("cat begun") == 2);
	wait_until(is_all_done());
	assert_true(is_true("test -e dst/p.git/refs/heads/main"));
	close_node(&b);
	close_node(&a);
}

TEST(replicate_on_startup_is_once_a_cluster)
{
	const char *lines = "replicationDelay = 3600\n"
			    "[gerrit]\nreplicateOnStartup = true\n";
	struct node a = { 0 }, b = { 0 };

	start_node(&a, "a", settings_with(lines));
	wait_until(count_of(WAITING) == 2);
	wait_until(is_present(&a, "a"));
	must("rm ev/ref-updates/waiting/*");
	start_node(&b, "b", settings_with(lines));
	wait_until(is_present(&b, "b"));
	assert_int_equal(count_of(WAITING), 0);
	close_node(&b);
	close_node(&a);
	start_node(&b, "b", settings_with(lines));
	wait_until(count_of(WAITING) == 2);
	close_node(&b);
}

TEST(replicate_on_startup_is_once_also_if_the_node_cannot_be_present)
{
	const char *lines = "replicationDelay = 3600\n"
			    "[gerrit]\nreplicateOnStartup = true\n";
	struct node node = { 0 };
	int refused;

	is_presence_refused = true;
	start_node(&node, "a", settings_with(lines));
	wait_until(count_of(WAITING) == 2);
	wait_until(presences_refused > 0);
	must("rm ev/ref-updates/waiting/*");
	refused = presences_refused;
	wait_until(presences_refused >= refused + 2);
	assert_int_equal(count_of(WAITING), 0);
	is_presence_refused = false;
	wait_until(is_present(&node, "a"));
	close_node(&node);
}

/* How often the distributor has gone to sleep; 0: it does not sleep. */
static size_t sleeps(void)
{
	AUTO_FREE char *text =
		output_of("cd /proc/%d/task && cat $(dirname $(grep -lx "
			  "distributor */comm))/status | sed -n "
			  "'/^State:.[^S]/q; s/^voluntary_ctxt_switches:.//p'",
			  getpid());

	return (size_t)atol(text);
}

/* It has gone to sleep when nothing changes for a while. */
static size_t sleeps_at_rest(void)
{
	int64_t until = clock_boot_ms() + 20000;
	size_t before, now = sleeps();

	do {
		before = now;
		usleep(100000);
		now = sleeps();
	} while ((now != before || now == 0) && clock_boot_ms() < until);
	return now;
}

/* What was late at its work may look like rest for once. */
TEST(an_idle_node_does_not_wake)
{
	struct node node = { 0 };
	size_t before = 0, after = 1;

	start_node(&node, "a", settings_with(""));
	wait_until(is_present(&node, "a"));
	for (int i = 0; i < 3 && after != before; i++) {
		before = sleeps_at_rest();
		usleep(500000);
		after = sleeps();
	}
	assert_true(before > 0);
	assert_int_equal(after, before);
	close_node(&node);
}

TEST(starting_removes_what_a_killed_node_pushed_from)
{
	AUTO_FREE char *view = xasprintf("%s/data/tmp/view-dead", root);
	struct node node = { 0 };

	must("mkdir -p data/tmp/view-dead && touch -d '1 hour ago' data/tmp/view-dead");
	start_node(&node, "a", settings_with(""));
	assert_int_equal(access(view, F_OK), -1);
	close_node(&node);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_CASE(fifty_changes_within_the_delay_are_one_push),
		ENGINE_CASE(without_delay_a_change_is_pushed_at_once),
		ENGINE_CASE(a_change_during_a_push_is_pushed_by_a_second_one_after_it),
		ENGINE_CASE(an_unreachable_url_is_tried_once_more_and_then_given_up),
		ENGINE_CASE(a_failure_that_cannot_be_written_is_tried_again_at_its_time),
		ENGINE_CASE(what_cannot_be_given_up_counts_as_failed),
		ENGINE_CASE(what_was_refused_and_cannot_be_put_away_counts_as_failed),
		ENGINE_CASE(two_nodes_push_each_ref_once_and_never_two_at_a_time),
		ENGINE_CASE(a_task_of_no_remote_stays_until_the_settings_have_one),
		ENGINE_CASE(a_task_of_a_renamed_remote_goes_where_its_url_says),
		ENGINE_CASE(
			tasks_of_a_missing_repository_are_given_up_once_it_is_known_to_be_deleted),
		ENGINE_CASE(a_node_whose_tree_is_away_leaves_the_work_to_another_one),
		ENGINE_CASE(a_missing_destination_is_made_with_our_head),
		ENGINE_CASE(
			that_an_admin_url_fails_is_not_booked_on_the_destinations_host),
		ENGINE_CASE(a_destination_that_is_made_anew_gets_all_refs_by_one_push),
		ENGINE_CASE(
			a_repository_of_permissions_is_not_pushed_where_they_are_not_replicated),
		ENGINE_CASE(
			a_head_that_is_set_while_its_repository_is_left_out_is_not_forgotten),
		ENGINE_CASE(what_is_refused_becomes_a_dead_letter_and_the_rest_goes),
		ENGINE_CASE(a_locked_ref_is_tried_as_often_as_is_set),
		ENGINE_CASE(a_stop_ends_a_push_and_its_task_waits_again),
		ENGINE_CASE(
			a_task_that_the_store_has_told_of_is_pushed_by_the_next_distributor),
		ENGINE_CASE(
			what_waits_for_a_remote_that_is_drained_is_pushed_before_a_stop),
		ENGINE_CASE(what_a_dead_node_left_running_is_pushed),
		ENGINE_CASE(what_a_living_node_runs_is_left_alone),
		ENGINE_CASE(who_loses_the_lease_moves_nothing_and_another_pushes),
		ENGINE_CASE(replicate_on_startup_is_once_a_cluster),
		ENGINE_CASE(
			replicate_on_startup_is_once_also_if_the_node_cannot_be_present),
		ENGINE_CASE(an_idle_node_does_not_wake),
		ENGINE_CASE(starting_removes_what_a_killed_node_pushed_from),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
