/*
 * Connections to the database, and transactions around works on top of them. Internal to
 * store/. SQLite's errors become ours in store_sqlite.c alone.
 *
 * A connection and its statements are for one thread at a time.
 */
#ifndef STORE_STORE_CONN_H
#define STORE_STORE_CONN_H

#include <sqlite3.h>

#include "base/base.h"
#include "base/map.h"
#include "store/store.h"

/* STORE_LOOKER only reads, and does not write anything, not even the state shared by
 * readers. */
enum store_role { STORE_READER, STORE_WRITER, STORE_LOOKER };

enum store_control {
	STORE_BEGIN_READ,
	STORE_BEGIN_WRITE, /* gets the write lock now, or fails with ERR_BUSY after 10
			      s */
	STORE_COMMIT,
	STORE_ROLLBACK,
	STORE_SAVEPOINT, /* one level only */
	STORE_RELEASE,
	STORE_ROLLBACK_TO,
	STORE_SYNCED,   /* commits are durable from now on (the default), or */
	STORE_UNSYNCED, /* are not; outside of transactions */
	STORE_CONTROLS
};

struct store_conn {
	sqlite3 *db;
	char *place;        /* owned; as shown to users */
	struct map queries; /* SQL text to struct query: prepared and kept */
	sqlite3_stmt *controls[STORE_CONTROLS]; /* prepared when first needed */
	int64_t busy_until;
	bool is_unsynced;
	/* A database may roll a whole transaction back by itself when a statement fails
	 * (disk full). Later statements would run outside of a transaction, so from then
	 * to the end all fail with the same error. */
	bool torn;
	struct err tear;
};

struct store_tx {
	struct store_conn *conn;
	enum store_role role;
	int open_queries;
};

struct query {
	struct store_conn *conn;
	struct store_tx *tx; /* NULL: closed */
	sqlite3_stmt *statement;
	int bound; /* the first failure of a bind; the next step tells it */
	bool kept; /* in conn->queries */
	enum { QUERY_FRESH, QUERY_STEPPED, QUERY_ENDED } state;
};

/* Prepares for the first connection. *place (the caller frees) is for open, in any
 * working directory. */
int store_sqlite_locate(const char *target, char **place, struct err *err);
int store_sqlite_open(const char *place, enum store_role role, struct store_conn **conn,
		      struct err *err);
void store_sqlite_close(struct store_conn *conn); /* its queries are gone already */

/* Memory in which commits of all processes are visible while the connection is open; it
 * must have read before. NULL: not available. */
const volatile void *store_sqlite_header(struct store_conn *conn);
bool store_sqlite_stamp(const volatile void *header,
			struct store_stamp *stamp); /* any thread */

int store_sqlite_check_place(struct store_conn *conn, struct err *err);
int store_sqlite_control(struct store_conn *conn, enum store_control what,
			 struct err *err);
int store_sqlite_exec(struct store_conn *conn, const char *sql, struct err *err);
int store_sqlite_prepare(struct store_conn *conn, const char *sql,
			 sqlite3_stmt **statement, struct err *err);

/* The one place where SQLite's errors become ours. code: SQLite's extended one; sql may
 * be NULL. Returns -1. */
int store_sqlite_fail(const struct store_conn *conn, int code, const char *sql,
		      struct err *err);

void query_free(struct query *query);

/* Runs work in its own transaction. */
int store_conn_transaction(struct store_conn *conn, enum store_role role, store_work work,
			   void *arg, struct err *err);

/* Stores *err as the reason if the database has rolled back the transaction. Returns
 * -1. */
int store_conn_failed(struct store_conn *conn, const struct err *err);

/* -1 with *err filled if the transaction is gone already. */
int store_conn_must_hold(const struct store_conn *conn, struct err *err);

/* How long to wait for a lock of another process: 10 s. Tests shorten it before
 * store_open(). */
extern int64_t store_busy_limit_ms;

/* How often the writer has committed. */
uint64_t store_commits(struct store *store);

#endif
