#include "test.h"

#include "base/hash.h"
#include "base/proc.h"
#include "push/destination.h"
#include "push_conf.h"

/* Until the task store brings it. */
__attribute__((weak)) void uri_key_of(const char *uri, char key[URI_KEY_SIZE])
{
	AUTO_HASH struct hash hash;
	AUTO_STR struct str hex = STR_INIT;
	unsigned char digest[HASH_MAX_SIZE];

	hash_init(&hash, HASH_SHA1);
	hash_add(&hash, uri, strlen(uri));
	hash_end(&hash, digest);
	str_add_hex(&hex, digest, 20);
	memcpy(key, hex.data, URI_KEY_SIZE);
}

static int read_remote(const char *url, const char *more)
{
	AUTO_FREE char *text =
		xasprintf("[remote \"r\"]\n\turl = \"%s\"\n%s\n", url, more);

	return read_settings(text);
}

static void make(const char *url, const char *more, const char *project,
		 struct destination *destination)
{
	assert_ok(read_remote(url, more));
	assert_int_equal(settings->remotes.count, 1);
	assert_ok(destination_make(&settings->remotes.items[0], 0, project, destination,
				   &err));
}

/* The uri column is what JGit's URIish gives; git_url leads git to `path` at `host`. */
TEST(each_kind_of_url_leads_to_the_place_that_jgit_would_reach)
{
	static const struct {
		const char *url, *project, *uri, *git_url, *path, *host, *breaker;
	} table[] = {
		{ "git://mirror1.example.com/git/${name}.git", "platform/build",
		  "git://mirror1.example.com/git/platform/build.git",
		  "git://mirror1.example.com/git/platform/build.git",
		  "/git/platform/build.git", "mirror1.example.com",
		  "git://mirror1.example.com:0" },
		{ "https://m.example.com/${name}.git", "tools/a=b c",
		  "https://m.example.com/tools/a=b%20c.git",
		  "https://m.example.com/tools/a=b%20c.git", "/tools/a=b c.git",
		  "m.example.com", "https://m.example.com:0" },
		{ "git@m.example.com:/srv/${name}.git", "tools/a=b c",
		  "git@m.example.com:/srv/tools/a=b c.git",
		  "git@m.example.com:/srv/tools/a=b c.git", "/srv/tools/a=b c.git",
		  "git@m.example.com", "ssh://m.example.com:0" },
		{ "ssh://git@h:2222/srv/${name}.git", "a b/\xc3\xa9",
		  "ssh://git@h:2222/srv/a%20b/%c3%a9.git",
		  "ssh://git@h:2222/srv/a%20b/%c3%a9.git", "/srv/a b/\xc3\xa9.git",
		  "git@h", "ssh://h:2222" },
		{ "git+ssh://h/~joe/${name}", "x", "git+ssh://h/~joe/x", "ssh://h/~joe/x",
		  "~joe/x", "h", "git+ssh://h:0" },
		{ "ssh://[::1]:22/${name}", "x", "ssh://[::1]:22/x", "ssh://[::1]:22/x",
		  "/x", "::1", "ssh://[::1]:22" },
		{ "h:git/${name}.git", "a", "h:git/a.git", "h:git/a.git", "git/a.git",
		  "h", "ssh://h:0" },
		{ "[::1]:${name}", "a", "[::1]:a", "[::1]:a", "a", "::1",
		  "ssh://[::1]:0" },
		{ "/srv/mirror/${name}.git", "a:b c", "/srv/mirror/a:b c.git",
		  "/srv/mirror/a:b c.git", "/srv/mirror/a:b c.git", NULL, "" },
		{ "file:///srv/my%20mirror/${name}.git", "a%20b",
		  "file:///srv/my%20mirror/a%2520b.git", "/srv/my mirror/a%20b.git",
		  "/srv/my mirror/a%20b.git", NULL, "" },
		{ "file:/srv/${name}", "a", "file:///srv/a", "/srv/a", "/srv/a", NULL,
		  "" },
		{ "http://h:8080/my%20git/${name}", "a#b?c%d\"e",
		  "http://h:8080/my%20git/a#b?c%25d\"e",
		  "http://h:8080/my%20git/a%23b%3Fc%25d%22e", "/my git/a#b?c%d\"e", "h",
		  "http://h:8080" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_DESTINATION struct destination to;
		make(table[i].url, "", table[i].project, &to);
		assert_string_equal(to.uri, table[i].uri);
		assert_string_equal(to.git_url, table[i].git_url);
		assert_string_equal(to.path, table[i].path);
		assert_string_equal(to.host ? to.host : "-",
				    table[i].host ? table[i].host : "-");
		assert_string_equal(to.breaker, table[i].breaker);
		assert_string_equal(to.project, table[i].project);
	}
}

TEST(the_uri_key_is_that_of_the_design)
{
	AUTO_DESTINATION struct destination to;

	make("git://mirror1.example.com/git/${name}.git", "", "platform/build", &to);
	assert_string_equal(to.uri_key, "58d014b480dc263311c04ee6f1eef3053296109b");
	assert_int_equal(to.kind, URL_GIT);
}

/* Scenario 35. */
TEST(the_name_is_encoded_for_http_and_styled)
{
	static const struct {
		const char *style, *http, *local;
	} table[] = {
		{ "slash", "http://h/a%20b/c=d", "/srv/a b/c=d" },
		{ "dash", "http://h/a%20b-c=d", "/srv/a b-c=d" },
		{ "underscore", "http://h/a%20b_c=d", "/srv/a b_c=d" },
		{ "basenameOnly", "http://h/c=d", "/srv/c=d" },
		{ "whatever", "http://h/a%20b/c=d", "/srv/a b/c=d" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_FREE char *style =
			xasprintf("\tremoteNameStyle = %s\n", table[i].style);
		AUTO_DESTINATION struct destination http, local;
		make("http://h/${name}", style, "a b/c=d", &http);
		make("/srv/${name}", style, "a b/c=d", &local);
		assert_string_equal(http.uri, table[i].http);
		assert_string_equal(http.git_url, table[i].http);
		assert_string_equal(local.uri, table[i].local);
	}
	AUTO_DESTINATION struct destination base, none;
	make("/srv/${name}.git", "\tremoteNameStyle = basenameOnly\n", "x/lib.c.v2",
	     &base);
	assert_string_equal(base.uri, "/srv/lib.c.git");
	assert_fails(
		destination_make(&settings->remotes.items[0], 0, "x/.lib", &none, &err),
		ERR_CONFIG);
}

TEST(only_the_first_name_in_the_path_is_replaced)
{
	AUTO_DESTINATION struct destination to;

	make("ssh://h/${name}/${name}.git", "", "a", &to);
	assert_string_equal(to.uri, "ssh://h/a/${name}.git");
}

/* What stock git asks ssh for, "HOST\nCOMMAND\n". */
static void ask_git(const char *url, struct str *asked)
{
	const char *const argv[] = { "git", "ls-remote", url, NULL };
	AUTO_FREE char *script = xasprintf("%s/ssh", root);
	AUTO_FREE char *body = xasprintf("#!/bin/sh\nwhile [ $# -gt 2 ]; do shift; done\n"
					 "printf '%%s\\n' \"$@\" >%s/asked\nexit 1\n",
					 root);

	assert_ok(file_replace(root_fd, "ssh", body, strlen(body), FILE_NO_SYNC, &err));
	assert_int_equal(chmod(script, 0755), 0);
	setenv("GIT_SSH", script, 1);
	setenv("GIT_SSH_VARIANT", "ssh", 1);
	unlinkat(root_fd, "asked", 0);
	proc_run(&(struct proc_request){ .argv = argv, .timeout_ms = 10000 }, NULL, &err);
	if (file_read(root_fd, "asked", 4096, asked, ERR_IGNORED) != 0)
		fail_msg("git does not ask for %s: %s", url, err.text);
}

/* Names that git would decode, or take for options, helpers and homes. */
TEST(stock_git_reaches_exactly_the_path_whatever_the_name)
{
	static const struct {
		const char *url, *project, *path, *asked; /* NULL: the path */
	} table[] = {
		{ "ssh://joe@h/srv/${name}.git", "a b%41", "/srv/a b%41.git", NULL },
		{ "ssh://joe@h/${name}", "~root/x", "/~root/x", "//~root/x" },
		{ "ssh://joe@h/~/${name}", "x", "~/x", NULL },
		{ "ssh://joe@h/${name}", "-x", "/-x", NULL },
		{ "joe@h:${name}.git", "-x", "./-x.git", NULL },
		{ "joe@h:${name}.git", "~root", "./~root.git", NULL },
		{ "joe@h:~/${name}.git", "x", "~/x.git", NULL },
		{ "joe@h:/${name}", "~root/x", "/./~root/x", NULL },
		{ "joe@h:${name}", ":x%41", "./:x%41", NULL },
		{ "joe@h:/srv/${name}", "a b%41", "/srv/a b%41", NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_DESTINATION struct destination to;
		AUTO_STR struct str asked = STR_INIT;
		AUTO_FREE char *expected =
			xasprintf("joe@h\ngit-upload-pack '%s'\n",
				  table[i].asked ? table[i].asked : table[i].path);
		make(table[i].url, "", table[i].project, &to);
		ask_git(to.git_url, &asked);
		if (strcmp(asked.data, expected) != 0)
			fail_msg("%s: %s", to.git_url, asked.data);
		assert_string_equal(to.path, table[i].path);
	}
}

TEST(a_name_cannot_make_git_start_a_helper)
{
	AUTO_DESTINATION struct destination to;

	make("ext:${name}", "", ":sh -c date", &to);
	assert_string_equal(to.git_url, "ext:./:sh -c date");
	assert_string_equal(to.uri, "ext::sh -c date");
}

TEST(urls_that_lead_nowhere_are_refused_with_their_line)
{
	static const char *const urls[] = {
		"git://h/x.git",
		"srv/${name}",
		"./${name}",
		"${name}",
		"c:/srv/${name}",
		"https:///${name}",
		"ssh://-oProxyCommand=x/${name}",
		"-oProxyCommand=x:${name}",
		"ssh://-x@h/${name}",
		"SSH://h/${name}",
		"amazon-s3://h/${name}",
		"gerrit+ssh://h/${name}",
		"file://h/${name}",
		"ssh://h:0x/${name}",
		"ssh://h:70000/${name}",
		"ssh://[::1/${name}",
		"https://h/%zz/${name}",
		"https://h/%00/${name}",
		"https:/joe:CANARY@h/${name}",
		"ssh:/h/${name}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		if (read_remote(urls[i], "") == 0)
			fail_msg("%s", urls[i]);
		assert_int_equal(err.class, ERR_CONFIG);
		assert_non_null(strstr(err.text, "t.conf:2: remote.r.url: "));
		assert_null(strstr(err.text, "CANARY"));
		assert_null(strstr(err.remedy, "CANARY"));
	}
}

TEST(a_url_without_a_name_is_for_exactly_one_project)
{
	AUTO_DESTINATION struct destination to;

	make("git://h/x.git", "\tprojects = x\n", "x", &to);
	assert_string_equal(to.uri, "git://h/x.git");
	assert_fails(read_remote("git://h/x.git", "projects = x*\n"), ERR_CONFIG);
	assert_fails(read_remote("git://h/x.git", "projects = ^x\n"), ERR_CONFIG);
	assert_fails(read_remote("git://h/x.git", "projects = x\nprojects = y\n"),
		     ERR_CONFIG);
}

TEST(credentials_in_urls_are_taken_out)
{
	AUTO_DESTINATION struct destination http, ssh, scp;

	make("https://joe%40x:s3cret@h:81/${name}", "", "a", &http);
	assert_string_equal(http.url->template, "https://h:81/${name}");
	assert_string_equal(http.url->user, "joe@x");
	assert_string_equal(http.url->password, "s3cret");
	assert_string_equal(http.git_url, "https://h:81/a");
	assert_string_equal(http.uri, "https://joe%40x@h:81/a");
	assert_string_equal(http.host, "h");
	assert_int_equal(settings->notes.count, 1);
	assert_null(strstr(settings->notes.items[0], "s3cret"));
	make("ssh://joe:s3cret@h/${name}", "", "a", &ssh);
	assert_string_equal(ssh.url->template, "ssh://joe@h/${name}");
	assert_string_equal(ssh.git_url, "ssh://joe@h/a");
	assert_null(ssh.url->password);
	make("joe:s3cret@h:${name}", "", "a", &scp);
	assert_string_equal(scp.url->template, "joe@h:${name}");
	assert_string_equal(scp.uri, "joe@h:a");
	assert_fails(read_remote("https://joe:s3cret@h:x/${name}", ""), ERR_CONFIG);
	assert_null(strstr(err.text, "s3cret"));
}

TEST(admin_urls_take_the_place_of_the_url)
{
	AUTO_DESTINATION struct destination to;
	AUTO_DESTINATIONS destination_list admins = { 0 };

	make("https://h/${name}.git",
	     "\tadminUrl = git://h/${name}\n"
	     "\tadminUrl = ssh://h/no-name\n"
	     "\tadminUrl = ssh://git@h/srv/${name}.git\n"
	     "\tadminUrl = gerrit+ssh://git@h:29418\n"
	     "\tadminUrl = gerrit+https://h/r\n"
	     "\tadminUrl = /srv/${name}\n",
	     "a/b c", &to);
	assert_int_equal(settings->notes.count, 3);
	assert_ok(destination_admin(&to, &admins, &err));
	assert_int_equal(admins.count, 3);
	assert_int_equal(admins.items[0].kind, URL_SSH);
	assert_string_equal(admins.items[0].path, "/srv/a/b c.git");
	assert_string_equal(admins.items[0].host, "git@h");
	assert_int_equal(admins.items[1].kind, URL_GERRIT_SSH);
	assert_int_equal(admins.items[1].port, 29418);
	assert_string_equal(admins.items[1].project, "a/b c");
	assert_int_equal(admins.items[2].kind, URL_GERRIT_HTTP);
	assert_string_equal(admins.items[2].git_url, "https://h/r");
}

TEST(without_admin_urls_the_url_itself_is_it)
{
	AUTO_DESTINATION struct destination to;
	AUTO_DESTINATIONS destination_list admins = { 0 };

	make("/srv/${name}.git", "\tadminUrl = https://h/${name}\n", "a", &to);
	assert_ok(destination_admin(&to, &admins, &err));
	assert_int_equal(admins.count, 1);
	assert_string_equal(admins.items[0].path, "/srv/a.git");
}

static const char *remote_of_task(const char *remote, const char *project,
				  const char *uri)
{
	AUTO_DESTINATION struct destination to = { 0 };

	if (destination_find(settings, remote, project, uri, &to, &err) == 0)
		return to.remote->name;
	assert_int_equal(err.class, ERR_MISSING);
	return "";
}

TEST(a_task_finds_its_destination_as_long_as_a_remote_has_it)
{
	AUTO_DESTINATION struct destination to = { 0 };

	assert_ok(read_settings("[remote \"a\"]\nurl = git://h1/${name}\n"
				"url = https://joe:pw@h2/${name}\nprojects = x/*\n"
				"[remote \"b\"]\nurl = git://h1/${name}\n"));
	assert_ok(
		destination_find(settings, "a", "x/1", "https://joe@h2/x/1", &to, &err));
	assert_ptr_equal(to.url, &settings->remotes.items[0].urls.items[1]);
	assert_string_equal(remote_of_task("b", "x/1", "git://h1/x/1"), "b");
	/* its own is gone, or does not take it any more */
	assert_string_equal(remote_of_task("c", "x/1", "git://h1/x/1"), "a");
	assert_string_equal(remote_of_task("a", "y", "git://h1/y"), "b");
	assert_string_equal(remote_of_task("a", "y", "https://joe@h2/y"), "");
	assert_string_equal(remote_of_task("a", "x/1", "git://h3/x/1"), "");
}

TEST(a_repository_goes_to_each_url_of_each_remote_that_takes_it)
{
	AUTO_DESTINATIONS destination_list list = { 0 };

	assert_ok(read_settings("[remote \"a\"]\nurl = git://h1/${name}\n"
				"url = git://h2/${name}\nprojects = x/*\n"
				"[remote \"b\"]\nurl = git://h3/${name}\n"
				"[remote \"c\"]\nurl = git://h4/${name}\nprojects = y\n"
				"[remote \"d\"]\nurl = git://h5/${name}\n"
				"remoteNameStyle = basenameOnly\n"));
	destinations_of(settings, "x/.1", &list);
	assert_int_equal(list.count, 3);
	assert_string_equal(list.items[0].uri, "git://h1/x/.1");
	assert_string_equal(list.items[1].uri, "git://h2/x/.1");
	assert_string_equal(list.items[2].uri, "git://h3/x/.1");
}

/* They would be the folder of all copies, or the one above. */
TEST(a_basename_that_is_no_name_has_no_destination)
{
	static const char *const names[] = { "a/...", "a/..x", "x/.1", "..." };
	AUTO_DESTINATIONS destination_list list = { 0 };

	assert_ok(read_settings("[remote \"a\"]\nurl = /srv/${name}\n"
				"remoteNameStyle = basenameOnly\n"));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		destinations_of(settings, names[i], &list);
	assert_int_equal(list.count, 0);
}

TEST(what_is_pushed_from_the_place_of_a_copy_is_a_circle)
{
	static const struct {
		const char *url, *more;
		bool is_circle;
	} table[] = {
		{ "%s/git/${name}.git", "", true },
		{ "%s/git/m/${name}.git", "", true },
		{ "file://%s/link/./m/${name}", "", true },
		{ "%s/git/m/${name}.git", "projects = a\n", false },
		{ "%s/git/m/${name}.git", "excludeProjects = m/*\n", false },
		{ "%s/git2/${name}.git", "", false },
		{ "host:%s/git/${name}.git", "", false },
	};
	AUTO_FREE char *git = xasprintf("%s/git", root);

	assert_ok(mkdirat(root_fd, "git", 0700));
	assert_ok(symlinkat("git", root_fd, "link"));
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_STR struct str text = STR_INIT;
		AUTO_DESTINATIONS destination_list list = { 0 };
		const char *mark = strstr(table[i].url, "%s");
		str_addf(&text, "[remote \"a\"]\nurl = %.*s%s%s\n%s",
			 (int)(mark - table[i].url), table[i].url, root, mark + 2,
			 table[i].more);
		assert_ok(read_settings(text.data));
		destinations_of(settings, "a", &list);
		assert_int_equal(list.count, 1);
		int result = destination_check_loop(settings, git, &list.items[0], &err);
		if (result != (table[i].is_circle ? -1 : 0))
			fail_msg("%s", text.data);
	}
}

TEST(start_finds_urls_by_a_part_of_template_or_uri)
{
	AUTO_DESTINATION struct destination to;

	make("git://h/srv/${name}.git", "", "a", &to);
	assert_true(destination_matches_url(&to, ""));
	assert_true(destination_matches_url(&to, "*"));
	assert_true(destination_matches_url(&to, "srv/${name}"));
	assert_true(destination_matches_url(&to, "srv/a.git"));
	assert_false(destination_matches_url(&to, "srv/b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SETTINGS_CASE(each_kind_of_url_leads_to_the_place_that_jgit_would_reach),
		SETTINGS_CASE(the_uri_key_is_that_of_the_design),
		SETTINGS_CASE(the_name_is_encoded_for_http_and_styled),
		SETTINGS_CASE(only_the_first_name_in_the_path_is_replaced),
		SETTINGS_CASE(stock_git_reaches_exactly_the_path_whatever_the_name),
		SETTINGS_CASE(a_name_cannot_make_git_start_a_helper),
		SETTINGS_CASE(urls_that_lead_nowhere_are_refused_with_their_line),
		SETTINGS_CASE(a_url_without_a_name_is_for_exactly_one_project),
		SETTINGS_CASE(credentials_in_urls_are_taken_out),
		SETTINGS_CASE(admin_urls_take_the_place_of_the_url),
		SETTINGS_CASE(without_admin_urls_the_url_itself_is_it),
		SETTINGS_CASE(a_task_finds_its_destination_as_long_as_a_remote_has_it),
		SETTINGS_CASE(a_repository_goes_to_each_url_of_each_remote_that_takes_it),
		SETTINGS_CASE(a_basename_that_is_no_name_has_no_destination),
		SETTINGS_CASE(what_is_pushed_from_the_place_of_a_copy_is_a_circle),
		SETTINGS_CASE(start_finds_urls_by_a_part_of_template_or_uri),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
