/*
 * Records the nonces of tokens until these have expired, so that each is accepted only
 * once. Any thread.
 */
#ifndef NET_NONCES_H
#define NET_NONCES_H

#include "wire/wire_token.h"

struct nonces;
struct nonces *nonces_new(void);
void nonces_free(struct nonces *nonces);

/* From now on also records them in the file `nonces` of this directory, and takes over
 * those of earlier processes. If that cannot be read or written it is logged, and only
 * nonces seen by this process count. */
void nonces_keep(struct nonces *nonces, const char *directory);

/* wire_token_check_request(), and its nonce is new: TOKEN_GOOD once. */
enum token_verdict nonces_check_request(struct nonces *nonces, const struct site_key *key,
					const char *token,
					const struct signed_request *request,
					struct err *err);

/* Each is kept for at least this long, at most twice as long. Tests shorten it. */
extern int64_t nonces_keep_ms;

/* The most per site within that time. Tests reduce it. */
extern uint64_t nonces_each;

enum nonce_verdict { NONCE_NEW, NONCE_USED, NONCE_TOO_MANY };

/* Records it if it is new. */
enum nonce_verdict nonces_take(struct nonces *nonces, const char *site,
			       const char *nonce);

/* How many are recorded. */
size_t nonces_count(struct nonces *nonces);

#endif
