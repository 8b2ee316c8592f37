/* However the bytes of a connection come, they are judged alike; and nothing of what is
 * refused is passed on. */
#include <assert.h>

#include "web/gate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *)data;
	struct judge whole = JUDGE_INIT, split = JUDGE_INIT;
	size_t passed = judge_take(&whole, bytes, size), at = 0;

	assert(passed <= size);
	assert(whole.status == 0 ? passed == size : whole.why != NULL);
	for (; at < size && split.status == 0; at++)
		judge_take(&split, bytes + at, 1);
	assert(split.status == whole.status && split.heads == whole.heads);
	assert(split.begun == whole.begun && split.state == whole.state);
	assert(split.status == 0 ? at == size : passed < at);
	return 0;
}
