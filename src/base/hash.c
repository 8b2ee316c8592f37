#include "base/hash.h"

#include <assert.h>
#include <limits.h>

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/params.h>

/* Fetched once: EVP_sha256() looks the algorithm up again at each use. */
static EVP_MD *algorithms[2];

static void __attribute__((constructor)) fetch_algorithms(void)
{
	algorithms[HASH_SHA1] = EVP_MD_fetch(NULL, "SHA1", NULL);
	algorithms[HASH_SHA256] = EVP_MD_fetch(NULL, "SHA256", NULL);
}

static void hash_require_success(int result)
{
	if (result != 1)
		abort();
}

void hash_init(struct hash *hash, enum hash_kind kind)
{
	*hash = (struct hash){ .context = EVP_MD_CTX_new(), .kind = kind };
	if (!hash->context)
		abort();
	hash_require_success(EVP_DigestInit_ex2(hash->context, algorithms[kind], NULL));
}

void hash_clear(struct hash *hash)
{
	EVP_MD_CTX_free(hash->context);
	hash->context = NULL;
}

void hash_add(struct hash *hash, const void *data, size_t len)
{
	hash_require_success(EVP_DigestUpdate(hash->context, data, len));
}

void hash_end(struct hash *hash, unsigned char *digest)
{
	hash_require_success(EVP_DigestFinal_ex(hash->context, digest, NULL));
	hash_require_success(EVP_DigestInit_ex2(hash->context, NULL, NULL));
}

size_t hash_size(enum hash_kind kind)
{
	return kind == HASH_SHA1 ? 20 : 32;
}

void hash_add_hex(enum hash_kind kind, const void *data, size_t len, size_t bytes,
		  struct str *out)
{
	unsigned char digest[HASH_MAX_SIZE];
	AUTO_HASH struct hash hash;

	assert(bytes <= hash_size(kind));
	hash_init(&hash, kind);
	hash_add(&hash, data, len);
	hash_end(&hash, digest);
	str_add_hex(out, digest, bytes);
}

void hash_hmac(const struct str *key, const void *data, size_t len,
	       unsigned char digest[32])
{
	assert(key->len <= INT_MAX);
	if (!HMAC(EVP_sha256(), key->data, (int)key->len, data, len, digest, NULL))
		abort();
}

void hash_hmac_init(struct hash_hmac *hmac, const struct str *key)
{
	char digest[] = "SHA256";
	const OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string(
					      OSSL_MAC_PARAM_DIGEST, digest, 0),
				      OSSL_PARAM_construct_end() };
	EVP_MAC *algorithm = EVP_MAC_fetch(NULL, "HMAC", NULL);

	hmac->context = algorithm ? EVP_MAC_CTX_new(algorithm) : NULL;
	EVP_MAC_free(algorithm); /* the context has its own reference */
	if (!hmac->context)
		abort();
	hash_require_success(EVP_MAC_init(hmac->context, (const unsigned char *)key->data,
					  key->len, params));
}

void hash_hmac_add(struct hash_hmac *hmac, const void *data, size_t len)
{
	hash_require_success(EVP_MAC_update(hmac->context, data, len));
}

void hash_hmac_end(struct hash_hmac *hmac, unsigned char digest[32])
{
	size_t len;

	hash_require_success(EVP_MAC_final(hmac->context, digest, &len, 32));
	EVP_MAC_CTX_free(TAKE(hmac->context));
}

void hash_sign(const struct str *key, const void *data, size_t len, struct str *out)
{
	unsigned char digest[32];

	hash_hmac(key, data, len, digest);
	str_add(out, "sha256=");
	str_add_hex(out, digest, sizeof(digest));
}
