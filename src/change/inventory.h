/*
 * A primary's inventory of any kind of replicable. Any thread.
 */
#ifndef CHANGE_INVENTORY_H
#define CHANGE_INVENTORY_H

#include "change/event_log.h"
#include "store/store.h"
#include "wire/wire_inventory.h"

/* The tag of a kind's whole inventory, with quotes, and how much of it is known. */
struct inventory_tag {
	enum event_scanned scanned; /* SCANNED_NOTHING: no inventory yet */
	char etag[INVENTORY_ETAG_SIZE];
};

/* Caches the tag of each kind until the next commit, so that a follower that asks for
 * news does not cost a query. */
struct inventory_tags;
struct inventory_tags *inventory_tags_new(struct store *store);
void inventory_tags_free(struct inventory_tags *tags); /* NULL is allowed */

/* From memory. False: not cached now; use inventory_tags_look(). */
bool inventory_tags_now(struct inventory_tags *tags, const char *kind,
			struct inventory_tag *tag);
int inventory_tags_look(struct inventory_tags *tags, const char *kind,
			struct inventory_tag *tag, struct err *err);

/* One page, with the ETag of the same state; question->limit is 1 or more. The caller
 * clears it after a success. */
int inventory_read(struct store *store, const char *kind,
		   const struct page_question *question, struct inventory_page *page,
		   struct err *err);

/* One row, as JSON for people and secondaries. NULL with ERR_MISSING. The caller owns it.
 */
json_t *inventory_row(struct store *store, const char *kind, const char *name,
		      struct err *err);

/* The same for a row that was read before; borrows its texts. */
struct inventory_item inventory_item_of(const struct origin_row *row);

#endif
