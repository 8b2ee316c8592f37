/*
 * Connections as store/ uses them: transactions around works, on top of any driver.
 * Internal to store/; a connection is for one thread at a time.
 */
#ifndef STORE_STORE_CONN_H
#define STORE_STORE_CONN_H

#include "store/store_driver.h"

void store_conn_rollback(struct store_conn *conn);

/* Runs work in its own transaction. */
int store_conn_transaction(struct store_conn *conn, enum store_role role, store_work work,
			   void *arg, struct err *err);

/* Stores *err as the reason if the database has rolled back the transaction. Returns
 * -1. */
int store_conn_failed(struct store_conn *conn, const struct err *err);

/* -1 with *err filled if the transaction is gone already. */
int store_conn_must_hold(const struct store_conn *conn, struct err *err);

#endif
