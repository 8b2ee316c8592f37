/*
 * Whether a repository's configuration lets it be read, or pushed to, over HTTP, as git
 * http-backend asks it. Any thread.
 */
#ifndef SERVE_HTTP_SERVICE_H
#define SERVE_HTTP_SERVICE_H

#include "git/git_child.h"
#include "git/repo.h"

enum http_service { HTTP_SERVICE_READ, HTTP_SERVICE_PUSH };

/* 0: it does; -1: ERR_AUTH with REASON_CLOSED, it does not. `path` is for messages. */
int http_service_check(const char *path, const struct repo *repo,
		       const struct git_work *work, enum http_service service,
		       struct err *err);

/* That error. Returns -1. */
int http_service_closed(const char *path, enum http_service service, struct err *err);

#endif
