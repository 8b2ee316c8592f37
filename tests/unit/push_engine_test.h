/* Nodes that push with real git to paths on this machine. */
#ifndef PUSH_ENGINE_TEST_H
#define PUSH_ENGINE_TEST_H

#include "git_test.h"

#include "git/git_child.h"
#include "lease/directory.h"
#include "push/dead_letters.h"
#include "push/push.h"
#include "push/uri_state.h"

#define WAITING "ls ev/ref-updates/waiting"

struct node {
	struct task_store *tasks;
	struct lease_manager *leases;
	struct push_settings *settings;
	struct push *push;
	char site[96], data[96];
};

static bool is_away; /* what is not found was not deleted */

static inline int make_site(void **state)
{
	is_away = false;
	if (test_make_root(state) != 0)
		return -1;
	log_set_level(getenv("SHOW_TIMES") ? LOG_LEVEL_INFO : LOG_LEVEL_NONE);
	assert_ok(git_setup(root, &err));
	must("mkdir site dst data busy");
	return 0;
}

static inline void make_source(const char *name)
{
	must("git init -q --bare -b main site/%s.git && cd site/%s.git && "
	     "tree=$(git hash-object -wt tree /dev/null) && "
	     "c=$(git -c user.name=a -c user.email=a@b commit-tree -m one $tree) && "
	     "d=$(git -c user.name=a -c user.email=a@b commit-tree -m two -p $c $tree) "
	     "&& git update-ref refs/heads/main $c && git update-ref refs/keep/two $d",
	     name, name);
}

static inline struct push_settings *read_settings(const char *text)
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
static inline struct push_settings *settings_with(const char *lines)
{
	AUTO_FREE char *text =
		xasprintf("[remote \"m\"]\nurl = %s/dst/${name}.git\n"
			  "push = refs/heads/*:refs/heads/*\nreplicationDelay = 0\n%s",
			  root, lines);

	return read_settings(text);
}

static inline int names(void *arg, text_list *list, struct err *e)
{
	(void)arg;
	(void)e;
	vec_add(list, xstrdup("p"));
	vec_add(list, xstrdup("q"));
	return 0;
}

static int64_t ttl_ms; /* 0: as usual */

static inline void open_node(struct node *node, const char *name,
			     struct push_settings *settings)
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

static inline bool says_deleted(void *arg, const char *name, struct err *why)
{
	(void)arg;
	if (is_away)
		err_set(why, ERR_DISK, "the file system of %s is not mounted", name);
	return !is_away;
}

static inline void start_push_in(struct node *node, const char *name, const char *site)
{
	snprintf(node->site, sizeof(node->site), "%s/%s", root, site);
	snprintf(node->data, sizeof(node->data), "%s/data", root);
	assert_ok(push_start(&(struct push_options){ .tasks = node->tasks,
						     .leases = node->leases,
						     .root = node->site,
						     .data = node->data,
						     .node = name,
						     .settings = node->settings,
						     .delete_brake = 0.5,
						     .names = names,
						     .is_deleted = says_deleted },
			     &node->push, &err));
}

static inline void start_push(struct node *node, const char *name)
{
	start_push_in(node, name, "site");
}

static inline void start_node(struct node *node, const char *name,
			      struct push_settings *settings)
{
	open_node(node, name, settings);
	start_push(node, name);
}

static inline void close_node(struct node *node)
{
	push_stop(node->push, 0);
	lease_manager_close(node->leases);
	task_store_close(node->tasks);
	push_settings_unref(node->settings);
	*node = (struct node){ 0 };
}

/* A task for refs in one line, to the first URL of the first remote. */
static inline void add_task(const struct node *node, const char *project,
			    const char *line)
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

static inline void request(const struct node *node, const char *project,
			   enum uri_request what)
{
	AUTO_DESTINATION struct destination to = { 0 };

	assert_ok(destination_make(&node->settings->remotes.items[0], 0, project, &to,
				   &err));
	assert_ok(uri_request_add(node->tasks, &to, what, &err));
}

static inline size_t count_of(const char *command)
{
	AUTO_FREE char *text = output_of("{ %s; } 2>/dev/null | wc -l", command);

	return (size_t)atoi(text);
}

static inline bool is_true(const char *condition)
{
	return run("{ %s; } >/dev/null 2>&1", condition) == 0;
}

/* What moves may be missed by one look, but not by all. */
static inline bool is_all_done(void)
{
	for (int i = 0; i < 4; i++)
		if (count_of("find ev/ref-updates/waiting ev/ref-updates/running "
			     "-type f") > 0)
			return false;
	return true;
}

static inline size_t count_letters(const struct node *node, dead_letters *letters)
{
	dead_letters_clear(letters);
	assert_ok(task_store_dead_letters(node->tasks, letters, &err));
	return letters->count;
}

/* A push to its first URL began, and ended. */
static inline bool was_tried(const struct node *node, const char *project)
{
	AUTO_DESTINATION struct destination to = { 0 };
	AUTO_FREE char *key = NULL;
	struct lease_holder holder;

	assert_ok(destination_make(&node->settings->remotes.items[0], 0, project, &to,
				   &err));
	key = xasprintf(PUSH_URI_LEASE "%s", to.uri_key);
	return lease_inspect(node->leases, key, &holder, &err) == 0 && holder.fence > 0 &&
	       !holder.held;
}

/* Nothing that is written down keeps another node from it. */
static inline void assert_only_waits(void)
{
	assert_int_equal(count_of(WAITING), 1);
	assert_int_equal(count_of("ls -p ev/refrelay | grep -v /"), 0);
	assert_int_equal(count_of("ls ev/refrelay/failed"), 0);
}

#define ENGINE_CASE(name)                                                                \
	cmocka_unit_test_setup_teardown(name, make_site, test_remove_root)

#endif
