/*
 * A primary's description, in headers, of a blob whose bytes it sends; and its kinds of
 * blobs.
 */
#ifndef WIRE_WIRE_BLOB_H
#define WIRE_WIRE_BLOB_H

#include "wire/wire.h"

struct blob_head {
	char timeline[TIMELINE_SIZE];
	uint64_t generation;
	uint64_t offset, size;           /* of the first byte, and of the whole blob */
	char checksum[BLOB_DIGEST_SIZE]; /* "": not yet known to the primary */
};

/* The ETag of a blob, with quotes: "TIMELINE-GENERATION". */
#define WIRE_BLOB_ETAG_SIZE 48
void wire_blob_etag(const char *timeline, uint64_t generation,
		    char etag[WIRE_BLOB_ETAG_SIZE]);

/* Content-Range of a part of `length` bytes. */
#define WIRE_BLOB_RANGE_SIZE 80
void wire_blob_range(const struct blob_head *head, uint64_t length,
		     char range[WIRE_BLOB_RANGE_SIZE]);

/* Reads its offset and size. */
bool wire_blob_parse_range(const char *range, struct blob_head *head);

/* The headers of an answer: ETag, WIRE_CHECKSUM ("": absent), and for a part
 * Content-Range; NULL: the whole blob, `length` bytes (-1: not given). It must begin at
 * `offset`. */
struct wire_blob_headers {
	const char *etag, *checksum, *range;
	int64_t length;
};
int wire_blob_parse(const struct wire_blob_headers *headers, uint64_t offset,
		    struct blob_head *head, struct err *err);

/* The kinds: {"types": [...]}; the caller may add members to each entry. */
json_t *wire_kind_json(const char *type, enum blob_layout layout);
json_t *wire_kinds_json(json_t *list); /* takes the list */

/* Types and layouts, without paths. The caller clears in any case. */
int wire_kinds_parse(const struct str *body, struct blob_kinds *kinds, struct err *err);

#endif
