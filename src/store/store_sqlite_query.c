#include <assert.h>

#include "store/store_sqlite.h"

struct sqlite_query {
	struct query base;
	sqlite3_stmt *statement;
	int bound; /* the first failure of a bind */
};

static struct sqlite_query *query_of(struct query *query)
{
	return (struct sqlite_query *)query;
}

static struct sqlite_conn *store_sqlite_query_conn_of(const struct query *query)
{
	return (struct sqlite_conn *)query->conn;
}

int sqlite_query_prepare(struct store_conn *base, const char *sql, struct query **query,
			 struct err *err)
{
	sqlite3_stmt *statement;

	if (sqlite_prepare((struct sqlite_conn *)base, sql, &statement, err) != 0)
		return -1;
	struct sqlite_query *made = xcalloc(1, sizeof(*made));
	made->statement = statement;
	*query = &made->base;
	return 0;
}

void sqlite_query_finalize(struct query *query)
{
	sqlite3_finalize(query_of(query)->statement);
	free(query_of(query));
}

bool sqlite_query_is_read_only(struct query *query)
{
	return sqlite3_stmt_readonly(query_of(query)->statement);
}

void sqlite_query_rewind(struct query *query)
{
	sqlite3_reset(query_of(query)->statement); /* tells the last step's error again */
}

void sqlite_query_forget(struct query *query)
{
	sqlite_query_rewind(query);
	sqlite3_clear_bindings(query_of(query)->statement);
	query_of(query)->bound = SQLITE_OK;
}

/* Only a value that is too big is not our own mistake. */
static void note_bound(struct query *query, int code)
{
	assert(code == SQLITE_OK || code == SQLITE_TOOBIG);
	if (query_of(query)->bound == SQLITE_OK)
		query_of(query)->bound = code;
}

void sqlite_query_bind_int(struct query *query, int at, int64_t value)
{
	note_bound(query, sqlite3_bind_int64(query_of(query)->statement, at, value));
}

void sqlite_query_bind_text(struct query *query, int at, const char *value)
{
	note_bound(query,
		   sqlite3_bind_text64(query_of(query)->statement, at, value,
				       strlen(value), SQLITE_TRANSIENT, SQLITE_UTF8));
}

void sqlite_query_bind_bytes(struct query *query, int at, const void *value, size_t len)
{
	note_bound(query, sqlite3_bind_blob64(query_of(query)->statement, at, value, len,
					      SQLITE_TRANSIENT));
}

void sqlite_query_bind_null(struct query *query, int at)
{
	note_bound(query, sqlite3_bind_null(query_of(query)->statement, at));
}

int sqlite_query_step(struct query *query, struct err *err)
{
	sqlite3_stmt *statement = query_of(query)->statement;
	int code = query_of(query)->bound;

	if (code == SQLITE_OK)
		code = sqlite3_step(statement);
	if (code == SQLITE_ROW)
		return 1;
	if (code == SQLITE_DONE)
		return 0;
	return sqlite_fail(store_sqlite_query_conn_of(query), code,
			   sqlite3_sql(statement), err);
}

/* SQLite remembers the count of the last statement that could have changed any. */
int64_t sqlite_query_changes(struct query *query)
{
	return sqlite_query_is_read_only(query)
		       ? 0
		       : sqlite3_changes(store_sqlite_query_conn_of(query)->db);
}

int64_t sqlite_query_column_int(struct query *query, int column)
{
	return sqlite3_column_int64(query_of(query)->statement, column);
}

bool sqlite_query_column_is_null(struct query *query, int column)
{
	return sqlite3_column_type(query_of(query)->statement, column) == SQLITE_NULL;
}

const char *sqlite_query_column_text(struct query *query, int column)
{
	return (const char *)sqlite3_column_text(query_of(query)->statement, column);
}

/* SQLite gives NULL for an empty value, too. */
const void *sqlite_query_column_bytes(struct query *query, int column, size_t *len)
{
	sqlite3_stmt *statement = query_of(query)->statement;
	bool is_null = sqlite_query_column_is_null(query, column);
	const void *bytes = sqlite3_column_blob(statement, column);

	*len = (size_t)sqlite3_column_bytes(statement, column);
	return bytes || is_null ? bytes : "";
}
