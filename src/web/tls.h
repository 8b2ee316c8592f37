/*
 * The server's identity for TLS clients: its certificate with the chain to an authority,
 * and its key. Any thread.
 *
 * Only web/tls.c uses GnuTLS, as libmicrohttpd does.
 */
#ifndef WEB_TLS_H
#define WEB_TLS_H

#include <microhttpd.h>

#include "base/base.h"

struct tls_identity; /* counted references; immutable */

/* Reads both files, PEM. ERR_CONFIG says what is wrong: a file cannot be read, everybody
 * can read the key, or they do not belong together. */
int tls_identity_read(const char *certificate, const char *key,
		      struct tls_identity **identity, struct err *err);
struct tls_identity *tls_identity_ref(struct tls_identity *identity);
void tls_identity_unref(struct tls_identity *identity); /* NULL is allowed */

/* Unix time at which the certificate, not the chain, expires. */
int64_t tls_identity_expires(const struct tls_identity *identity);

/* Options for MHD_start_daemon() besides MHD_USE_TLS: they make it call
 * server_identity_for() before each handshake. */
#define TLS_OPTIONS 3
void tls_options(struct MHD_OptionItem options[TLS_OPTIONS]);

/* Implemented by web/server.c: the identity for this connection. Borrowed while the
 * connection lasts; NULL: not available. */
struct tls_identity *server_identity_for(struct MHD_Connection *connection);

#endif
