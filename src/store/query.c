/*
 * A statement is prepared once a connection and lies in its map by its text. If it is
 * in use already (a query that runs inside itself), a second one is prepared for once.
 */
#include <assert.h>

#include "base/vec.h"
#include "store/site_value.h"
#include "store/store_conn.h"

static void add_to_text(struct query *query, void *text)
{
	str_add(text, query_text(query, 0));
}

#define GET_VALUE_SQL "SELECT value FROM site_value WHERE key = ?1"
#define SET_VALUE_SQL                                                                    \
	"INSERT INTO site_value (key, value) VALUES (?1, ?2)"                            \
	" ON CONFLICT (key) DO UPDATE SET value = ?2"

int site_value_get(struct store_tx *tx, const char *key, struct str *out, struct err *err)
{
	return query_one(tx, add_to_text, out, err, GET_VALUE_SQL, QUERY_TEXT(key));
}

int site_value_set(struct store_tx *tx, const char *key, const char *value,
		   struct err *err)
{
	return query_write(tx, err, SET_VALUE_SQL, QUERY_TEXT(key), QUERY_TEXT(value));
}

int site_value_set_number(struct store_tx *tx, const char *key, int64_t value,
			  struct err *err)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	return site_value_set(tx, key, text, err);
}

int site_value_remove(struct store_tx *tx, const char *key, struct err *err)
{
	return query_write(tx, err, "DELETE FROM site_value WHERE key = ?1",
			   QUERY_TEXT(key));
}

int site_value_read(struct store *store, const char *key, struct str *out,
		    struct err *err)
{
	str_reset(out);
	return store_one(store, add_to_text, out, err, GET_VALUE_SQL, QUERY_TEXT(key));
}

int site_value_write(struct store *store, const char *key, const char *value,
		     struct err *err)
{
	return store_run(store, err, SET_VALUE_SQL, QUERY_TEXT(key), QUERY_TEXT(value));
}

int counter_add(struct store_tx *tx, const char *kind, const char *what, int64_t by,
		struct err *err)
{
	return query_write(tx, err,
			   "INSERT INTO counters (kind, what, value) VALUES (?1, ?2, ?3)"
			   " ON CONFLICT (kind, what)"
			   " DO UPDATE SET value = counters.value + ?3",
			   QUERY_TEXT(kind), QUERY_TEXT(what), QUERY_INT(by));
}

int counter_remove(struct store_tx *tx, const char *kind, const char *what,
		   struct err *err)
{
	return query_write(tx, err, "DELETE FROM counters WHERE kind = ?1 AND what = ?2",
			   QUERY_TEXT(kind), QUERY_TEXT(what));
}

int counter_get(struct store_tx *tx, const char *kind, const char *what, int64_t *value,
		struct err *err)
{
	*value = 0;
	return query_number(tx, value, err,
			    "SELECT value FROM counters WHERE kind = ?1 AND what = ?2",
			    QUERY_TEXT(kind), QUERY_TEXT(what));
}

static struct query *query_find_kept(struct store_conn *conn, const char *sql)
{
	struct query *query = map_get(&conn->queries, sql);

	return query && !query->tx ? query : NULL;
}

static int query_prepare(struct store_conn *conn, const char *sql, struct query **query,
			 struct err *err)
{
	sqlite3_stmt *statement;

	if (store_sqlite_prepare(conn, sql, &statement, err) != 0)
		return store_conn_failed(conn, err);
	*query = xcalloc(1, sizeof(**query));
	(*query)->conn = conn;
	(*query)->statement = statement;
	(*query)->kept = !map_get(&conn->queries, sql);
	if ((*query)->kept)
		map_put(&conn->queries, sql, *query);
	return 0;
}

void query_free(struct query *query)
{
	sqlite3_finalize(query->statement);
	free(query);
}

int query_open(struct store_tx *tx, const char *sql, struct query **query,
	       struct err *err)
{
	struct query *opened = query_find_kept(tx->conn, sql);

	*query = NULL;
	if (store_conn_must_hold(tx->conn, err) != 0)
		return -1;
	if (!opened && query_prepare(tx->conn, sql, &opened, err) != 0)
		return -1;
	assert(tx->role == STORE_WRITER || sqlite3_stmt_readonly(opened->statement));
	opened->tx = tx;
	opened->state = QUERY_FRESH;
	tx->open_queries++;
	*query = opened;
	return 0;
}

void query_close(struct query **query)
{
	struct query *closed = TAKE(*query);
	int saved = errno;

	if (!closed)
		return;
	closed->tx->open_queries--;
	closed->tx = NULL;
	sqlite3_reset(closed->statement); /* tells the last step's error again */
	sqlite3_clear_bindings(closed->statement);
	closed->bound = SQLITE_OK;
	if (!closed->kept)
		query_free(closed);
	errno = saved;
}

static void rewind_query(struct query *query)
{
	if (query->state != QUERY_FRESH)
		sqlite3_reset(query->statement);
	query->state = QUERY_FRESH;
}

/* Only a value that is too big is not our own mistake. */
static void note_bound(struct query *query, int code)
{
	assert(code == SQLITE_OK || code == SQLITE_TOOBIG);
	if (query->bound == SQLITE_OK)
		query->bound = code;
}

void query_bind_int(struct query *query, int at, int64_t value)
{
	rewind_query(query);
	note_bound(query, sqlite3_bind_int64(query->statement, at, value));
}

void query_bind_text(struct query *query, int at, const char *value)
{
	if (!value) {
		query_bind_null(query, at);
		return;
	}
	rewind_query(query);
	note_bound(query, sqlite3_bind_text64(query->statement, at, value, strlen(value),
					      SQLITE_TRANSIENT, SQLITE_UTF8));
}

void query_bind_null(struct query *query, int at)
{
	rewind_query(query);
	note_bound(query, sqlite3_bind_null(query->statement, at));
}

int query_step(struct query *query, struct err *err)
{
	if (store_conn_must_hold(query->conn, err) != 0)
		return -1;
	if (query->state == QUERY_ENDED)
		return 0; /* SQLite would start anew */
	query->state = QUERY_STEPPED;
	int code = query->bound;
	if (code == SQLITE_OK)
		code = sqlite3_step(query->statement);
	if (code == SQLITE_ROW)
		return 1;
	if (code == SQLITE_DONE) {
		query->state = QUERY_ENDED;
		return 0;
	}
	store_sqlite_fail(query->conn, code, sqlite3_sql(query->statement), err);
	return store_conn_failed(query->conn, err);
}

int query_run(struct query *query, int64_t *changed, struct err *err)
{
	int result;

	rewind_query(query);
	do
		result = query_step(query, err);
	while (result > 0);
	if (result == 0 &&
	    changed) /* SQLite's is of the last one that could change any */
		*changed = sqlite3_stmt_readonly(query->statement)
				   ? 0
				   : sqlite3_changes(query->conn->db);
	return result;
}

static void query_bind_values(struct query *query, const struct query_value *values,
			      size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (values[i].is_text)
			query_bind_text(query, (int)i + 1, values[i].text);
		else
			query_bind_int(query, (int)i + 1, values[i].number);
}

int query_open_with(struct store_tx *tx, struct query **query, struct err *err,
		    const char *sql, const struct query_value *values, size_t count)
{
	if (query_open(tx, sql, query, err) != 0)
		return -1;
	query_bind_values(*query, values, count);
	return 0;
}

int query_run_with(struct store_tx *tx, struct err *err, const char *sql,
		   const struct query_value *values, size_t count)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open_with(tx, &query, err, sql, values, count) != 0)
		return -1;
	return query_run(query, NULL, err);
}

int query_one_with(struct store_tx *tx, query_take take, void *arg, struct err *err,
		   const char *sql, const struct query_value *values, size_t count)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open_with(tx, &query, err, sql, values, count) != 0)
		return -1;
	found = query_step(query, err);
	if (found > 0 && take)
		take(query, arg);
	return found;
}

void query_take_number(struct query *query, void *number)
{
	if (!query_is_null(query, 0))
		*(int64_t *)number = query_int(query, 0);
}

int query_number_with(struct store_tx *tx, int64_t *number, struct err *err,
		      const char *sql, const struct query_value *values, size_t count)
{
	int found =
		query_one_with(tx, query_take_number, number, err, sql, values, count);

	return found < 0 ? -1 : 0;
}

int query_take_all(struct query *query, query_take take, void *arg, struct err *err)
{
	int found;

	while ((found = query_step(query, err)) > 0)
		take(query, arg);
	return found;
}

int query_each_with(struct store_tx *tx, query_take take, void *arg, struct err *err,
		    const char *sql, const struct query_value *values, size_t count)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open_with(tx, &query, err, sql, values, count) != 0)
		return -1;
	return query_take_all(query, take, arg, err);
}

void query_add_text(struct query *query, void *texts)
{
	text_list *list = texts;

	vec_add(list, query_copy_text(query, 0));
}

struct single_call {
	const char *sql;
	const struct query_value *values;
	size_t count;
	query_take take;
	void *arg;
	int found;
};

static int run_single(struct store_tx *tx, void *arg, struct err *err)
{
	const struct single_call *call = arg;

	return query_run_with(tx, err, call->sql, call->values, call->count);
}

int store_run_with(struct store *store, struct err *err, const char *sql,
		   const struct query_value *values, size_t count)
{
	struct single_call call = { .sql = sql, .values = values, .count = count };

	return store_write(store, run_single, &call, err);
}

static int read_single(struct store_tx *tx, void *arg, struct err *err)
{
	struct single_call *call = arg;

	call->found = query_one_with(tx, call->take, call->arg, err, call->sql,
				     call->values, call->count);
	return call->found < 0 ? -1 : 0;
}

int store_one_with(struct store *store, query_take take, void *arg, struct err *err,
		   const char *sql, const struct query_value *values, size_t count)
{
	struct single_call call = { sql, values, count, take, arg, 0 };

	return store_read(store, read_single, &call, err) == 0 ? call.found : -1;
}

int64_t query_int(struct query *query, int column)
{
	assert(query->state == QUERY_STEPPED);
	return sqlite3_column_int64(query->statement, column);
}

const char *query_text(struct query *query, int column)
{
	assert(query->state == QUERY_STEPPED);
	return (const char *)sqlite3_column_text(query->statement, column);
}

char *query_copy_text(struct query *query, int column)
{
	return xstrdup_or_null(query_text(query, column));
}

bool query_is_null(struct query *query, int column)
{
	assert(query->state == QUERY_STEPPED);
	return sqlite3_column_type(query->statement, column) == SQLITE_NULL;
}
