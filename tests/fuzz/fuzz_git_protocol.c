/*
 * libFuzzer: of any header Git-Protocol the highest version that one of its parts names
 * is taken, as git does, and nothing else counts.
 */
#include <assert.h>

#include "serve/ref_list.h"

static int plain_version(const char *header)
{
	AUTO_FREE char *text = xstrdup(header);
	char *rest = text, *part;
	int version = 0;

	while ((part = strsep(&rest, ":")) != NULL) {
		if (strcmp(part, "version=1") == 0 && version < 1)
			version = 1;
		if (strcmp(part, "version=2") == 0)
			version = 2;
	}
	return version;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *header = xstrndup((const char *)data, len);
	AUTO_FREE char *exact = xstrdup(header);

	assert(git_protocol_version(exact) == plain_version(exact));
	return 0;
}
