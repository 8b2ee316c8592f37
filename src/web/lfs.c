/*
 * Git LFS: the routes, and what all answers have in common. Problems are made as
 * everywhere; web/exchange_answer.c gives them the form that git-lfs shows its user.
 */
#include "web/answer.h"
#include "web/git_request.h"
#include "web/lfs_parts.h"
#include "web/route.h"

void lfs_answer_json(struct web_response *response, int status, json_t *object)
{
	web_answer_json(response, status, object);
	response->content_type = LFS_TYPE;
}

bool lfs_has_type(const struct web_request *request, struct web_response *response)
{
	const char *type = web_header(request, "Content-Type");
	size_t len = strlen(LFS_TYPE);

	if (type && strncasecmp(type, LFS_TYPE, len) == 0 &&
	    (type[len] == '\0' || type[len] == ';' || type[len] == ' '))
		return true;
	web_answer_problem(response, 415, "WRONG_CONTENT_TYPE",
			   "Content-Type must be " LFS_TYPE, "");
	return false;
}

static const struct blob_kind *find_kind(const struct web_services *services)
{
	const struct blob_kinds *kinds = services->blob_kinds;

	for (size_t i = 0; kinds && i < kinds->items.count; i++)
		if (kinds->items.items[i].layout == BLOB_LFS)
			return &kinds->items.items[i];
	return NULL;
}

const struct blob_kind *lfs_kind(const struct web_request *request,
				 struct web_response *response)
{
	const struct blob_kind *kind = find_kind(request->services);

	if (kind && request->services->lfs_names)
		return kind;
	web_answer_problem(response, 404, "NO_LFS",
			   "this site keeps no objects of Git LFS",
			   "its operator gives it a kind of blobs with layout = lfs");
	return NULL;
}

bool lfs_request_oid(const struct web_request *request, char oid[LFS_OID_SIZE],
		     struct web_response *response)
{
	size_t end = strcspn(request->target, "?");
	size_t len = 0;

	while (len < end && request->target[end - len - 1] != '/')
		len++;
	if (len == LFS_OID_SIZE - 1) {
		memcpy(oid, request->target + end - len, len);
		oid[len] = '\0';
		if (lfs_oid_is_valid(oid))
			return true;
	}
	web_answer_problem(response, 422, "BAD_OID",
			   "objects go by their SHA-256 in 64 lower-case digits", "");
	return false;
}

/* git-lfs goes on without locks where there are none. */
static int no_locks(const struct web_request *request, struct web_response *response,
		    struct err *err)
{
	(void)request;
	(void)err;
	web_answer_problem(response, 404, "NO_LOCKS", "files cannot be locked here", "");
	return 0;
}

const struct web_route web_lfs_routes[] = {
	{ "POST", "/{path}/info/lfs/objects/batch", WEB_GIT, WEB_BODY_MEMORY,
	  lfs_post_batch },
	{ "POST", "/{path}/info/lfs/verify", WEB_GIT, WEB_BODY_MEMORY, lfs_post_verify },
	{ "GET", "/{path}/info/lfs/objects/{last}", WEB_GIT, WEB_BODY_NONE,
	  lfs_get_object },
	{ "PUT", "/{path}/info/lfs/objects/{last}", WEB_GIT, WEB_BODY_STREAM,
	  lfs_put_object },
	{ "GET", "/{path}/info/lfs/locks", WEB_ANYBODY, WEB_BODY_NONE, no_locks },
	{ "POST", "/{path}/info/lfs/locks", WEB_ANYBODY, WEB_BODY_MEMORY, no_locks },
	{ "POST", "/{path}/info/lfs/locks/verify", WEB_ANYBODY, WEB_BODY_MEMORY,
	  no_locks },
	{ 0 },
};
