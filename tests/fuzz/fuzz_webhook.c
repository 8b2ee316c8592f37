/*
 * libFuzzer: any headers are refused, or lead to a body that is read or refused. The
 * input is lines "name: value", an empty one, and the body. What is signed here is taken
 * for genuine, and nothing else is.
 */
#include <assert.h>

#include "base/hash.h"
#include "git/refs.h"
#include "mirror/webhook.h"

#define HEADERS_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_webhook(const struct webhook *webhook)
{
	char path[] = "/o/r.git/";
	const struct uri_text uri = { .kind = URL_HTTP, .path = path };

	assert(webhook->event[0]);
	assert(webhook->kind == WEBHOOK_PUSH || webhook->refs.count == 0);
	for (size_t i = 0; i < webhook->refs.count; i++)
		assert(ref_name_is_valid(webhook->refs.items[i].name));
	webhook_is_of(webhook, &uri);
}

static void read_request(const struct webhook_request *request, bool is_signed)
{
	AUTO_WEBHOOK struct webhook webhook;
	struct err err = { 0 };

	if (webhook_read(request, &webhook, &err) == 0) {
		assert(is_signed);
		check_webhook(&webhook);
	} else {
		assert(err.text[0]);
		assert(err.class == ERR_AUTH || is_signed);
	}
}

/* How many there are; *rest is behind them. */
static size_t split_headers(char *text, struct http_header *headers, char **rest)
{
	size_t count = 0;
	char *end;

	*rest = text;
	while ((end = strchr(*rest, '\n')) != NULL && count < HEADERS_MAX - 2) {
		char *line = *rest, *colon;
		*end = '\0';
		*rest = end + 1;
		colon = strstr(line, ": ");
		if (!colon)
			break;
		*colon = '\0';
		headers[count++] = (struct http_header){ line, colon + 2 };
	}
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	AUTO_STR struct str secret = STR_INIT, line = STR_INIT;
	struct http_header headers[HEADERS_MAX] = { 0 };
	unsigned char digest[32];
	char *body;
	size_t count = split_headers(text, headers, &body);
	struct webhook_request request = {
		.headers = headers, .body = body, .len = strlen(body), .secret = &secret
	};

	str_add(&secret, "a secret that no input has \x01\x02");
	read_request(&request, false);
	hash_hmac(&secret, body, request.len, digest);
	str_add(&line, "sha256=");
	str_add_hex(&line, digest, sizeof(digest));
	headers[count] = (struct http_header){ "X-Hub-Signature-256", line.data };
	read_request(&request, true);
	return 0;
}
