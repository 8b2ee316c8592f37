/*
 * Fetching by HTTP from a server that does as it is told: tests/unit/git_server.py runs
 * `git http-backend`, writes down what it is asked, looks for the header's secret in the
 * arguments and environments of all processes meanwhile, and can be told to fail.
 */
#include "git_test.h"

#include "git/git_child.h"
#include "git/objects.h"

#define SECRET "s3cr;t#\\\"x"

static pid_t server;
static char url[96];
static struct git_remote remote;
static const struct git_work work = { .guard_fd = -1 };

static void write_mode(const char *mode)
{
	assert_ok(file_replace(root_fd, "mode", mode, strlen(mode), FILE_NO_SYNC, &err));
}

static char *read_text(const char *name)
{
	AUTO_STR struct str text = STR_INIT;

	assert_ok(file_read(root_fd, name, 1 << 24, &text, &err));
	return str_take(&text);
}

/* The server says by a pipe which port it has. */
static void start_server(void)
{
	must("mkfifo port");
	server = start_shell("exec python3 \"$GIT_SERVER\" \"$SERVER_ROOT\"");
	AUTO_FREE char *port = output_of("cat port");
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/r.git", atoi(port));
}

static int setup(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	assert_ok(git_setup(root, &err));
	must("git -C r.git update-ref refs/heads/main $(git -C %s rev-parse main)",
	     store_path);
	must("git init -q --bare copy.git");
	setenv("SERVER_ROOT", root, 1);
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	write_mode("");
	start_server();
	remote = (struct git_remote){ .url = url,
				      .header = "Authorization: Bearer " SECRET };
	return 0;
}

static int teardown(void **state)
{
	kill(server, SIGKILL);
	wait_end(server);
	return test_remove_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static int fetch(void)
{
	AUTO_REPO struct repo copy = REPO_INIT;
	oid_list wanted = { 0 };
	int result;

	assert_ok(repo_open(root_fd, "copy.git", &copy, &err));
	free(copy.path);
	copy.path = xasprintf("%s/copy.git", root);
	vec_add(&wanted, commits[COMMITS - 1]);
	result = objects_fetch(&work, &copy, &remote, &wanted, NULL, &err);
	vec_clear(&wanted);
	return result;
}

TEST(the_header_comes_with_each_request_and_is_seen_nowhere_else)
{
	assert_ok(fetch());
	AUTO_FREE char *asked = read_text("asked");
	assert_string_equal(asked, "GET Bearer " SECRET "\nPOST Bearer " SECRET "\n");
	AUTO_FREE char *seen = read_text("seen");
	assert_string_equal(seen, "");
	AUTO_FREE char *looked = read_text("looked");
	assert_non_null(strstr(looked, "remote-http"));
	must("! grep -rqF 's3cr;t' copy.git gitconfig");
	must("git -C copy.git cat-file -e $(git -C %s rev-parse main)", store_path);
}

TEST(a_repositorys_config_adds_no_header_proxy_or_helper)
{
	must("cd copy.git && git config http.extraHeader 'Authorization: Other' && "
	     "git config http.proxy http://127.0.0.1:1 && "
	     "git config credential.helper '!touch %s/ran; false'",
	     root);
	assert_ok(fetch());
	AUTO_FREE char *asked = read_text("asked");
	assert_string_equal(asked, "GET Bearer " SECRET "\nPOST Bearer " SECRET "\n");
	must("rm -rf copy.git/objects/pack/*");
	write_mode("401");
	assert_fails(fetch(), ERR_AUTH);
	must("test ! -e ran");
}

TEST(without_a_header_none_is_sent)
{
	remote.header = NULL;
	assert_ok(fetch());
	AUTO_FREE char *asked = read_text("asked");
	assert_string_equal(asked, "GET None\nPOST None\n");
}

TEST(a_header_of_two_lines_is_refused)
{
	remote.header = "A: b\nC: d";
	assert_fails(fetch(), ERR_CONFIG);
}

static void make_authority(const char *name)
{
	must("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days "
	     "3 "
	     "-keyout %s.key -out %s.crt -subj /CN=%s "
	     "-addext subjectAltName=IP:127.0.0.1 2>log",
	     name, name, name);
}

/* The server's certificate is own.crt. */
static void start_secured(void)
{
	make_authority("own");
	must("cat own.crt own.key >server.pem && rm port");
	kill(server, SIGKILL);
	wait_end(server);
	start_server();
	memmove(url + strlen("https"), url + strlen("http"),
		strlen(url + strlen("http")) + 1);
	memcpy(url, "https", strlen("https"));
}

/* The directory of the copy's own configuration stands for the system's. */
TEST(a_file_of_authorities_stands_in_place_of_a_directory_of_them)
{
	AUTO_FREE char *own = xasprintf("%s/own.crt", root);
	AUTO_FREE char *other = xasprintf("%s/other.crt", root);

	start_secured();
	make_authority("other");
	must("mkdir system && cp own.crt system && openssl rehash system && "
	     "git -C copy.git config http.sslCAPath %s/system",
	     root);
	remote.ca_file = other;
	assert_fails(fetch(), ERR_CONFIG);
	remote.ca_file = own;
	assert_ok(fetch());
	must("rm -rf copy.git/objects/pack/*");
	remote.ca_file = NULL;
	assert_ok(fetch());
}

/* A copy's config with http[.<url>].sslVerify = false. */
static void check_is_verified(const char *of)
{
	must("git -C copy.git config http.%ssslVerify false", of);
	assert_fails(fetch(), ERR_CONFIG);
	assert_non_null(strstr(err.text, "certificate"));
	must("test ! -e asked");
	must("git -C copy.git config --unset http.%ssslVerify", of);
}

TEST(a_repositorys_config_does_not_send_the_header_to_unverified_peers)
{
	static const char *const users[] = { "", "some%40one:pass@" };

	start_secured();
	for (size_t i = 0; i < ARRAY_SIZE(users); i++) {
		const char *at = url + strlen("https://");
		AUTO_FREE char *host =
			xasprintf("https://%.*s", (int)strcspn(at, "/"), at);
		AUTO_FREE char *named = xasprintf("https://%s%s", users[i], at);
		AUTO_FREE char *whole = xasprintf("%s.", url);
		AUTO_FREE char *slash = xasprintf("%s/.", named);
		AUTO_FREE char *part = xasprintf("%s.", host);
		const char *const all[] = { "", part, whole, slash };
		remote.url = named;
		for (size_t j = 0; j < ARRAY_SIZE(all); j++)
			check_is_verified(all[j]);
	}
}

TEST(what_a_repositorys_config_says_of_the_url_adds_nothing)
{
	must("git -C copy.git config http.%s.extraHeader 'Authorization: Other' && "
	     "git -C copy.git config http.%s.followRedirects true && "
	     "git -C copy.git config http.%s.proxy http://127.0.0.1:1",
	     url, url, url);
	assert_ok(fetch());
	AUTO_FREE char *asked = read_text("asked");
	assert_string_equal(asked, "GET Bearer " SECRET "\nPOST Bearer " SECRET "\n");
	must("rm -rf copy.git/objects/pack/*");
	write_mode("302");
	assert_fails(fetch(), ERR_CONFIG);
}

/* Else libcurl would connect to whatever address it says. */
TEST(a_repositorys_config_resolves_no_names)
{
	unsigned port = 0;

	assert_int_equal(sscanf(url, "http://127.0.0.1:%u/", &port), 1);
	snprintf(url, sizeof(url), "http://localhost:%u/r.git", port);
	must("cd copy.git && "
	     "git config http.curloptResolve localhost:%u:127.0.0.9 && "
	     "git config http.%s.curloptResolve localhost:%u:127.0.0.9",
	     port, url, port);
	assert_ok(fetch());
}

TEST(a_repositorys_config_runs_no_proxy)
{
	must("printf '#!/bin/sh\ntouch %s/ran\n' >proxy && chmod +x proxy && "
	     "git -C copy.git config core.gitProxy %s/proxy",
	     root, root);
	remote = (struct git_remote){ .url = "git://127.0.0.1:1/r.git" };
	assert_int_equal(fetch(), -1);
	must("test ! -e ran");
}

/* Such files are how remotes were kept before there was a config. */
TEST(a_file_in_the_repository_sends_no_fetch_elsewhere)
{
	AUTO_FREE char *ssh = xasprintf("%s/ssh", root);

	must("printf '#!/bin/sh\necho \"$@\" >%s/ran\n' >ssh && chmod +x ssh && "
	     "mkdir -p copy.git/remotes && "
	     "echo 'URL: other:r.git' >copy.git/remotes/host:r.git",
	     root);
	remote = (struct git_remote){ .url = "host:r.git", .ssh_command = ssh };
	assert_fails(fetch(), ERR_CONFIG);
	must("test ! -e ran && rm copy.git/remotes/host:r.git");
	assert_int_equal(fetch(), -1);
	must("grep -q 'host git-upload-pack' ran");
}

static void check_rewrites(const char *key, const char *value, bool is_expected)
{
	AUTO_REPO struct repo copy = REPO_INIT;

	must("git -C copy.git config '%s' '%s'", key, value);
	assert_ok(repo_open(root_fd, "copy.git", &copy, &err));
	if (copy.rewrites_urls != is_expected)
		fail_msg("%s", key);
	must("git -C copy.git config --unset '%s'", key);
}

/* By the first git was sent elsewhere with the header, by the second it ran a program. */
TEST(what_sends_a_fetch_elsewhere_is_seen)
{
	static const char *const keys[] = {
		"remote.https://host/r.git.url",
		"remote./srv/git/r.git.uploadpack",
		"remote.git@host:r.git.proxy",
		"url.https://other/.insteadOf",
		"url.x.INSTEADOF",
		"fetch.bundleURI",
		"include.path",
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		check_rewrites(keys[i], "/nowhere", true);
	check_rewrites("remote.origin.url", "https://host/r.git", false);
	check_rewrites("remote.some/one.url", "https://host/r.git", false);
	check_rewrites("fetch.parallel", "1", false);
}

/* Whether tags go, or come, is decided after the fetch. */
TEST(a_repositorys_config_makes_and_removes_no_tag)
{
	must("git -C r.git tag theirs main && cd copy.git && git fetch -q ../r.git main "
	     "&& "
	     "git tag own FETCH_HEAD && git for-each-ref >../before && "
	     "git config fetch.prune true && git config fetch.pruneTags true");
	assert_ok(fetch());
	must("git -C copy.git for-each-ref | cmp - before");
}

/* By older protocols git gets no object of a ref that is hidden. */
TEST(a_repositorys_config_changes_neither_protocol_nor_negotiation)
{
	AUTO_FREE char *path = xasprintf("%s/r.git", root);

	must("git -C r.git config transfer.hideRefs refs/heads");
	remote = (struct git_remote){ .url = path };
	must("git -C copy.git config protocol.version 0");
	assert_ok(fetch());
	must("rm -rf copy.git/objects/pack/* && "
	     "git -C copy.git config fetch.negotiationAlgorithm nonsense");
	assert_ok(fetch());
}

TEST(what_the_server_answers_has_a_class)
{
	static const struct {
		const char *mode;
		enum err_class class;
	} answers[] = {
		{ "401", ERR_AUTH },        { "403", ERR_AUTH },
		{ "404", ERR_MISSING },     { "429", ERR_NETWORK },
		{ "500", ERR_NETWORK },     { "503", ERR_NETWORK },
		{ "504", ERR_TIMEOUT },     { "400", ERR_CONFIG },
		{ "302", ERR_CONFIG },      { "nothing", ERR_NETWORK },
		{ "cut", ERR_NETWORK },     { "short", ERR_NETWORK },
		{ "empty", ERR_NETWORK },   { "page", ERR_NETWORK },
		{ "garbage", ERR_NETWORK },
	};

	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		write_mode(answers[i].mode);
		assert_int_equal(fetch(), -1);
		if (err.class != answers[i].class)
			fail_msg("%s: %s: %s", answers[i].mode, err_class_name(err.class),
				 err.text);
		assert_null(strstr(err.text, "s3cr"));
	}
}

TEST(an_answer_that_rests_is_a_timeout)
{
	remote.stall_ms = 1000;
	write_mode("stall");
	assert_fails(fetch(), ERR_TIMEOUT);
}

TEST(a_server_that_says_that_it_lives_is_waited_for)
{
	remote.stall_ms = 1000;
	write_mode("slow");
	assert_ok(fetch());
	must("git -C copy.git cat-file -e $(git -C %s rev-parse main)", store_path);
}

TEST(nobody_who_listens_is_a_network_error)
{
	remote.url = "http://127.0.0.1:1/r.git";
	assert_fails(fetch(), ERR_NETWORK);
}

TEST(a_path_may_not_lead_to_the_network_nor_a_url_to_files)
{
	must("git -C copy.git config url.%s.insteadOf /nowhere", url);
	remote.url = "/nowhere";
	assert_fails(fetch(), ERR_CONFIG);
	must("git -C copy.git config --unset-all url.%s.insteadOf", url);
	must("git -C copy.git config url.%s/r.git.insteadOf %s", root, url);
	remote.url = url;
	assert_fails(fetch(), ERR_CONFIG);
}

TEST(another_command_leaves_the_files_that_running_children_read)
{
	must("ls -i gitconfig* >before");
	assert_ok(git_setup(root, &err));
	must("ls -i gitconfig* | cmp before -");
	must("echo >>gitconfig && echo nonsense >gitconfig-push");
	assert_ok(git_setup(root, &err));
	must("! ls -i gitconfig* | cmp -s before -");
	must("! grep -q nonsense gitconfig-push && test -n \"$(tail -n 1 gitconfig)\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_header_comes_with_each_request_and_is_seen_nowhere_else),
		CASE(a_repositorys_config_adds_no_header_proxy_or_helper),
		CASE(without_a_header_none_is_sent),
		CASE(a_header_of_two_lines_is_refused),
		CASE(a_file_of_authorities_stands_in_place_of_a_directory_of_them),
		CASE(a_repositorys_config_does_not_send_the_header_to_unverified_peers),
		CASE(what_a_repositorys_config_says_of_the_url_adds_nothing),
		CASE(a_repositorys_config_resolves_no_names),
		CASE(a_repositorys_config_runs_no_proxy),
		CASE(a_file_in_the_repository_sends_no_fetch_elsewhere),
		CASE(what_sends_a_fetch_elsewhere_is_seen),
		CASE(a_repositorys_config_makes_and_removes_no_tag),
		CASE(a_repositorys_config_changes_neither_protocol_nor_negotiation),
		CASE(what_the_server_answers_has_a_class),
		CASE(an_answer_that_rests_is_a_timeout),
		CASE(a_server_that_says_that_it_lives_is_waited_for),
		CASE(nobody_who_listens_is_a_network_error),
		CASE(a_path_may_not_lead_to_the_network_nor_a_url_to_files),
		CASE(another_command_leaves_the_files_that_running_children_read),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
