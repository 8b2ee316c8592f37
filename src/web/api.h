/*
 * Shared by the handlers of the API. Internal to web/, except api_report().
 */
#ifndef WEB_API_H
#define WEB_API_H

#include "web/route.h"
#include "web/services.h"

#define API_PAGE 1000
#define API_PAGE_MAX 10000

/* False: the site has another role, and the response says so (409, WRONG_ROLE). */
bool api_needs_role(const struct web_request *request, enum site_role role,
		    struct web_response *response);

/* Reads ?limit=, at least 1. -1 with *err. */
int api_limit(const struct web_request *request, size_t *limit, struct err *err);

/* For handlers that failed to look up {name}: answers a missing one with 404
 * REPOSITORY_NOT_FOUND (0), leaves other errors to the frame (-1). */
int api_repository_failed(struct web_response *response, const struct err *err);

/* 409: something of this site cannot be read; the code is the class of *err. */
void api_unreadable(struct web_response *response, const struct err *err);

/* The kind that {kind} names, except repositories, which have separate routes. NULL, with
 * the answer made: 404, KIND_NOT_FOUND. */
const struct kind *api_kind(const struct web_request *request,
			    struct web_response *response);

/* The same for kinds whose replicables are files; others do not have bytes to serve. */
const struct kind *api_file_kind(const struct web_request *request,
				 struct web_response *response);

enum api_depth {
	API_VERDICT,       /* and counts: as quick for any number of rows */
	API_WITHOUT_TASKS, /* of push: reading them takes long if many wait */
	API_WHOLE,
};

/* This site's status, now. Clear it in any case. */
int api_report(const struct web_services *services, enum api_depth depth,
	       struct report *report, struct err *err);

/* 409, code WRONG_ROLE for other reasons than the above: the caller gives the
 * sentence. */
void api_wrong_role(struct web_response *response, const char *message);

#endif
