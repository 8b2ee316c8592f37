#include "web/answer.h"

#include <ctype.h>
#include <stdarg.h>
#include <strings.h>

#include "web/negotiate.h"
#include "wire/wire.h"

void web_set_header(struct web_response *response, const char *name, const char *value)
{
	struct web_header_field field = { .name = name, .value = value };

	vec_add(&response->headers, field);
}

void web_add_header(struct web_response *response, const char *name, const char *fmt, ...)
{
	struct web_header_field field = { .name = name };
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&field.own, fmt, args) < 0)
		abort();
	va_end(args);
	for (char *c = field.own; *c; c++) /* never a second header inside of one */
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			*c = ' ';
	field.value = field.own;
	vec_add(&response->headers, field);
}

static void drop_body(struct web_response *response)
{
	if (response->stream && response->close)
		response->close(response->stream);
	response->stream = NULL;
	response->read = NULL;
	answer_release(&response->shared);
	str_clear(&response->body);
}

void answer_release(struct web_shared *shared)
{
	if (shared->owner)
		shared->release(shared->owner);
	*shared = (struct web_shared){ 0 };
}

void web_answer_tagged(const struct web_request *request, struct web_response *response,
		       const char *etag)
{
	struct web_header_field field = { .name = "ETag", .own = xstrdup(etag) };

	field.value = field.own;
	vec_add(&response->headers, field);
	if (!negotiate_matches(web_header(request, "If-None-Match"), etag))
		return;
	/* The library leaves the body out, and tells its length, as RFC 9110 wants it. */
	response->status = 304;
}

void web_answer_json(struct web_response *response, int status, json_t *object)
{
	response->status = status;
	response->content_type = "application/json";
	str_reset(&response->body);
	json_render(object, &response->body);
	str_add_char(&response->body, '\n');
	json_decref(object);
}

void web_answer_problem(struct web_response *response, int status, const char *code,
			const char *message, const char *remedy)
{
	web_answer_json(response, status, json_problem(code, message, remedy));
}

static int answer_find_status(enum err_class class)
{
	switch (class) {
	case ERR_MISSING:
		return 404;
	case ERR_CONFLICT:
	case ERR_BUSY:
		return 409;
	case ERR_CONFIG:
		return 400;
	case ERR_AUTH:
		return 403;
	case ERR_DISK:
		return 507;
	case ERR_TIMEOUT:
		return 504;
	case ERR_CANCELED:
		return 503;
	default:
		return 500;
	}
}

void answer_err(struct web_response *response, int status, const struct err *err)
{
	char code[32];
	size_t i = 0;

	for (const char *c = err_class_name(err->class); *c && i < sizeof(code) - 1; c++)
		code[i++] = (char)toupper((unsigned char)*c);
	code[i] = '\0';
	json_t *problem = json_problem(code, err->text, err->remedy);
	if (err->reason != REASON_NONE)
		json_put_text(problem, "reason", err_reason_name(err->reason));
	answer_reset(response);
	web_answer_json(response, status ? status : answer_find_status(err->class),
			problem);
	if (err->reason != REASON_NONE)
		web_set_header(response, WIRE_ERROR_REASON, err_reason_name(err->reason));
}

/* NULL: the body is none. The caller owns it. */
static json_t *problem_of(const struct web_response *response)
{
	struct err err;

	if (!response->content_type ||
	    strcmp(response->content_type, "application/json") != 0)
		return NULL;
	return json_parse_object(response->body.data, response->body.len,
				 response->body.len, &err);
}

void answer_as_text(struct web_response *response)
{
	json_auto_t *problem = problem_of(response);

	if (!problem)
		return;
	const char *remedy = json_string_value(json_object_get(problem, "remedy"));
	const char *message = json_string_value(json_object_get(problem, "message"));
	str_reset(&response->body);
	str_addf(&response->body, "%s\n", message ? message : "");
	if (remedy && *remedy)
		str_addf(&response->body, "%s\n", remedy);
	response->content_type = "text/plain; charset=utf-8";
}

void answer_as_lfs(struct web_response *response)
{
	json_auto_t *problem = problem_of(response);
	AUTO_STR struct str text = STR_INIT;

	if (!problem)
		return;
	const char *remedy = json_string_value(json_object_get(problem, "remedy"));
	const char *message = json_string_value(json_object_get(problem, "message"));
	str_add(&text, message ? message : "");
	if (remedy && *remedy)
		str_addf(&text, " (%s)", remedy);
	json_put_text(problem, "message", text.data);
	str_reset(&response->body);
	json_render(problem, &response->body);
	str_add_char(&response->body, '\n');
	response->content_type = "application/vnd.git-lfs+json";
}

void answer_reset(struct web_response *response)
{
	drop_body(response);
	for (size_t i = 0; i < response->headers.count; i++)
		free(response->headers.items[i].own);
	vec_clear(&response->headers);
	*response = (struct web_response){ .status = 200, .body = STR_INIT };
}

bool answer_has_header(const struct web_response *response, const char *name)
{
	for (size_t i = 0; i < response->headers.count; i++)
		if (strcasecmp(response->headers.items[i].name, name) == 0)
			return true;
	return false;
}
