/*
 * Connections to the server, statements on them, and the thread that is woken. Nothing
 * waits beyond its deadline; not in our hands is the time that libpq takes to look up a
 * host's name.
 */
#include "lease/postgresql_client.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "lease/postgresql_statements.h"

#define HOSTS_MS 3000  /* no further host is tried then */
#define AGAIN_MS 1000  /* after a connection failed, and between two removals */
#define STILL_MS 10000 /* what stood still itself for longer is late */

/* ------------------------------------------------------------------ errors */

/* By the standard's classes, and PostgreSQL's own: never by what a text says. */
static enum err_class postgresql_class_of_state(const char *state)
{
	static const struct {
		const char *state;
		enum err_class class;
	} classes[] = {
		{ "28", ERR_AUTH },       { "42501", ERR_AUTH },
		{ "3D", ERR_CONFIG },     { "42", ERR_CONFIG },
		{ "3F", ERR_CONFIG },     { "57014", ERR_TIMEOUT },
		{ "53100", ERR_DISK },    { "58", ERR_DISK },
		{ "XX001", ERR_CORRUPT }, { "XX002", ERR_CORRUPT },
		{ "55P03", ERR_TIMEOUT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(classes); i++)
		if (text_starts_with(state, classes[i].state))
			return classes[i].class;
	return ERR_NETWORK;
}

static const char *postgresql_remedy_of(enum err_class class)
{
	switch (class) {
	case ERR_AUTH:
		return "correct lease.userFile and lease.passwordFile";
	case ERR_CONFIG:
		return "correct lease.url or lease.caFile, or make the database; see "
		       "docs/leases.md";
	case ERR_DISK:
		return "look at the database server's disk";
	default:
		return "look at the database server and at lease.url";
	}
}

/* The first line of what libpq says. */
static int postgresql_fail(enum err_class class, const char *message, struct err *err)
{
	err_set(err, class, "leases: PostgreSQL: %.*s", (int)strcspn(message, "\n"),
		message);
	err_remedy(err, "%s", postgresql_remedy_of(class));
	return err_because(err, REASON_LOCK_UNAVAILABLE);
}

static int postgresql_refused(const char *state, const char *message, struct err *err)
{
	postgresql_fail(postgresql_class_of_state(state), message, err);
	if (text_starts_with(state, "42501"))
		err_remedy(err, "as their owner, GRANT USAGE ON SCHEMA refrelay, and "
				"SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "
				"refrelay, to the user of lease.userFile; see "
				"docs/leases.md");
	return -1;
}

static int postgresql_late(const char *what, struct err *err)
{
	return postgresql_fail(ERR_TIMEOUT, what, err);
}

/* ------------------------------------------------------------------ connections */

void postgresql_disconnect(PGconn **connection)
{
	pq.finish(*connection);
	*connection = NULL;
}

/* 0: it is ready; -1: the time is over. What came while we stood still is in time. */
static int postgresql_wait_for(PGconn *connection, short events, int64_t until)
{
	struct pollfd watched = { pq.socket(connection), events, 0 };
	int64_t left = until - clock_boot_ms();

	if (watched.fd < 0 || left < -STILL_MS)
		return -1;
	return poll(&watched, 1, left > 0 ? (int)left : 0) > 0 ? 0 : -1;
}

/* In a message of its verbose form, "FATAL:  28P01: password authentication failed": the
 * one thing that libpq tells of why a connection was refused, but for words. */
static bool postgresql_find_state(const char *message, char state[6])
{
	const char *at = message;

	while ((at = strstr(at, ":  ")) != NULL) {
		at += 3;
		if (strspn(at, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != 5 ||
		    at[5] != ':')
			continue;
		snprintf(state, 6, "%s", at);
		return true;
	}
	return false;
}

/* In a file so that it can be changed while we run. */
static int postgresql_read_password(const struct postgresql *postgresql,
				    struct str *password, struct err *err)
{
	if (!postgresql->password_file)
		return 0;
	if (file_read_any(AT_FDCWD, postgresql->password_file, 4096, password, err) < 0)
		return err_prefix(err, "lease.passwordFile");
	password->data[strcspn(password->data, "\n")] = '\0';
	return 0;
}

/* libpq would write them to our standard error. */
static void postgresql_ignore_notice(void *arg, const char *message)
{
	(void)arg;
	(void)message;
}

/* An attempt to connect to one of the hosts. */
struct dial {
	struct postgresql *postgresql;
	const struct postgresql_host *host;
	int64_t until;
	bool is_plain;
	char state[6]; /* of the server's refusal, or "" */
};

static PGconn *postgresql_begin(const struct dial *dial, const char *password,
				const char *ca_file, const char *tls)
{
	const char *const names[] = {
		"dbname",
		"host",
		"hostaddr",
		"port",
		"user",
		"password",
		"sslrootcert",
		"sslmode",
		"application_name",
		"fallback_application_name",
		"keepalives_idle",
		"tcp_user_timeout",
		"options",
		"target_session_attrs",
		NULL,
	};
	/* Who asked has gone by the time that a lock is had later: while a commit does
	 * not end, all that ask for its lease would pile up at the server. Behind a
	 * pooler these settings may be lost: what must hold, each function sets itself.
	 */
	const char *const values[] = {
		dial->postgresql->url,
		dial->host->name,
		dial->host->address,
		dial->host->port,
		dial->postgresql->user,
		password,
		ca_file,
		tls,
		NULL,
		"refrelay",
		"10",
		"5000",
		dial->is_plain ? NULL
			       : "-c synchronous_commit=on -c statement_timeout=10s "
				 "-c lock_timeout=400ms -c client_min_messages=warning",
		"read-write",
		NULL,
	};
	PGconn *connection = pq.connectStartParams(names, values, 1);

	pq.setNoticeProcessor(connection, postgresql_ignore_notice, NULL);
	pq.setErrorVerbosity(connection, PQERRORS_VERBOSE);
	return connection;
}

/* 1: it is ready, or has TLS if that is asked for; 0: it failed, *phase says when; -1. */
static int postgresql_poll_to_end(PGconn *connection, bool to_tls, int64_t until,
				  ConnStatusType *phase, struct err *err)
{
	for (;;) {
		*phase = pq.status(connection);
		PostgresPollingStatusType status = pq.connectPoll(connection);
		if (status == PGRES_POLLING_OK ||
		    (to_tls && *phase == CONNECTION_SSL_STARTUP &&
		     pq.status(connection) == CONNECTION_MADE))
			return 1;
		if (status == PGRES_POLLING_FAILED)
			return 0;
		if (postgresql_wait_for(connection,
					status == PGRES_POLLING_READING ? POLLIN
									: POLLOUT,
					until) != 0)
			return postgresql_late("the server does not answer in time", err);
	}
}

/* After TLS failed: whether it does without a look at the certificate. Nothing else is
 * sent then. */
static bool postgresql_is_certificate_wrong(const struct dial *dial)
{
	PGconn *connection =
		postgresql_begin(dial, NULL, "/proc/no-such-file", "require");
	ConnStatusType phase;
	bool is_wrong =
		connection && postgresql_poll_to_end(connection, true, dial->until,
						     &phase, ERR_IGNORED) > 0;

	pq.finish(connection);
	return is_wrong;
}

static int postgresql_connect_failed(struct dial *dial, PGconn *connection,
				     ConnStatusType phase, struct err *err)
{
	const char *message = pq.errorMessage(connection);
	enum err_class class = ERR_NETWORK;

	if (postgresql_find_state(message, dial->state))
		return postgresql_refused(dial->state, message, err);
	if (pq.connectionNeedsPassword(connection))
		class = ERR_AUTH;
	else if (phase == CONNECTION_SSL_STARTUP && postgresql_is_certificate_wrong(dial))
		class = ERR_CONFIG;
	return postgresql_fail(class, message, err);
}

static int postgresql_dial(struct dial *dial, PGconn **connection, struct err *err)
{
	const char *ca_file = dial->postgresql->ca_file;
	AUTO_STR struct str password = STR_INIT;
	ConnStatusType phase;

	dial->state[0] = '\0';
	if (postgresql_read_password(dial->postgresql, &password, err) != 0)
		return err_because(err, REASON_LOCK_UNAVAILABLE);
	*connection = postgresql_begin(dial, password.len > 0 ? password.data : NULL,
				       ca_file, ca_file ? "verify-full" : NULL);
	explicit_bzero(password.data, password.len);
	if (!*connection)
		return err_set(err, ERR_INTERNAL, "leases: no memory");
	int result = postgresql_poll_to_end(*connection, false, dial->until, &phase, err);
	if (result == 0)
		postgresql_connect_failed(dial, *connection, phase, err);
	pq.setErrorVerbosity(*connection, PQERRORS_DEFAULT);
	if (result > 0 && pq.setnonblocking(*connection, 1) == 0)
		return 0;
	postgresql_disconnect(connection);
	return -1;
}

/* PgBouncer lets no session begin with settings that it does not know. */
#define STATE_OF_PROTOCOL "08P01"

static int postgresql_connect(struct postgresql *postgresql,
			      const struct postgresql_host *host, PGconn **connection,
			      int64_t until, struct err *err)
{
	struct dial dial = { postgresql, host, until, atomic_load(&postgresql->is_plain),
			     "" };
	int result = postgresql_dial(&dial, connection, err);

	if (result == 0 || dial.is_plain || strcmp(dial.state, STATE_OF_PROTOCOL) != 0)
		return result;
	dial.is_plain = true;
	result = postgresql_dial(&dial, connection, err);
	if (result == 0)
		atomic_store(&postgresql->is_plain, true);
	return result;
}

/* ------------------------------------------------------------------ statements */

static int postgresql_flush_to_end(PGconn *connection, int64_t until)
{
	int left;

	while ((left = pq.flush(connection)) > 0)
		if (postgresql_wait_for(connection, POLLOUT, until) != 0)
			return -1;
	return left;
}

static int postgresql_await_result(PGconn *connection, int64_t until, struct err *err)
{
	while (pq.isBusy(connection)) {
		if (postgresql_wait_for(connection, POLLIN, until) != 0)
			return postgresql_late("the server does not answer in time", err);
		if (!pq.consumeInput(connection))
			return postgresql_fail(ERR_NETWORK, pq.errorMessage(connection),
					       err);
	}
	return 0;
}

/* Of what has been sent. The connection is of no more use after -1, unless *refused: it
 * was the statement. */
static int postgresql_finish(PGconn *connection, int64_t until, PGresult **result,
			     bool *refused, struct err *err)
{
	PGresult *more;

	if (postgresql_flush_to_end(connection, until) != 0)
		return postgresql_late("the server takes no request in time", err);
	for (;;) {
		if (postgresql_await_result(connection, until, err) != 0)
			return -1;
		more = pq.getResult(connection);
		if (!more)
			break;
		pq.clear(*result);
		*result = more;
	}
	ExecStatusType status = pq.resultStatus(*result);
	if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK)
		return 0;
	const char *state = pq.resultErrorField(*result, PG_DIAG_SQLSTATE);
	*refused = state && pq.status(connection) == CONNECTION_OK;
	if (state)
		return postgresql_refused(state, pq.resultErrorMessage(*result), err);
	return postgresql_fail(ERR_NETWORK, pq.resultErrorMessage(*result), err);
}

static int postgresql_run_on(PGconn *connection,
			     const struct postgresql_statement *statement, int64_t until,
			     PGresult **result, bool *refused, struct err *err)
{
	*result = NULL;
	*refused = false;
	if (!pq.sendQueryParams(connection, statement->text, statement->count, NULL,
				statement->values, NULL, NULL, 0))
		return postgresql_fail(ERR_NETWORK, pq.errorMessage(connection), err);
	return postgresql_finish(connection, until, result, refused, err);
}

/*
 * A session parses and plans a prepared statement once. A pooler may give each request
 * another session, which has it not, or has it already from somebody else: then nothing
 * is prepared any more. As the functions, a name that has another text gets another
 * number.
 */
static const char *const prepared_names[] = {
	[PREPARED_ACQUIRE] = "refrelay_acquire_7",
	[PREPARED_RELEASE] = "refrelay_release_6",
	[PREPARED_PASS] = "refrelay_pass_3",
};

static int postgresql_prepare(struct postgresql *postgresql, int channel,
			      const struct postgresql_statement *statement, int64_t until,
			      PGresult **result, bool *refused, struct err *err)
{
	PGconn *connection = postgresql->channels[channel];
	unsigned bit = 1U << statement->prepared;

	if (postgresql->prepared[channel] & bit)
		return 0;
	if (!pq.sendPrepare(connection, prepared_names[statement->prepared],
			    statement->text, statement->count, NULL))
		return postgresql_fail(ERR_NETWORK, pq.errorMessage(connection), err);
	if (postgresql_finish(connection, until, result, refused, err) != 0)
		return -1;
	pq.clear(TAKE(*result));
	postgresql->prepared[channel] |= bit;
	return 0;
}

static int postgresql_run_prepared(struct postgresql *postgresql, int channel,
				   const struct postgresql_statement *statement,
				   int64_t until, PGresult **result, bool *refused,
				   struct err *err)
{
	PGconn *connection = postgresql->channels[channel];

	*result = NULL;
	*refused = false;
	if (postgresql_prepare(postgresql, channel, statement, until, result, refused,
			       err) != 0)
		return -1;
	if (!pq.sendQueryPrepared(connection, prepared_names[statement->prepared],
				  statement->count, statement->values, NULL, NULL, 0))
		return postgresql_fail(ERR_NETWORK, pq.errorMessage(connection), err);
	return postgresql_finish(connection, until, result, refused, err);
}

static int postgresql_run_in(struct postgresql *postgresql, int channel,
			     const struct postgresql_statement *statement, int64_t until,
			     PGresult **result, bool *refused, struct err *err)
{
	PGconn *connection = postgresql->channels[channel];

	if (statement->prepared == PREPARED_NEVER || atomic_load(&postgresql->is_pooled))
		return postgresql_run_on(connection, statement, until, result, refused,
					 err);
	int done = postgresql_run_prepared(postgresql, channel, statement, until, result,
					   refused, err);
	if (!*refused || err->class == ERR_TIMEOUT)
		return done;
	/* What was refused has changed nothing. */
	pq.clear(TAKE(*result));
	done = postgresql_run_on(connection, statement, until, result, refused, err);
	if (done == 0)
		atomic_store(&postgresql->is_pooled, true);
	return done;
}

static int postgresql_run_text(PGconn *connection, const char *text, int64_t until,
			       struct err *err)
{
	const struct postgresql_statement statement = { .text = text };
	PGresult *result;
	bool refused;
	int done =
		postgresql_run_on(connection, &statement, until, &result, &refused, err);

	pq.clear(result);
	return done;
}

static int postgresql_make_schema(PGconn *connection, int64_t until, struct err *err)
{
	int result = postgresql_run_text(connection, "BEGIN", until, err);

	if (result == 0)
		result = postgresql_run_text(connection, POSTGRESQL_LOCK, until, err);
	for (size_t i = 0; postgresql_schema[i] && result == 0; i++)
		result =
			postgresql_run_text(connection, postgresql_schema[i], until, err);
	if (result == 0)
		return postgresql_run_text(connection, "COMMIT", until, err);
	if (err->class == ERR_AUTH)
		err_remedy(err, "GRANT CREATE ON DATABASE to the user of lease.userFile, "
				"or start a node once as one with that right; see "
				"docs/leases.md");
	return err_prefix(err, "the schema refrelay cannot be made");
}

static int postgresql_prepare_schema(struct postgresql *postgresql, PGconn *connection,
				     int64_t until, struct err *err)
{
	const struct postgresql_statement look = { .text = POSTGRESQL_IS_THERE };
	PGresult *result;
	bool refused;

	if (atomic_load(&postgresql->is_prepared))
		return 0;
	int done = postgresql_run_on(connection, &look, until, &result, &refused, err);
	bool is_there = done == 0 && pq.getvalue(result, 0, 0)[0] == 't';
	pq.clear(result);
	if (done == 0 && !is_there)
		done = postgresql_make_schema(connection, until, err);
	if (done == 0)
		atomic_store(&postgresql->is_prepared, true);
	return done;
}

static int postgresql_open_at(struct postgresql *postgresql,
			      const struct postgresql_host *host, PGconn **connection,
			      struct err *err)
{
	int64_t until = clock_boot_ms() + postgresql->connect_ms;

	if (postgresql_connect(postgresql, host, connection, until, err) != 0)
		return -1;
	if (postgresql_prepare_schema(postgresql, *connection, until, err) == 0)
		return 0;
	postgresql_disconnect(connection);
	return -1;
}

/* Whether it is worth trying another host. */
static bool postgresql_is_host_away(const struct err *err)
{
	return err->class == ERR_NETWORK || err->class == ERR_TIMEOUT;
}

/* From the host that worked last, or the one after those that failed since: if the time
 * does not suffice for all, or one refuses, the next call goes on from there. The error
 * is the first one's, or what was refused. */
static int postgresql_open(struct postgresql *postgresql, PGconn **connection,
			   struct err *err)
{
	const int64_t until = clock_boot_ms() + HOSTS_MS;
	const size_t count = postgresql->hosts.count;
	size_t host = atomic_load(&postgresql->host);
	struct err other;

	if (*connection && pq.status(*connection) == CONNECTION_OK)
		return 0;
	postgresql_disconnect(connection);
	for (size_t i = 0; i < count && clock_boot_ms() < until; i++) {
		struct err *why = i == 0 ? err : &other;
		if (postgresql_open_at(postgresql, &postgresql->hosts.items[host],
				       connection, why) == 0)
			return 0;
		size_t expected = host;
		host = (host + 1) % count;
		atomic_compare_exchange_strong(&postgresql->host, &expected, host);
		if (!postgresql_is_host_away(why)) {
			*err = *why;
			break;
		}
	}
	return -1;
}

static int postgresql_channel_open(struct postgresql *postgresql, int channel,
				   struct err *err)
{
	PGconn **connection = &postgresql->channels[channel];
	const PGconn *before = *connection;

	if (!before || pq.status(before) != CONNECTION_OK)
		postgresql->prepared[channel] = 0;
	return postgresql_open(postgresql, connection, err);
}

int postgresql_run(struct postgresql *postgresql,
		   const struct postgresql_statement *statement, int64_t limit_ms,
		   PGresult **result, bool *was_sent, struct err *err)
{
	int channel = lease_server_borrow(&postgresql->server,
					  clock_boot_ms() + postgresql->command_ms);
	bool refused = false;
	int done = -1;

	*result = NULL;
	*was_sent = false;
	if (channel < 0)
		return postgresql_late("all connections are in use", err);
	PGconn **connection = &postgresql->channels[channel];
	/* A server that was restarted is noticed by the request: one more try. */
	for (int i = 0; i < 2; i++) {
		bool was_open = *connection != NULL;
		if (postgresql_channel_open(postgresql, channel, err) != 0)
			break;
		done = postgresql_run_in(postgresql, channel, statement,
					 clock_boot_ms() + limit_ms, result, &refused,
					 err);
		*was_sent |= done != 0 && !refused;
		/* The schema is gone: it is made with the next connection. */
		bool is_missing = refused && err->class == ERR_CONFIG;
		if (is_missing)
			atomic_store(&postgresql->is_prepared, false);
		if (done == 0 || (refused && !is_missing))
			break;
		pq.clear(TAKE(*result));
		postgresql_disconnect(connection);
		if (!was_open || err->class == ERR_TIMEOUT)
			break;
	}
	if (done != 0)
		pq.clear(TAKE(*result));
	lease_server_give_back(&postgresql->server, channel);
	return done;
}

int postgresql_run_short(struct postgresql *postgresql,
			 const struct postgresql_statement *statement, PGresult **result,
			 struct err *err)
{
	bool ignored;

	return postgresql_run(postgresql, statement, postgresql->command_ms, result,
			      &ignored, err);
}

/* ------------------------------------------------------------------ the thread */

enum removal { REMOVAL_FOUND, REMOVAL_ABSENT, REMOVAL_REFUSED };

/* Twice, a second apart, unless it was there: what was sent on a connection that broke
 * may arrive after the first. */
static void postgresql_leftover_answered(struct lease_server *server, const char *nonce,
					 enum removal removal)
{
	int64_t now = clock_boot_ms();
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	for (size_t i = 0; i < server->leftovers.count; i++) {
		struct server_leftover *leftover = &server->leftovers.items[i];
		if (strcmp(leftover->nonce, nonce) != 0)
			continue;
		if (removal == REMOVAL_REFUSED ||
		    (removal == REMOVAL_ABSENT && !leftover->was_absent &&
		     leftover->until >= now)) {
			leftover->was_absent |= removal == REMOVAL_ABSENT;
			leftover->next_at = now + AGAIN_MS;
			return;
		}
		free(leftover->key);
		*leftover = server->leftovers.items[--server->leftovers.count];
		return;
	}
}

/* One that is due, by a copy; false: none is, and *next_at says when. */
static bool postgresql_leftover_due(struct lease_server *server, char **key,
				    char nonce[LEASE_NONCE_SIZE], int64_t *next_at)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);
	int64_t now = clock_boot_ms();

	for (size_t i = 0; i < server->leftovers.count; i++) {
		const struct server_leftover *leftover = &server->leftovers.items[i];
		if (leftover->next_at <= now) {
			*key = xstrdup(leftover->key);
			snprintf(nonce, LEASE_NONCE_SIZE, "%s", leftover->nonce);
			return true;
		}
		if (leftover->next_at < *next_at)
			*next_at = leftover->next_at;
	}
	return false;
}

/* A grant that is still being committed is seen by nobody, but has the lock of its key:
 * a look while that is taken would find nothing. -1: no answer. */
static int postgresql_remove_leftover(struct postgresql *postgresql, const char *key,
				      const char *nonce, enum removal *removal)
{
	const struct postgresql_statement statements[] = {
		{ .text = POSTGRESQL_QUEUE, .values = { key }, .count = 1 },
		{ .text = POSTGRESQL_RELEASE,
		  .values = { key, nonce, NULL, "true" },
		  .count = 4 },
	};
	int64_t until = clock_boot_ms() + postgresql->command_ms;
	bool refused = false;
	int done = 0;

	*removal = REMOVAL_FOUND;
	for (size_t i = 0; i < ARRAY_SIZE(statements) && *removal == REMOVAL_FOUND; i++) {
		PGresult *result;
		done = postgresql_run_on(postgresql->wake, &statements[i], until, &result,
					 &refused, ERR_IGNORED);
		*removal = done != 0 || (i == 0 && pq.getvalue(result, 0, 0)[0] != '1')
				   ? REMOVAL_REFUSED
			   : pq.getvalue(result, 0, 0)[0] == '1' ? REMOVAL_FOUND
								 : REMOVAL_ABSENT;
		pq.clear(result);
	}
	return refused ? 0 : done;
}

static int postgresql_remove_leftovers(struct postgresql *postgresql, int64_t *next_at)
{
	char nonce[LEASE_NONCE_SIZE], *key;
	enum removal removal;

	while (postgresql_leftover_due(&postgresql->server, &key, nonce, next_at)) {
		AUTO_FREE char *owned = key;
		if (postgresql_remove_leftover(postgresql, owned, nonce, &removal) != 0)
			return -1;
		postgresql_leftover_answered(&postgresql->server, nonce, removal);
	}
	return 0;
}

static int postgresql_listen_anew(struct postgresql *postgresql)
{
	AUTO_FREE char *text = xasprintf("LISTEN refrelay_%s", postgresql->server.me);
	struct err err;

	postgresql_disconnect(&postgresql->wake);
	int result = postgresql_open(postgresql, &postgresql->wake, &err);
	if (result == 0)
		result = postgresql_run_text(postgresql->wake, text,
					     clock_boot_ms() + postgresql->command_ms,
					     &err);
	if (result != 0)
		postgresql_disconnect(&postgresql->wake);
	/* What was told meanwhile is lost. */
	lease_server_signal(&postgresql->server, NULL);
	return result;
}

static int postgresql_take_notices(struct postgresql *postgresql)
{
	PGnotify *notice;

	if (!pq.consumeInput(postgresql->wake))
		return -1;
	while ((notice = pq.notifies(postgresql->wake)) != NULL) {
		lease_server_signal(&postgresql->server, notice->extra);
		pq.freemem(notice);
	}
	return 0;
}

static bool postgresql_is_wanted(struct lease_server *server)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	return server->hints.count > 0 || server->leftovers.count > 0;
}

static void postgresql_wake_wait(struct postgresql *postgresql, int64_t until)
{
	struct lease_server *server = &postgresql->server;
	struct pollfd watched[] = {
		{ server->control_fd, POLLIN, 0 },
		{ server->inotify_fd, POLLIN, 0 },
		{ postgresql->wake ? pq.socket(postgresql->wake) : -1, POLLIN, 0 },
	};
	int64_t left = until - clock_boot_ms();
	eventfd_t ignored;

	poll(watched, ARRAY_SIZE(watched),
	     left <= 0      ? 0
	     : left > 60000 ? 60000
			    : (int)left);
	eventfd_read(server->control_fd, &ignored);
	if (watched[1].revents)
		lease_server_take_deaths(server);
	if (watched[2].revents && postgresql_take_notices(postgresql) != 0)
		postgresql_disconnect(&postgresql->wake);
}

static void *postgresql_wake_run(void *arg)
{
	struct postgresql *postgresql = arg;
	int64_t connect_at = 0;

	while (!atomic_load(&postgresql->is_closing)) {
		int64_t until = INT64_MAX;
		if (!postgresql->wake && postgresql_is_wanted(&postgresql->server)) {
			if (clock_boot_ms() >= connect_at &&
			    postgresql_listen_anew(postgresql) != 0)
				connect_at = clock_boot_ms() + AGAIN_MS;
			until = postgresql->wake ? INT64_MAX : connect_at;
		}
		if (postgresql->wake &&
		    (postgresql_remove_leftovers(postgresql, &until) != 0 ||
		     postgresql_take_notices(postgresql) != 0)) {
			postgresql_disconnect(&postgresql->wake);
			continue;
		}
		postgresql_wake_wait(postgresql, until);
	}
	/* What was left behind since the last look. */
	if (postgresql->wake)
		postgresql_remove_leftovers(postgresql, &(int64_t){ 0 });
	postgresql_disconnect(&postgresql->wake);
	return NULL;
}

void postgresql_wake_start(struct postgresql *postgresql)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&postgresql->server.mutex);

	if (postgresql->is_started)
		return;
	postgresql->is_started = true;
	thread_start(&postgresql->thread, "lease-wake", postgresql_wake_run, postgresql);
}

void postgresql_wake_stop(struct postgresql *postgresql)
{
	if (!postgresql->is_started)
		return;
	atomic_store(&postgresql->is_closing, true);
	lease_server_poke(&postgresql->server);
	thread_join(postgresql->thread);
}
