#include "web/git_request.h"

#include "replicable/name.h"
#include "web/lfs_request.h"
#include "web/route.h"

static const char *batch_service(const struct web_request *request)
{
	switch (lfs_batch_operation(request->body->data, request->body->len)) {
	case LFS_DOWNLOAD:
		return GIT_UPLOAD_PACK;
	case LFS_UPLOAD:
		return GIT_RECEIVE_PACK;
	default:
		return "";
	}
}

/* By the route that was found, and so by method and whole path: what the end of a path
 * only looks like is nothing. */
const char *git_request_service(const struct web_request *request)
{
	const struct web_route *route = request->route;
	const char *asked;

	if (!route || route->right != WEB_GIT)
		return "";
	if (text_ends_with(route->pattern, "/" GIT_UPLOAD_PACK))
		return GIT_UPLOAD_PACK;
	if (text_ends_with(route->pattern, "/info/refs")) {
		asked = web_query(request, "service");
		return asked ? asked : "";
	}
	if (text_ends_with(route->pattern, "/info/lfs/objects/batch"))
		return batch_service(request);
	return strcmp(route->method, "GET") == 0 ? GIT_UPLOAD_PACK : GIT_RECEIVE_PACK;
}

char *git_request_repository(const struct web_request *request)
{
	return name_of_path(request->name ? request->name : "");
}
