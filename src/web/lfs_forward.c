/*
 * What the primary is asked in place of this secondary. Reading is asked for with this
 * site's own right, as who may read here was decided here; all else with what the client
 * showed, and the primary decides.
 */
#include "base/clock.h"
#include "base/log.h"
#include "pull/primary.h"
#include "web/lfs_parts.h"
#include "web/pass_on.h"

enum { ASK_MS = 60 * 1000, TOKEN_S = 3 * 3600 };
#define ANSWER_MAX ((size_t)4 << 20)

/* One request on its way. */
struct passing {
	struct forward *forward;
	const struct web_request *request; /* NULL: its body is not to be had any more */
	const struct str *body;            /* in place of the request's, or NULL */
	size_t at;                         /* of a body that is in memory */
	char *name;                        /* owned */
};

static void lfs_forward_close_passing(void *arg)
{
	struct passing *passing = arg;

	forward_close(passing->forward);
	free(passing->name);
	free(passing);
}

static ssize_t lfs_forward_read_passing(void *arg, void *buffer, size_t size)
{
	struct passing *passing = arg;
	struct err err;
	ssize_t got = forward_read(passing->forward, buffer, size, &err);

	if (got < 0)
		log_warn("lfs.forward_broken", LOG_ERR(&err),
			 LOG_TEXT("repo", passing->name));
	return got;
}

static ssize_t lfs_forward_read_body(void *arg, void *buffer, size_t size,
				     struct err *err)
{
	struct passing *passing = arg;
	const struct str *body = passing->body;

	if (!passing->request)
		return pass_on_answered_early(err);
	if (!body && passing->request->has_upload)
		return web_read_upload(passing->request, buffer, size, err);
	if (!body)
		body = passing->request->body;
	if (size > body->len - passing->at)
		size = body->len - passing->at;
	memcpy(buffer, body->data + passing->at, size);
	passing->at += size;
	return (ssize_t)size;
}

static uint64_t body_size(const struct passing *passing)
{
	const char *length = web_header(passing->request, "Content-Length");
	uint64_t size;

	if (passing->body)
		return passing->body->len;
	if (!passing->request->has_upload)
		return passing->request->body->len;
	if (web_header(passing->request, "Content-Encoding")) /* it is inflated here */
		return UINT64_MAX;
	return length && text_to_uint64(length, &size) ? size : UINT64_MAX;
}

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

static void lfs_forward_add_headers(const struct web_request *request, enum lfs_as as,
				    const char *token, struct pass_on_headers *headers)
{
	static const char *const given[] = { "User-Agent", "Via", "Range", "If-Range",
					     "Content-Type" };

	for (size_t i = 0; i < ARRAY_SIZE(given); i++)
		pass_on_copy(headers, request, given[i]);
	if (as == LFS_AS_CLIENT)
		pass_on_copy(headers, request, "Authorization");
	else
		pass_on_add(headers, "Authorization",
			    token ? token + strlen("Authorization: ") : NULL);
}

/* `until`: boot ms, 0: never. */
static int lfs_forward_open_passing(struct passing *passing, enum lfs_as as,
				    int64_t until, struct forward_answer *answer,
				    struct err *err)
{
	const struct web_request *request = passing->request;
	const struct web_services *services = request->services;
	bool is_get = strcmp(request->method, "GET") == 0 ||
		      strcmp(request->method, "HEAD") == 0;
	AUTO_FREE char *url = NULL;
	AUTO_FREE char *token = NULL;
	AUTO_FREE char *whole = NULL;
	struct pass_on_headers headers = { 0 };
	bool is_sent;

	*answer = (struct forward_answer){ 0 };
	if (primary_git(services->primary, passing->name, TOKEN_S, &url, &token, err) !=
	    0)
		return -1;
	whole = xasprintf("%s%s", url, lfs_forward_find_url_end(request));
	lfs_forward_add_headers(request, as, token, &headers);
	int result = forward_open(
		services->forwarder,
		&(struct http_request){ .method = request->method,
					   .url = whole,
					   .headers = headers.list,
					   .read = is_get ? NULL : lfs_forward_read_body,
					   .arg = passing,
					   .body_size = is_get ? 0 : body_size(passing),
					   .until = until,
					   .stop = request->cut },
		&passing->forward, answer, &is_sent, err);
	passing->request = NULL;
	return result;
}

static struct passing *lfs_forward_new_passing(const struct web_request *request,
					       const char *name)
{
	struct passing *passing = xcalloc(1, sizeof(*passing));

	passing->request = request;
	passing->name = xstrdup(name);
	return passing;
}

void lfs_refuse_unreached(const char *repository, const struct err *err,
			  struct web_response *response)
{
	AUTO_FREE char *message = xasprintf(
		"this goes to the primary, and it does not answer: %s", err->text);

	log_warn("lfs.not_forwarded", LOG_ERR(err), LOG_TEXT("repo", repository));
	pass_on_refuse(response, 503, "PRIMARY_UNREACHABLE", message,
		       "try again in a while");
}

/* Those are not for the client: nothing it did would help. */
static bool lfs_forward_is_between_sites(enum lfs_as as, int status)
{
	return (status >= 300 && status < 400 && status != 304) ||
	       (as == LFS_AS_SITE && (status == 401 || status == 403));
}

static void lfs_forward_hand_on(struct passing *passing,
				const struct forward_answer *answer,
				struct web_response *response)
{
	pass_on_head(answer, response);
	response->read = lfs_forward_read_passing;
	response->close = lfs_forward_close_passing;
	response->stream = passing;
}

/* True: `passing` is the response's now. */
static bool lfs_forward_settle(struct passing *passing, enum lfs_as as,
			       const struct forward_answer *answer,
			       struct web_response *response)
{
	if (lfs_forward_is_between_sites(as, answer->status)) {
		pass_on_refuse_status(response, answer->status);
		return false;
	}
	lfs_forward_hand_on(passing, answer, response);
	return true;
}

void lfs_forward(const struct web_request *request, const char *repository,
		 enum lfs_as as, struct web_response *response)
{
	struct forward_answer answer = { 0 };
	struct passing *passing;
	struct err err;

	if (pass_on_is_loop(request, response))
		return;
	passing = lfs_forward_new_passing(request, repository);
	if (lfs_forward_open_passing(passing, as, 0, &answer, &err) != 0) {
		lfs_refuse_unreached(repository, &err, response);
		lfs_forward_close_passing(passing);
	} else {
		log_info("lfs.forwarded", LOG_TEXT("repo", repository),
			 LOG_TEXT("method", request->method),
			 LOG_TEXT("user", request->user),
			 LOG_NUMBER("status", answer.status));
		if (!lfs_forward_settle(passing, as, &answer, response))
			lfs_forward_close_passing(passing);
	}
	forward_answer_clear(&answer);
}

static int lfs_forward_read_answer(struct passing *passing, struct str *answer,
				   struct err *err)
{
	char piece[8192];
	ssize_t got;

	while ((got = forward_read(passing->forward, piece, sizeof(piece), err)) > 0) {
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
	struct forward_answer head = { 0 };
	struct passing *passing;
	int result = 1;

	if (pass_on_is_loop(request, response))
		return 1;
	passing = lfs_forward_new_passing(request, repository);
	passing->body = body;
	if (lfs_forward_open_passing(passing, as, clock_boot_ms() + ASK_MS, &head, err) !=
	    0)
		result = -1;
	else if (head.status == 200)
		result = lfs_forward_read_answer(passing, answer, err);
	else if (lfs_forward_settle(passing, as, &head, response))
		passing = NULL;
	if (passing)
		lfs_forward_close_passing(passing);
	forward_answer_clear(&head);
	return result;
}
