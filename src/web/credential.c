#include "web/credential.h"

#include <openssl/evp.h>
#include <strings.h>

#include "base/str.h"

enum { CREDENTIAL_MAX = 8192 };

/* The value behind a scheme's name, or NULL if it is another scheme. */
static const char *behind_scheme(const char *header, const char *scheme)
{
	size_t len = strlen(scheme);

	if (strncasecmp(header, scheme, len) != 0 || header[len] != ' ')
		return NULL;
	return header + len + strspn(header + len, " ");
}

/* "dXNlcjpwYXNz" -> "pass". */
static char *password_of(const char *base64)
{
	size_t len = strlen(base64);
	char *text = xcalloc(1, len + 1);
	char *password = NULL;

	/* Padding is decoded to NULs, which end the text. */
	if (len <= CREDENTIAL_MAX && len % 4 == 0 &&
	    EVP_DecodeBlock((unsigned char *)text, (const unsigned char *)base64,
			    (int)len) >= 0) {
		const char *colon = strchr(text, ':');
		password = colon ? xstrdup(colon + 1) : NULL;
	}
	explicit_bzero(text, len);
	free(text);
	return password;
}

char *credential_read(const char *authorization)
{
	const char *token = behind_scheme(authorization, "Bearer");
	const char *base64 = behind_scheme(authorization, "Basic");

	if (base64)
		return password_of(base64);
	return token ? xstrdup(token) : NULL;
}

void credential_free(char *const *credential)
{
	if (*credential)
		explicit_bzero(*credential, strlen(*credential));
	free(*credential);
}
