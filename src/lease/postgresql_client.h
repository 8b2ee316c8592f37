/*
 * Requests of the PostgreSQL backend to its server, and notices from it. Safe from any
 * thread.
 */
#ifndef LEASE_POSTGRESQL_CLIENT_H
#define LEASE_POSTGRESQL_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/map.h"
#include "lease/lease_server.h"
#include "lease/postgresql_library.h"
#include "lease/postgresql_url.h"

#define PARAMETERS_MOST 10
#define POSTGRESQL_COMMAND_MS 500
#define POSTGRESQL_CONNECT_MS 2000 /* TLS and a password cost some round trips */

struct postgresql {
	struct lease_backend base;
	struct lease_server server;
	char *url, *user, *password_file, *ca_file; /* owned; may be NULL */
	postgresql_hosts hosts;
	atomic_size_t host;                     /* of them: the one that worked last */
	_Atomic int64_t command_ms, connect_ms; /* for an answer; to one host */
	char *prefix, *likeness; /* owned; of the keys of this site; the latter in the
				    syntax of LIKE, or NULL */
	PGconn *channels[LEASE_SERVER_CHANNELS];  /* used by its borrower */
	unsigned prepared[LEASE_SERVER_CHANNELS]; /* on each: bits; the same */
	atomic_bool is_plain;    /* a pooler refuses our settings of a session */
	atomic_bool is_pooled;   /* requests are served by any session: prepare nothing */
	atomic_bool is_prepared; /* the schema exists */
	PGconn *wake;            /* the thread's */
	pthread_t thread;
	bool is_started; /* guarded by server.mutex */
	atomic_bool is_closing;
};

static inline struct postgresql *postgresql_of(struct lease_backend *backend)
{
	return (struct postgresql *)backend;
}

/* What is asked often is prepared: its number is the bit that says so. */
enum postgresql_prepared {
	PREPARED_NEVER,
	PREPARED_ACQUIRE,
	PREPARED_RELEASE,
	PREPARED_PASS
};

struct postgresql_statement {
	enum postgresql_prepared prepared;
	const char *text;
	const char *values[PARAMETERS_MOST];
	int count;
};

/* Each has a connection to itself meanwhile, opened if need be; one that is late or
 * broken is closed. *result is the caller's, NULL after -1. The error's reason is
 * REASON_LOCK_UNAVAILABLE. *was_sent: the server may have run it although we fail. */
int postgresql_run(struct postgresql *postgresql,
		   const struct postgresql_statement *statement, int64_t limit_ms,
		   PGresult **result, bool *was_sent, struct err *err);

/* Within command_ms. */
int postgresql_run_short(struct postgresql *postgresql,
			 const struct postgresql_statement *statement, PGresult **result,
			 struct err *err);

void postgresql_disconnect(PGconn **connection);

/* The thread that receives notices of free leases, and takes back grants whose answer was
 * lost. Starting it again does nothing. */
void postgresql_wake_start(struct postgresql *postgresql);
void postgresql_wake_stop(struct postgresql *postgresql);

#endif
