/*
 * What a primary answers to its secondaries besides events: the inventory and the refs of
 * one repository. docs/protocol.md from the answering side. Any thread.
 */
#ifndef ORIGIN_INVENTORY_H
#define ORIGIN_INVENTORY_H

#include "base/base.h"
#include "base/json.h"
#include "change/notice.h"
#include "store/store.h"

#define INVENTORY_ETAG_SIZE 128

/* What stands for the whole inventory: with quotes. A read of one row. */
int inventory_etag(struct store *store, char etag[INVENTORY_ETAG_SIZE], struct err *err);

/* One page, rows as docs/protocol.md and for people as interface says (verification and
 * so on are members, too), with the ETag of the same picture. The caller owns it; NULL:
 * *err. */
json_t *inventory_page(struct store *store, const char *after, size_t limit,
		       char etag[INVENTORY_ETAG_SIZE], struct err *err);

/* One row. NULL with ERR_MISSING. */
json_t *inventory_row(struct store *store, const char *name, struct err *err);

/* The body of GET .../refs, from a comparison that has just been made. */
void refs_answer(const struct noticed *noticed, struct str *out);

#endif
