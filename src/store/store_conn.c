#include "store/store_conn.h"

#include <assert.h>

static _Thread_local bool in_work;

bool store_conn_in_work(void)
{
	return in_work;
}

void store_conn_close(struct store_conn *conn)
{
	const struct map_entry *entry;
	size_t at = 0;

	if (!conn)
		return;
	while ((entry = map_next(&conn->queries, &at)) != NULL)
		conn->driver->finalize(entry->value);
	map_clear(&conn->queries);
	conn->driver->close(conn);
}

int store_conn_begin(struct store_conn *conn, enum store_role role, struct err *err)
{
	conn->torn = false;
	return conn->driver->control(
		conn, role == STORE_WRITER ? STORE_BEGIN_WRITE : STORE_BEGIN_READ, err);
}

int store_conn_commit(struct store_conn *conn, struct err *err)
{
	if (conn->driver->control(conn, STORE_COMMIT, err) == 0)
		return 0;
	store_conn_rollback(conn);
	return -1;
}

void store_conn_rollback(struct store_conn *conn)
{
	if (conn->driver->in_transaction(conn))
		conn->driver->control(conn, STORE_ROLLBACK, ERR_IGNORED);
}

static int tear(struct store_conn *conn, const struct err *err)
{
	store_conn_rollback(conn);
	conn->torn = true;
	conn->tear = *err;
	return -1;
}

int store_conn_failed(struct store_conn *conn, const struct err *err)
{
	if (!conn->torn && !conn->driver->in_transaction(conn))
		tear(conn, err);
	return -1;
}

int store_conn_must_hold(const struct store_conn *conn, struct err *err)
{
	if (!conn->torn)
		return 0;
	*err = conn->tear;
	return -1;
}

/* A work that overlooked the failure which tore its transaction has failed, too. */
static int store_conn_run_work(struct store_conn *conn, enum store_role role,
			       store_work work, void *arg, struct err *err)
{
	struct store_tx tx = { .conn = conn, .role = role };

	assert(!in_work);
	in_work = true;
	int result = work(&tx, arg, err);
	in_work = false;
	assert(tx.open_queries == 0);
	assert(result == 0 || result == -1);
	if (result == 0)
		return store_conn_must_hold(conn, err);
	return -1;
}

int store_conn_run_nested(struct store_conn *conn, store_work work, void *arg,
			  struct err *err)
{
	const struct store_driver *driver = conn->driver;
	struct err failure;

	if (driver->control(conn, STORE_SAVEPOINT, err) != 0)
		return tear(conn, err);
	int result = store_conn_run_work(conn, STORE_WRITER, work, arg, err);
	if (conn->torn)
		return -1;
	if ((result != 0 && driver->control(conn, STORE_ROLLBACK_TO, &failure) != 0) ||
	    driver->control(conn, STORE_RELEASE, &failure) != 0) {
		*err = failure;
		return tear(conn, err);
	}
	return result;
}

int store_conn_transaction(struct store_conn *conn, enum store_role role, store_work work,
			   void *arg, struct err *err)
{
	if (store_conn_begin(conn, role, err) != 0)
		return -1;
	if (store_conn_run_work(conn, role, work, arg, err) != 0) {
		store_conn_rollback(conn);
		return -1;
	}
	return store_conn_commit(conn, err);
}

int store_exec(struct store_tx *tx, const char *sql, struct err *err)
{
	struct store_conn *conn = tx->conn;

	assert(tx->role == STORE_WRITER);
	if (store_conn_must_hold(conn, err) != 0)
		return -1;
	if (conn->driver->exec(conn, sql, err) != 0)
		return store_conn_failed(conn, err);
	return 0;
}
