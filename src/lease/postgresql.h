/*
 * Leases in a PostgreSQL database (postgresql.c has the guarantees).
 */
#ifndef LEASE_POSTGRESQL_H
#define LEASE_POSTGRESQL_H

#include "lease/lease.h"

/* options->urls[0]: a connection URI as libpq takes it, without a password; several hosts
 * in it are tried in turn for the one that can be written. Connects to none: a server
 * that is away is for each acquire to say. The first that gets through makes the schema
 * refrelay if it is not there. ERR_CONFIG: the url makes no sense, or has a password in
 * it. */
int lease_manager_open_postgresql(const struct lease_options *options,
				  struct lease_manager **manager, struct err *err);

#endif
