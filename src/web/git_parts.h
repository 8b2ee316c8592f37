/*
 * What the files that answer Git's smart HTTP protocol share: git.c has the routes and
 * what is read here, git.c what is pushed here, git_forward.c what the primary
 * answers in place of this secondary.
 */
#ifndef WEB_GIT_PARTS_H
#define WEB_GIT_PARTS_H

#include "pull/freshness.h"
#include "serve/serve.h"
#include "web/route.h"
#include "web/services.h"
#include "web/web.h"

#define GIT_RECEIVE_PACK "git-receive-pack"

/* Whoever keeps the answer must ask each time whether it still holds. */
void git_never_cache(struct web_response *response);

/* Takes what the answer holds. */
void git_hand_over(struct serve_answer *answer, const char *content_type,
		   struct web_response *response);

/* The answer that an error stands for; what a handler is to return. */
int git_failed(struct web_response *response, const struct serve_answer *answer,
	       const struct err *err);

/* False, with the answer made: it is not `type`. */
bool git_has_type(const struct web_request *request, const char *type,
		  struct web_response *response);

/* At a secondary: where a read is answered. */
enum git_place { GIT_HERE, GIT_ELSEWHERE, GIT_LATER };
enum git_place git_place(const struct web_request *request, const char *name,
			 enum fresh *fresh);

/* Asks the primary in place of this site, for a read that is `fresh` here. GIT_HERE: it
 * cannot be reached, and what is here is as good as anybody knows. */
enum git_place git_forward_read(const struct web_request *request, const char *name,
				enum fresh fresh, struct web_response *response);

/* At a secondary: handlers. */
int git_forward_push_refs(const struct web_request *request,
			  struct web_response *response, struct err *err);
int git_forward_push(const struct web_request *request, struct web_response *response,
		     struct err *err);

#endif
