/*
 * Nodes that push with real git to paths on this machine. The hook of the destinations
 * is the witness: it notes what it was sent, when it begins and ends, and waits for a
 * file if there is a file "hold".
 */
#include "git_test.h"

#include "base/metrics.h"
#include "git/git_child.h"
#include "lease/directory.h"
#include "push/dead_letters.h"
#include "push/push.h"
#include "push/task_list.h"
#include "push/uri_state.h"

#define PATIENCE_MS 30000

struct node {
	struct task_store *tasks;
	struct lease_manager *leases;
	struct push_settings *settings;
	struct push *push;
	char site[96], data[96];
};

static const char hook[] = "#!/bin/sh\n"
			   "d=${PWD##*/}\n"
			   "mkdir ../../busy/$d || echo $d >>../../overlaps\n"
			   "echo $d >>../../begun\n"
			   "while read old new ref; do echo $d $ref >>../../refs; done\n"
			   "while test -e ../../hold; do sleep 0.02; done\n"
			   "rmdir ../../busy/$d\n"
			   "echo $d >>../../ended\n";

static int make_site(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	log_set_level(getenv("SHOW_TIMES") ? LOG_LEVEL_INFO : LOG_LEVEL_NONE);
	assert_ok(git_setup(root, &err));
	must("mkdir site dst data busy template template/hooks");
	assert_ok(file_replace(root_fd, "template/hooks/pre-receive", hook, strlen(hook),
			       FILE_NO_SYNC, &err));
	must("chmod +x template/hooks/pre-receive");
	return 0;
}

static void make_source(const char *name)
{
	must("git init -q --bare -b main site/%s.git && cd site/%s.git && "
	     "tree=$(git hash-object -wt tree /dev/null) && "
	     "c=$(git -c user.name=a -c user.email=a@b commit-tree -m one $tree) && "
	     "d=$(git -c user.name=a -c user.email=a@b commit-tree -m two -p $c $tree) "
	     "&& git update-ref refs/heads/main $c && git update-ref refs/keep/two $d",
	     name, name);
}

static void make_target(const char *name)
{
	must("git init -q --bare -b main --template=template dst/%s.git", name);
}

static struct push_settings *read_settings(const char *text)
{
	AUTO_FREE char *data = xasprintf("%s/data", root);
	AUTO_FREE char *all = xasprintf("[replication]\nrandomDelay = 0\n"
					"eventsDirectory = %s/ev\n%s",
					root, text);
	AUTO_CONF struct conf *conf = NULL;
	struct push_settings *settings;

	assert_ok(conf_load_text("test", all, strlen(all), &conf, &err));
	assert_ok(push_settings_read(conf, data, &settings, &err));
	for (size_t i = 0; i < settings->remotes.count; i++)
		settings->remotes.items[i].reschedule_ms = 200;
	return settings;
}

/* A remote "m" of dst/, with more lines. */
static struct push_settings *settings_with(const char *lines)
{
	AUTO_FREE char *text =
		xasprintf("[remote \"m\"]\nurl = %s/dst/${name}.git\n"
			  "push = refs/heads/*:refs/heads/*\nreplicationDelay = 0\n%s",
			  root, lines);

	return read_settings(text);
}

static int names(void *arg, text_list *list, struct err *e)
{
	(void)arg;
	(void)e;
	vec_add(list, xstrdup("p"));
	vec_add(list, xstrdup("q"));
	return 0;
}

static int64_t ttl_ms; /* 0: as usual */

static void open_node(struct node *node, const char *name, struct push_settings *settings)
{
	AUTO_FREE char *events = xasprintf("%s/ev", root);
	AUTO_FREE char *leases = xasprintf("%s/ev/leases", root);

	node->settings = settings;
	assert_ok(task_store_open(events, &node->tasks, &err));
	assert_ok(lease_manager_open_directory(
		&(struct lease_options){
			.directory = leases, .node = name, .ttl_ms = ttl_ms },
		&node->leases, &err));
}

static void start_push(struct node *node, const char *name)
{
	snprintf(node->site, sizeof(node->site), "%s/site", root);
	snprintf(node->data, sizeof(node->data), "%s/data", root);
	assert_ok(push_start(&(struct push_options){ .tasks = node->tasks,
						     .leases = node->leases,
						     .root = node->site,
						     .data = node->data,
						     .node = name,
						     .settings = node->settings,
						     .delete_brake = 0.5,
						     .names = names },
			     &node->push, &err));
}

static void start_node(struct node *node, const char *name,
		       struct push_settings *settings)
{
	open_node(node, name, settings);
	start_push(node, name);
}

static void close_node(struct node *node)
{
	push_stop(node->push, 0);
	lease_manager_close(node->leases);
	task_store_close(node->tasks);
	push_settings_unref(node->settings);
	*node = (struct node){ 0 };
}

/* A task for refs in one line, to the first URL of the first remote. */
static void add_task(const struct node *node, const char *project, const char *line)
{
	AUTO_DESTINATION struct destination to = { 0 };
	const struct push_remote *remote = &node->settings->remotes.items[0];
	AUTO_TASK struct task task = { 0 };
	AUTO_FREE char *text = xstrdup(line);
	char *rest = text, *word;
	bool is_new;

	assert_ok(destination_make(remote, 0, project, &to, &err));
	task.project = xstrdup(project);
	task.remote = xstrdup(remote->name);
	task.uri = xstrdup(to.uri);
	while ((word = strsep(&rest, " ")) != NULL)
		vec_add(&task.refs, xstrdup(word));
	assert_ok(task_store_add(node->tasks, &task, 0, &is_new, &err));
}

static void request(const struct node *node, const char *project, enum uri_request what)
{
	AUTO_DESTINATION struct destination to = { 0 };

	assert_ok(destination_make(&node->settings->remotes.items[0], 0, project, &to,
				   &err));
	assert_ok(uri_request_add(node->tasks, &to, what, &err));
}

static size_t count_of(const char *command)
{
	AUTO_FREE char *text = output_of("{ %s; } 2>/dev/null | wc -l", command);

	return (size_t)atoi(text);
}

static bool is_true(const char *condition)
{
	return run("{ %s; } >/dev/null 2>&1", condition) == 0;
}

#define WAITING "ls ev/ref-updates/waiting"
#define RUNNING "find ev/ref-updates/running -type f"

/* What moves may be missed by one look, but not by all. */
static bool is_all_done(void)
{
	for (int i = 0; i < 4; i++)
		if (count_of("find ev/ref-updates/waiting ev/ref-updates/running "
			     "-type f") > 0)
			return false;
	return true;
}

static size_t count_letters(const struct node *node, dead_letters *letters)
{
	dead_letters_clear(letters);
	assert_ok(task_store_dead_letters(node->tasks, letters, &err));
	return letters->count;
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
	assert_true(clock_boot_ms() - began < 3000);
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

TEST(tasks_of_a_missing_repository_are_given_up_unless_the_whole_tree_is_away)
{
	struct node node = { 0 };
	dead_letters letters = { 0 };

	start_node(&node, "a", settings_with("replicationRetry = 1 s"));
	add_task(&node, "gone", "refs/heads/main");
	wait_until(is_true("test -n \"$(ls -p ev/refrelay | grep -v /)\""));
	assert_int_equal(count_letters(&node, &letters), 0);
	make_source("p"); /* the tree is there again */
	wait_until(count_letters(&node, &letters) == 1);
	assert_int_equal(letters.items[0].why.class, ERR_MISSING);
	assert_non_null(strstr(letters.items[0].why.text, "local repository is missing"));
	dead_letters_clear(&letters);
	close_node(&node);
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
	int64_t began = clock_boot_ms();
	push_stop(TAKE(node.push), 0);
	assert_true(clock_boot_ms() - began < 5000);
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
	ttl_ms = 3000;
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

/* As if it had been made then: it waits for others, for a while. */
static void request_deletion(const struct node *node, const char *project, int ago_s)
{
	request(node, project, REQUEST_DELETE);
	must("touch -d '%d seconds ago' $(grep -l '\"%s\"' "
	     "ev/refrelay/requests/*.delete)",
	     ago_s, project);
}

TEST(deletion_and_head_are_done_when_asked_for)
{
	struct node node = { 0 };

	make_source("p");
	make_source("q");
	must("cp -r site/p.git dst && mkdir keep && mv site/p.git keep/ && "
	     "cp -r site/q.git dst && "
	     "git -C site/q.git symbolic-ref HEAD refs/heads/new");
	open_node(&node, "a", settings_with("replicateProjectDeletions = true\n"));
	request_deletion(&node, "p", 10);
	request(&node, "q", REQUEST_HEAD);
	start_push(&node, "a");
	wait_until(!is_true("test -e dst/p.git"));
	wait_until(is_true("grep -q heads/new dst/q.git/HEAD"));
	wait_until(count_of("ls ev/refrelay/requests") == 0);
	close_node(&node);
}

TEST(a_head_that_a_dead_node_had_begun_to_set_is_set)
{
	struct node node = { 0 };

	make_source("p");
	must("cp -r site/p.git dst && "
	     "git -C site/p.git symbolic-ref HEAD refs/heads/new");
	open_node(&node, "a", settings_with(""));
	request(&node, "p", REQUEST_HEAD);
	must("cd ev/refrelay/requests && mv *.head $(ls *.head)-now");
	start_push(&node, "a");
	wait_until(is_true("grep -q heads/new dst/p.git/HEAD"));
	wait_until(count_of("ls ev/refrelay/requests") == 0);
	close_node(&node);
}

TEST(a_head_that_is_not_set_is_requested_under_its_first_name)
{
	struct node node = { 0 };

	make_source("p");
	must("cp -r site/p.git dst && touch dst/p.git/HEAD.lock && "
	     "git -C site/p.git symbolic-ref HEAD refs/heads/new");
	open_node(&node, "a", settings_with(""));
	request(&node, "p", REQUEST_HEAD);
	start_push(&node, "a");
	wait_until(is_true("grep -qsE '\"failures\":[1-9]' ev/refrelay/*"));
	must("ls ev/refrelay/requests/*.head");
	close_node(&node);
	must("ls ev/refrelay/requests/*.head");
}

TEST(refs_do_not_wait_for_a_head_that_cannot_be_set)
{
	struct node node = { 0 };

	make_source("p");
	must("cp -r site/p.git dst && touch dst/p.git/HEAD.lock && "
	     "git -C site/p.git symbolic-ref HEAD refs/heads/new");
	open_node(&node, "a", settings_with("replicationRetry = 1 hour\n"));
	request(&node, "p", REQUEST_HEAD);
	start_push(&node, "a");
	wait_until(is_true("grep -qs '\"failures\":1,' ev/refrelay/*"));
	must("cp site/p.git/refs/keep/two site/p.git/refs/heads/main");
	add_task(&node, "p", "refs/heads/main");
	wait_until(is_true("cmp -s dst/p.git/refs/heads/main site/p.git/refs/keep/two"));
	must("cp site/p.git/refs/keep/two site/p.git/refs/heads/later");
	add_task(&node, "p", "refs/heads/later");
	wait_until(is_true("test -e dst/p.git/refs/heads/later"));
	wait_until(is_all_done());
	/* It keeps its own time, beside that of refs, and is tried again on demand. */
	must("ls ev/refrelay/requests/*.head >/dev/null && grep -s '\"failures\":1,' "
	     "ev/refrelay/* | grep -q 'last_success_at\":[1-9]'");
	must("rm dst/p.git/HEAD.lock && "
	     "sed -i 's/\"retry_at\":[0-9]*/\"retry_at\":1/' "
	     "ev/refrelay/[0-9a-f][0-9a-f][0-9a-f]*");
	push_wake(node.push);
	wait_until(is_true("grep -q heads/new dst/p.git/HEAD"));
	wait_until(count_of("ls ev/refrelay/requests") == 0);
	close_node(&node);
}

/* It was deleted, or renamed, after its HEAD was set. */
TEST(the_head_of_what_is_gone_waits_for_nothing)
{
	struct node node = { 0 };

	make_source("p");
	make_source("q");
	must("cp -r site/p.git dst && rm -r site/p.git");
	open_node(&node, "a", settings_with(""));
	request(&node, "p", REQUEST_HEAD);
	start_push(&node, "a");
	wait_until(count_of("ls ev/refrelay/requests") == 0);
	close_node(&node);
}

TEST(a_repository_that_came_back_is_not_deleted)
{
	struct node node = { 0 };

	make_source("p");
	must("cp -r site/p.git dst");
	open_node(&node, "a", settings_with("replicateProjectDeletions = true\n"));
	request_deletion(&node, "p", 10);
	start_push(&node, "a");
	wait_until(count_of("ls ev/refrelay/requests") == 0);
	assert_true(is_true("test -e dst/p.git/HEAD"));
	close_node(&node);
}

static struct push_settings *settings_of_deletions(void)
{
	return settings_with("replicateProjectDeletions = true\nthreads = 4\n");
}

/* They are not there, but at the destination. */
static void delete_twelve(struct node *node)
{
	make_source("q");
	open_node(node, "a", settings_of_deletions());
	for (int i = 0; i < 12; i++) {
		AUTO_FREE char *name = xasprintf("d%d", i);
		must("cp -r site/q.git dst/%s.git", name);
		request_deletion(node, name, 10);
	}
}

/* names() says that two are left. */
#define HELD "grep -l 'held: 12 repositories of 14' ev/refrelay/[0-9a-f][0-9a-f][0-9a-f]*"

TEST(many_deleted_repositories_are_held_until_a_person_allows_them)
{
	struct node node = { 0 };
	AUTO_URI_STATE struct uri_state held = { 0 };
	AUTO_DESTINATION struct destination to = { 0 };

	delete_twelve(&node);
	start_push(&node, "a");
	wait_until(count_of(HELD) == 12);
	assert_int_equal(count_of("ls dst"), 12);
	assert_ok(destination_make(&node.settings->remotes.items[0], 0, "d0", &to, &err));
	assert_int_equal(uri_state_read(node.tasks, to.uri_key, &held, &err), 1);
	assert_int_equal(held.failure.class, ERR_CONFLICT);
	assert_string_equal(held.failure.remedy,
			    "if that is right: refrelay push retry --force --remote m");
	/* Two are allowed: that leaves ten, but these were held. */
	request(&node, "d0", REQUEST_FORCE);
	request(&node, "d1", REQUEST_FORCE);
	wait_until(count_of("ls dst") == 10);
	wait_until(count_of("ls ev/refrelay/requests") == 10);
	must("sed -i 's/\"retry_at\":[0-9]*/\"retry_at\":1/' "
	     "ev/refrelay/[0-9a-f][0-9a-f][0-9a-f]*");
	push_wake(node.push);
	wait_until(!is_true(
		"grep -q '\"retry_at\":1,' ev/refrelay/[0-9a-f][0-9a-f][0-9a-f]*"));
	assert_int_equal(count_of("ls dst"), 10);
	close_node(&node);
}

TEST(what_came_back_is_pushed_although_its_deletion_was_held)
{
	struct node node = { 0 };

	delete_twelve(&node);
	start_push(&node, "a");
	wait_until(count_of(HELD) == 12);
	AUTO_DESTINATION struct destination to = { 0 };
	assert_ok(destination_make(&node.settings->remotes.items[0], 0, "d3", &to, &err));
	must("cp -r site/q.git site/d3.git && cd site/d3.git && "
	     "cp refs/keep/two refs/heads/main");
	assert_ok(uri_request_remove(node.tasks, to.uri_key, REQUEST_DELETE, &err));
	add_task(&node, "d3", TASK_ALL_REFS);
	wait_until(is_true("cmp dst/d3.git/refs/heads/main site/d3.git/refs/heads/main"));
	assert_int_equal(count_of("ls dst"), 12);
	close_node(&node);
}

/* What stands for ssh fails once for each node, as if nobody listened there. */
static void make_ssh(void)
{
	AUTO_FREE char *path = xasprintf("%s/bin:%s", root, getenv("PATH"));

	must("mkdir bin && printf '#!/bin/sh\nfor line; do :; done\n"
	     "mkdir %s/bin/failed 2>/dev/null || exec sh -c \"$line\"\n"
	     "echo \"Connection refused\" >&2\nexit 255\n' >bin/ssh && chmod +x bin/ssh",
	     root);
	setenv("PATH", path, 1);
}

TEST(a_deletion_or_head_that_succeeds_tells_that_its_host_is_back)
{
	AUTO_FREE char *remote =
		xasprintf("[remote \"m\"]\nurl = "
			  "ssh://far%s/dst/${name}.git\nreplicationDelay = 0\n"
			  "replicationRetry = 1 hour\nreplicateProjectDeletions = true\n",
			  root);

	make_ssh();
	make_source("q");
	for (int is_head = 0; is_head <= 1; is_head++) {
		struct node node = { 0 };
		open_node(&node, "a", read_settings(remote));
		for (int i = 0; i < 6; i++) {
			AUTO_FREE char *name = xasprintf("d%d", i);
			must("cp -r site/q.git dst/%s.git && cp -r site/q.git %s/%s.git",
			     name, is_head ? "site" : "data", name);
			request(&node, name, is_head ? REQUEST_HEAD : REQUEST_DELETE);
		}
		must("touch -d '10 seconds ago' ev/refrelay/requests/*");
		start_push(&node, "a");
		wait_until(count_of("ls ev/refrelay/requests") == 0);
		must("rmdir bin/failed");
		close_node(&node);
	}
}

/* As a scan finds one after the other. */
TEST(a_deletion_waits_for_those_that_come_with_it)
{
	struct node node = { 0 };

	delete_twelve(&node);
	must("touch ev/refrelay/requests/*");
	request_deletion(&node, "d0", 30);
	start_push(&node, "a");
	usleep(500000);
	assert_int_equal(count_of("ls dst"), 12);
	assert_int_equal(count_of(HELD), 0);
	close_node(&node);
}

TEST(many_deletions_are_given_up_alone_until_a_person_allows_them)
{
	struct node node = { 0 };
	dead_letters letters = { 0 };

	make_source("p");
	must("cp -r site/p.git dst && cd dst/p.git && for i in $(seq 30); do "
	     "cp refs/heads/main refs/heads/b$i; done");
	must("cp site/p.git/refs/keep/two site/p.git/refs/heads/main");
	start_node(&node, "a", settings_with("mirror = true\n"));
	add_task(&node, "p", TASK_ALL_REFS);
	wait_until(count_letters(&node, &letters) == 1);
	wait_until(is_all_done());
	assert_int_equal(letters.items[0].why.class, ERR_CONFLICT);
	assert_non_null(strstr(letters.items[0].why.text, "would delete 30 of 31 refs"));
	assert_non_null(strstr(letters.items[0].why.remedy, "push retry --force"));
	assert_int_equal(letters.items[0].refs.count, 30);
	assert_int_equal(count_of("ls dst/p.git/refs/heads"), 31);
	assert_true(is_true("cmp dst/p.git/refs/heads/main site/p.git/refs/keep/two"));
	must("cp site/p.git/refs/heads/main site/p.git/refs/heads/later");
	add_task(&node, "p", "refs/heads/later");
	wait_until(is_true("test -e dst/p.git/refs/heads/later"));
	wait_until(is_all_done());
	push_stop(node.push, 0);
	request(&node, "p", REQUEST_FORCE);
	assert_ok(task_store_retry(node.tasks, letters.items[0].key, &err));
	start_push(&node, "a");
	wait_until(is_all_done() && count_letters(&node, &letters) == 0);
	assert_int_equal(count_of("ls dst/p.git/refs/heads"), 2);
	wait_until(count_of("ls ev/refrelay/requests") == 0);
	close_node(&node);
}

/* How often the distributor has gone to sleep. */
static size_t sleeps(void)
{
	AUTO_FREE char *text = output_of("cd /proc/%d/task && cat $(dirname $(grep -lx "
					 "distributor */comm))/status "
					 "| sed -n 's/^voluntary_ctxt_switches:.//p'",
					 getpid());

	return (size_t)atol(text);
}

TEST(an_idle_node_does_not_wake)
{
	struct node node = { 0 };

	start_node(&node, "a", settings_with(""));
	wait_until(is_present(&node, "a"));
	usleep(100000);
	size_t before = sleeps();
	usleep(500000);
	assert_true(before > 0);
	assert_int_equal(sleeps(), before);
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

#define ENGINE_CASE(name)                                                                \
	cmocka_unit_test_setup_teardown(name, make_site, test_remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_CASE(fifty_changes_within_the_delay_are_one_push),
		ENGINE_CASE(without_delay_a_change_is_pushed_at_once),
		ENGINE_CASE(a_change_during_a_push_is_pushed_by_a_second_one_after_it),
		ENGINE_CASE(an_unreachable_url_is_tried_once_more_and_then_given_up),
		ENGINE_CASE(two_nodes_push_each_ref_once_and_never_two_at_a_time),
		ENGINE_CASE(a_task_of_no_remote_stays_until_the_settings_have_one),
		ENGINE_CASE(a_task_of_a_renamed_remote_goes_where_its_url_says),
		ENGINE_CASE(
			tasks_of_a_missing_repository_are_given_up_unless_the_whole_tree_is_away),
		ENGINE_CASE(a_missing_destination_is_made_with_our_head),
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
		ENGINE_CASE(deletion_and_head_are_done_when_asked_for),
		ENGINE_CASE(a_head_that_a_dead_node_had_begun_to_set_is_set),
		ENGINE_CASE(a_head_that_is_not_set_is_requested_under_its_first_name),
		ENGINE_CASE(refs_do_not_wait_for_a_head_that_cannot_be_set),
		ENGINE_CASE(the_head_of_what_is_gone_waits_for_nothing),
		ENGINE_CASE(a_repository_that_came_back_is_not_deleted),
		ENGINE_CASE(
			many_deleted_repositories_are_held_until_a_person_allows_them),
		ENGINE_CASE(what_came_back_is_pushed_although_its_deletion_was_held),
		ENGINE_CASE(a_deletion_or_head_that_succeeds_tells_that_its_host_is_back),
		ENGINE_CASE(a_deletion_waits_for_those_that_come_with_it),
		ENGINE_CASE(an_idle_node_does_not_wake),
		ENGINE_CASE(starting_removes_what_a_killed_node_pushed_from),
		ENGINE_CASE(many_deletions_are_given_up_alone_until_a_person_allows_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
