/*
 * libFuzzer: any headers of a primary about a blob are refused, or name a part that lies
 * inside of the blob and begins where it was asked for; and any list of its kinds is
 * refused, or read into types that a path may hold. The headers are lines, the list is
 * what stands behind them.
 */
#include <assert.h>

#include "wire/wire_blob.h"

static void check_headers(const struct wire_blob_headers *headers)
{
	struct blob_head head;
	struct err err = { 0 };
	char range[WIRE_BLOB_RANGE_SIZE], etag[WIRE_BLOB_ETAG_SIZE];

	if (wire_blob_parse(headers, 7, &head, &err) != 0) {
		assert(err.class == ERR_CORRUPT && err.text[0]);
		return;
	}
	assert(head.offset == 7 && head.offset < head.size);
	assert(head.generation > 0 && wire_is_id(head.timeline));
	assert(!head.checksum[0] || wire_is_digest(head.checksum));
	wire_blob_etag(head.timeline, head.generation, etag);
	wire_blob_range(&head, 1, range);
	const struct wire_blob_headers again = { etag, head.checksum, range, -1 };
	assert(wire_blob_parse(&again, 7, &head, &err) == 0);
}

static void check_kinds(const char *text, size_t len)
{
	AUTO_BLOB_KINDS struct blob_kinds kinds = { 0 };
	AUTO_STR struct str body = STR_INIT;
	struct err err = { 0 };

	str_add_bytes(&body, text, len);
	if (wire_kinds_parse(&body, &kinds, &err) != 0)
		assert(err.class == ERR_CORRUPT && err.text[0]);
	for (size_t i = 0; i < kinds.items.count; i++)
		assert(!strpbrk(kinds.items.items[i].type, "/.\n"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	char *rest = text;
	const char *range = strsep(&rest, "\n");
	const char *etag = rest ? strsep(&rest, "\n") : "";
	const char *checksum = rest ? strsep(&rest, "\n") : "";
	const struct wire_blob_headers headers = { etag, checksum, range, -1 };

	check_headers(&headers);
	if (rest)
		check_kinds(rest, strlen(rest));
	return 0;
}
