/*
 * libFuzzer: of any header Content-Digest a SHA-256 is read that stands in it, in base64
 * as it is written, or none.
 */
#include <assert.h>

#include "web/blob_put.c" /* for what is static there */

static void check_digest_header(const char *header)
{
	unsigned char bytes[32], base64[45];
	char digest[BLOB_DIGEST_SIZE];

	if (!blob_put_read_digest(header, digest))
		return;
	assert(wire_is_digest(digest) && text_from_hex(digest, bytes, sizeof(bytes)));
	int len = EVP_EncodeBlock(base64, bytes, sizeof(bytes));
	AUTO_FREE char *item = xasprintf("sha-256=:%s:", (char *)base64);
	/* The last bits of base64 that stand for nothing may be any. */
	item[strlen("sha-256=:") + (size_t)len - 2] = '\0';
	assert(strstr(header, item));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);

	check_digest_header(text);
	return 0;
}
