/*
 * What the page for people asks: who it is that asks, and a status that waits for
 * changes. The report is as each test says.
 */
#include "web_test.h"

#include <pthread.h>

#include "base/bell.h"
#include "mirror/lfs_lack.h"
#include "mirror/mirrors.h"
#include "registry_write.h"
#include "replicable/name.h"
#include "report/report_metrics.h"

#define TOKEN "0123456789abcdef0123456789abcdef"
#define READER "fedcba9876543210fedcba9876543210"
#define WAITS_MS 40000 /* much longer than what is not waited for may take */

void vitals_look(struct vitals *vitals, struct vital_signs *signs)
{
	assert_null(vitals);
	*signs = VITAL_SIGNS_NONE;
}

int report_make(const struct report_options *options, struct report *report,
		struct err *e)
{
	(void)options;
	(void)e;
	*report = (struct report){ 0 };
	return 0;
}

void report_clear(struct report *report)
{
	(void)report;
}

json_t *report_json(const struct report *report)
{
	(void)report;
	return json_object();
}

static void put_token(const char *name, const char *token)
{
	AUTO_FREE char *line = xasprintf("%s\n", token);

	assert_ok(file_replace(root_fd, name, line, strlen(line), FILE_NO_SYNC, &err));
	assert_int_equal(fchmodat(root_fd, name, 0600, 0), 0);
}

static void read_access(void)
{
	AUTO_FREE char *text = xasprintf("[http]\noperatorTokenFile = %s/operator\n"
					 "[token \"looker\"]\nfile = %s/looker\n"
					 "rights = read\n",
					 root, root);
	AUTO_CONF struct conf *conf = NULL;

	put_token("operator", TOKEN);
	put_token("looker", READER);
	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(access_read(conf, true, &services.access, &err));
}

static struct store *store;

static int setup_of(void **state, const struct web_route *routes)
{
	if (test_make_root(state))
		return -1;
	AUTO_FREE char *url = xasprintf("sqlite:%s/refrelay.db", root);
	assert_ok(store_open(url, &store, &err));
	services = (struct web_services){ .site = "paris",
					  .role = SITE_SECONDARY,
					  .store = store };
	read_access();
	start_server(routes, 0);
	return 0;
}

static int setup_views(void **state)
{
	return setup_of(state, web_view_routes);
}

static int setup_status(void **state)
{
	return setup_of(state, web_repository_routes);
}

static int teardown(void **state)
{
	web_server_stop(server, 0);
	access_free(services.access);
	store_close(store);
	return test_remove_root(state);
}

static const char *whoami(const char *token)
{
	AUTO_FREE char *head =
		xasprintf("GET /api/v1/whoami HTTP/1.1%s%s",
			  token ? "\r\nAuthorization: Bearer " : "", token ? token : "");

	return exchange(head, NULL, 0);
}

static void assert_has(const char *answer, const char *text)
{
	if (!strstr(answer, text))
		fail_msg("no %s in %s", text, answer);
}

TEST(a_credential_is_told_what_it_may_do)
{
	assert_has(whoami(TOKEN),
		   "\"name\":\"operator\",\"rights\":[\"read\",\"operate\"]");
	assert_has(whoami(READER), "\"name\":\"token looker\",\"rights\":[\"read\"]");
	assert_has(whoami(NULL), "\"name\":null,\"rights\":[\"read\"]");
	assert_int_equal(status_of(whoami("0000000000000000")), 401);
}

static char *version_of(const char *answer)
{
	static const char key[] = "\"version\":\"";
	const char *at = strstr(answer, key);

	assert_int_equal(status_of(answer), 200);
	assert_non_null(at);
	at += strlen(key);
	return xstrndup(at, strcspn(at, "\""));
}

/* How long such a question takes; *version becomes that of the answer. */
static int64_t ask(int wait_s, char **version)
{
	int64_t begun = clock_boot_ms();
	AUTO_FREE char *target = xasprintf("/api/v1/status?wait=%d&version=%s", wait_s,
					   *version ? *version : "");
	char *told = version_of(get(target));

	free(*version);
	*version = told;
	return clock_boot_ms() - begun;
}

TEST(a_version_that_is_old_or_unknown_is_not_waited_for)
{
	AUTO_FREE char *version = version_of(get("/api/v1/status"));
	AUTO_FREE char *none = NULL;

	bell_ring();
	assert_true(ask(55, &version) < WAITS_MS);
	assert_true(ask(55, &none) < WAITS_MS);
	assert_string_equal(version, none);
	assert_int_equal(status_of(get("/api/v1/status?wait=56")), 400);
}

TEST(without_a_change_the_wait_is_as_long_as_asked_for)
{
	AUTO_FREE char *version = version_of(get("/api/v1/status"));
	AUTO_FREE char *before = xstrdup(version);

	assert_true(ask(1, &version) >= 1000);
	assert_string_equal(version, before);
}

static void *ring_often(void *arg)
{
	const struct stop *stop = arg;

	while (!stop_wait(stop, 20))
		bell_ring();
	return NULL;
}

TEST(a_change_ends_the_wait)
{
	AUTO_FREE char *version = version_of(get("/api/v1/status"));
	AUTO_FREE char *before = xstrdup(version);
	pthread_t thread;
	struct stop stop;

	stop_init(&stop);
	thread_start(&thread, "ringing", ring_often, &stop);
	assert_true(ask(55, &version) < WAITS_MS);
	assert_string_not_equal(version, before);
	stop_request(&stop);
	thread_join(thread);
	stop_clear(&stop);
}

TEST(what_is_asked_in_no_such_way_is_refused)
{
	assert_int_equal(status_of(get("/api/v1/lag?minutes=0")), 400);
	assert_int_equal(status_of(get("/api/v1/lag?minutes=1441")), 400);
	assert_int_equal(status_of(get("/api/v1/mirrors?limit=0")), 400);
	assert_has(get("/api/v1/mirrors"), "{\"mirrors\":[]}");
	assert_has(get("/api/v1/running"), "{\"running\":[],\"rates\":null}");
}

/* No list has it any more, and it is held. */
static void add_left(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct registry_move move = { .event = REGISTRY_GONE };

	assert_ok(registry_add(store, KIND_MIRROR, &name, 1, &err));
	assert_ok(registry_get(store, KIND_MIRROR, name, &row, &err));
	move.id = row.id;
	assert_ok(registry_move(store, &move, &err));
	move.event = REGISTRY_HELD;
	move.held_reason = "no list has it";
	assert_ok(registry_move(store, &move, &err));
}

static void expect_mirrors(const char *query, const char *expected)
{
	AUTO_FREE char *target = xasprintf("/api/v1/mirrors%s", query);
	const char *body = strstr(get(target), "\r\n\r\n");
	json_auto_t *page = json_parse_object(body + 4, strlen(body + 4), SIZE_MAX, &err);
	AUTO_STR struct str names = STR_INIT;
	const json_t *one;
	size_t at;

	json_array_foreach(json_object_get(page, "mirrors"), at, one)
		str_addf(&names, "%s%s ", json_string_value(json_object_get(one, "name")),
			 json_is_null(json_object_get(one, "url")) ? "!" : "");
	if (json_object_get(page, "next"))
		str_addf(&names, "-> %s",
			 json_string_value(json_object_get(page, "next")));
	assert_string_equal(names.data, expected);
}

TEST(held_mirrors_that_no_list_has_are_among_the_others)
{
	static const char text[] = "[mirror \"b\"]\nurl = https://h/b.git\n"
				   "[mirror \"d\"]\nurl = https://h/d.git\n";
	AUTO_CONF struct conf *conf = NULL;
	AUTO_MIRRORS struct mirrors mirrors = { 0 };

	add_left("a");
	add_left("c");
	expect_mirrors("", "a! c! ");
	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(mirrors_read(conf, &mirrors, &err));
	services.mirrors = &mirrors;
	add_left("d"); /* which came back just now */
	add_left("e");
	expect_mirrors("", "a! b c! d e! ");
	expect_mirrors("?limit=2", "a! b -> b");
	expect_mirrors("?limit=2&after=b", "c! d -> d");
	expect_mirrors("?limit=2&after=d", "e! ");
	services.mirrors = NULL;
}

/* Synced and verified, as far as its refs go. */
static void add_synced(const char *name)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	assert_ok(registry_add(store, KIND_MIRROR, &name, 1, &err));
	assert_ok(registry_get(store, KIND_MIRROR, name, &row, &err));
	struct registry_move move = { .id = row.id,
				      .event = REGISTRY_BEGUN,
				      .timeout_ms = 60000 };
	assert_ok(registry_move(store, &move, &err));
	move = (struct registry_move){ .id = row.id,
				       .event = REGISTRY_PROVED,
				       .generation = 1,
				       .checksum = "1-00" };
	assert_ok(registry_complete(store, &move, &err));
}

static int begin_lacking(struct store_tx *tx, void *arg, struct err *e)
{
	return lfs_lack_begin_in(tx, arg, e);
}

static void expect_mirror(const char *word, const char *state, const char *failure)
{
	const char *body = strstr(get("/api/v1/mirrors"), "\r\n\r\n");
	json_auto_t *page = json_parse_object(body + 4, strlen(body + 4), SIZE_MAX, &err);
	const json_t *one = json_array_get(json_object_get(page, "mirrors"), 0);
	const char *is = json_string_value(json_object_get(one, "failure"));

	assert_string_equal(json_string_value(json_object_get(one, "word")), word);
	assert_string_equal(json_string_value(json_object_get(one, "state")), state);
	if (failure)
		assert_string_equal(is, failure);
	else
		assert_null(is);
}

TEST(a_mirror_without_its_objects_is_not_up_to_date)
{
	static const char text[] = "[mirror \"a\"]\nurl = https://h/a.git\nlfs = true\n";
	AUTO_CONF struct conf *conf = NULL;
	AUTO_MIRRORS struct mirrors mirrors = { 0 };
	struct lfs_lack lack = { .next_at = -1 };

	add_synced("a");
	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(mirrors_read(conf, &mirrors, &err));
	services.mirrors = &mirrors;
	expect_mirror("up to date", "synced", NULL);
	assert_ok(store_write(store, begin_lacking, &mirrors, &err));
	expect_mirror("copying", "pending", NULL);
	assert_ok(lfs_lack_put(store, "a", 0, &lack, &err));
	expect_mirror("up to date", "synced", NULL);
	lack.next_at = 1;
	err_set(&err, ERR_CORRUPT, "its upstream lacks one");
	lfs_lack_set_failure(&lack, &err);
	assert_ok(lfs_lack_put(store, "a", 0, &lack, &err));
	expect_mirror("failing", "failed", "its upstream lacks one");
	lfs_lack_clear(&lack);
	services.mirrors = NULL;
}

#define VIEW_CASE(name) cmocka_unit_test_setup_teardown(name, setup_views, teardown)
#define STATUS_CASE(name) cmocka_unit_test_setup_teardown(name, setup_status, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		VIEW_CASE(a_credential_is_told_what_it_may_do),
		VIEW_CASE(what_is_asked_in_no_such_way_is_refused),
		VIEW_CASE(held_mirrors_that_no_list_has_are_among_the_others),
		VIEW_CASE(a_mirror_without_its_objects_is_not_up_to_date),
		STATUS_CASE(a_version_that_is_old_or_unknown_is_not_waited_for),
		STATUS_CASE(without_a_change_the_wait_is_as_long_as_asked_for),
		STATUS_CASE(a_change_ends_the_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
