/*
 * libFuzzer: of any headers Accept-Encoding and If-None-Match (a NUL between them) it is
 * told whether gzip may be sent and whether the client has a tag; never yes where the
 * word or the tag is not in the header at all.
 */
#include <assert.h>

#include "web/answer.h"

#define TAG "\"0123abcd-gz\""

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	AUTO_FREE char *encodings = xstrdup(text);
	size_t first = strlen(encodings) + 1;
	AUTO_FREE char *tags =
		first < len ? xstrndup((const char *)data + first, len - first) : NULL;

	if (negotiate_gzip(encodings))
		assert(strcasestr(encodings, "gzip") || strchr(encodings, '*'));
	if (negotiate_matches(tags, TAG))
		assert(strstr(tags, TAG) || strchr(tags, '*'));
	assert(!negotiate_gzip(NULL) && !negotiate_matches(NULL, TAG));
	return 0;
}
