/*
 * Handlers for the rows of what is replicated, the same for all kinds: the inventory of a
 * primary, the registry of a secondary. The kind is {kind} of the route, a type of blobs;
 * without one it is repositories. Internal to web/.
 */
#ifndef WEB_ROWS_H
#define WEB_ROWS_H

#include "web/web.h"

int rows_list(const struct web_request *request, struct web_response *response,
	      struct err *err);
int rows_get(const struct web_request *request, struct web_response *response,
	     struct err *err);
int rows_sync(const struct web_request *request, struct web_response *response,
	      struct err *err);
int rows_resync(const struct web_request *request, struct web_response *response,
		struct err *err);
int rows_retry(const struct web_request *request, struct web_response *response,
	       struct err *err);
int rows_release(const struct web_request *request, struct web_response *response,
		 struct err *err);
int rows_reverify(const struct web_request *request, struct web_response *response,
		  struct err *err);

#endif
