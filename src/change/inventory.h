/*
 * What a primary has, of any kind of replicable, as its inventory says it. Any thread.
 */
#ifndef CHANGE_INVENTORY_H
#define CHANGE_INVENTORY_H

#include "change/event_log.h"
#include "store/store.h"
#include "wire/wire_inventory.h"

/* What stands for a kind's whole inventory: with quotes. A read of one row. */
int inventory_etag(struct store *store, const char *kind, char etag[INVENTORY_ETAG_SIZE],
		   struct err *err);

/* One page, with the ETag of the same picture; question->limit is 1 or more. The caller
 * clears it after a success. */
int inventory_read(struct store *store, const char *kind,
		   const struct page_question *question, struct inventory_page *page,
		   struct err *err);

/* One row, as JSON for people and secondaries. NULL with ERR_MISSING. The caller owns it.
 */
json_t *inventory_row(struct store *store, const char *kind, const char *name,
		      struct err *err);

/* The same of a row that was read before, whose texts it borrows. */
struct inventory_item inventory_item_of(const struct origin_row *row);

#endif
