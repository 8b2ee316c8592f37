/*
 * What the files that answer Git's smart HTTP protocol share: git.c has the routes, and
 * what is read and pushed here, git_forward.c what the primary answers in place of this
 * secondary.
 */
#ifndef WEB_GIT_PARTS_H
#define WEB_GIT_PARTS_H

#include "pull/freshness.h"
#include "web/services.h"
#include "web/web.h"

/* A cache that keeps the answer must revalidate it each time. */
void git_never_cache(struct web_response *response);

/* At a secondary: where a read is answered. */
enum git_place { GIT_HERE, GIT_ELSEWHERE, GIT_LATER };
enum git_place git_forward_place(const struct web_request *request, const char *name,
				 enum fresh *fresh);

/* Asks the primary in place of this site, for a read that is `fresh` here. GIT_HERE: it
 * cannot be reached, and what is here is as good as anybody knows. */
enum git_place git_forward_read(const struct web_request *request, const char *name,
				enum fresh fresh, struct web_response *response);

/* At a secondary: passes a push on. Its first request lists refs, and changes nothing. */
enum git_push_step { GIT_PUSH_LISTS, GIT_PUSH_CHANGES };
void git_forward_push(const struct web_request *request, enum git_push_step step,
		      struct web_response *response);

#endif
