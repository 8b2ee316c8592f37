/*
 * Whether a repository's configuration allows reads, or pushes, over HTTP, as git
 * http-backend decides it. Any thread.
 */
#ifndef SERVE_HTTP_SERVICE_H
#define SERVE_HTTP_SERVICE_H

#include "git/git_child.h"
#include "git/repo.h"

enum http_service { HTTP_SERVICE_READ, HTTP_SERVICE_PUSH };

/* 0: allowed; -1: ERR_AUTH with REASON_CLOSED: not allowed. `path` is for messages. */
int http_service_check(const char *path, const struct repo *repo,
		       const struct git_work *work, enum http_service service,
		       struct err *err);

/* The same for reads; git is asked only where its word may differ from what repo_open()
 * has read. */
int http_service_check_read(const char *path, const struct repo *repo,
			    const struct git_work *work, struct err *err);

/* Fills in that error. Returns -1. */
int http_service_closed(enum http_service service, struct err *err);

#endif
