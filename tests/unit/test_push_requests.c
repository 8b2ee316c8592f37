/* HEAD and deletions of repositories, with real git (push_engine_test.h). */
#include "push_engine_test.h"
#include "rights.h"

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

/* What cannot be read may be one of many deletions. */
TEST(one_that_cannot_be_read_holds_up_deletions_and_nothing_else)
{
	struct node node = { 0 };

	make_source("p");
	make_source("q");
	must("cp -r site/p.git site/q.git dst && mkdir keep && mv site/p.git keep/ && "
	     "git -C site/q.git symbolic-ref HEAD refs/heads/new");
	open_node(&node, "a",
		  settings_with("replicateProjectDeletions = true\n"
				"replicationRetry = 0\n"));
	request(&node, "z", REQUEST_HEAD);
	must("chmod 0 ev/refrelay/requests/*");
	request_deletion(&node, "p", 10);
	request(&node, "q", REQUEST_HEAD);
	rights_set_override(false); /* threads that are started now have no more */
	start_push(&node, "a");
	rights_set_override(true);
	wait_until(is_true("grep -q heads/new dst/q.git/HEAD"));
	wait_until(is_true("grep -qsE '\"failures\":[1-9]' ev/refrelay/*"));
	assert_true(is_true("test -e dst/p.git"));
	must("rm $(find ev/refrelay/requests -type f ! -perm /400)");
	wait_until(!is_true("test -e dst/p.git"));
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
	must("ls ev/refrelay/requests/*.head >/dev/null");
	close_node(&node);
	must("ls ev/refrelay/requests/*.head >/dev/null");
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

static bool is_any_held(void)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(root_fd, "ev/refrelay");
	struct dirent *entry;
	bool is_any = false;

	while ((entry = readdir(dir)) != NULL) {
		AUTO_STR struct str text = STR_INIT;
		if (file_read(dirfd(dir), entry->d_name, 65536, &text, &err) == 0)
			is_any |= strstr(text.data, "held: ") != NULL;
	}
	return is_any;
}

/* As a scan finds one after the other. They are as new as can be, and looked at without
 * a shell: on a busy machine it might come when they have waited. */
TEST(a_deletion_waits_for_those_that_come_with_it)
{
	struct node node = { 0 };

	delete_twelve(&node);
	must("cd ev/refrelay/requests && d0=$(grep -l '\"d0\"' *.delete) && "
	     "others=$(ls | grep -vx $d0) && touch -d '30 seconds ago' $d0 && "
	     "touch $others");
	start_push(&node, "a");
	usleep(500000);
	for (int i = 0; i < 12; i++) {
		AUTO_FREE char *head = xasprintf("dst/d%d.git/HEAD", i);
		assert_int_equal(faccessat(root_fd, head, F_OK, 0), 0);
	}
	assert_false(is_any_held());
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		ENGINE_CASE(deletion_and_head_are_done_when_asked_for),
		ENGINE_CASE(one_that_cannot_be_read_holds_up_deletions_and_nothing_else),
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
		ENGINE_CASE(many_deletions_are_given_up_alone_until_a_person_allows_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
