#include "net/http_ask.h"

#include "base/clock.h"
#include "net/http.h"

#define TIMEOUT_MS 120000
#define BODY_KEPT 4096

/* What is more than an error's text is thrown away. */
static int http_ask_take_body(void *arg, const char *bytes, size_t count, struct err *err)
{
	struct str *body = arg;
	size_t room = BODY_KEPT - body->len;

	(void)err;
	str_add_bytes(body, bytes, count < room ? count : room);
	return 0;
}

/* As an operator finds the way: by the settings. */
static int http_ask_fail(const struct http_ask_request *request,
			 const struct http_call *call, struct err *err)
{
	if (call->has_ended)
		return http_is_bad_certificate(call)
			       ? -1
			       : err_remedy(err,
					    "check %s, and that the server runs there",
					    request->setting);
	if (err->class == ERR_TIMEOUT)
		return err_remedy(err, "see whether that server is overloaded");
	return -1;
}

static int http_ask_read_status(const struct http_ask_request *request,
				const struct http_call *call, int *status,
				struct err *err)
{
	*status = (int)call->status;
	if (call->status < 300 || call->status >= 400)
		return 0;
	err_set(err, ERR_CONFIG,
		"%.200s redirects to another place, which is not followed", call->peer);
	return err_remedy(err, "set %s to where the server really is", request->setting);
}

static int http_ask_run(const struct http_ask_request *request, struct http_call *call,
			int *status, struct err *err)
{
	if (http_begin(call, err) != 0)
		return -1;
	if (http_run(call, http_has_ended, err) != 0 || http_check_end(call, err) != 0)
		return http_ask_fail(request, call, err);
	if (request->rest_ms)
		*request->rest_ms = http_get_rest_ms(call);
	return http_ask_read_status(request, call, status, err);
}

int http_ask(const struct http_ask_request *request, int *status, struct str *body,
	     struct err *err)
{
	const struct http_header all[] = {
		{ "Accept", "application/json" },
		{ HTTP_ASK_SIGNATURE, request->signature },
		{ "Content-Type", "application/json; charset=UTF-8" },
		{ "Expect", NULL },
	};
	int64_t timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : TIMEOUT_MS;
	struct http_header said[ARRAY_SIZE(all) + 1] = { all[0] };
	size_t count = 1;

	if (request->signature)
		said[count++] = all[1];
	if (request->body) {
		said[count++] = all[2];
		said[count++] = all[3];
	}
	struct http_call call = {
		.line = http_line_open(),
		.request = { .method = request->method,
			     .url = request->url,
			     .headers = said,
			     .user = request->user,
			     .password = request->password,
			     .ca_file = request->ca_file,
			     .body = request->body,
			     .body_size = request->body ? strlen(request->body) : 0,
			     .connect_ms = request->connect_ms,
			     .until = clock_boot_ms() + timeout_ms,
			     .stop = request->stop,
			     .deadline = request->deadline },
		.peer = request->peer ? request->peer : request->url,
		.remedy = "",
		.take = http_ask_take_body,
		.taker = body,
	};
	int result = http_ask_run(request, &call, status, err);
	http_end(&call);
	http_line_close(&call.line);
	return result;
}
