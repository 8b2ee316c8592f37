/*
 * What a primary answers to its secondaries besides events: the inventory, of any kind of
 * replicable, and the refs of one repository. docs/protocol.md from the answering side.
 * Any thread.
 */
#ifndef ORIGIN_INVENTORY_H
#define ORIGIN_INVENTORY_H

#include "base/base.h"
#include "base/json.h"
#include "change/notice.h"
#include "change/pushed.h"
#include "store/store.h"

#define INVENTORY_ETAG_SIZE 128

/* How much of a kind (KIND_REPOSITORY, or a type of blobs) was looked at since the log
 * began. */
int inventory_scanned(struct store *store, const char *kind, enum event_scanned *scanned,
		      struct err *err);

/* What stands for a kind's whole inventory: with quotes. A read of one row. */
int inventory_etag(struct store *store, const char *kind, char etag[INVENTORY_ETAG_SIZE],
		   struct err *err);

struct inventory_slice {
	const char *kind;
	const char *after; /* NULL: from the first */
	size_t limit;
};

/* One page, rows as docs/protocol.md and for people as interface says (verification and
 * so on are members, too), with the ETag of the same picture. Rows are the member
 * "repositories", or "blobs". The caller owns it; NULL: *err. */
json_t *inventory_page(struct store *store, const struct inventory_slice *question,
		       char etag[INVENTORY_ETAG_SIZE], struct err *err);

/* One row. NULL with ERR_MISSING. */
json_t *inventory_row(struct store *store, const char *kind, const char *name,
		      struct err *err);

/* The same of a row that was read before. */
json_t *inventory_row_json(const char *kind, const struct origin_row *row);

/* The member of a page that has the rows of a kind. Static. */
const char *inventory_member(const char *kind);

/* The body of GET .../refs, from a comparison that has just been made; `settled` was read
 * before it, `announced` behind it (change/pushed.h). */
void refs_answer(const struct noticed *noticed, const struct pushed *pushed,
		 struct str *out);

#endif
