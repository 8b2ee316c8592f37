/*
 * Message digests, by OpenSSL's libcrypto. A struct hash is for one thread at a time.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/base.h"
#include "base/str.h"

enum hash_kind { HASH_SHA1, HASH_SHA256 };

#define HASH_MAX_SIZE 32

struct hash {
	void *context; /* EVP_MD_CTX, owned */
	enum hash_kind kind;
};

#define AUTO_HASH __attribute__((cleanup(hash_clear)))

void hash_init(struct hash *hash, enum hash_kind kind);
void hash_clear(struct hash *hash);
void hash_add(struct hash *hash, const void *data, size_t len);

/* Writes the digest, 20 or 32 bytes, and starts over. */
void hash_end(struct hash *hash, unsigned char *digest);

size_t hash_size(enum hash_kind kind);

/* Appends the first `bytes` bytes of the data's digest in hexadecimal digits. */
void hash_add_hex(enum hash_kind kind, const void *data, size_t len, size_t bytes,
		  struct str *out);

/* HMAC-SHA256: RFC 2104. */
void hash_hmac(const struct str *key, const void *data, size_t len,
	       unsigned char digest[32]);

/* The same of data that comes in parts. hash_hmac_end() frees. */
struct hash_hmac {
	void *context; /* EVP_MAC_CTX */
};
void hash_hmac_init(struct hash_hmac *hmac, const struct str *key);
void hash_hmac_add(struct hash_hmac *hmac, const void *data, size_t len);
void hash_hmac_end(struct hash_hmac *hmac, unsigned char digest[32]);

/* Appends "sha256=" and that HMAC of the data in hexadecimal digits, as in webhooks. */
void hash_sign(const struct str *key, const void *data, size_t len, struct str *out);

#endif
