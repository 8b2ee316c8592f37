/*
 * Gerrit servers: REST by tests/peers/gerrit.py, and its commands by an sshd whose every
 * login is a script that writes down what it was asked.
 */
#include "target_test.h"

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#define PROJECT "team/a b's"
#define ENCODED "team%2Fa%20b%27s"

static pid_t server;
static char user[] = "admin", password[] = "s3cret";

static char *read_text(const char *name)
{
	AUTO_STR struct str text = STR_INIT;

	assert_ok(file_read(root_fd, name, 65536, &text, &err));
	return str_take(&text);
}

static void set_mode(const char *mode)
{
	assert_ok(file_replace(root_fd, "mode", mode, strlen(mode), FILE_NO_SYNC, &err));
}

static void set_server(const char *userinfo, int port)
{
	AUTO_FREE char *uri =
		xasprintf("gerrit+http://%s127.0.0.1:%d/prefix/", userinfo, port);

	set_destination(URL_GERRIT_HTTP, PROJECT, uri, "/prefix/");
}

static int setup(void **state)
{
	if (target_setup(state) != 0)
		return -1;
	must("mkfifo port");
	setenv("SERVER_ROOT", root, 1);
	server = start_shell("exec python3 \"$TESTS/peers/gerrit.py\" \"$SERVER_ROOT\"");
	add_url(false, "gerrit+http://host/prefix/");
	set_server("", port_of_server());
	must("rm port");
	remote.urls.items[0].user = user;
	remote.urls.items[0].password = password;
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	return 0;
}

static int teardown(void **state)
{
	kill(server, SIGKILL);
	wait_end(server);
	return target_teardown(state);
}

static int create(void)
{
	return target_create(&call, "refs/heads/main", 20, &err);
}

TEST(rest_makes_a_project_sets_its_head_and_deletes_it)
{
	assert_ok(create());
	assert_ok(target_set_head(&call, "refs/heads/next", &err));
	must("test \"$(cat projects/%s)\" = refs/heads/next", "*");
	assert_ok(target_delete(&call, &err));
	AUTO_FREE char *asked = read_text("asked");
	assert_string_equal(asked,
			    "PUT /prefix/a/projects/" ENCODED
			    " admin:s3cret {\"branches\":[\"refs/heads/main\"]}\n"
			    "PUT /prefix/a/projects/" ENCODED
			    "/HEAD admin:s3cret {\"ref\":\"refs/heads/next\"}\n"
			    "DELETE /prefix/a/projects/" ENCODED " admin:s3cret \n");
}

TEST(rest_takes_a_project_that_exists_for_made)
{
	assert_ok(create());
	assert_ok(target_create(&call, "refs/heads/other", 20, &err));
	must("test \"$(cat projects/*)\" = refs/heads/main");
}

TEST(rest_says_that_a_project_is_missing)
{
	assert_fails(target_set_head(&call, "refs/heads/x", &err), ERR_MISSING);
	assert_fails(target_delete(&call, &err), ERR_MISSING);
}

TEST(a_server_that_cannot_delete_is_not_taken_for_one_without_the_project)
{
	assert_ok(create());
	set_mode("no-delete");
	assert_fails(target_delete(&call, &err), ERR_CONFIG);
	assert_int_equal(err.reason, REASON_NO_WAY);
	assert_non_null(strstr(err.remedy, "delete-project"));
}

TEST(rest_refuses_in_many_ways)
{
	static const struct {
		const char *mode;
		enum err_class class;
	} cases[] = {
		{ "401", ERR_AUTH },        { "403", ERR_AUTH },
		{ "400", ERR_CONFIG },      { "405", ERR_CONFIG },
		{ "429", ERR_NETWORK },     { "500", ERR_NETWORK },
		{ "503", ERR_NETWORK },     { "504", ERR_TIMEOUT },
		{ "redirect", ERR_CONFIG },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		set_mode(cases[i].mode);
		assert_fails(create(), cases[i].class);
		assert_fails(target_delete(&call, &err), cases[i].class);
		assert_fails(target_set_head(&call, "refs/heads/x", &err),
			     cases[i].class);
		assert_null(strstr(err.text, password));
	}
}

TEST(wrong_credentials_are_named_and_those_in_a_url_are_not_sent)
{
	char wrong[] = "wr0ng";

	remote.urls.items[0].password = wrong;
	assert_fails(create(), ERR_AUTH);
	assert_null(strstr(err.text, wrong));
	remote.urls.items[0].user = NULL;
	assert_fails(create(), ERR_AUTH);
	AUTO_FREE char *uri = xasprintf("gerrit+http://u:p@%s",
					destination.uri + strlen("gerrit+http://"));
	set_destination(URL_GERRIT_HTTP, "p", uri, "/");
	assert_fails(create(), ERR_AUTH);
	AUTO_FREE char *asked = read_text("asked");
	assert_non_null(strstr(asked, "PUT /prefix/a/projects/p - "));
}

TEST(a_server_that_says_nothing_times_out)
{
	set_mode("stall");
	remote.silence_ms = 300;
	assert_fails(create(), ERR_TIMEOUT);
	set_server("", 1);
	assert_fails(create(), ERR_NETWORK);
}

TEST(a_lost_lease_or_a_stop_ends_a_request)
{
	struct stop stop;
	struct deadline deadline;
	struct git_work work = { .guard_fd = -1, .stop = &stop };

	set_mode("stall");
	stop_init(&stop);
	stop_request(&stop);
	call.work = &work;
	assert_fails(create(), ERR_CANCELED);
	deadline_init(&deadline, clock_boot_ms() + 200);
	work = (struct git_work){ .guard_fd = -1, .deadline = &deadline };
	assert_fails(create(), ERR_LOST);
	deadline_clear(&deadline);
	stop_clear(&stop);
}

/* An sshd whose login script is one that answers as Gerrit does. */
static void start_ssh(const char *script)
{
	char *account;

	must("bash -c '. \"$TESTS/lib/ssh.sh\"; ssh_start %s'", root);
	assert_ok(file_replace(root_fd, "login", script, strlen(script), FILE_NO_SYNC,
			       &err));
	must("sed -i s:ROOT:$PWD: login");
	account = output_of("id -un | tr -d '\\n'");
	set_destination(URL_GERRIT_SSH, PROJECT, "gerrit+ssh://host", "");
	destination.host = xasprintf("%s@127.0.0.1", account);
	destination.port = port_of_server();
	remote.ssh_key = xasprintf("%s/user_key", root);
	remote.ssh_known_hosts = xasprintf("%s/known_hosts", root);
	free(account);
}

static void stop_ssh(void)
{
	must("kill $(cat pid)");
	free(remote.ssh_key);
	free(remote.ssh_known_hosts);
}

TEST(commands_of_gerrit_are_asked_by_ssh)
{
	start_ssh("#!/bin/sh\necho \"$SSH_ORIGINAL_COMMAND\" >>ROOT/asked\n");
	assert_ok(create());
	assert_ok(target_create(&call, NULL, 20, &err));
	assert_ok(target_set_head(&call, "refs/heads/next", &err));
	assert_ok(target_delete(&call, &err));
	stop_ssh();
	AUTO_FREE char *asked = read_text("asked");
	assert_string_equal(
		asked,
		"gerrit create-project --branch refs/heads/main 'team/a b'\\''s'\n"
		"gerrit create-project 'team/a b'\\''s'\n"
		"gerrit set-head 'team/a b'\\''s' --new-head refs/heads/next\n"
		"deleteproject delete --yes-really-delete --force 'team/a b'\\''s'\n");
}

TEST(what_gerrit_says_by_ssh_is_understood)
{
	start_ssh("#!/bin/sh\ncat ROOT/says >&2; exit 1\n");
	must("echo 'fatal: Project already exists' >says");
	assert_ok(create());
	must("echo \"fatal: project 'x' not found\" >says");
	assert_fails(target_set_head(&call, "refs/heads/x", &err), ERR_MISSING);
	assert_fails(target_delete(&call, &err), ERR_MISSING);
	must("echo 'fatal: deleteproject: not found' >says");
	assert_fails(target_delete(&call, &err), ERR_CONFIG);
	assert_non_null(strstr(err.remedy, "delete-project"));
	must("echo 'fatal: create project not permitted' >says");
	assert_int_equal(create(), -1);
	assert_non_null(strstr(err.text, "not permitted"));
	set_destination(URL_GERRIT_SSH, "--help", "gerrit+ssh://host", "");
	assert_fails(create(), ERR_CONFIG);
	stop_ssh();
}

/* By an ssh URL without a port. */
TEST(a_gerrit_behind_an_ssh_url_is_asked_for_the_project_of_its_path)
{
	AUTO_FREE char *config = xasprintf("%s/ssh_config", root);

	start_ssh("#!/bin/sh\n"
		  "case \"$SSH_ORIGINAL_COMMAND\" in gerrit* | deleteproject*)\n"
		  "echo \"$SSH_ORIGINAL_COMMAND\" >>ROOT/asked ;;\n"
		  "*) echo 'fatal: Gerrit Code Review: if: not found' >&2; exit 127 ;;\n"
		  "esac\n");
	must("printf 'Port %d\n' >ssh_config", (int)destination.port);
	set_destination(URL_SSH, "r", "ssh://host/team/app.git/", "/team/app.git/");
	destination.port = 0;
	settings.ssh_config = config;
	assert_ok(create());
	assert_ok(target_set_head(&call, "refs/heads/next", &err));
	assert_ok(target_delete(&call, &err));
	settings.ssh_config = NULL;
	stop_ssh();
	AUTO_FREE char *asked = read_text("asked");
	assert_string_equal(
		asked, "gerrit create-project --branch refs/heads/main team/app\n"
		       "gerrit set-head team/app --new-head refs/heads/next\n"
		       "deleteproject delete --yes-really-delete --force team/app\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(rest_makes_a_project_sets_its_head_and_deletes_it),
		CASE(rest_takes_a_project_that_exists_for_made),
		CASE(rest_says_that_a_project_is_missing),
		CASE(a_server_that_cannot_delete_is_not_taken_for_one_without_the_project),
		CASE(rest_refuses_in_many_ways),
		CASE(wrong_credentials_are_named_and_those_in_a_url_are_not_sent),
		CASE(a_server_that_says_nothing_times_out),
		CASE(a_lost_lease_or_a_stop_ends_a_request),
		CASE(commands_of_gerrit_are_asked_by_ssh),
		CASE(what_gerrit_says_by_ssh_is_understood),
		CASE(a_gerrit_behind_an_ssh_url_is_asked_for_the_project_of_its_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
