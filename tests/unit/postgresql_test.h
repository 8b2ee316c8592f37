/*
 * A real PostgreSQL server for tests, on a socket in a directory of its own, as the user
 * that may run one; it ends with the test's process.
 */
#ifndef UNIT_POSTGRESQL_TEST_H
#define UNIT_POSTGRESQL_TEST_H

#include "test.h"

#include <pwd.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <libpq-fe.h>

#include "base/file.h"
#include "lease/manager.h"
#include "lease/postgresql_client.h"

extern char **environ;

static char *pg_place, *pg_url;
static pid_t pg_server;
static const char *pg_arguments = ""; /* more of the server's */
static const char *pg_wrapper = "";   /* in front of its program: another environment */

/* Of the newest version that Debian has here. */
static inline char *pg_program(const char *name)
{
	static const char *const versions[] = { "18", "17", "16", "15" };

	for (size_t i = 0; i < ARRAY_SIZE(versions); i++) {
		char *path =
			xasprintf("/usr/lib/postgresql/%s/bin/%s", versions[i], name);
		if (access(path, X_OK) == 0)
			return path;
		free(path);
	}
	fail_msg("PostgreSQL's %s is not installed", name);
	return NULL;
}

/* A shell's command; PostgreSQL refuses to be run by root. Ends with this process. */
static inline pid_t pg_start_shell(const char *command)
{
	AUTO_FREE char *text = xasprintf(
		"cd %s && exec setpriv --pdeathsig KILL %s %s >>%s/log 2>&1 "
		"</dev/null",
		pg_place,
		geteuid() == 0 ? "--reuid=postgres --regid=postgres --clear-groups" : "",
		command, pg_place);
	char shell[] = "sh", flag[] = "-c";
	char *argv[] = { shell, flag, text, NULL };
	pid_t pid;

	if (posix_spawnp(&pid, shell, NULL, NULL, argv, environ) != 0)
		abort();
	return pid;
}

static inline int pg_finish_shell(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static inline void pg_no_notice(void *arg, const char *message)
{
	(void)arg;
	(void)message;
}

/* One statement of the operator; the first field, or the error. */
static inline const char *pg_sql(const char *text)
{
	static char answer[2000];
	PGconn *connection = PQconnectdb(pg_url);
	PQsetNoticeProcessor(connection, pg_no_notice, NULL);
	PGresult *result = PQexec(connection, text);

	if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) > 0)
		snprintf(answer, sizeof(answer), "%s", PQgetvalue(result, 0, 0));
	else
		snprintf(answer, sizeof(answer), "%s", PQerrorMessage(connection));
	PQclear(result);
	PQfinish(connection);
	return answer;
}

/* The last that the server wrote. */
static inline const char *pg_log_end(void)
{
	static char text[1000];
	AUTO_FREE char *path = xasprintf("%s/log", pg_place);
	FILE *file = fopen(path, "r");
	size_t count = 0;

	if (file) {
		if (fseek(file, 1 - (long)sizeof(text), SEEK_END) != 0)
			rewind(file);
		count = fread(text, 1, sizeof(text) - 1, file);
		fclose(file);
	}
	text[count] = '\0';
	return text;
}

static inline void pg_start(void)
{
	AUTO_FREE char *postgres = pg_program("postgres");
	AUTO_FREE char *command =
		xasprintf("%s %s -D %s/db -k %s -h '' -F -c max_connections=40 %s",
			  pg_wrapper, postgres, pg_place, pg_place, pg_arguments);

	pg_server = pg_start_shell(command);
	for (int i = 0; strcmp(pg_sql("SELECT 1"), "1") != 0; i++) {
		if (i > 3000)
			fail_msg("PostgreSQL does not start: %s%s", pg_sql("SELECT 1"),
				 pg_log_end());
		usleep(10000);
	}
}

static inline void pg_stop(void)
{
	kill(pg_server, SIGQUIT); /* as after a crash */
	pg_finish_shell(pg_server);
}

/* The processes that serve, not the operator's. */
static inline void pg_signal(int number)
{
	AUTO_FREE char *path =
		xasprintf("/proc/%d/task/%d/children", (int)pg_server, (int)pg_server);
	FILE *file = fopen(path, "r");
	int pid;

	assert_non_null(file);
	kill(pg_server, number);
	while (fscanf(file, "%d", &pid) == 1)
		kill(pid, number);
	fclose(file);
}

/* So that a server which stands still for a moment is no failure of a test that is not
 * about that. */
static inline struct lease_manager *pg_give_time(struct lease_manager *manager)
{
	struct postgresql *postgresql = postgresql_of(manager->backend);

	postgresql->command_ms = postgresql->connect_ms = 20000;
	return manager;
}

static inline void pg_make(void)
{
	char template[] = "/tmp/refrelay-pg.XXXXXX";
	AUTO_FREE char *initdb = pg_program("initdb");
	struct passwd *user = getpwnam("postgres");

	pg_place = xstrdup(mkdtemp(template));
	pg_url = xasprintf("postgresql:///postgres?host=%s&user=postgres", pg_place);
	if (geteuid() == 0 && (!user || chown(pg_place, user->pw_uid, user->pw_gid) != 0))
		fail_msg("there is no user postgres");
	AUTO_FREE char *command =
		xasprintf("%s -D %s/db -A trust -U postgres -N", initdb, pg_place);
	assert_int_equal(pg_finish_shell(pg_start_shell(command)), 0);
	pg_start();
}

static inline void pg_end(void)
{
	pg_stop();
	tree_remove(AT_FDCWD, pg_place, ERR_IGNORED);
	free(pg_place);
	free(pg_url);
}

#endif
