/*
 * libFuzzer: of any header Authorization a token, or user and password, are read, or
 * none; they are not longer than what was sent, and a user has no colon.
 */
#include <assert.h>

#include "web/access.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	AUTO_FREE char *header = xstrdup(text);
	AUTO_CREDENTIAL struct credential credential;

	if (credential_read(header, &credential)) {
		assert(credential.secret && strlen(credential.secret) < strlen(header));
		assert(!credential.user || !strchr(credential.user, ':'));
		assert(!credential.user || strlen(credential.user) < strlen(header));
	} else {
		assert(!credential.secret && !credential.user);
	}
	return 0;
}
