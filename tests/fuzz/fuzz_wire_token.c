/*
 * libFuzzer: of any token of a site an issuer that fits is read, or none; and it is good
 * only for the one request that it was signed for, and once. A fuzzer signs nothing: so
 * what has a newline is taken for the claims of a token ("NOW" and "END" become times
 * that are right, "SUM" the body's digest), and is signed here with the right secret.
 */
#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/clock.h"
#include "net/nonces.h"
#include "wire/wire_token.h"

#define SECRET "0123456789abcdef0123456789abcdef"
#define SUM "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static const struct signed_request asked = {
	.method = "GET",
	.target = "/api/v1/events?after=1",
	.body = "",
};

static void add_base64url(struct str *out, const void *bytes, size_t len)
{
	AUTO_FREE unsigned char *text = xmalloc(4 * (len / 3 + 1) + 1);
	int count = EVP_EncodeBlock(text, bytes, (int)len);

	for (int i = 0; i < count && text[i] != '='; i++)
		str_add_char(out, text[i] == '+'   ? '-'
				  : text[i] == '/' ? '_'
						   : (char)text[i]);
}

static void replace(struct str *text, const char *word, const char *by)
{
	const char *at = strstr(text->data, word);
	AUTO_STR struct str made = STR_INIT;

	if (!at)
		return;
	str_add_bytes(&made, text->data, (size_t)(at - text->data));
	str_add(&made, by);
	str_add(&made, at + strlen(word));
	str_reset(text);
	str_add(text, made.data);
}

/* "HEADER\nCLAIMS" */
static void sign(const char *text, size_t header_len, struct str *token)
{
	AUTO_STR struct str claims = STR_INIT;
	AUTO_FREE char *now = xasprintf("%" PRId64, clock_wall_ms() / 1000);
	AUTO_FREE char *end = xasprintf("%" PRId64, clock_wall_ms() / 1000 + 60);
	unsigned char mac[EVP_MAX_MD_SIZE];
	unsigned mac_len = 0;

	str_add(&claims, text + header_len + 1);
	replace(&claims, "NOW", now);
	replace(&claims, "END", end);
	replace(&claims, "SUM", SUM);
	add_base64url(token, text, header_len);
	str_add_char(token, '.');
	add_base64url(token, claims.data, claims.len);
	HMAC(EVP_sha256(), SECRET, (int)strlen(SECRET), (unsigned char *)token->data,
	     token->len, mac, &mac_len);
	str_add_char(token, '.');
	add_base64url(token, mac, mac_len);
}

static void check_refused(enum token_verdict verdict, const struct err *err)
{
	assert(verdict != TOKEN_GOOD && err->class == ERR_AUTH);
	assert(err->text[0] && err->remedy[0] && !strstr(err->text, SECRET));
}

/* Who was signed for may ask, once; nobody else, and for nothing else. */
static void check_request(const struct site_key *key, const char *token, bool is_signed)
{
	struct signed_request other = asked;
	struct nonces *nonces = nonces_new();
	struct err err = { 0 };
	enum token_verdict verdict =
		nonces_check_request(nonces, key, token, &asked, &err);

	if (verdict == TOKEN_GOOD) {
		assert(is_signed);
		verdict = nonces_check_request(nonces, key, token, &asked, &err);
		assert(verdict == TOKEN_REPLAYED);
		other.target = "/api/v1/events?after=2";
		verdict = nonces_check_request(nonces, key, token, &other, &err);
		assert(verdict == TOKEN_WRONG_REQUEST);
	}
	check_refused(verdict, &err);
	assert(is_signed || verdict == TOKEN_BAD_SIGNATURE);
	nonces_free(nonces);
}

static void check_git(const struct site_key *key, const char *token, bool is_signed)
{
	struct err err = { 0 };
	enum token_verdict verdict =
		wire_token_check_git(key, token, "git-upload-pack", "a", &err);

	if (verdict == TOKEN_GOOD) {
		assert(is_signed);
		verdict = wire_token_check_git(key, token, "git-receive-pack", "a", &err);
	}
	check_refused(verdict, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	AUTO_FREE char *text = xstrndup((const char *)data, len);
	AUTO_SITE_KEY struct site_key key = { .site = "paris", .secret = STR_INIT };
	AUTO_STR struct str token = STR_INIT;
	const char *claims = strchr(text, '\n');
	char site[SITE_NAME_SIZE];

	str_add(&key.secret, SECRET);
	if (claims)
		sign(text, (size_t)(claims - text), &token);
	else
		str_add(&token, text);
	if (wire_token_issuer(token.data, site))
		assert(site[0] && strlen(site) < sizeof(site));
	check_request(&key, token.data, claims != NULL);
	check_git(&key, token.data, claims != NULL);
	return 0;
}
