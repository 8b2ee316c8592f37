/*
 * One HTTP request with a short answer, for commands and notifications to a server: with
 * a user's name and password, or signed; these never appear in an argument, a log or an
 * error. Redirects are not followed: the credentials are for this host. Any thread.
 */
#ifndef NET_HTTP_ASK_H
#define NET_HTTP_ASK_H

#include "base/base.h"
#include "base/deadline.h"
#include "base/str.h"
#include "base/thread.h"

#define HTTP_ASK_SIGNATURE "X-Refrelay-Signature"

struct http_ask_request {
	const char *method;  /* "PUT", "DELETE", "GET" or "POST" */
	const char *url;     /* http or https, without user and password */
	const char *peer;    /* the server's name in messages; NULL: the URL */
	const char *setting; /* the setting with the URL, for remedies: "adminUrl of the
				remote" */
	const char *user;    /* NULL: no credentials */
	const char *password;
	const char *ca_file;       /* authorities instead of the system's, or NULL */
	const char *signature;     /* HTTP_ASK_SIGNATURE (hash_sign()); may be NULL */
	const char *body;          /* JSON, or NULL */
	int64_t connect_ms;        /* 0: curl's default */
	int64_t timeout_ms;        /* for all of it; 0: 2 min */
	int64_t *rest_ms;          /* gets http_get_rest_ms(); may be NULL */
	const struct stop *stop;   /* may be NULL */
	struct deadline *deadline; /* may be NULL */
};

/* *status is never a redirect's, *body the beginning of the answer. ERR_NETWORK,
 * ERR_TIMEOUT, ERR_CANCELED: stop; ERR_LOST: the deadline; ERR_CONFIG: a redirect, or an
 * invalid URL. */
int http_ask(const struct http_ask_request *request, int *status, struct str *body,
	     struct err *err);

#endif
