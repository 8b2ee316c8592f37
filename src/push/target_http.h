/*
 * One HTTP request with a user's name and password, which appear in no argument, log or
 * error. No redirect is followed: the credentials are for this host.
 */
#ifndef PUSH_TARGET_HTTP_H
#define PUSH_TARGET_HTTP_H

#include "base/base.h"
#include "base/str.h"
#include "git/git_child.h"

struct target_http_request {
	const char *method; /* "PUT", "DELETE", "GET" or "POST" */
	const char *url;    /* http or https, without user and password */
	const char *user;   /* NULL: no credentials */
	const char *password;
	const char *signature; /* X-Refrelay-Signature; may be NULL */
	const char *body;      /* JSON, or NULL */
	int64_t connect_ms;    /* 0: curl's own */
	int64_t timeout_ms;    /* for all of it; 0: 2 min */
	const struct git_work *work;
};

/* *status is any but of a redirect, *body the beginning of the answer. ERR_NETWORK,
 * ERR_TIMEOUT, ERR_CANCELED: stop; ERR_LOST: the work's deadline; ERR_CONFIG: a redirect,
 * or no such URL. */
int target_http_ask(const struct target_http_request *request, int *status,
		    struct str *body, struct err *err);

#endif
