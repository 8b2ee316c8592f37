#include "web/git_request.h"

#include "replicable/name.h"

/* Whether the path of a target ends so. */
static bool path_ends_with(const char *target, const char *end)
{
	size_t len = strcspn(target, "?");
	size_t end_len = strlen(end);

	return len >= end_len && memcmp(target + len - end_len, end, end_len) == 0;
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
	return service ? service : "";
}

char *git_request_repository(const struct web_request *request)
{
	return name_of_path(request->name ? request->name : "");
}
