/*
 * Servers in front of this one that are believed when they say for whom they ask:
 * http.trustedProxy, and the header X-Forwarded-For (there is no RFC of it; RFC 7239's
 * Forwarded is not read). Pure.
 */
#ifndef WEB_TRUSTED_PROXIES_H
#define WEB_TRUSTED_PROXIES_H

#include "base/base.h"
#include "base/vec.h"
#include "web/listen.h"

struct proxy_network {
	struct ip_address address; /* the bits behind the prefix are 0 */
	unsigned bits;             /* of 128 */
};

struct trusted_proxies {
	VEC(struct proxy_network) networks;
};

/* Adds "192.0.2.7", "10.0.0.0/8", "2001:db8::/32". ERR_CONFIG: it is none of these. */
int trusted_proxies_add(struct trusted_proxies *proxies, const char *text,
			struct err *err);
void trusted_proxies_clear(struct trusted_proxies *proxies);
bool trusted_proxies_has(const struct trusted_proxies *proxies,
			 const struct ip_address *address);

/* Who asked, by all X-Forwarded-For of a request, joined by commas in their order: the
 * last address that is no trusted proxy's. False: there is none before something that is
 * no address. */
bool trusted_proxies_client(const struct trusted_proxies *proxies, const char *forwarded,
			    struct ip_address *client);

#endif
