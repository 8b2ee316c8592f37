/*
 * libFuzzer: of any text of a config, no more is left than there was; whether there was
 * something, both ways of looking say alike.
 */
#include <assert.h>
#include <string.h>

#include "pull/clone_secrets.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void count_secret(void *arg, enum clone_secret form, const char *text, size_t len)
{
	static char token[] = "token";
	const struct str secret = { .data = token, .len = strlen(token) };

	clone_secrets_are(form, text, len, &secret);
	++*(size_t *)arg;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text = xstrndup((const char *)data, len);
	struct str clean = STR_INIT;
	size_t count = 0;
	const struct clone_secrets_sink sink = { count_secret, &count };

	bool is_any = clone_secrets_strip_config(text, &sink, &clean);
	assert(is_any == (count > 0));
	assert(clean.len <= strlen(text) + count);
	str_reset(&clean);
	count = 0;
	is_any = clone_secrets_strip_urls(text, &sink, &clean);
	assert(is_any == (count > 0));
	assert(clean.len <= strlen(text));
	str_clear(&clean);
	free(text);
	return 0;
}
