/*
 * libFuzzer: a part that a header Range asks for lies inside of what there is, whose size
 * is the first eight bytes; and of any headers If-Match and If-Range only one that has
 * the tag says that it is right.
 */
#include <assert.h>

#include "web/answer.h"

#define TAG "\"1111111111111111-3\""

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint64_t size, begin = 0, length = 0;

	if (len < sizeof(size))
		return 0;
	memcpy(&size, data, sizeof(size));
	size &= INT64_MAX;
	AUTO_FREE char *text =
		xstrndup((const char *)data + sizeof(size), len - sizeof(size));
	if (negotiate_range(text, size, &begin, &length) == RANGE_PART)
		assert(length > 0 && begin < size && length <= size - begin);
	if (negotiate_allows(text, TAG))
		assert(strstr(text, TAG) || strchr(text, '*'));
	if (negotiate_is_part_of(text, TAG))
		assert(strstr(text, TAG));
	assert(negotiate_range(NULL, size, &begin, &length) == RANGE_ALL);
	assert(negotiate_allows(NULL, TAG) && negotiate_is_part_of(NULL, TAG));
	return 0;
}
