/*
 * Leases in a PostgreSQL database (postgresql.c has the guarantees).
 */
#ifndef LEASE_POSTGRESQL_H
#define LEASE_POSTGRESQL_H

#include "lease/lease.h"

/* options->urls[0]: a connection URI as libpq takes it, without a password; several hosts
 * in it are tried in turn to find the writable one. Does not connect yet: each acquire
 * reports a server that is away. The first that gets through creates the schema refrelay
 * if it is missing. ERR_CONFIG: the url is invalid, or contains a password. */
int lease_manager_open_postgresql(const struct lease_options *options,
				  struct lease_manager **manager, struct err *err);

#endif
