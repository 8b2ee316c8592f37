/*
 * The inventory of a primary for one kind, page by page; and one row of it.
 */
#ifndef WIRE_WIRE_INVENTORY_H
#define WIRE_WIRE_INVENTORY_H

#include "base/vec.h"
#include "replicable/kind.h"
#include "wire/wire_event.h"

#define INVENTORY_ETAG_SIZE 128

struct inventory_item {
	char *name, *checksum; /* owned; checksum NULL: the primary cannot read it, or, of
				  a blob, has not computed it yet */
	bool is_unreadable;
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
	uint64_t size; /* of a blob, in bytes */
	int64_t changed_at, verified_at;
	enum registry_verification verification;
	char *failure_class, *failure, *remedy; /* owned; failure NULL: no failure */
};

struct inventory_page {
	VEC(struct inventory_item) items; /* names ascending in byte order */
	char *last;            /* owned; the last name, even if left out; NULL: empty */
	size_t skipped;        /* left out, as they are not valid names of this kind */
	char *skipped_example; /* owned; printable: the first, and why */
	char *next;            /* owned; NULL: the last page */
	bool is_part;          /* incomplete: unlisted ones may exist all the same */
	char etag[INVENTORY_ETAG_SIZE];
	char timeline[TIMELINE_SIZE]; /* of the log */
	uint64_t last_event;
	char last_mark[EVENT_MARK_SIZE];
};

void inventory_item_clear(struct inventory_item *item);
void inventory_page_clear(struct inventory_page *page);

struct page_question {
	const char *after; /* names above it; NULL: from the first */
	size_t limit;
	const char *etag; /* of a known page; may be NULL */
	/* For people; a page with these does not prove absence. */
	const char *search; /* only names that contain it; NULL: all */
	bool is_failing_only;
};

/* The member of a page with the rows of a kind. Static. */
const char *wire_inventory_member(const char *kind);

/* The tag of a kind's whole inventory, with quotes. */
void wire_inventory_etag(const struct event_ends *ends, bool is_part,
			 char etag[INVENTORY_ETAG_SIZE]);

/* The caller owns the results. page->etag is sent as a header. */
json_t *wire_inventory_item_json(const char *kind, const struct inventory_item *item);
json_t *wire_inventory_json(const char *kind, const struct inventory_page *page);

/* Refuses a page with names out of order, a `next` that leads nowhere, or more rows than
 * requested. An invalid name is left out, the others stay; but then absence is not
 * proved. */
int wire_inventory_parse(const struct str *body, const struct kind *kind,
			 const struct page_question *question,
			 struct inventory_page *page, struct err *err);

/* Whether, by a body with a single row, the primary has verified its replicable. */
bool wire_inventory_is_verified(const struct str *body);

#endif
