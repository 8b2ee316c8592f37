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

/* To read only: makes nothing and writes nothing, so that it works on a disk that is full
 * or read-only. Where nothing was ever kept, it is as if nothing were known. */
int site_data_open_to_read(const char *directory, struct site_data *data,
			   struct err *err);

/* The same for a node, which has leases of its own length and a name in them. Its
 * directory is made private first, and locked by the caller. */
int site_data_open_node(const char *directory, const char *node, int64_t lease_ttl_ms,
			struct site_data *data, struct err *err);
int site_data_make(const char *directory, struct err *err);

/* Of a node's: ERR_CONFIG if others than its owner may enter it. One that is not there is
 * good. */
int site_data_check(const char *directory, struct err *err);
void site_data_close(struct site_data *data);

#endif
