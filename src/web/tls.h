/*
 * What this server shows of itself to clients that come by TLS: its certificate with the
 * chain to an authority, and its key. Any thread.
 *
 * Only web/tls.c knows GnuTLS, which libmicrohttpd uses.
 */
#ifndef WEB_TLS_H
#define WEB_TLS_H

#include <microhttpd.h>

#include "base/base.h"

struct tls_identity; /* counted references; it does not change */

/* Reads both files, PEM. ERR_CONFIG says which is wrong: it cannot be read, everybody
 * can read the key, or they do not belong together. */
int tls_identity_read(const char *certificate, const char *key,
		      struct tls_identity **identity, struct err *err);
struct tls_identity *tls_identity_ref(struct tls_identity *identity);
void tls_identity_unref(struct tls_identity *identity); /* NULL is allowed */

/* Unix time at which the certificate, not the chain, is over. */
int64_t tls_identity_expires(const struct tls_identity *identity);

/* What MHD_start_daemon must be given besides MHD_USE_TLS: before each handshake it asks
 * server_identity_for. */
#define TLS_OPTIONS 3
void tls_options(struct MHD_OptionItem options[TLS_OPTIONS]);

/* Implemented by web/server.c: what to show to this connection. Borrowed for as long as
 * the connection lasts; NULL: nothing can be shown. */
struct tls_identity *server_identity_for(struct MHD_Connection *connection);

#endif
