/*
 * The hosts in the URL of a PostgreSQL database, one by one: libpq goes on from one that
 * refuses to the next, but waits for one that is silent until the caller gives up.
 */
#ifndef LEASE_POSTGRESQL_URL_H
#define LEASE_POSTGRESQL_URL_H

#include "base/vec.h"

/* What replaces the lists in the URL; NULL: as it says. All owned. */
struct postgresql_host {
	char *name, *address, *port;
};

typedef VEC(struct postgresql_host) postgresql_hosts;

/* Adds one at least. ERR_CONFIG: it is invalid, or has a password, which would be seen by
 * whoever reads the configuration. */
int postgresql_url_read(const char *url, postgresql_hosts *hosts, struct err *err);

void postgresql_hosts_clear(postgresql_hosts *hosts);

#endif
