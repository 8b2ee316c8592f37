/*
 * What is looked at of a Redis server before it keeps leases, and what its refusals are
 * told as.
 */
#include "redis_test.h"

#include "lease/lease_settings.h"
#include "lease/redis_round.h"

static struct redis_server server;
static const char *urls[1];

static int setup(void **state)
{
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	redis_start(&server, "s", "");
	urls[0] = server.url;
	return 0;
}

static int teardown(void **state)
{
	redis_end(&server);
	return test_remove_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void config(const char *name, const char *value)
{
	assert_string_equal(redis_cli(&server, "CONFIG", "SET", name, value), "OK");
}

static struct str said;

static void collect(void *arg, bool is_error, const char *what, const char *remedy)
{
	(void)arg;
	str_addf(&said, "%s %s (%s)\n", is_error ? "error" : "warning", what, remedy);
}

static int check(void)
{
	str_reset(&said);
	return lease_redis_check(&(struct lease_options){ .urls = urls, .url_count = 1 },
				 NULL, collect, NULL);
}

TEST(the_check_tells_settings_that_lose_leases)
{
	said = (struct str)STR_INIT;
	assert_int_equal(check(), 0);
	assert_non_null(strstr(said.data, "warning"));
	assert_non_null(strstr(said.data, "appendonly"));
	config("maxmemory", "100mb");
	config("maxmemory-policy", "volatile-ttl");
	assert_int_equal(check(), -1);
	assert_non_null(strstr(said.data, "noeviction"));
	config("maxmemory-policy", "noeviction");
	config("appendonly", "yes");
	assert_int_equal(check(), 0);
	assert_string_equal(said.data, "");
	redis_cli(&server, "REPLICAOF", "127.0.0.1", "1");
	assert_int_equal(check(), -1);
	assert_non_null(strstr(said.data, "replica"));
	redis_kill(&server);
	assert_int_equal(check(), -1);
	str_clear(&said);
}

/* What INFO says, line by line, and what a server is told of it; NULL: nothing. */
static const struct {
	const char *info;
	bool is_error;
	const char *said;
} settings[] = {
	{ "redis_version:4.0.9", true, "older than Redis 5" },
	{ "redis_version:2.8.19", true, "older than Redis 5" },
	{ "redis_version:5.0.0\r\nrole:master", false, NULL },
	{ "redis_version:7.0.15\r\nrole:slave", true, "it is a replica" },
	{ "redis_version:7.0.15\r\ncluster_enabled:1", true, "belongs to a cluster" },
	{ "redis_version:7.0.15\r\nconnected_slaves:1", false, "it has replicas" },
	{ "redis_version:7.0.15\r\nmaxmemory:1000\r\nmaxmemory_policy:allkeys-lru", true,
	  "may evict leases" },
	{ "redis_version:7.0.15\r\nmaxmemory:0\r\nmaxmemory_policy:allkeys-lru", false,
	  NULL },
	{ "redis_version:7.0.15\r\nmaxmemory:1000\r\nmaxmemory_policy:noeviction", false,
	  NULL },
	{ "redis_version:7.0.15\r\naof_enabled:0", false, "appendonly is off" },
	{ "redis_version:7.0.15\r\naof_enabled:1", false, NULL },
};

TEST(what_a_server_says_of_itself_is_judged)
{
	char type[] = "NOPERM this user has no permissions";
	redisReply refused = { .type = REDIS_REPLY_ERROR, .str = type };

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++) {
		AUTO_FREE char *text = xstrdup(settings[i].info);
		redisReply info = { .type = REDIS_REPLY_STRING, .str = text };
		said = (struct str)STR_INIT;
		redis_judge_info("unix:///there", &info, collect, NULL);
		if (!settings[i].said)
			assert_string_equal(said.data, "");
		else
			assert_non_null(strstr(said.data, settings[i].said));
		assert_int_equal(text_starts_with(said.data, "error"),
				 settings[i].is_error);
		str_clear(&said);
	}
	said = (struct str)STR_INIT;
	redis_judge_info("unix:///there", &refused, collect, NULL);
	assert_non_null(strstr(said.data, "warning"));
	assert_non_null(strstr(said.data, "right to INFO"));
	str_clear(&said);
}

/* A manager that comes new to the server is refused, and nothing was asked of that. */
static void assert_unfit(const char *why)
{
	struct lease_manager *carol = open_on(urls, 1, NULL, TTL);

	assert_unavailable(carol, ERR_CONFIG);
	assert_non_null(strstr(err.text, why));
	assert_string_equal(redis_cli(&server, "EXISTS", KEY "#fence"), "0");
	lease_manager_close(carol);
}

TEST(a_server_that_would_lose_leases_gets_none_until_it_is_mended)
{
	struct lease_manager *carol = open_on(urls, 1, NULL, TTL);

	config("maxmemory", "100mb");
	config("maxmemory-policy", "volatile-ttl");
	assert_unfit("may evict leases");
	assert_unavailable(carol, ERR_CONFIG);
	config("maxmemory-policy", "noeviction");
	lease_release(must_acquire(carol, 0));
	lease_manager_close(carol);
	redis_cli(&server, "FLUSHALL");
	redis_cli(&server, "REPLICAOF", "127.0.0.1", "1");
	assert_unfit("it is a replica");
	redis_kill(&server);
	redis_run(&server, "--cluster-enabled yes");
	wait_until(redis_is_up(&server));
	carol = open_on(urls, 1, NULL, TTL);
	assert_unavailable(carol, ERR_CONFIG);
	assert_non_null(strstr(err.text, "belongs to a cluster"));
	lease_manager_close(carol);
}

/* The settings are looked at when it is there, not when the manager is opened. */
TEST(a_server_that_is_away_at_the_start_is_looked_at_when_it_is_there)
{
	redis_kill(&server);
	struct lease_manager *carol = open_on(urls, 1, NULL, TTL);
	assert_unavailable(carol, ERR_NETWORK);
	redis_run(&server, "--maxmemory 100mb --maxmemory-policy allkeys-lru");
	wait_until(redis_is_up(&server));
	assert_unavailable(carol, ERR_CONFIG);
	lease_manager_close(carol);
}

TEST(a_server_with_a_replica_is_doubtful)
{
	struct redis_server replica;
	int port = redis_free_port();
	AUTO_FREE char *more = xasprintf("--port %d --bind 127.0.0.1", port);
	AUTO_FREE char *of = xasprintf("--replicaof 127.0.0.1 %d", port);

	said = (struct str)STR_INIT;
	redis_kill(&server);
	redis_run(&server, more);
	wait_until(redis_is_up(&server));
	redis_start(&replica, "r", of);
	wait_until(
		strstr(redis_cli(&server, "INFO", "replication"), "connected_slaves:1"));
	assert_int_equal(check(), 0);
	assert_non_null(strstr(said.data, "it has replicas"));
	struct lease_manager *carol = open_on(urls, 1, NULL, TTL);
	lease_release(must_acquire(carol, 0));
	lease_manager_close(carol);
	redis_end(&replica);
	str_clear(&said);
}

/* By name, and with the remedy; those of a cluster as well, whom nobody here has. */
TEST(what_a_server_refuses_with_is_told_apart)
{
	static const struct {
		const char *reply;
		enum err_class class;
		const char *remedy;
	} table[] = {
		{ "NOAUTH Authentication required.", ERR_AUTH, "passwordFile" },
		{ "NOPERM this user has no permissions", ERR_AUTH, "commands and keys" },
		{ "OOM command not allowed", ERR_DISK, "maxmemory" },
		{ "READONLY You can't write", ERR_NETWORK, "replica" },
		{ "LOADING Redis is loading", ERR_NETWORK, "reading its data" },
		{ "MASTERDOWN Link with MASTER is down", ERR_NETWORK, "replica" },
		{ "WRONGTYPE Operation against a key", ERR_CONFIG, "prefix" },
		{ "MOVED 3999 127.0.0.1:6381", ERR_CONFIG, "cluster" },
		{ "ASK 3999 127.0.0.1:6381", ERR_CONFIG, "cluster" },
		{ "CROSSSLOT Keys in request don't hash", ERR_CONFIG, "cluster" },
		{ "CLUSTERDOWN Hash slot not served", ERR_CONFIG, "cluster" },
		{ "ERR Error running script: @user_script: MOVED 1 a:1", ERR_CONFIG,
		  "cluster" },
		{ "ERR unknown command", ERR_CONFIG, "Redis 5" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_FREE char *text = xstrdup(table[i].reply);
		redisReply reply = { .type = REDIS_REPLY_ERROR, .str = text };
		assert_fails(redis_reply_check(&reply, "unix:///there", &err),
			     table[i].class);
		assert_int_equal(err.reason, REASON_LOCK_UNAVAILABLE);
		assert_non_null(strstr(err.remedy, table[i].remedy));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(the_check_tells_settings_that_lose_leases),
		CASE(what_a_server_says_of_itself_is_judged),
		CASE(a_server_that_would_lose_leases_gets_none_until_it_is_mended),
		CASE(a_server_that_is_away_at_the_start_is_looked_at_when_it_is_there),
		CASE(a_server_with_a_replica_is_doubtful),
		CASE(what_a_server_refuses_with_is_told_apart),
	};

	redis_limit_ms = 20000;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
