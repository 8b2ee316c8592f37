/*
 * The interface of a kind of database: the table of functions that a driver provides, for
 * connections and their statements. Internal to store/.
 *
 * A connection and its statements are for one thread at a time. A driver embeds struct
 * store_conn and struct query as first members of its own structs, translates its
 * library's errors itself, and names the database in their texts.
 */
#ifndef STORE_STORE_DRIVER_H
#define STORE_STORE_DRIVER_H

#include "base/base.h"
#include "base/map.h"
#include "store/store.h"

/* STORE_LOOKER only reads, and does not write anything, not even the state shared by
 * readers. */
enum store_role { STORE_READER, STORE_WRITER, STORE_LOOKER };

struct store_conn {
	const struct store_driver *driver;
	char *place;        /* owned; as shown to users */
	struct map queries; /* SQL text to struct query: prepared and kept */
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
	bool kept;           /* in conn->queries */
	enum { QUERY_FRESH, QUERY_STEPPED, QUERY_ENDED } state;
};

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

struct store_driver {
	/* The type of an auto-numbered primary key column that never reuses a number. */
	const char *identity;
	/* The database is a local file: copying its directory copies it. */
	bool is_file;
	/* Has a row if there is a table named ?1. */
	const char *has_table;

	/* Prepares for the first connection. *place (the caller frees) is for open(), in
	 * any working directory. */
	int (*locate)(const char *target, char **place, struct err *err);
	int (*open)(const char *place, enum store_role role, struct store_conn **conn,
		    struct err *err);
	void (*close)(struct store_conn *conn); /* its queries are gone already */

	/* Memory in which commits of all processes are visible while the connection is
	 * open; it must have read before. NULL: not available. */
	const volatile void *(*header)(struct store_conn *conn);
	bool (*stamp)(const volatile void *header,
		      struct store_stamp *stamp); /* any thread */

	int (*control)(struct store_conn *conn, enum store_control what, struct err *err);
	bool (*in_transaction)(struct store_conn *conn);
	int (*exec)(struct store_conn *conn, const char *sql, struct err *err);
	int (*check)(struct store_conn *conn, struct err *err);

	int (*prepare)(struct store_conn *conn, const char *sql, struct query **query,
		       struct err *err);
	void (*finalize)(struct query *query);
	bool (*is_read_only)(struct query *query);
	void (*rewind)(struct query *query); /* to its start, keeping parameters */
	void (*forget)(struct query *query); /* the same, dropping parameters */

	/* A bind that fails is reported by the next step. */
	void (*bind_int)(struct query *query, int at, int64_t value);
	void (*bind_text)(struct query *query, int at, const char *value);
	void (*bind_null)(struct query *query, int at);

	int (*step)(struct query *query, struct err *err); /* as query_step() */
	int64_t (*changes)(struct query *query);           /* of the last whole run */

	int64_t (*column_int)(struct query *query, int column);
	const char *(*column_text)(struct query *query, int column);
	bool (*column_is_null)(struct query *query, int column);
};

extern const struct store_driver store_sqlite;

/* How long to wait for a lock of another process: 10 s. Tests shorten it before
 * store_open(). */
extern int64_t store_busy_limit_ms;

/* How often the writer has committed. */
uint64_t store_commits(struct store *store);

/* Reads all of the database and compares indexes with tables. ERR_CORRUPT. */
int store_check(struct store *store, struct err *err);

#endif
