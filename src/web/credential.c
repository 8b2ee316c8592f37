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

/* Padding is decoded to NULs. Another NUL would make two texts of one: refused. */
static bool credential_decode(const char *base64, size_t len, char *text)
{
	int got = len <= CREDENTIAL_MAX && len % 4 == 0
			  ? EVP_DecodeBlock((unsigned char *)text,
					    (const unsigned char *)base64, (int)len)
			  : -1;

	for (size_t at = len; got > 0 && at > 0 && base64[at - 1] == '='; at--)
		got--;
	return got >= 0 && strlen(text) == (size_t)got;
}

/* "dXNlcjpwYXNz" -> "user", "pass". */
static bool read_basic(const char *base64, struct credential *credential)
{
	size_t len = strlen(base64);
	char *text = xcalloc(1, len + 1);
	const char *colon =
		credential_decode(base64, len, text) ? strchr(text, ':') : NULL;

	if (colon) {
		credential->user = xstrndup(text, (size_t)(colon - text));
		credential->secret = xstrdup(colon + 1);
	}
	explicit_bzero(text, len);
	free(text);
	return colon;
}

bool credential_read(const char *authorization, struct credential *credential)
{
	const char *token = behind_scheme(authorization, "Bearer");
	const char *base64 = behind_scheme(authorization, "Basic");

	*credential = (struct credential){ 0 };
	if (base64)
		return read_basic(base64, credential);
	if (!token)
		return false;
	credential->secret = xstrdup(token);
	return true;
}

void credential_clear(struct credential *credential)
{
	if (credential->secret)
		explicit_bzero(credential->secret, strlen(credential->secret));
	free(credential->secret);
	free(credential->user);
	*credential = (struct credential){ 0 };
}
