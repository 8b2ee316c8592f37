/*
 * Who is connected: how many connections each address has, so that one client cannot
 * have all of them; and which of them are proxies that speak for others. Any thread.
 */
#ifndef WEB_CONNECTIONS_H
#define WEB_CONNECTIONS_H

#include "web/trusted_proxies.h"

struct connections;
struct connection_count; /* of one IPv4 address, or one /64 of IPv6 in its /48 */

struct connections *connections_new(void);
void connections_free(struct connections *connections);

/* At most `per_client` for each address, of IPv6 for each /64 and twice as many for each
 * /48, but not for those of proxies, which are copied. 0: no limit. Those that are there
 * stay. */
void connections_set(struct connections *connections, uint64_t per_client,
		     const struct trusted_proxies *proxies);

/* Whether one more may come from there. Counted in metrics and logged if not. As many
 * more than the limit may come as threads ask at the same time. */
bool connections_admit(struct connections *connections, const struct sockaddr *address);

/* It has come; kept until it leaves. */
struct connection_count *connections_enter(struct connections *connections,
					   const struct sockaddr *address);
void connections_leave(struct connections *connections, struct connection_count *count);

bool connections_is_proxy(struct connections *connections,
			  const struct ip_address *address);

/* As trusted_proxies_client. */
bool connections_client(struct connections *connections, const char *forwarded,
			struct ip_address *client);

#endif
