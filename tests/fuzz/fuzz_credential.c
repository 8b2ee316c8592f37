/*
 * libFuzzer: of any header Authorization a token is read, or none; it is not longer than
 * what was sent.
 */
#include <assert.h>

#include "web/credential.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	AUTO_FREE char *header = xstrdup(text);
	AUTO_CREDENTIAL char *credential = credential_read(header);

	assert(!credential || strlen(credential) < strlen(header));
	return 0;
}
