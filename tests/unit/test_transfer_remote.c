/*
 * Pushing by HTTP to tests/unit/git_server.py, which looks for the password in all
 * processes meanwhile, and to git daemon.
 */
#include "push_test.h"

#define PASSWORD "c4nary;p\"w"

static pid_t server;
static char user[] = "robot", password[] = PASSWORD;

static void write_mode(const char *mode)
{
	assert_ok(file_replace(root_fd, "mode", mode, strlen(mode), FILE_NO_SYNC, &err));
}

static char *read_text(const char *name)
{
	AUTO_STR struct str text = STR_INIT;

	assert_ok(file_read(root_fd, name, 1 << 20, &text, &err));
	return str_take(&text);
}

static int make_http(void **state)
{
	AUTO_FREE char *port = NULL, *to = NULL;

	if (make_push(state) != 0)
		return -1;
	setenv("SERVER_ROOT", root, 1);
	write_mode("");
	must("mkfifo port");
	server = start_shell("exec python3 \"$GIT_SERVER\" \"$SERVER_ROOT\"");
	port = output_of("cat port");
	to = xasprintf("http://127.0.0.1:%d/dst.git", atoi(port));
	set_url(URL_HTTP, to);
	url.user = user;
	url.password = password;
	return 0;
}

static int clear_http(void **state)
{
	kill(server, SIGKILL);
	wait_end(server);
	return clear_push(state);
}

#define HTTP_CASE(name) cmocka_unit_test_setup_teardown(name, make_http, clear_http)

TEST(the_password_is_sent_and_seen_nowhere_else)
{
	set_spec("refs/*", "refs/*", true);
	set_refs("refs/heads/main=3");
	assert_ok(push(TASK_ALL_REFS));
	set_refs("refs/heads/main=2");
	assert_ok(push("refs/heads/main"));
	assert_arrived("refs/heads/main=2");
	remote.mirrors = true; /* a deletion is git's */
	set_refs("refs/heads/x=2");
	assert_ok(push("refs/heads/main refs/heads/x"));
	assert_true(result.used_git);
	assert_arrived("refs/heads/x=2");
	AUTO_FREE char *asked = read_text("asked");
	/* robot:c4nary;p"w */
	assert_non_null(strstr(asked, "POST Basic cm9ib3Q6YzRuYXJ5O3Aidw==\n"));
	AUTO_FREE char *seen = read_text("seen");
	assert_string_equal(seen, "");
	AUTO_FREE char *looked = read_text("looked");
	assert_non_null(strstr(looked, "remote-http"));
}

TEST(what_an_http_server_answers_has_a_class)
{
	static const struct {
		const char *mode;
		enum err_class class;
	} answers[] = {
		{ "401", ERR_AUTH },    { "403", ERR_AUTH },
		{ "404", ERR_MISSING }, { "500", ERR_NETWORK },
		{ "302", ERR_CONFIG },  { "nothing", ERR_NETWORK },
		{ "504", ERR_TIMEOUT }, { "page", ERR_NETWORK },
	};

	set_refs("refs/heads/main=3");
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		write_mode(answers[i].mode);
		assert_int_equal(push("refs/heads/main"), -1);
		if (err.class != answers[i].class)
			fail_msg("%s: %s: %s", answers[i].mode, err_class_name(err.class),
				 err.text);
		assert_null(strstr(err.text, "c4nary"));
	}
}

/* A deletion, which is git's; the limit is of it alone. */
static int delete_by(const char *mode, int64_t silence_ms)
{
	set_refs("refs/heads/main=3 refs/heads/x=4");
	assert_ok(push("refs/heads/main refs/heads/x"));
	remote.mirrors = true;
	set_refs("refs/heads/main=3");
	write_mode(mode);
	remote.silence_ms = silence_ms;
	return push("refs/heads/x");
}

TEST(an_answer_that_is_cut_is_a_network_error)
{
	assert_fails(delete_by("cut", remote.silence_ms), ERR_NETWORK);
}

TEST(a_server_that_rests_is_left_after_the_silence)
{
	assert_fails(delete_by("stall", 700), ERR_TIMEOUT);
}

TEST(a_broken_ref_is_told_by_http_too)
{
	set_refs("refs/heads/a=1 refs/heads/c=3");
	must("echo 1111111111111111111111111111111111111111 >r.git/refs/heads/b");
	assert_ok(push("refs/heads/a refs/heads/b refs/heads/c"));
	assert_arrived("refs/heads/a=1 refs/heads/c=3");
	assert_true(
		text_starts_with(result_of("refs/heads/b")->text, "local repository"));
}

TEST(nobody_who_listens_is_a_network_error)
{
	set_refs("refs/heads/main=3");
	set_url(URL_HTTP, "http://127.0.0.1:1/dst.git");
	assert_fails(push("refs/heads/main"), ERR_NETWORK);
	set_url(URL_GIT, "git://127.0.0.1:1/dst.git");
	assert_fails(push(TASK_ALL_REFS), ERR_NETWORK);
}

/* The daemon picks no port by itself; this program's number makes it rarely taken. */
static int make_daemon(void **state)
{
	int port = 11000 + getpid() % 1000;
	AUTO_FREE char *command = NULL, *to = NULL;

	if (make_push(state) != 0)
		return -1;
	command = xasprintf("exec git daemon --listen=127.0.0.1 --port=%d --base-path=%s "
			    "--export-all --enable=receive-pack --informative-errors "
			    "--reuseaddr %s 2>/dev/null",
			    port, root, root);
	to = xasprintf("git://127.0.0.1:%d/dst.git", port);
	set_url(URL_GIT, to);
	server = start_shell(command);
	must("i=0; until git ls-remote -q %s >/dev/null 2>&1; do sleep 0.05; "
	     "i=$((i+1)); test $i -lt 200; done",
	     to);
	return 0;
}

static int clear_daemon(void **state)
{
	kill(server, SIGTERM);
	wait_end(server);
	return clear_push(state);
}

#define DAEMON_CASE(name) cmocka_unit_test_setup_teardown(name, make_daemon, clear_daemon)

TEST(git_daemon_takes_creations_forced_updates_and_deletions)
{
	set_spec("refs/*", "refs/*", true);
	remote.mirrors = true;
	set_refs("refs/heads/main=9 refs/heads/x=4");
	assert_ok(push(TASK_ALL_REFS));
	set_refs("refs/heads/main=3");
	assert_ok(push("refs/heads/main refs/heads/x"));
	assert_arrived("refs/heads/main=3");
}

TEST(a_repository_that_a_daemon_has_not_is_missing)
{
	set_refs("refs/heads/main=3");
	must("rm -rf dst.git");
	assert_fails(push("refs/heads/main"), ERR_MISSING);
}

TEST(a_daemon_without_the_service_is_a_matter_of_its_configuration)
{
	set_refs("refs/heads/main=3");
	must("git -C dst.git config daemon.receivepack false");
	assert_fails(push("refs/heads/main"), ERR_CONFIG);
	assert_non_null(strstr(err.remedy, "receive-pack"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		HTTP_CASE(the_password_is_sent_and_seen_nowhere_else),
		HTTP_CASE(what_an_http_server_answers_has_a_class),
		HTTP_CASE(an_answer_that_is_cut_is_a_network_error),
		HTTP_CASE(a_server_that_rests_is_left_after_the_silence),
		HTTP_CASE(a_broken_ref_is_told_by_http_too),
		PUSH_CASE(nobody_who_listens_is_a_network_error),
		DAEMON_CASE(git_daemon_takes_creations_forced_updates_and_deletions),
		DAEMON_CASE(a_repository_that_a_daemon_has_not_is_missing),
		DAEMON_CASE(
			a_daemon_without_the_service_is_a_matter_of_its_configuration),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
