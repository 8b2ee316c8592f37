/*
 * A blob that is put at a secondary goes to the primary as it comes, with what the client
 * showed: who may, and what becomes of it, the primary decides. The copy here comes by
 * the event, as all others.
 */
#include "base/log.h"
#include "web/blob_put.h"
#include "web/pass_on.h"

struct passing {
	struct forward *forward;
	const struct web_request *request; /* NULL: its body is not to be had any more */
	char *kind, *name;                 /* owned */
};

static void blob_forward_close_passing(void *arg)
{
	struct passing *passing = arg;

	forward_close(passing->forward);
	free(passing->kind);
	free(passing->name);
	free(passing);
}

static ssize_t blob_forward_read_passing(void *arg, void *buffer, size_t size)
{
	struct passing *passing = arg;
	struct err err;
	ssize_t got = forward_read(passing->forward, buffer, size, &err);

	if (got < 0)
		log_warn("blob.forward_broken", LOG_ERR(&err),
			 LOG_TEXT("kind", passing->kind),
			 LOG_TEXT("name", passing->name));
	return got;
}

static ssize_t blob_forward_read_upload(void *arg, void *buffer, size_t size,
					struct err *err)
{
	const struct passing *passing = arg;

	if (passing->request)
		return web_read_upload(passing->request, buffer, size, err);
	return pass_on_answered_early(err);
}

/* As it was asked of us, at the primary's base URL. */
static char *url_of(const struct web_request *request)
{
	const char *base = request->services->primary_url;
	size_t len = strlen(base);

	while (len > 0 && base[len - 1] == '/')
		len--;
	return xasprintf("%.*s%s", (int)len, base, request->target);
}

static int blob_forward_open_passing(const struct web_request *request,
				     struct passing *passing,
				     struct forward_answer *answer, struct err *err)
{
	static const char *const given[] = { "Authorization",  "Content-Digest",
					     "Content-Type",   "User-Agent",
					     "Content-Length", "Via" };
	AUTO_FREE char *url = url_of(request);
	const char *length = web_header(request, "Content-Length");
	struct pass_on_headers headers = { 0 };
	uint64_t size = UINT64_MAX;
	bool is_sent;

	if (length && !text_to_uint64(length, &size))
		size = UINT64_MAX;
	for (size_t i = 0; i < ARRAY_SIZE(given); i++)
		pass_on_copy(&headers, request, given[i]);
	int result =
		forward_open(request->services->forwarder,
			     &(struct http_request){ .method = "PUT",
							.url = url,
							.headers = headers.list,
							.read = blob_forward_read_upload,
							.arg = passing,
							.body_size = size,
							.stop = request->cut },
			     &passing->forward, answer, &is_sent, err);
	passing->request = NULL;
	return result;
}

static void blob_forward_hand_on(struct passing *passing,
				 const struct forward_answer *answer,
				 struct web_response *response)
{
	pass_on_head(answer, response);
	response->read = blob_forward_read_passing;
	response->close = blob_forward_close_passing;
	response->stream = passing;
}

static void answer_unreached(const struct passing *passing, const struct err *err,
			     struct web_response *response)
{
	AUTO_FREE char *message = xasprintf(
		"blobs are put at the primary, and it does not answer: %s", err->text);

	log_warn("blob.not_forwarded", LOG_ERR(err), LOG_TEXT("kind", passing->kind),
		 LOG_TEXT("name", passing->name));
	pass_on_refuse(response, 503, "PRIMARY_UNREACHABLE", message,
		       "try again in a while");
}

static void blob_forward_pass_request(const struct web_request *request,
				      struct web_response *response)
{
	struct passing *passing = xcalloc(1, sizeof(*passing));
	struct forward_answer answer;
	struct err err;

	passing->request = request;
	passing->kind = xstrdup(request->kind);
	passing->name = xstrdup(request->name);
	if (blob_forward_open_passing(request, passing, &answer, &err) != 0) {
		answer_unreached(passing, &err, response);
		blob_forward_close_passing(passing);
	} else if (answer.status >= 300 && answer.status < 400) {
		pass_on_refuse_status(response, answer.status);
		blob_forward_close_passing(passing);
	} else {
		log_info("blob.forwarded", LOG_TEXT("kind", passing->kind),
			 LOG_TEXT("name", passing->name),
			 LOG_NUMBER("status", answer.status));
		blob_forward_hand_on(passing, &answer, response);
	}
	forward_answer_clear(&answer);
}

int blob_forward_put(const struct web_request *request, struct web_response *response,
		     struct err *err)
{
	(void)err;
	if (!pass_on_is_loop(request, response))
		blob_forward_pass_request(request, response);
	return 0;
}
