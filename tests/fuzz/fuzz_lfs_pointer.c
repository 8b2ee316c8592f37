/*
 * libFuzzer: of any file an oid and a size are read, or none; no byte behind its end is.
 */
#include <assert.h>

#include "git/lfs_pointer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct lfs_pointer pointer;

	if (!lfs_pointer_parse((const char *)data, len, &pointer))
		return 0;
	assert(len < LFS_POINTER_LIMIT);
	assert(lfs_oid_is_valid(pointer.oid));
	assert(pointer.size <= INT64_MAX);
	return 0;
}
