/*
 * The configuration of how clients reach the HTTP server: TLS, proxies, limits.
 */
#ifndef WEB_TRANSPORT_H
#define WEB_TRANSPORT_H

#include "base/setting.h"
#include "web/listen.h"
#include "web/tls.h"

struct transport {
	char *listen;            /* owned */
	char *url;               /* under which others reach it; owned; NULL, "": not
				    set */
	char *certificate, *key; /* paths; owned; NULL: no TLS */
	uint64_t connections;    /* at most; 0: as many as its threads allow */
	uint64_t per_client;     /* per client; 0: no limit */
	struct trusted_proxies proxies;
	struct tls_identity *identity; /* a reference; NULL: no TLS */
};

#define AUTO_TRANSPORT __attribute__((cleanup(transport_clear)))

extern const struct setting_table transport_settings_table; /* of [http] */

/* ERR_CONFIG names the key; then nothing needs clearing. */
int transport_read(const struct conf *conf, struct transport *transport, struct err *err);

/* ERR_CONFIG: the new certificate has expired. */
int transport_check_expiry(const struct transport *transport, struct err *err);
void transport_clear(struct transport *transport);

#endif
