/*
 * Git LFS: the routes, what all answers have in common, and what the primary is asked in
 * place of this secondary. Problems are made as everywhere; web/exchange_answer.c gives
 * them the form that git-lfs shows its user.
 *
 * Reading is asked for with this site's own right, as who may read here was decided here;
 * all else with what the client showed, and the primary decides.
 */
#include "base/clock.h"
#include "web/answer.h"
#include "web/lfs_parts.h"
#include "web/pass_on.h"
#include "web/route.h"

enum { ASK_MS = 60 * 1000 };
#define ANSWER_MAX ((size_t)4 << 20)

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

static const char *const lfs_forward_headers[] = {
	"User-Agent", "Via", "Range", "If-Range", "Content-Type", NULL,
};
static const char *const lfs_forward_client_headers[] = {
	"User-Agent", "Via", "Range", "If-Range", "Content-Type", "Authorization", NULL,
};

#define LFS_FORWARD                                                                      \
	.forwarded = "lfs.forwarded", .not_forwarded = "lfs.not_forwarded",              \
	.broken = "lfs.forward_broken", .name_field = "repo",                            \
	.unreached = "this goes to the primary", .remedy = "try again in a while"

static const struct pass_on_kind lfs_forward_kinds[] = {
	[LFS_AS_SITE] = { LFS_FORWARD, .headers = lfs_forward_headers,
			  .is_own_right = true, .token_s = 3 * 3600 },
	[LFS_AS_CLIENT] = { LFS_FORWARD, .headers = lfs_forward_client_headers },
};

/* From "/info/lfs/" on: as it was asked of us. */
static const char *lfs_forward_find_url_end(const struct web_request *request)
{
	static const char mark[] = "/info/lfs/";
	const char *what = request->target;
	const char *next = what;

	while ((next = strstr(next, mark)) != NULL)
		what = next++;
	return what;
}

void lfs_refuse_unreached(const struct web_request *request, const char *repository,
			  const struct err *err, struct web_response *response)
{
	pass_on_refuse_unreached(&lfs_forward_kinds[LFS_AS_SITE], request, repository,
				 err, response);
}

void lfs_forward(const struct web_request *request, const char *repository,
		 enum lfs_as as, struct web_response *response)
{
	const struct log_field said[] = { LOG_TEXT("method", request->method),
					  LOG_TEXT("user", request->user),
					  { 0 } };
	struct err err;

	if (pass_on_is_loop(request, response))
		return;
	struct pass_on *passing =
		pass_on_new(&lfs_forward_kinds[as], request, repository, NULL, response);
	if (pass_on_send(passing,
			 (struct http_request){ .body_size = pass_on_body_size(passing) },
			 lfs_forward_find_url_end(request), said, response, &err) != 0)
		lfs_refuse_unreached(request, repository, &err, response);
}

static int lfs_read_answer(struct forward *forward, struct str *answer, struct err *err)
{
	char piece[8192];
	ssize_t got;

	while ((got = forward_read(forward, piece, sizeof(piece), err)) > 0) {
		str_add_bytes(answer, piece, (size_t)got);
		if (answer->len > ANSWER_MAX)
			return err_set(err, ERR_CORRUPT,
				       "the primary's answer does not end");
	}
	return got < 0 ? -1 : 0;
}

int lfs_ask_primary(const struct web_request *request, const char *repository,
		    enum lfs_as as, const struct str *body, struct str *answer,
		    struct web_response *response, struct err *err)
{
	if (pass_on_is_loop(request, response))
		return 1;
	struct pass_on *passing =
		pass_on_new(&lfs_forward_kinds[as], request, repository, NULL, response);
	passing->body = body;
	int result = pass_on_open(
		passing,
		(struct http_request){ .body_size = pass_on_body_size(passing),
				       .until = clock_boot_ms() + ASK_MS },
		lfs_forward_find_url_end(request), err);
	if (result == 0 && forward_status(passing->forward) != 200) {
		pass_on_hand_on(passing, response);
		result = 1;
	} else {
		if (result == 0)
			result = lfs_read_answer(passing->forward, answer, err);
		pass_on_close(passing);
	}
	return result;
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
