/*
 * Git's smart HTTP protocol, for reading. Status and headers are those of git
 * http-backend where it has good ones; it answers 200 with nothing in it to much that
 * goes wrong, and we never do. What is known whole has a length and a tag.
 */
#include "serve/serve.h"
#include "web/answer.h"
#include "web/git_request.h"
#include "web/negotiate.h"
#include "web/route.h"
#include "web/services.h"

/* Whoever keeps it must ask each time whether it still holds. */
static void never_cache(struct web_response *response)
{
	web_set_header(response, "Expires", "Fri, 01 Jan 1980 00:00:00 GMT");
	web_set_header(response, "Pragma", "no-cache");
	web_set_header(response, "Cache-Control", "no-cache, max-age=0, must-revalidate");
}

static int failed(struct web_response *response, const struct serve_answer *answer,
		  const struct err *err)
{
	if (err->class == ERR_BUSY) {
		answer_err(response, 503, err);
		response->is_expected = true;
		web_add_header(response, "Retry-After", "%u",
			       answer->retry_after_s ? answer->retry_after_s : 1);
		return 0;
	}
	if (err->class != ERR_CONFIG || answer->is_request_bad)
		return -1;
	answer_err(response, 500, err); /* what is set up wrong here */
	return 0;
}

static void release_generation(void *generation)
{
	generation_unref(generation);
}

static void share(struct serve_answer *answer, struct web_response *response)
{
	response->shared = (struct web_shared){ .data = answer->shared.data,
						.len = answer->shared.len,
						.release = release_generation,
						.owner = TAKE(answer->generation) };
	if (answer->shared.is_gzip)
		web_set_header(response, "Content-Encoding", "gzip");
}

/* Takes what the answer holds. */
static void hand_over(struct serve_answer *answer, const char *content_type,
		      struct web_response *response)
{
	response->content_type = content_type;
	if (answer->generation) {
		share(answer, response);
	} else if (answer->stream) {
		response->read = answer->read;
		response->close = answer->close;
		response->stream = TAKE(answer->stream);
		response->until = answer->until;
	} else {
		response->body = answer->bytes;
		answer->bytes = (struct str)STR_INIT;
	}
	never_cache(response);
}

static struct serve_request ask(const struct web_request *request, const char *name)
{
	return (struct serve_request){
		.name = name,
		.protocol = web_header(request, "Git-Protocol"),
		.accepts_gzip = negotiate_gzip(web_header(request, "Accept-Encoding")),
		.body = request->body,
		.body_fd = request->body_fd,
		.stop = request->stop,
		.cut = request->cut,
	};
}

static int find_answer(const struct web_request *request,
		       const struct serve_request *wanted, struct serve_answer *answer,
		       struct err *err)
{
	struct serve *serve = request->services->serve;

	if (request->may_wait)
		return serve_info_refs(serve, wanted, answer, err);
	return serve_info_refs_now(serve, wanted, answer) ? 0 : WEB_LATER;
}

static int advertise(const struct web_request *request, struct web_response *response,
		     struct err *err)
{
	AUTO_FREE char *name = git_request_repository(request);
	struct serve_request wanted = ask(request, name);
	struct serve_answer answer = SERVE_ANSWER_INIT;
	int result = find_answer(request, &wanted, &answer, err);

	if (result < 0) {
		result = failed(response, &answer, err);
	} else if (result == 0) {
		hand_over(&answer, "application/x-git-upload-pack-advertisement",
			  response);
		web_set_header(response, "Vary", "Git-Protocol, Accept-Encoding");
		if (*answer.etag)
			web_answer_tagged(request, response, answer.etag);
	}
	serve_answer_clear(&answer);
	return result;
}

static int refuse_push(struct web_response *response)
{
	web_answer_problem(response, 403, "PUSH_NOT_SERVED",
			   "this version of refrelay takes no pushes over HTTP",
			   "push to the Git server that owns the repository");
	return 0;
}

static int get_refs(const struct web_request *request, struct web_response *response,
		    struct err *err)
{
	const char *service = git_request_service(request);

	if (strcmp(service, GIT_UPLOAD_PACK) == 0)
		return advertise(request, response, err);
	if (strcmp(service, "git-receive-pack") == 0)
		return refuse_push(response);
	if (*service)
		web_answer_problem(response, 403, "UNKNOWN_SERVICE",
				   "this service of Git is not known here", "");
	else
		web_answer_problem(response, 403, "DUMB_PROTOCOL",
				   "Git's dumb HTTP protocol is not served",
				   "use git 1.6.6 or later, without GIT_SMART_HTTP=0");
	return 0;
}

static int answer_post(const struct web_request *request, struct web_response *response,
		       struct err *err)
{
	AUTO_FREE char *name = git_request_repository(request);
	struct serve_request wanted = ask(request, name);
	struct serve_answer answer = SERVE_ANSWER_INIT;
	int result = 0;

	if (serve_upload_pack(request->services->serve, &wanted, &answer, err))
		result = failed(response, &answer, err);
	else
		hand_over(&answer, "application/x-git-upload-pack-result", response);
	serve_answer_clear(&answer);
	return result;
}

static int post_upload_pack(const struct web_request *request,
			    struct web_response *response, struct err *err)
{
	const char *type = web_header(request, "Content-Type");

	if (type && strcmp(type, "application/x-git-upload-pack-request") == 0)
		return answer_post(request, response, err);
	web_answer_problem(response, 415, "WRONG_CONTENT_TYPE",
			   "Content-Type must be application/x-git-upload-pack-request",
			   "");
	return 0;
}

static int post_receive_pack(const struct web_request *request,
			     struct web_response *response, struct err *err)
{
	(void)request;
	(void)err;
	return refuse_push(response);
}

const struct web_route web_git_routes[] = {
	{ "GET", "/{path}/info/refs", WEB_GIT_READER, WEB_QUICK, get_refs },
	{ "POST", "/{path}/git-upload-pack", WEB_GIT_READER, WEB_BODY_FILE,
	  post_upload_pack },
	{ "POST", "/{path}/git-receive-pack", WEB_ANYBODY, WEB_BODY_NONE,
	  post_receive_pack },
	{ 0 },
};
