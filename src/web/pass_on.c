#include "web/pass_on.h"

#include <assert.h>

#include "web/answer.h"
#include "web/services.h"

void pass_on_add(struct pass_on_headers *headers, const char *name, const char *value)
{
	if (!value)
		return;
	assert(headers->count < PASS_ON_HEADERS - 1);
	headers->list[headers->count++] = (struct http_header){ name, value };
}

void pass_on_copy(struct pass_on_headers *headers, const struct web_request *request,
		  const char *name)
{
	pass_on_add(headers, name, web_header(request, name));
}

bool pass_on_is_loop(const struct web_request *request, struct web_response *response)
{
	if (!forward_is_loop(web_header(request, "Via"), request->services->site))
		return false;
	web_answer_problem(response, 508, "LOOP_DETECTED",
			   "this request came from this very site",
			   "primary.url of some site must be wrong");
	return true;
}

void pass_on_refuse(struct web_response *response, int status, const char *code,
		    const char *message, const char *remedy)
{
	web_answer_problem(response, status, code, message, remedy);
	response->is_expected = status == 503;
	if (status == 503)
		web_set_header(response, "Retry-After", "10");
}

void pass_on_refuse_status(struct web_response *response, int status)
{
	AUTO_FREE char *message =
		xasprintf("the primary answered this site with status %d", status);

	pass_on_refuse(response, 502, "BAD_GATEWAY", message,
		       "this site's operator finds the reason with `refrelay check`");
}

void pass_on_head(const struct forward_answer *answer, struct web_response *response)
{
	const struct {
		const char *name;
		const struct str *value;
	} headers[] = {
		{ "Content-Type", &answer->content_type },
		{ "Content-Encoding", &answer->content_encoding },
		{ "Content-Range", &answer->content_range },
		{ "Accept-Ranges", &answer->accept_ranges },
		{ "ETag", &answer->etag },
		{ "Last-Modified", &answer->last_modified },
		{ "WWW-Authenticate", &answer->www_authenticate },
		{ "Retry-After", &answer->retry_after },
		{ WEB_ERROR_REASON, &answer->error_reason },
	};

	response->status = answer->status;
	response->is_expected = true; /* the primary's log tells why */
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		if (headers[i].value->len > 0)
			web_add_header(response, headers[i].name, "%s",
				       headers[i].value->data);
}

int pass_on_answered_early(struct err *err)
{
	return err_set(err, ERR_NETWORK, "the primary answered before it was asked all");
}
