/*
 * Which places an adminUrl leads to, from the configuration to what is there afterwards.
 */
#include "git_test.h"

#include "push/target.h"

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static const struct git_work work = { .guard_fd = -1 };
static struct conf *conf;
static struct push_settings *settings;
static struct destination destination;
static struct target_call call;

static int setup(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	log_set_level(LOG_LEVEL_NONE);
	return git_setup(root, &err);
}

static int teardown(void **state)
{
	destination_clear(&destination);
	push_settings_unref(settings);
	settings = NULL;
	conf_free(conf);
	conf = NULL;
	return test_remove_root(state);
}

/* The remote's lines; "*" is the root. */
static void read_remote(const char *lines, const char *project)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, "[remote \"m\"]\n");
	for (; *lines; lines++) {
		if (*lines == '*')
			str_add(&text, root);
		else
			str_add_char(&text, *lines);
	}
	assert_ok(conf_load_text("conf", text.data, text.len, &conf, &err));
	assert_ok(push_settings_read(conf, root, &settings, &err));
	assert_ok(destination_make(&settings->remotes.items[0], 0, project, &destination,
				   &err));
	call = (struct target_call){ .settings = settings,
				     .destination = &destination,
				     .directory = root,
				     .work = &work };
}

static int create(void)
{
	return target_create(&call, "refs/heads/main", 20, &err);
}

TEST(without_an_admin_url_it_is_the_destination_itself)
{
	read_remote("url = */m/${name}.git\n", "a/b c");
	assert_ok(create());
	must("test -d 'm/a/b c.git/refs'");
	assert_ok(target_delete(&call, &err));
	must("test -d m/.refrelay/trash/*.0.'a%%2Fb c.git'/refs");
}

TEST(a_url_without_a_way_says_what_is_missing)
{
	read_remote("url = git://127.0.0.1/${name}.git\n", "a");
	assert_fails(create(), ERR_CONFIG);
	assert_int_equal(err.reason, REASON_NO_WAY);
	assert_non_null(strstr(err.remedy, "remote.m.adminUrl"));
}

/* The port of a Gerrit server in the root. */
static int start_gerrit(pid_t *server)
{
	setenv("SERVER_ROOT", root, 1);
	must("mkfifo port");
	*server = start_shell("exec python3 \"$TESTS/peers/gerrit.py\" \"$SERVER_ROOT\"");
	AUTO_FREE char *port = output_of("cat port");
	return atoi(port);
}

static int create_and_stop(pid_t server)
{
	int created = create();

	kill(server, SIGKILL);
	wait_end(server);
	return created;
}

TEST(a_gerrit_server_is_reached_with_the_urls_credentials)
{
	pid_t server;
	AUTO_FREE char *lines =
		xasprintf("url = git://127.0.0.1/${name}.git\nadminUrl = "
			  "gerrit+http://admin:s3cret@127.0.0.1:%d/prefix\n",
			  start_gerrit(&server));

	read_remote(lines, "a/b c");
	assert_ok(create_and_stop(server));
	must("test -f projects/a%%2Fb%%20c");
}

TEST(a_server_that_is_down_keeps_no_other_from_making_it)
{
	pid_t server;
	AUTO_FREE char *lines =
		xasprintf("url = git://127.0.0.1/${name}.git\n"
			  "adminUrl = gerrit+http://admin:s3cret@127.0.0.1:1/down\n"
			  "adminUrl = gerrit+http://admin:s3cret@127.0.0.1:%d/prefix\n"
			  "adminUrl = gerrit+http://admin:s3cret@127.0.0.1:2/too\n",
			  start_gerrit(&server));

	read_remote(lines, "a/b c");
	assert_fails(create_and_stop(server), ERR_NETWORK);
	assert_non_null(strstr(err.text, "127.0.0.1:1/down"));
	must("test -f projects/a%%2Fb%%20c");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(without_an_admin_url_it_is_the_destination_itself),
		CASE(a_url_without_a_way_says_what_is_missing),
		CASE(a_gerrit_server_is_reached_with_the_urls_credentials),
		CASE(a_server_that_is_down_keeps_no_other_from_making_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
