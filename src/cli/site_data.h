/*
 * The directory in which a site, or a tree of copies, keeps what refrelay needs to
 * remember: database, leases, the configuration of git children.
 */
#ifndef CLI_SITE_DATA_H
#define CLI_SITE_DATA_H

#include "base/base.h"
#include "lease/lease.h"
#include "store/store.h"

struct site_data {
	char *directory; /* owned */
	struct store *store;
	struct lease_manager *leases;
};

/* Opens, and makes what is missing. Any number of processes may have it open. */
int site_data_open(const char *directory, struct site_data *data, struct err *err);
void site_data_close(struct site_data *data);

#endif
