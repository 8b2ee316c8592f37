/*
 * Shared by the files that answer Git's smart HTTP protocol: git.c has the routes, and
 * local reads and pushes; git_forward.c has the requests that the primary answers instead
 * of this secondary.
 */
#ifndef WEB_GIT_PARTS_H
#define WEB_GIT_PARTS_H

#include "pull/freshness.h"
#include "web/services.h"
#include "web/web.h"

/* Makes caches revalidate the answer each time. */
void git_never_cache(struct web_response *response);

/* At a secondary: where a read is answered. */
enum git_place { GIT_HERE, GIT_ELSEWHERE, GIT_LATER };
enum git_place git_forward_place(const struct web_request *request, const char *name,
				 enum fresh *fresh);

/* Asks the primary, for a read whose copy here is `fresh`. GIT_HERE: it cannot be
 * reached, and the copy is the best available. */
enum git_place git_forward_read(const struct web_request *request, const char *name,
				enum fresh fresh, struct web_response *response);

/* Asks the primary, for a read that the git here does not understand. False: it cannot be
 * reached, or has no place for it. */
bool git_forward_unknown(const struct web_request *request, const char *name,
			 struct web_response *response);

/* At a secondary: forwards a push. Its first request lists refs, without a change. */
enum git_push_step { GIT_PUSH_LISTS, GIT_PUSH_CHANGES };
void git_forward_push(const struct web_request *request, enum git_push_step step,
		      struct web_response *response);

#endif
