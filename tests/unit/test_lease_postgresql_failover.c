/*
 * Leases in PostgreSQL while the server is away, and when a standby takes its place: a
 * real primary with a synchronous standby, both named in the URL.
 */
#include "postgresql_test.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "lease/manager.h"
#include "lease/postgresql.h"

#define KEY "refrelay:here:geo_sync_ssf_service:repository:7"
#define TTL 12000

static char *standby_place, *standby_url, *both_url;
static pid_t standby;
static struct lease_manager *ann, *bob;

static const char *standby_sql(const char *text)
{
	char *primary_url = pg_url;

	pg_url = standby_url;
	const char *answer = pg_sql(text);
	pg_url = primary_url;
	return answer;
}

static void make_standby(void)
{
	AUTO_FREE char *basebackup = pg_program("pg_basebackup");
	AUTO_FREE char *postgres = pg_program("postgres");
	AUTO_FREE char *copy =
		xasprintf("%s -D %s/standby -h %s -U postgres -R -X stream "
			  "-c fast",
			  basebackup, pg_place, pg_place);

	standby_place = xasprintf("%s/two", pg_place);
	assert_int_equal(pg_finish_shell(pg_start_shell(copy)), 0);
	AUTO_FREE char *make = xasprintf("mkdir %s", standby_place);
	assert_int_equal(pg_finish_shell(pg_start_shell(make)), 0);
	AUTO_FREE char *run = xasprintf("%s -D %s/standby -k %s -h '' -F", postgres,
					pg_place, standby_place);
	standby = pg_start_shell(run);
	standby_url =
		xasprintf("postgresql:///postgres?host=%s&user=postgres", standby_place);
	both_url = xasprintf("postgresql:///postgres?host=%s,%s&user=postgres", pg_place,
			     standby_place);
	wait_until(strcmp(standby_sql("SELECT pg_is_in_recovery()"), "t") == 0);
	pg_sql("ALTER SYSTEM SET synchronous_standby_names = '*'");
	pg_sql("SELECT pg_reload_conf()");
	wait_until(strcmp(pg_sql("SELECT count(*) FROM pg_stat_replication WHERE "
				 "sync_state = 'sync'"),
			  "1") == 0);
}

static int group_setup(void **state)
{
	(void)state;
	log_set_level(LOG_LEVEL_NONE);
	pg_make();
	make_standby();
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	kill(standby, SIGQUIT);
	pg_finish_shell(standby);
	free(standby_place);
	free(standby_url);
	free(both_url);
	pg_end();
	return 0;
}

/* As the settings have it: those who wait outlast a server that is away. */
static struct lease_manager *open_at(const char *url)
{
	const char *urls[] = { url };
	const struct lease_options options = {
		.urls = urls, .url_count = 1, .node = "here", .ttl_ms = TTL
	};
	struct lease_ways ways = { .where = LEASE_AT_SERVER, .is_patient = true };
	struct lease_manager *manager;

	assert_ok(lease_manager_open_postgresql(&options, &manager, &err));
	lease_manager_set_ways(manager, &ways);
	return manager;
}

static int acquire(struct lease_manager *manager, int64_t wait_ms, struct lease **lease,
		   struct err *error)
{
	const struct lease_request request = { .key = KEY,
					       .operation = "sync",
					       .wait_ms = wait_ms };

	return lease_acquire(manager, &request, lease, error);
}

struct asker {
	pthread_t thread;
	struct lease *lease;
	struct err err;
};

static void *ask(void *arg)
{
	struct asker *asker = arg;

	acquire(bob, 60000, &asker->lease, &asker->err);
	return NULL;
}

static bool is_away(struct lease_manager *manager)
{
	struct err why;

	return lease_manager_away_since(manager, &why) != 0;
}

TEST(whoever_waits_outlasts_a_server_that_is_away_and_gets_the_lease)
{
	struct asker asker = { 0 };
	struct lease *none;

	bob = pg_give_time(open_at(pg_url));
	pg_stop();
	assert_fails(acquire(bob, 0, &none, &err), ERR_LOCK_UNAVAILABLE);
	assert_int_equal(err.reason, REASON_LOCK_UNAVAILABLE);
	thread_start(&asker.thread, "asker", ask, &asker);
	wait_until(is_away(bob));
	pg_start();
	thread_join(asker.thread);
	if (!asker.lease)
		fail_msg("%s", asker.err.text);
	wait_until(!is_away(bob)); /* a look that was under way may be told afterwards */
	lease_release(asker.lease);
	lease_manager_close(bob);
}

/* As a host that has lost its power, or is cut off: it refuses nothing. */
static int listen_in_silence(const char *folder)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s/.s.PGSQL.1", folder);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 20), 0);
	return fd;
}

/* How long it took to ask. */
static int64_t ask_in_vain_or_not(bool is_granted)
{
	struct lease *lease = NULL;
	int64_t began = clock_boot_ms();
	int result = acquire(bob, 0, &lease, &err);

	if (is_granted != (result == 0))
		fail_msg("%s", result == 0 ? "granted" : err.text);
	int64_t took = clock_boot_ms() - began;
	lease_release(lease);
	return took;
}

TEST(a_silent_host_is_passed_over_and_the_one_that_works_is_kept)
{
	AUTO_FREE char *folder = xasprintf("%s/silent", pg_place);
	assert_int_equal(mkdir(folder, 0700), 0);
	AUTO_CLOSE int silent = listen_in_silence(folder);
	AUTO_FREE char *url = xasprintf("postgresql:///postgres?host=%s,%s&port=1,&user="
					"postgres",
					folder, pg_place);

	assert_true(silent >= 0);
	bob = open_at(url);
	postgresql_of(bob->backend)->command_ms = 20000;
	assert_in_range(ask_in_vain_or_not(true), 1000, 8000);
	/* The keeper's look at the server begins with the acquisition: a session that
	 * ends while it is being opened is a reason to try the other host. */
	wait_until(
		strcmp(pg_sql("SELECT count(*) FROM pg_stat_activity WHERE state = "
			      "'idle' AND query LIKE '%FROM refrelay.lease WHERE key%'"),
		       "1") == 0);
	/* The server may be as slow as the silent one: not each time. */
	int64_t took = 1900;
	for (int i = 0; i < 5 && took >= 1900; i++) {
		pg_sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
		       "application_name = 'refrelay'");
		took = ask_in_vain_or_not(true);
	}
	assert_in_range(took, 0, 1899);
	lease_manager_close(bob);
}

/* As a host that does not know the user. */
static void refuse_each(int listener)
{
	static const char no[] = "E\0\0\0\050SFATAL\0VFATAL\0C28000\0Mno such user\0";
	char question[1024];

	for (;;) {
		int fd = accept(listener, NULL, NULL);
		if (fd < 0 || read(fd, question, sizeof(question)) < 0 ||
		    write(fd, no, sizeof(no)) < 0)
			_exit(1);
		close(fd);
	}
}

TEST(a_host_that_refuses_is_left_again)
{
	AUTO_FREE char *folder = xasprintf("%s/refusing", pg_place);
	assert_int_equal(mkdir(folder, 0700), 0);
	AUTO_CLOSE int listener = listen_in_silence(folder);
	AUTO_FREE char *url = xasprintf("postgresql:///postgres?host=%s,%s&port=1,&user="
					"postgres",
					folder, pg_place);
	struct lease *lease = NULL;
	pid_t host = fork();

	if (host == 0)
		refuse_each(listener);
	bob = pg_give_time(open_at(url));
	if (acquire(bob, 0, &lease, &err) != 0)
		assert_non_null(strstr(err.text, "no such user"));
	lease_release(lease);
	ask_in_vain_or_not(true);
	lease_manager_close(bob);
	kill(host, SIGKILL);
	waitpid(host, NULL, 0);
}

/* The time that callers have does not suffice for all. */
TEST(after_hosts_that_were_silent_the_next_attempt_begins_with_another)
{
	AUTO_FREE char *folder = xasprintf("%s/mute", pg_place);
	assert_int_equal(mkdir(folder, 0700), 0);
	AUTO_CLOSE int silent = listen_in_silence(folder);
	AUTO_FREE char *url =
		xasprintf("postgresql:///postgres?host=%s,%s,%s,%s&port=1,1,1,5432&user="
			  "postgres",
			  folder, folder, folder, pg_place);
	struct lease *lease;

	assert_true(silent >= 0);
	bob = open_at(url);
	postgresql_of(bob->backend)->command_ms = 20000;
	assert_in_range(ask_in_vain_or_not(false), 3000, 8000);
	assert_int_equal(err.reason, REASON_LOCK_UNAVAILABLE);
	/* A busy machine asks fewer of them at a time. */
	for (int i = 0; acquire(bob, 0, &lease, &err) != 0; i++)
		assert_in_range(i, 0, 1);
	lease_release(lease);
	lease_manager_close(bob);
}

/* The holder keeps it over the failover, since no grant was lost; who waits does so, and
 * then has it from the new primary, with a higher fence. */
TEST(a_failover_to_a_synchronous_standby_is_waited_for_and_loses_no_lease)
{
	struct asker asker = { 0 };
	struct lease *lease, *none;

	wait_until(strcmp(pg_sql("SELECT count(*) FROM pg_stat_replication WHERE "
				 "sync_state = 'sync'"),
			  "1") == 0);
	ann = open_at(both_url);
	bob = open_at(both_url);
	assert_ok(acquire(ann, 10000, &lease, &err));
	uint64_t fence = lease_fence(lease);
	pg_stop();
	thread_start(&asker.thread, "asker", ask, &asker);
	wait_until(is_away(bob));
	assert_ok(lease_check(lease, &err));
	assert_string_equal(standby_sql("SELECT pg_promote()"), "t");
	/* It is the same lease at the new primary, and is renewed there. */
	wait_until(acquire(ann, 0, &none, &err) == -1 && err.class == ERR_BUSY);
	wait_until(
		strcmp(standby_sql("SELECT count(*) FROM refrelay.lease WHERE nonce IS "
				   "NOT NULL AND expires_at > now() + interval '9 s'"),
		       "1") == 0);
	assert_ok(lease_check(lease, &err));
	lease_release(lease);
	thread_join(asker.thread);
	if (!asker.lease)
		fail_msg("%s", asker.err.text);
	assert_true(lease_fence(asker.lease) > fence);
	lease_release(asker.lease);
	lease_manager_close(ann);
	lease_manager_close(bob);
	pg_start(); /* for the end */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_silent_host_is_passed_over_and_the_one_that_works_is_kept),
		cmocka_unit_test(a_host_that_refuses_is_left_again),
		cmocka_unit_test(
			after_hosts_that_were_silent_the_next_attempt_begins_with_another),
		cmocka_unit_test(
			whoever_waits_outlasts_a_server_that_is_away_and_gets_the_lease),
		cmocka_unit_test(
			a_failover_to_a_synchronous_standby_is_waited_for_and_loses_no_lease),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
