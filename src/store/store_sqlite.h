/*
 * The parts of the SQLite driver: connections with their errors (store_sqlite.c),
 * statements (store_sqlite.c), what was committed last (store_sqlite.c).
 * Internal to the driver.
 */
#ifndef STORE_STORE_SQLITE_H
#define STORE_STORE_SQLITE_H

#include <sqlite3.h>

#include "store/store_driver.h"

struct sqlite_conn {
	struct store_conn base;
	sqlite3 *db;
	sqlite3_stmt *controls[STORE_CONTROLS]; /* prepared when first needed */
	int64_t busy_until;
};

/* The one place where SQLite's errors become ours. code: SQLite's extended one; sql may
 * be NULL. Returns -1. */
int sqlite_fail(const struct sqlite_conn *conn, int code, const char *sql,
		struct err *err);

int sqlite_prepare(struct sqlite_conn *conn, const char *sql, sqlite3_stmt **statement,
		   struct err *err);

/* Members of the driver's table (store_driver.h). */
const volatile void *sqlite_stamp_header(struct store_conn *base);
bool sqlite_stamp_read(const volatile void *header, struct store_stamp *stamp);
int sqlite_query_prepare(struct store_conn *base, const char *sql, struct query **query,
			 struct err *err);
void sqlite_query_finalize(struct query *query);
bool sqlite_query_is_read_only(struct query *query);
void sqlite_query_rewind(struct query *query);
void sqlite_query_forget(struct query *query);
void sqlite_query_bind_int(struct query *query, int at, int64_t value);
void sqlite_query_bind_text(struct query *query, int at, const char *value);
void sqlite_query_bind_null(struct query *query, int at);
int sqlite_query_step(struct query *query, struct err *err);
int64_t sqlite_query_changes(struct query *query);
int64_t sqlite_query_column_int(struct query *query, int column);
const char *sqlite_query_column_text(struct query *query, int column);

#endif
