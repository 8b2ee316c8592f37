/*
 * libFuzzer: of any body, whole or in pieces (of the first byte's size), the same is
 * said; who is refused stays refused; and a line that is refused has too many slashes.
 */
#include <assert.h>

#include "serve/receive_git.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static bool take_in_pieces(const char *body, size_t len, size_t piece)
{
	struct receive_depth depth = { 0 };

	for (size_t at = 0; at < len; at += piece)
		if (!receive_depth_take(&depth, body + at,
					len - at < piece ? len - at : piece))
			return false;
	return true;
}

static size_t count_slashes(const char *body, size_t len)
{
	size_t count = 0;

	for (size_t i = 0; i < len; i++)
		count += body[i] == '/';
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (len < 2)
		return 0;
	const char *body = (const char *)data + 1;
	struct receive_depth depth = { 0 };
	size_t piece = data[0] % 32 + 1;
	bool is_fine = receive_depth_take(&depth, body, len - 1);

	assert(is_fine == take_in_pieces(body, len - 1, piece));
	assert(is_fine || count_slashes(body, len - 1) > RECEIVE_SLASHES_MAX);
	return 0;
}
