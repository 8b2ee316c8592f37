/*
 * libFuzzer: of anything that a server may answer to a fetch there is a pack, whose bytes
 * all stand in the answer, or none with an error; and of the beginning of an answer none.
 */
#include <assert.h>

#include "git/fetch_small.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_STR struct str pack = STR_INIT;
	struct err err = { 0 };

	if (fetch_small_read((const char *)data, len, &pack, &err) != 0) {
		assert(err.class != ERR_NONE && err.text[0]);
		return 0;
	}
	assert(pack.len + 8 <= len);
	str_reset(&pack);
	assert(fetch_small_read((const char *)data, len - 1, &pack, &err) != 0);
	return 0;
}
