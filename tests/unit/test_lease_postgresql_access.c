/*
 * How leases get into a PostgreSQL server: through a pooler, by TLS, with a password from
 * a file, as a user that does not own what leases keep there; and what is said when they
 * do not.
 */
#include "certificate_test.h"
#include "postgresql_test.h"
#include "redis_test.h"

#include "lease/postgresql.h"

#include "lease_renewal.h"

static int port;

/* TLS alone from the network, with passwords; the operator by the socket, without. */
static const char rules[] = "local all postgres trust\n"
			    "local all all scram-sha-256\n"
			    "hostssl all all 127.0.0.1/32 scram-sha-256\n";

static void put_file(const char *folder, const char *name, const char *text)
{
	AUTO_FREE char *path = xasprintf("%s/%s", folder, name);

	assert_ok(file_replace(AT_FDCWD, path, text, strlen(text), FILE_NO_SYNC, &err));
	assert_int_equal(chmod(path, 0644), 0);
}

static int group_setup(void **state)
{
	(void)state;
	pg_make();
	port = redis_free_port();
	put_file(pg_place, "certificates", MAKE_CERTIFICATES "\n");
	assert_int_equal(pg_finish_shell(pg_start_shell("sh certificates")), 0);
	put_file(pg_place, "rules", rules);
	pg_sql("CREATE ROLE owner LOGIN PASSWORD 'right'");
	pg_sql("CREATE ROLE worker LOGIN PASSWORD 'right'");
	pg_stop();
	pg_arguments =
		xasprintf("-h 127.0.0.1 -p %d -c ssl=on -c ssl_cert_file=%s/cert.pem "
			  "-c ssl_key_file=%s/key.pem -c hba_file=%s/rules",
			  port, pg_place, pg_place, pg_place);
	free(pg_url);
	pg_url = xasprintf("postgresql:///postgres?host=%s&port=%d&user=postgres",
			   pg_place, port);
	pg_start();
	return 0;
}

static int group_teardown(void **state)
{
	(void)state;
	pg_end();
	free((char *)(uintptr_t)pg_arguments);
	return 0;
}

static int setup(void **state)
{
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	put_file(root, "password", "right\n");
	pg_sql("DROP SCHEMA IF EXISTS refrelay CASCADE");
	pg_sql("GRANT CREATE ON DATABASE postgres TO owner");
	pg_sql("REVOKE CREATE ON DATABASE postgres FROM worker");
	return 0;
}

/* As that user, with root/password and the certificate of the server's maker, unless
 * another file is named. */
static struct lease_manager *open_as(const char *user, const char *host,
				     const char *ca_file)
{
	AUTO_FREE char *url = xasprintf("postgresql://%s:%d/postgres", host, port);
	AUTO_FREE char *password = xasprintf("%s/password", root);
	AUTO_FREE char *ca = xasprintf("%s/%s", pg_place, ca_file);
	const char *urls[] = { url };
	const struct lease_options options = { .node = "here",
					       .ttl_ms = TTL,
					       .urls = urls,
					       .url_count = 1,
					       .user = user,
					       .password_file = password,
					       .ca_file = ca };
	struct lease_manager *manager;

	assert_ok(lease_manager_open_postgresql(&options, &manager, &err));
	return pg_give_time(manager);
}

static void grant_as(const char *user)
{
	struct lease_manager *manager = open_as(user, "localhost", "ca.pem");

	lease_release(must_acquire(manager, 0));
	lease_manager_close(manager);
}

static void refuse_as(const char *user, const char *host, const char *ca_file,
		      enum err_class class)
{
	struct lease_manager *manager = open_as(user, host, ca_file);

	assert_unavailable(manager, class);
	lease_manager_close(manager);
}

TEST(a_lease_is_had_by_tls_with_a_password_from_a_file)
{
	struct lease_manager *manager = open_as("owner", "localhost", "ca.pem");
	struct lease *lease = must_acquire(manager, 0);

	assert_string_equal(pg_sql("SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN "
				   "pg_stat_activity a "
				   "USING (pid) WHERE a.usename = 'owner'"),
			    "t");
	lease_release(lease);
	lease_manager_close(manager);
}

TEST(a_wrong_password_is_told_and_a_right_one_is_read_then)
{
	struct lease_manager *manager = open_as("owner", "localhost", "ca.pem");

	put_file(root, "password", "wrong\n");
	assert_unavailable(manager, ERR_AUTH);
	assert_non_null(strstr(err.text, "28P01"));
	assert_non_null(strstr(err.remedy, "passwordFile"));
	put_file(root, "password", "");
	assert_unavailable(manager, ERR_AUTH);
	put_file(root, "password", "right\n");
	lease_release(must_acquire(manager, 0));
	lease_manager_close(manager);
	refuse_as("nobody-of-that-name", "localhost", "ca.pem", ERR_AUTH);
}

/* A password that was right does not make the next error one of passwords. */
TEST(a_database_that_is_not_there_is_told_as_such)
{
	AUTO_FREE char *url = xasprintf("postgresql://localhost:%d/nothing", port);
	AUTO_FREE char *password = xasprintf("%s/password", root);
	const char *urls[] = { url };
	const struct lease_options options = {
		.urls = urls, .url_count = 1, .user = "owner", .password_file = password
	};
	struct lease_manager *manager;

	assert_ok(lease_manager_open_postgresql(&options, &manager, &err));
	pg_give_time(manager);
	assert_unavailable(manager, ERR_CONFIG);
	assert_non_null(strstr(err.remedy, "lease.url"));
	lease_manager_close(manager);
}

TEST(a_certificate_that_does_not_fit_is_no_matter_of_the_network)
{
	put_file(pg_place, "empty.pem", "");
	assert_int_equal(
		pg_finish_shell(pg_start_shell(
			"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 "
			"-nodes -keyout other.key -out other.pem -days 2 -subj "
			"/CN=other")),
		0);
	refuse_as("owner", "localhost", "other.pem", ERR_CONFIG);
	assert_non_null(strstr(err.remedy, "lease.caFile"));
	refuse_as("owner", "localhost", "no-such-file.pem", ERR_CONFIG);
	refuse_as("owner", "localhost", "empty.pem", ERR_CONFIG);
	refuse_as("owner", "127.0.0.1", "ca.pem", ERR_CONFIG); /* another name */
	grant_as("owner");
}

/* Nobody knows whether it is the certificate: the server is not there. */
TEST(a_server_that_ends_is_a_matter_of_the_network)
{
	pg_stop();
	refuse_as("owner", "localhost", "other.pem", ERR_NETWORK);
	pg_start();
	grant_as("owner");
}

TEST(a_user_without_rights_is_told_what_to_grant)
{
	refuse_as("worker", "localhost", "ca.pem", ERR_AUTH); /* to make the schema */
	assert_non_null(strstr(err.text, "the schema refrelay cannot be made"));
	assert_non_null(strstr(err.remedy, "GRANT CREATE ON DATABASE"));
	grant_as("owner");
	refuse_as("worker", "localhost", "ca.pem", ERR_AUTH);
	assert_non_null(strstr(err.remedy, "GRANT USAGE ON SCHEMA refrelay"));
	pg_sql("GRANT USAGE ON SCHEMA refrelay TO worker");
	refuse_as("worker", "localhost", "ca.pem", ERR_AUTH);
	assert_non_null(strstr(err.remedy, "ON ALL TABLES IN SCHEMA refrelay"));
}

TEST(a_user_that_owns_nothing_holds_waits_renews_and_lists)
{
	struct lease_manager *manager, *other;
	struct lease *lease, *none;
	struct lease_holder holder;
	lease_holders all = { 0 };

	grant_as("owner");
	pg_sql("GRANT USAGE ON SCHEMA refrelay TO worker");
	pg_sql("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA refrelay TO "
	       "worker");
	manager = open_as("worker", "localhost", "ca.pem");
	other = open_as("worker", "localhost", "ca.pem");
	lease = must_acquire(manager, 0);
	assert_fails(acquire_for(other, 300, &none), ERR_LOCK_TIMEOUT);
	assert_ok(lease_list(other, false, &all, &err));
	assert_int_equal(all.count, 1);
	vec_clear(&all);
	assert_ok(
		lease_force_release(other, KEY, lease_fence(lease), "eve", "why", &err));
	assert_ok(lease_inspect(other, KEY, &holder, &err));
	assert_false(holder.held);
	lease_release(lease);
	lease_release(must_acquire(other, 0));
	lease_manager_close(manager);
	lease_manager_close(other);
}

/* ------------------------------------------------------------------ a pooler */

#define POOLER "/usr/sbin/pgbouncer"

static bool is_pooler_there(char *url)
{
	char *direct = pg_url;

	pg_url = url;
	bool is_there = strcmp(pg_sql("SELECT 1"), "1") == 0;
	pg_url = direct;
	return is_there;
}

/* PgBouncer, by a socket beside the server's. */
static pid_t start_pooler(char *url, const char *more)
{
	AUTO_FREE char *text =
		xasprintf("[databases]\npostgres = host=%s port=%d user=postgres\n"
			  "[pgbouncer]\nunix_socket_dir = %s\nlisten_port = 6432\n"
			  "auth_type = any\npool_mode = transaction\n%s\n",
			  pg_place, port, pg_place, more);

	if (access(POOLER, X_OK) != 0)
		fail_msg("PgBouncer is not installed");
	put_file(pg_place, "pooler", text);
	pid_t pid = pg_start_shell(POOLER " pooler");
	wait_until(is_pooler_there(url));
	return pid;
}

/* What is in force while a lease is written. */
static void watch_settings(void)
{
	pg_sql("DROP TABLE IF EXISTS seen");
	pg_sql("CREATE TABLE seen (what text, synced text, waits text)");
	pg_sql("CREATE OR REPLACE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$ "
	       "DECLARE what text := 'granted'; BEGIN "
	       "IF TG_OP = 'DELETE' THEN what := 'left'; "
	       "ELSIF new.nonce IS NULL THEN what := new.ended; "
	       "ELSIF TG_OP = 'UPDATE' AND old.nonce = new.nonce THEN "
	       "what := CASE old.owner WHEN new.owner THEN 'renewed' ELSE 'passed' END; "
	       "END IF; INSERT INTO seen VALUES (what, "
	       "current_setting('synchronous_commit'), current_setting('lock_timeout')); "
	       "RETURN NULL; END $$");
	assert_string_equal(pg_sql("CREATE TRIGGER see AFTER INSERT OR UPDATE ON "
				   "refrelay.lease FOR EACH ROW EXECUTE FUNCTION see()"),
			    "");
	assert_string_equal(
		pg_sql("CREATE TRIGGER see AFTER DELETE ON refrelay.lease_line "
		       "FOR EACH ROW EXECUTE FUNCTION see()"),
		"");
}

static const char *seen(const char *what)
{
	AUTO_FREE char *text = xasprintf("SELECT string_agg(DISTINCT synced || ' ' || "
					 "waits, ', ') FROM seen WHERE what = '%s'",
					 what);

	return pg_sql(text);
}

static struct lease_manager *open_at(const char *url)
{
	const char *urls[] = { url };
	const struct lease_options options = {
		.node = "here", .ttl_ms = TTL, .urls = urls, .url_count = 1
	};
	struct lease_manager *manager;

	assert_ok(lease_manager_open_postgresql(&options, &manager, &err));
	return pg_give_time(manager);
}

struct asker {
	struct lease_manager *manager;
	struct lease *lease;
	pthread_t thread;
};

static void *ask(void *arg)
{
	struct asker *asker = arg;
	const struct lease_request request = { .key = KEY,
					       .operation = "push",
					       .job = "deadbeef00000002",
					       .wait_ms = 10000 };

	lease_acquire(asker->manager, &request, &asker->lease, ERR_IGNORED);
	return NULL;
}

/* Held, renewed, passed on within a process, and taken away. */
static void use_all(struct lease_manager *manager, struct lease_manager *other)
{
	struct lease *lease = must_acquire(manager, 0), *none;
	struct asker asker = { .manager = manager };

	assert_fails(acquire_for(other, 300, &none), ERR_LOCK_TIMEOUT);
	make_renewal_due(manager);
	wait_until(strcmp(seen("renewed"), "on 400ms") == 0);
	thread_start(&asker.thread, "asker", ask, &asker);
	wait_until(lease_is_wanted(lease));
	lease_release(lease);
	thread_join(asker.thread);
	assert_non_null(asker.lease);
	wait_until(strcmp(seen("passed"), "off 400ms") == 0);
	assert_ok(lease_check(asker.lease, &err));
	assert_ok(lease_force_release(manager, KEY, lease_fence(asker.lease), "eve",
				      "why", &err));
	lease_release(asker.lease);
	lease_release(must_acquire(other, 20000));
}

static void lease_through_pooler(const char *more)
{
	AUTO_FREE char *url =
		xasprintf("postgresql://anybody@/postgres?host=%s&port=6432", pg_place);

	/* Of sessions that begin now. */
	assert_string_equal(
		pg_sql("ALTER DATABASE postgres SET synchronous_commit = off"), "");
	pid_t pooler = start_pooler(url, more);
	struct lease_manager *manager = open_at(url), *other = open_at(url);

	lease_release(must_acquire(manager, 0)); /* makes the schema */
	watch_settings();
	use_all(manager, other);
	assert_string_equal(seen("granted"), "on 400ms");
	assert_string_equal(seen("forced"), "on 400ms");
	assert_string_equal(seen("released"), "off 400ms"); /* if it is lost, it lapses */
	assert_string_equal(seen("left"), "off 400ms");
	lease_manager_close(manager);
	lease_manager_close(other);
	kill(pooler, SIGKILL);
	pg_finish_shell(pooler);
	pg_sql("ALTER DATABASE postgres RESET ALL");
}

/* It lets no session begin with settings. */
TEST(a_pooler_that_refuses_settings_serves)
{
	lease_through_pooler("");
}

TEST(a_pooler_that_drops_settings_takes_nothing_from_the_disk)
{
	lease_through_pooler("ignore_startup_parameters = options");
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, test_remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_lease_is_had_by_tls_with_a_password_from_a_file),
		CASE(a_wrong_password_is_told_and_a_right_one_is_read_then),
		CASE(a_database_that_is_not_there_is_told_as_such),
		CASE(a_certificate_that_does_not_fit_is_no_matter_of_the_network),
		CASE(a_server_that_ends_is_a_matter_of_the_network),
		CASE(a_user_without_rights_is_told_what_to_grant),
		CASE(a_user_that_owns_nothing_holds_waits_renews_and_lists),
		CASE(a_pooler_that_refuses_settings_serves),
		CASE(a_pooler_that_drops_settings_takes_nothing_from_the_disk),
	};

	return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
