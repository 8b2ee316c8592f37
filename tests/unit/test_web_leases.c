/*
 * Leases over HTTP: who holds what, an operator who takes one away, and what a request is
 * told that a lease kept from its work.
 */
#include "web_test.h"

#include "lease/lease_settings.h"
#include "lease/manager.h"
#include "store/store.h"

#define KEY "geo_sync_ssf_service:repository:7"
#define TOKEN "0123456789abcdef0123456789abcdef"

static struct store *store;
static struct lease_manager *theirs; /* to the server's as another process's */
static struct lease *held;

/* As a route would that waits for a lease. */
static int wait_for_lease(const struct web_request *request,
			  struct web_response *response, struct err *error)
{
	const struct lease_request wanted = {
		.key = KEY, .operation = "sync", .name = "team/app", .wait_ms = 50
	};
	struct lease *lease;

	(void)response;
	if (lease_acquire(request->services->leases, &wanted, &lease, error) != 0)
		return -1;
	lease_release(lease);
	return 0;
}

static struct web_route routes[8];

static void join_routes(void)
{
	size_t count = 0;

	for (const struct web_route *route = web_lease_routes; route->handle; route++)
		routes[count++] = *route;
	routes[count] = (struct web_route){ "GET", "/work", WEB_ANYBODY, WEB_BODY_NONE,
					    wait_for_lease };
}

static void read_access(void)
{
	AUTO_FREE char *text = xasprintf("[http]\noperatorTokenFile = %s/token\n", root);
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(file_replace(root_fd, "token", TOKEN "\n", sizeof(TOKEN), FILE_NO_SYNC,
			       &err));
	assert_int_equal(fchmodat(root_fd, "token", 0600, 0), 0);
	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(access_read(conf, true, &services.access, &err));
}

static struct lease_manager *open_leases(const char *text)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	AUTO_FREE char *directory = xasprintf("%s/leases", root);
	AUTO_FREE char *section = xasprintf("[lease]\n%s\n", text);
	struct lease_settings settings = { 0 };
	struct lease_manager *manager;
	AUTO_CONF struct conf *conf = NULL;

	if (!store)
		assert_ok(store_open(url, &store, &err));
	assert_ok(conf_load_text("test", section, strlen(section), &conf, &err));
	assert_ok(lease_settings_read(conf, &settings, &err));
	const struct lease_place place = { .store = store,
					   .directory = directory,
					   .node = "here",
					   .site = "paris",
					   .repositories = root };
	assert_ok(lease_manager_open(&settings, &place, &manager, &err));
	lease_settings_clear(&settings);
	return manager;
}

static int setup_with(void **state, const char *text)
{
	if (test_make_root(state))
		return -1;
	services = (struct web_services){ .root = root };
	read_access();
	log_set_level(LOG_LEVEL_NONE);
	services.leases = open_leases(text);
	theirs = open_leases(text);
	join_routes();
	start_server(routes, 0);
	return 0;
}

static int setup(void **state)
{
	return setup_with(state, "");
}

static int setup_away(void **state)
{
	return setup_with(state, "backend = redis\nurl = unix:///no-such-socket");
}

static int teardown(void **state)
{
	web_server_stop(server, 0);
	lease_release(TAKE(held));
	lease_manager_close(services.leases);
	lease_manager_close(theirs);
	store_close(TAKE(store));
	access_free(services.access);
	return test_remove_root(state);
}

#define AWAY_CASE(name) cmocka_unit_test_setup_teardown(name, setup_away, teardown)
#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void hold(void)
{
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .job = "deadbeef00000001",
					       .name = "team/app" };

	assert_ok(lease_acquire(theirs, &request, &held, &err));
}

static const char *take_away(const char *query, const char *token)
{
	AUTO_FREE char *head =
		xasprintf("DELETE /api/v1/leases/%s?%s HTTP/1.1%s%s", KEY, query,
			  token ? "\r\nAuthorization: Bearer " : "", token ? token : "");

	return exchange(head, NULL, 0);
}

static void assert_has(const char *answer, const char *text)
{
	if (!strstr(answer, text))
		fail_msg("\"%s\" is not in: %s", text, answer);
}

TEST(a_lock_timeout_is_503_with_its_code_and_when_to_come_back)
{
	hold();
	const char *answer = get("/work");
	assert_int_equal(status_of(answer), 503);
	assert_has(answer, "\r\nRetry-After: 10\r\n");
	assert_has(answer, "\"code\":\"LOCK_TIMEOUT\"");
	assert_has(answer, "\"reason\":\"lock_timeout\"");
	assert_has(answer, "Lock timeout waiting for repo: team/app: held by here");
	assert_has(answer, "job deadbeef00000001");
	lease_release(TAKE(held));
	assert_int_equal(status_of(get("/work")), 200);
}

TEST(leases_that_cannot_be_asked_for_are_503_and_no_timeout)
{
	static const char *const targets[] = { "/work", "/api/v1/leases",
					       ("/api/v1/leases/" KEY) };

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		const char *answer = get(targets[i]);
		assert_int_equal(status_of(answer), 503);
		assert_has(answer, "\r\nRetry-After: 10\r\n");
		assert_has(answer, "\"code\":\"LOCK_UNAVAILABLE\"");
		assert_has(answer, "\"reason\":\"lock_unavailable\"");
		assert_null(strstr(answer, "Lock timeout"));
	}
	assert_int_equal(status_of(take_away("fence=1&reason=why", TOKEN)), 503);
}

TEST(who_holds_what_is_listed_with_its_job)
{
	static const char *const targets[] = { "/api/v1/leases",
					       ("/api/v1/leases/" KEY) };

	hold();
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		const char *answer = get(targets[i]);
		assert_int_equal(status_of(answer), 200);
		assert_has(answer, "\"key\":\"" KEY "\"");
		assert_has(answer, "\"held\":true");
		assert_has(answer, "\"job\":\"deadbeef00000001\",\"name\":\"team/app\"");
	}
}

TEST(an_operator_takes_away_just_the_grant_that_was_shown)
{
	hold();
	uint64_t fence = lease_fence(held);
	AUTO_FREE char *right = xasprintf("fence=%" PRIu64 "&reason=it+hangs", fence);
	AUTO_FREE char *other = xasprintf("fence=%" PRIu64 "&reason=why", fence - 1);
	AUTO_FREE char *silent = xasprintf("fence=%" PRIu64, fence);

	assert_int_equal(status_of(take_away(right, NULL)), 401);
	assert_int_equal(status_of(take_away(silent, TOKEN)), 400);
	assert_int_equal(status_of(take_away("reason=why", TOKEN)), 400);
	const char *answer = take_away(other, TOKEN);
	assert_int_equal(status_of(answer), 409);
	assert_has(answer, "\"code\":\"CONFLICT\"");
	assert_int_equal(status_of(get("/work")), 503);
	answer = take_away(right, TOKEN);
	assert_int_equal(status_of(answer), 200);
	assert_has(answer, "\"held\":false");
	assert_int_equal(status_of(get("/work")), 200);
	assert_int_equal(status_of(take_away(right, TOKEN)), 409);
}

TEST(a_lease_that_was_never_granted_is_not_found)
{
	const char *answer = take_away("fence=1&reason=why", TOKEN);

	assert_int_equal(status_of(answer), 404);
	assert_has(answer, "\"code\":\"MISSING\"");
	assert_int_equal(status_of(get("/api/v1/leases/" KEY)), 404);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_lock_timeout_is_503_with_its_code_and_when_to_come_back),
		AWAY_CASE(leases_that_cannot_be_asked_for_are_503_and_no_timeout),
		CASE(who_holds_what_is_listed_with_its_job),
		CASE(an_operator_takes_away_just_the_grant_that_was_shown),
		CASE(a_lease_that_was_never_granted_is_not_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
