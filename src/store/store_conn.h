/*
 * Connections as store/ uses them: transactions around works, on top of any driver.
 * Internal to store/; a connection is for one thread at a time.
 */
#ifndef STORE_STORE_CONN_H
#define STORE_STORE_CONN_H

#include "store/store_driver.h"

/* Whether this thread is inside a work just now. */
bool store_conn_in_work(void);

/* Ends it with its kept queries. NULL is allowed. */
void store_conn_close(struct store_conn *conn);

int store_conn_begin(struct store_conn *conn, enum store_role role, struct err *err);

/* If it fails, the transaction was rolled back. */
int store_conn_commit(struct store_conn *conn, struct err *err);
void store_conn_rollback(struct store_conn *conn);

/* Runs work inside a savepoint of the open transaction; a failed work is undone alone.
 * When conn->torn is set afterwards, the whole transaction is gone. */
int store_conn_run_nested(struct store_conn *conn, store_work work, void *arg,
			  struct err *err);

/* Runs work in a transaction of its own. */
int store_conn_transaction(struct store_conn *conn, enum store_role role, store_work work,
			   void *arg, struct err *err);

/* Keeps *err as the reason if the database has given up the transaction. Returns -1. */
int store_conn_failed(struct store_conn *conn, const struct err *err);

/* -1 with *err filled if the transaction is gone already. */
int store_conn_must_hold(const struct store_conn *conn, struct err *err);

#endif
