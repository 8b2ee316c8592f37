/*
 * Forwards a request to another site, which answers instead of ours: the request is sent,
 * and the answer read, as they arrive, both in bounded memory. Independent of the HTTP
 * server. One thread at a time per struct forward; struct forwarder is for any thread and
 * keeps connections. The other site's status and bytes are passed on unchanged.
 */
#ifndef NET_FORWARD_H
#define NET_FORWARD_H

#include "net/http.h"

struct forwarder;
struct forward;

/* `site` is this site's name; it is added to the header Via, by which loops are detected:
 * "1.1 refrelay-paris" (RFC 9110, 7.6.3), after the Via that is passed on. */
struct forwarder *forwarder_new(const char *site);
/* As site_client_trust(), for all forwarded requests. */
void forwarder_trust(struct forwarder *forwarder, const char *ca_file);
void forwarder_free(struct forwarder *forwarder); /* close all forwards before */

/* Whether, within the last within_ms, a request without a body was not answered, and no
 * later one was. */
bool forwarder_is_unanswered(struct forwarder *forwarder, int64_t within_ms);

/* Whether a request with this header Via (NULL: absent; several fields joined by commas)
 * has passed through the site of that name. */
bool forward_is_loop(const char *via, const char *site);

/* Sends it, and waits for the head of the answer, whatever its status. "GET", "HEAD",
 * "POST", "PUT"; headers that belong to one connection (Host, Content-Length,
 * Transfer-Encoding, Expect, ...) are left out; connect_ms: 0 is 5 s, silence_ms: 0 is 2
 * min; read is called by forward_open, and by forward_read if the answer began early;
 * read, arg and stop are borrowed until the close, the rest until this returns.
 * ERR_NETWORK: no connection, it broke before an answer, or the answer is not HTTP or
 * does not say where it ends; ERR_TIMEOUT; ERR_CANCELED; ERR_CONFIG: the URL or a header
 * is invalid; or the error of `read`. *is_sent is false if no byte of the request can
 * have reached the other site. */
int forward_open(struct forwarder *forwarder, const struct http_request *request,
		 struct forward **forward, bool *is_sent, struct err *err);

/* From the answer's head: 200 or more. */
int forward_status(const struct forward *forward);

/* Appends the values of that header, joined by ", ". False: absent. */
bool forward_add_header(const struct forward *forward, const char *name, struct str *out);

/* The next bytes of the answer's body, at least one; 0: its end; -1: it broke off. */
ssize_t forward_read(struct forward *forward, void *buffer, size_t size, struct err *err);

/* Called before the end of the answer it breaks the connection. NULL is allowed. */
void forward_close(struct forward *forward);

#endif
