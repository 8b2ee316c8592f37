/*
 * What an operator asks of a secondary's rows over HTTP, and which rows refuse it.
 */
#include "web_test.h"

#include "base/json.h"
#include "registry_write.h"
#include "replicable/name.h"
#include "web/access.h"
#include "web/route.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

static struct store *store;

/* Nobody works here. */
void pull_wake(struct pull *pull)
{
	assert_null(pull);
}

static void rows_test_read_access(void)
{
	AUTO_FREE char *text =
		xasprintf("[http]\noperatorTokenFile = %s/operator\n", root);
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(file_replace(root_fd, "operator", TOKEN "\n", strlen(TOKEN) + 1,
			       FILE_NO_SYNC, &err));
	assert_int_equal(fchmodat(root_fd, "operator", 0600, 0), 0);
	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(access_read(conf, true, &services.access, &err));
}

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	AUTO_FREE char *url = xasprintf("sqlite:%s/refrelay.db", root);
	assert_ok(store_open(url, &store, &err));
	services = (struct web_services){ .site = "paris",
					  .role = SITE_SECONDARY,
					  .store = store };
	rows_test_read_access();
	start_server(web_repository_routes, 0);
	return 0;
}

static int teardown(void **state)
{
	web_server_stop(server, 0);
	access_free(services.access);
	store_close(store);
	return test_remove_root(state);
}

static void move_row(const char *name, struct registry_move move)
{
	move.id = replicable_id(KIND_REPOSITORY, name);
	assert_ok(registry_move(store, &move, &err));
}

/* Synced and verified. */
static void add_synced(const char *name)
{
	const struct registry_move brought = {
		.id = replicable_id(KIND_REPOSITORY, name),
		.generation = 1,
		.timeline = "t1",
		.checksum = "1-aa",
		.timeout_ms = 60000,
	};

	assert_ok(registry_add(store, KIND_REPOSITORY, &name, 1, &err));
	move_row(name, (struct registry_move){ .event = REGISTRY_ASKED,
					       .generation = 1,
					       .timeline = "t1",
					       .checksum = "1-aa" });
	move_row(name,
		 (struct registry_move){ .event = REGISTRY_BEGUN, .timeout_ms = 60000 });
	assert_ok(registry_complete(store, &brought, &err));
}

static const char *post(const char *name, const char *verb, const char *body)
{
	AUTO_FREE char *head = xasprintf("POST /api/v1/repositories/%s/%s HTTP/1.1\r\n"
					 "Authorization: Bearer " TOKEN,
					 name, verb);

	return exchange(head, body, strlen(body));
}

static void expect(const char *answer, int status, const char *text)
{
	if (status_of(answer) != status || !strstr(answer, text))
		fail_msg("not %d with %s: %s", status, text, answer);
}

/* The primary deleted it, as too many others. */
static void add_held_deletion(const char *name)
{
	add_synced(name);
	move_row(name, (struct registry_move){ .event = REGISTRY_GONE });
	move_row(name, (struct registry_move){ .event = REGISTRY_HELD,
					       .held_reason = "too many" });
}

/* Else the next comparison would delete the copy by nobody's decision. */
TEST(what_the_primary_deleted_stays_held_whatever_is_asked)
{
	static const char *const verbs[] = { "sync", "resync", "reverify", "retry",
					     "release" };
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	add_held_deletion("a");
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++)
		expect(post("a", verbs[i], "{\"held_reason\":\"too many\"}"), 409,
		       "\"code\":\"CONFLICT\"");
	expect(post("a", "sync", ""), 409, "refrelay repository remove a\"");
	assert_ok(registry_get(store, KIND_REPOSITORY, "a", &row, &err));
	assert_true(row.is_gone);
	assert_string_equal(row.held_reason, "too many");
}

TEST(what_to_run_is_offered_as_a_shell_takes_it)
{
	static const char body[] = "{\"held_reason\":\"too many\"}";

	add_held_deletion("--all");
	add_held_deletion("a;b");
	expect(post("--all", "release", body), 409,
	       "refrelay repository remove -- --all\"");
	expect(post("a%3Bb", "release", body), 409, "refrelay repository remove 'a;b'\"");
}

/* Copied, but its disk does not let it be read. */
static void add_unverifiable(const char *name)
{
	const struct err failure = { .class = ERR_DISK, .text = "Input/output error" };

	add_synced(name);
	move_row(name, (struct registry_move){ .event = REGISTRY_CHECKING,
					       .timeout_ms = 60000 });
	move_row(name, (struct registry_move){ .event = REGISTRY_SUPERSEDED,
					       .err = &failure,
					       .timeout_ms = 3600000 });
}

TEST(a_copy_that_cannot_be_verified_is_among_the_failing_and_retried)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };

	add_synced("good");
	add_unverifiable("bad");
	const char *answer = get("/api/v1/repositories?state=failed");
	expect(answer, 200, "\"name\":\"bad\",\"word\":\"failing\"");
	assert_null(strstr(answer, "good"));
	expect(post("good", "retry", ""), 409, "good does not fail: it is up to date");
	expect(post("bad", "retry", ""), 200, "\"word\":\"verifying\"");
	assert_ok(registry_get(store, KIND_REPOSITORY, "bad", &row, &err));
	assert_int_equal(row.state, REGISTRY_SYNCED);
	assert_true(row.verification_due_at <= clock_wall_ms());
	expect(post("bad", "retry", ""), 409, "bad does not fail: it is verifying");
	expect(get("/api/v1/repositories?state=failed"), 200, "\"repositories\":[]");
}

#define ROWS_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROWS_CASE(what_the_primary_deleted_stays_held_whatever_is_asked),
		ROWS_CASE(
			a_copy_that_cannot_be_verified_is_among_the_failing_and_retried),
		ROWS_CASE(what_to_run_is_offered_as_a_shell_takes_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
