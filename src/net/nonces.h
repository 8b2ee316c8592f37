/*
 * The memory of nonces that were used. Internal to net/. Any thread.
 */
#ifndef NET_NONCES_H
#define NET_NONCES_H

#include "net/site_token.h"

/* For at least so long each is remembered, for at most twice that. Tests shorten it. */
extern int64_t nonces_keep_ms;

/* So many of each site, within that time. Tests lessen it. */
extern uint64_t nonces_each;

enum nonce_verdict { NONCE_NEW, NONCE_USED, NONCE_TOO_MANY };

/* Remembers it if it is new. */
enum nonce_verdict nonces_take(struct nonces *nonces, const char *site,
			       const char *nonce);

/* How many are remembered. */
size_t nonces_count(struct nonces *nonces);

#endif
