#include "wire/wire_blob.h"

#define KINDS_LIMIT ((size_t)1 << 20)

#define TYPES "types"
#define TYPE "type"
#define LAYOUT "layout"
#define LFS "lfs"

void wire_blob_etag(const char *timeline, uint64_t generation,
		    char etag[WIRE_BLOB_ETAG_SIZE])
{
	snprintf(etag, WIRE_BLOB_ETAG_SIZE, "\"%s-%" PRIu64 "\"", timeline, generation);
}

static bool wire_blob_parse_etag(const char *etag, struct blob_head *head)
{
	size_t id_len = TIMELINE_SIZE - 1, len = strlen(etag);
	AUTO_FREE char *number = NULL;

	if (len < id_len + 4 || etag[0] != '"' || etag[len - 1] != '"' ||
	    etag[id_len + 1] != '-')
		return false;
	memcpy(head->timeline, etag + 1, id_len);
	number = xstrndup(etag + id_len + 2, len - id_len - 3);
	return wire_is_id(head->timeline) && text_to_uint64(number, &head->generation) &&
	       head->generation > 0;
}

void wire_blob_range(const struct blob_head *head, uint64_t length,
		     char range[WIRE_BLOB_RANGE_SIZE])
{
	snprintf(range, WIRE_BLOB_RANGE_SIZE, "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64,
		 head->offset, head->offset + length - 1, head->size);
}

bool wire_blob_parse_range(const char *range, struct blob_head *head)
{
	uint64_t last;
	char rest;

	return sscanf(range, "bytes %" SCNu64 "-%" SCNu64 "/%" SCNu64 "%c", &head->offset,
		      &last, &head->size, &rest) == 3 &&
	       head->offset <= last && last < head->size && head->size <= INT64_MAX;
}

int wire_blob_parse(const struct wire_blob_headers *headers, uint64_t offset,
		    struct blob_head *head, struct err *err)
{
	bool has_range = headers->length >= 0;

	*head = (struct blob_head){ .size = (uint64_t)headers->length };
	if (!wire_blob_parse_etag(headers->etag, head))
		return wire_lied(err, "a blob has the ETag '%s'", headers->etag);
	if (headers->range) /* else all of it, whatever was asked for */
		has_range = wire_blob_parse_range(headers->range, head);
	if (!has_range || head->offset != offset)
		return wire_lied(err,
				 "it sends the range '%s' of a blob for one from "
				 "%" PRIu64,
				 headers->range ? headers->range : "", offset);
	if (headers->checksum[0] && !wire_is_digest(headers->checksum))
		return wire_lied(err, WIRE_CHECKSUM " is '%s'", headers->checksum);
	snprintf(head->checksum, sizeof(head->checksum), "%.64s", headers->checksum);
	return 0;
}

json_t *wire_kind_json(const char *type, enum blob_layout layout)
{
	json_t *object = json_object();

	json_put_text(object, TYPE, type);
	json_put_text(object, LAYOUT, layout == BLOB_LFS ? LFS : "plain");
	return object;
}

json_t *wire_kinds_json(json_t *list)
{
	json_t *object = json_object();

	json_put(object, TYPES, list);
	return object;
}

static int wire_kinds_add(const json_t *said, struct blob_kinds *kinds, struct err *err)
{
	const char *type = json_string_value(json_object_get(said, TYPE));
	const char *layout = json_string_value(json_object_get(said, LAYOUT));

	if (!type || !layout ||
	    type[strspn(type, "abcdefghijklmnopqrstuvwxyz0123456789-_")] != '\0')
		return wire_lied(err, "a type of blobs has no right name or layout");
	struct blob_kind kind = { .type = xstrdup(type),
				  .layout = strcmp(layout, LFS) == 0 ? BLOB_LFS
								     : BLOB_PLAIN };
	vec_add(&kinds->items, kind);
	return 0;
}

int wire_kinds_parse(const struct str *body, struct blob_kinds *kinds, struct err *err)
{
	json_auto_t *said = json_parse_object(body->data, body->len, KINDS_LIMIT, err);
	const json_t *types = json_object_get(said, TYPES);

	if (!json_is_array(types))
		return wire_lied(err, "it names no types of blobs");
	for (size_t i = 0; i < json_array_size(types); i++)
		if (wire_kinds_add(json_array_get(types, i), kinds, err) != 0)
			return -1;
	return 0;
}
