/*
 * The tables, as numbered migrations. Internal to store/.
 */
#ifndef STORE_SCHEMA_H
#define STORE_SCHEMA_H

#include "store/store_conn.h"

/* Brings the database to the latest version, one transaction per step; other processes
 * may do the same concurrently. ERR_CONFIG: it is newer than this program, or
 * older than its first release. */
int schema_migrate(struct store_conn *conn, struct err *err);

/* Only checks. ERR_CONFIG: it is of another version. */
int schema_check(struct store_conn *conn, struct err *err);

#endif
