/*
 * By ssh, to a real sshd on loopback (tests/lib/ssh.sh), one for all tests; each has keys
 * and addresses of its own choice.
 */
#include "target_test.h"

#include <pthread.h>

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, target_teardown)

static char sshd[64]; /* the server's directory */
static uint16_t port;
static char key[96], known_hosts[96], *account;

static int start_sshd(void **state)
{
	(void)state;
	log_set_level(LOG_LEVEL_NONE);
	snprintf(sshd, sizeof(sshd), "/tmp/refrelay-sshd.XXXXXX");
	if (!mkdtemp(sshd))
		return -1;
	must("bash -c '. \"$TESTS/lib/ssh.sh\"; ssh_start %s'", sshd);
	snprintf(root, sizeof(root), "%s", sshd);
	port = port_of_server();
	account = output_of("id -un | tr -d '\\n'");
	snprintf(key, sizeof(key), "%s/user_key", sshd);
	snprintf(known_hosts, sizeof(known_hosts), "%s/known_hosts", sshd);
	return 0;
}

static int stop_sshd(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "%s", sshd);
	must("kill $(cat pid)");
	free(account);
	return tree_remove(AT_FDCWD, sshd, ERR_IGNORED);
}

static void set_host(const char *host)
{
	free(destination.host);
	destination.host = xstrdup(host);
}

static int setup(void **state)
{
	if (target_setup(state) != 0)
		return -1;
	must(": >%s/commands && rm -rf %s/home && mkdir %s/home", sshd, sshd, sshd);
	AUTO_FREE char *host = xasprintf("%s@127.0.0.1", account);
	AUTO_FREE char *path = xasprintf("%s/r.git", root);
	add_url(false, "ssh://host/${name}.git");
	set_destination(URL_SSH, "r", "ssh://host/r.git", path);
	set_host(host);
	destination.port = port;
	remote.ssh_key = key;
	remote.ssh_known_hosts = known_hosts;
	return 0;
}

static int create(void)
{
	return target_create(&call, "refs/heads/it's;$HOME", 20, &err);
}

#define HOSTILE "-a b'c\"d;$(touch hacked)`touch hacked`\n&&!e*"

static void check_life(const char *directory)
{
	AUTO_FREE char *text = xasprintf(
		"cd \"$D\" && cd ./-*e\\*.git && git symbolic-ref HEAD >%s/head", root);

	setenv("D", directory, 1);
	assert_ok(create());
	must("%s", text);
	must("test \"$(cat head)\" = \"refs/heads/it's;\\$HOME\"");
	must("test ! -e \"$D\"/-*/refrelay-new");
	assert_ok(target_set_head(&call, "refs/heads/next", &err));
	assert_ok(create());
	must("%s", text);
	must("test \"$(cat head)\" = refs/heads/next");
	assert_ok(target_delete(&call, &err));
	must("test -z \"$(ls -A \"$D\")\"");
	assert_fails(target_delete(&call, &err), ERR_MISSING);
	must("! find %s . -name hacked | grep .", sshd);
}

TEST(a_hostile_name_is_a_name_under_an_absolute_path)
{
	AUTO_FREE char *above = xasprintf("%s/new/dir", root);
	AUTO_FREE char *path = xasprintf("%s/" HOSTILE ".git", above);

	set_path(path);
	check_life(above);
}

TEST(a_hostile_name_is_a_name_below_the_home_directory)
{
	AUTO_FREE char *home = xasprintf("%s/home", sshd);

	set_path(HOSTILE ".git/");
	check_life(home);
}

TEST(a_tilde_is_somebodys_home_only_where_git_says_so)
{
	set_path("~/dir/a.git");
	assert_ok(target_create(&call, "refs/heads/x", 20, &err));
	must("test -d %s/home/dir/a.git/objects", sshd);
	set_destination(URL_SSH, "r", "host:/~/dir/b.git", "/~/dir/b.git");
	assert_ok(target_create(&call, "refs/heads/x", 20, &err));
	must("test -d %s/home/dir/b.git/objects", sshd);
	set_path("~$(id)/c.git");
	assert_ok(target_create(&call, "refs/heads/x", 20, &err));
	must("test -d %s/home/'~$(id)'/c.git/objects", sshd);
}

TEST(what_can_be_no_repository_is_not_even_asked_for)
{
	static const char *const paths[] = { "",        "/", "//",     ".",  "..",
					     "/srv/..", "~", "~root/", "a/." };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		set_path(paths[i]);
		assert_fails(target_delete(&call, &err), ERR_CONFIG);
		assert_fails(create(), ERR_CONFIG);
	}
	must("test ! -s %s/commands", sshd);
}

TEST(only_a_repository_is_deleted_or_given_a_head)
{
	must("mkdir -p r.git/sub && git init -q --bare r.git/sub/x.git");
	assert_fails(target_delete(&call, &err), ERR_MISSING);
	assert_fails(target_set_head(&call, "refs/heads/x", &err), ERR_MISSING);
	assert_fails(create(), ERR_CONFIG);
	must("test \"$(ls -A r.git)\" = sub && test -d r.git/sub/x.git/refs");
	must("git init -q --bare r.git");
	assert_fails(target_delete(&call, &err), ERR_CONFIG);
	assert_int_equal(err.reason, REASON_NO_WAY);
	must("test -d r.git/sub/x.git/refs && rm -r r.git/sub && "
	     "mkdir -p r.git/refs/heads/objects");
	assert_ok(target_delete(&call, &err));
	must("! ls | grep r.git");
}

TEST(what_a_deletion_left_half_done_goes_with_the_next)
{
	AUTO_FREE char *path = xasprintf("%s/d/%0250d", root, 0);

	must("mkdir -p d/.refrelay-deleted-%s/objects", destination.uri_key);
	set_path(path);
	assert_ok(target_create(&call, "refs/heads/x", 20, &err));
	assert_ok(target_delete(&call, &err));
	must("test -z \"$(ls -A d)\" && mkdir -p d/.refrelay-deleted-%s/objects",
	     destination.uri_key);
	assert_fails(target_delete(&call, &err), ERR_MISSING);
	must("test -z \"$(ls -A d)\"");
}

TEST(what_a_broken_connection_left_half_made_is_made_whole)
{
	must("git init -q --bare r.git && touch r.git/refrelay-new");
	assert_ok(target_create(&call, "refs/heads/trunk", 20, &err));
	must("test \"$(git -C r.git symbolic-ref HEAD)\" = refs/heads/trunk && "
	     "test ! -e r.git/refrelay-new");
}

/* What runs the line goes, as it does with the machine. */
TEST(a_connection_that_breaks_once_git_has_made_it_leaves_the_right_head)
{
	AUTO_FREE char *breaks = xasprintf("%s/breaks", root);

	must("printf '#!/bin/sh\\ngit \"$@\" && kill -KILL $PPID\\n' >breaks && "
	     "chmod +x breaks");
	remote.git_path = breaks;
	assert_int_equal(target_create(&call, "refs/heads/trunk", 20, &err), -1);
	must("git -C r.git rev-parse --git-dir >/dev/null && "
	     "test \"$(git -C r.git symbolic-ref HEAD)\" = refs/heads/trunk");
}

TEST(git_is_the_one_of_git_path)
{
	char git_path[] = "/nowhere/git";
	AUTO_FREE char *wrapper = xasprintf("%s/my git", root);

	remote.git_path = git_path;
	assert_fails(create(), ERR_CONFIG);
	assert_non_null(strstr(err.remedy, "gitPath"));
	must("printf '#!/bin/sh\\necho x >>%s/used\\nexec git \"$@\"\\n' >'my git' && "
	     "chmod +x 'my git'",
	     root);
	remote.git_path = wrapper;
	assert_ok(target_create(&call, "refs/heads/x", 32, &err));
	must("test $(wc -l <used) = 2 && "
	     "test \"$(git -C r.git rev-parse --show-object-format)\" = sha256");
}

TEST(an_exit_status_is_a_failure_with_the_last_line_of_stderr)
{
	char git_path[] = "false";

	remote.git_path = git_path;
	assert_fails(create(), ERR_INTERNAL);
	must("touch file");
	AUTO_FREE char *path = xasprintf("%s/file/r.git", root);
	set_path(path);
	assert_int_equal(create(), -1);
	assert_non_null(strstr(err.text, "Not a directory"));
}

TEST(a_host_whose_key_is_unknown_is_not_believed)
{
	char nothing[] = "/dev/null";

	remote.ssh_known_hosts = nothing;
	assert_fails(create(), ERR_CONFIG);
	assert_non_null(strstr(err.remedy, "known_hosts"));
	must("test ! -e r.git");
}

TEST(a_key_that_is_refused_is_a_matter_of_credentials)
{
	AUTO_FREE char *other = xasprintf("%s/other_key", sshd);

	remote.ssh_key = other;
	assert_fails(create(), ERR_AUTH);
	assert_non_null(strstr(err.remedy, "authorized_keys"));
}

TEST(a_host_that_does_not_answer_is_a_matter_of_the_network)
{
	destination.port = 1;
	assert_fails(create(), ERR_NETWORK);
}

TEST(no_host_or_user_is_taken_for_an_option_or_a_command)
{
	static const char *const hosts[] = { "-oProxyCommand=touch hacked",
					     "-x@127.0.0.1",
					     "u@-x",
					     "",
					     "u@a;touch hacked",
					     "$(id)@host",
					     "u@",
					     "a b@host" };

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		set_host(hosts[i]);
		assert_fails(create(), ERR_CONFIG);
	}
	must("test ! -e hacked");
}

TEST(a_command_that_hangs_is_killed)
{
	must("printf '#!/bin/sh\\nexec sleep 60\\n' >hang && chmod +x hang");
	AUTO_FREE char *hang = xasprintf("%s/hang", root);
	remote.git_path = hang;
	settings.ssh_command_ms = 1000;
	assert_fails(create(), ERR_TIMEOUT);
}

static void *stop_soon(void *arg)
{
	struct stop *stop = arg;

	while (run("test -e hanging") != 0)
		usleep(20000);
	stop_request(stop);
	return NULL;
}

TEST(a_stop_ends_it)
{
	struct stop stop;
	pthread_t thread;

	must("printf '#!/bin/sh\\n>%s/hanging; exec sleep 60\\n' >hang && chmod +x hang",
	     root);
	AUTO_FREE char *hang = xasprintf("%s/hang", root);
	remote.git_path = hang;
	stop_init(&stop);
	const struct git_work work = { .guard_fd = -1, .stop = &stop };
	call.work = &work;
	thread_start(&thread, "stopper", stop_soon, &stop);
	assert_fails(create(), ERR_CANCELED);
	thread_join(thread);
	stop_clear(&stop);
}

TEST(git_can_use_the_same_command)
{
	AUTO_FREE char *odd = xasprintf("%s/k 'n%%h\"", root);
	AUTO_FREE char *odd_key = xasprintf("%s/k e'y%%h", root);

	must("cp %s \"$(printf 'k \\047n%%%%h\"')\" && cp -p %s \"$(printf "
	     "'k e\\047y%%%%h')\"",
	     known_hosts, key);
	remote.ssh_known_hosts = odd;
	remote.ssh_key = odd_key;
	assert_ok(target_create(&call, "refs/heads/x", 20, &err));
	AUTO_FREE char *command = target_ssh_command(&settings, &remote);
	setenv("GIT_SSH_COMMAND", command, 1);
	must("git ls-remote ssh://%s@127.0.0.1:%d%s/r.git", account, port, root);
	unsetenv("GIT_SSH_COMMAND");
	assert_non_null(strstr(command, "BatchMode=yes"));
	assert_non_null(strstr(command, "-F /dev/null"));
	assert_non_null(strstr(command, "ConnectTimeout=5"));
}

TEST(an_own_configuration_of_ssh_is_used_with_or_without_a_key)
{
	char config[128];

	snprintf(config, sizeof(config), "%s/config", root);
	must("printf 'Host alias\\n HostName 127.0.0.1\\n Port %d\\n User %s\\n "
	     "UserKnownHostsFile %s\\n IdentityFile %s\\n' >config",
	     port, account, known_hosts, key);
	settings.ssh_config = config;
	remote.ssh_key = NULL;
	remote.ssh_known_hosts = NULL;
	destination.port = 0;
	set_host("alias");
	assert_ok(create());
	remote.ssh_key = key;
	assert_ok(create());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_hostile_name_is_a_name_under_an_absolute_path),
		CASE(a_hostile_name_is_a_name_below_the_home_directory),
		CASE(a_tilde_is_somebodys_home_only_where_git_says_so),
		CASE(what_can_be_no_repository_is_not_even_asked_for),
		CASE(only_a_repository_is_deleted_or_given_a_head),
		CASE(what_a_deletion_left_half_done_goes_with_the_next),
		CASE(what_a_broken_connection_left_half_made_is_made_whole),
		CASE(a_connection_that_breaks_once_git_has_made_it_leaves_the_right_head),
		CASE(git_is_the_one_of_git_path),
		CASE(an_exit_status_is_a_failure_with_the_last_line_of_stderr),
		CASE(a_host_whose_key_is_unknown_is_not_believed),
		CASE(a_key_that_is_refused_is_a_matter_of_credentials),
		CASE(a_host_that_does_not_answer_is_a_matter_of_the_network),
		CASE(no_host_or_user_is_taken_for_an_option_or_a_command),
		CASE(a_command_that_hangs_is_killed),
		CASE(a_stop_ends_it),
		CASE(git_can_use_the_same_command),
		CASE(an_own_configuration_of_ssh_is_used_with_or_without_a_key),
	};

	return cmocka_run_group_tests(tests, start_sshd, stop_sshd);
}
