#include "push/target_http.h"

#include "base/clock.h"
#include "net/http.h"

#define TIMEOUT_MS 120000
#define BODY_KEPT 4096

/* What is more than an error's text is thrown away. */
static int target_http_take_body(void *arg, const char *bytes, size_t count,
				 struct err *err)
{
	struct str *body = arg;
	size_t room = BODY_KEPT - body->len;

	(void)err;
	str_add_bytes(body, bytes, count < room ? count : room);
	return 0;
}

/* As an operator of a push finds the way: by the settings of its remote. */
static int target_http_fail(const struct http_call *call, struct err *err)
{
	if (call->has_ended)
		return http_is_bad_certificate(call)
			       ? -1
			       : err_remedy(err, "check adminUrl of the remote, and that "
						 "the server runs there");
	if (err->class == ERR_TIMEOUT)
		return err_remedy(err, "see whether that server is overloaded");
	return -1;
}

static int target_http_read_status(const struct http_call *call, int *status,
				   struct err *err)
{
	*status = (int)call->status;
	if (call->status < 300 || call->status >= 400)
		return 0;
	err_set(err, ERR_CONFIG,
		"%.200s redirects to another place, which is not followed", call->peer);
	return err_remedy(err, "set adminUrl to where the server really is");
}

static int target_http_run(struct http_call *call, int *status, struct err *err)
{
	if (http_begin(call, err) != 0)
		return -1;
	if (http_run(call, http_has_ended, err) != 0 || http_check_end(call, err) != 0)
		return target_http_fail(call, err);
	return target_http_read_status(call, status, err);
}

int target_http_ask(const struct target_http_request *request, int *status,
		    struct str *body, struct err *err)
{
	const struct http_header all[] = {
		{ "Accept", "application/json" },
		{ "X-Refrelay-Signature", request->signature },
		{ "Content-Type", "application/json; charset=UTF-8" },
		{ "Expect", NULL },
	};
	const struct git_work *work = request->work;
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
			     .body = request->body,
			     .body_size = request->body ? strlen(request->body) : 0,
			     .connect_ms = request->connect_ms,
			     .until = clock_boot_ms() + timeout_ms,
			     .stop = work->stop,
			     .deadline = work->deadline },
		.peer = request->url,
		.remedy = "",
		.take = target_http_take_body,
		.taker = body,
	};
	int result = target_http_run(&call, status, err);
	http_end(&call);
	http_line_close(&call.line);
	return result;
}
