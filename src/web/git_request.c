#include "web/git_request.h"

#include "replicable/name.h"
#include "web/lfs_request.h"

/* Whether the path of a target ends so. */
static bool path_ends_with(const char *target, const char *end)
{
	size_t len = strcspn(target, "?");
	size_t end_len = strlen(end);

	return len >= end_len && memcmp(target + len - end_len, end, end_len) == 0;
}

/* An object that is read or put; a batch says in its body which it is. */
static const char *lfs_service(const struct web_request *request)
{
	static const char objects[] = "/info/lfs/objects";
	size_t len = strcspn(request->target, "?");

	if (path_ends_with(request->target, "/info/lfs/verify"))
		return GIT_RECEIVE_PACK;
	if (path_ends_with(request->target, "/info/lfs/objects/batch") &&
	    strcmp(request->method, "POST") == 0) {
		enum lfs_operation operation =
			lfs_batch_operation(request->body->data, request->body->len);
		return operation == LFS_DOWNLOAD ? GIT_UPLOAD_PACK
		       : operation == LFS_UPLOAD ? GIT_RECEIVE_PACK
						 : NULL;
	}
	while (len > 0 && request->target[len - 1] != '/')
		len--;
	if (len <= strlen(objects) || memcmp(request->target + len - 1 - strlen(objects),
					     objects, strlen(objects)) != 0)
		return NULL;
	return strcmp(request->method, "PUT") == 0 ? GIT_RECEIVE_PACK : GIT_UPLOAD_PACK;
}

const char *git_request_service(const struct web_request *request)
{
	const char *service = NULL;

	if (path_ends_with(request->target, "/info/refs"))
		service = web_query(request, "service");
	else if (path_ends_with(request->target, "/" GIT_UPLOAD_PACK))
		service = GIT_UPLOAD_PACK;
	else if (path_ends_with(request->target, "/" GIT_RECEIVE_PACK))
		service = GIT_RECEIVE_PACK;
	else
		service = lfs_service(request);
	return service ? service : "";
}

char *git_request_repository(const struct web_request *request)
{
	return name_of_path(request->name ? request->name : "");
}
