/*
 * libFuzzer: of any header Content-Digest a SHA-256 is read that stands in it, in base64
 * as it is written, or none; and any header Content-Range and ETag of a primary is
 * refused, or names a part that lies inside of the blob. The headers are lines.
 */
#include <assert.h>

#include "pull/primary_blobs.c" /* for what is static there */
#include "web/blob_put.c"

static void check_digest_header(const char *header)
{
	unsigned char bytes[32], base64[45];
	char digest[BLOB_DIGEST_SIZE];

	if (!read_digest(header, digest))
		return;
	assert(primary_is_digest(digest) && text_from_hex(digest, bytes, sizeof(bytes)));
	int len = EVP_EncodeBlock(base64, bytes, sizeof(bytes));
	AUTO_FREE char *item = xasprintf("sha-256=:%s:", (char *)base64);
	/* The last bits of base64 that stand for nothing may be any. */
	item[strlen("sha-256=:") + (size_t)len - 2] = '\0';
	assert(strstr(header, item));
}

static void check_range_headers(const char *range, const char *etag)
{
	const struct blob_part part = { .offset = 7 };
	struct site_answer answer = { .status = 206, .length = -1, .body = STR_INIT };
	struct reading reading = { .part = &part };
	struct err err = { 0 };

	snprintf(answer.range, sizeof(answer.range), "%s", range);
	snprintf(answer.etag, sizeof(answer.etag), "%s", etag);
	if (read_head(&reading, &answer, &err) != 0) {
		assert(err.class == ERR_CORRUPT && !reading.has_head);
		return;
	}
	assert(reading.head.offset == part.offset);
	assert(reading.head.offset < reading.head.size);
	assert(reading.head.generation > 0 && primary_is_id(reading.head.timeline));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	char *rest = text;
	const char *digest = strsep(&rest, "\n");
	const char *range = rest ? strsep(&rest, "\n") : "";
	const char *etag = rest ? strsep(&rest, "\n") : "";

	check_digest_header(digest);
	check_range_headers(range, etag);
	return 0;
}
