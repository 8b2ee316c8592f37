#include "web/pass_on.h"

#include <assert.h>
#include <strings.h>

#include "pull/primary.h"
#include "web/answer.h"
#include "web/listen.h"
#include "wire/wire.h"

enum { PLACE_MS = 5000, HEADERS = 10 };

bool pass_on_is_loop(const struct web_request *request, struct web_response *response)
{
	if (!forward_is_loop(web_header(request, "Via"), request->services->site))
		return false;
	web_answer_problem(response, 508, "LOOP_DETECTED",
			   "this request came from this site itself",
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

static void pass_on_refuse_status(struct web_response *response, int status)
{
	AUTO_FREE char *message =
		xasprintf("the primary answered this site with status %d", status);

	pass_on_refuse(response, 502, "BAD_GATEWAY", message,
		       "this site's operator finds the reason with `refrelay check`");
}

static char *pass_on_type(const struct pass_on_kind *kind,
			  const struct web_request *request)
{
	const char *type = kind->type ? kind->type : request->kind;

	return type ? xstrdup(type) : NULL;
}

static bool pass_on_is_wanted(void *arg)
{
	struct pass_on *passing = arg;

	return fair_is_wanted(passing->places, &passing->place);
}

static bool pass_on_may_wait(void *arg)
{
	struct pass_on *passing = arg;

	return !pace_is_too_slow(&passing->pace) || !pass_on_is_wanted(passing);
}

static bool pass_on_enter(struct pass_on *passing, const struct web_request *request)
{
	struct client client;

	client_of_request(request, &client);
	if (fair_enter(passing->places, &passing->place, &client.names, PLACE_MS,
		       request->stop) != FAIR_ENTERED)
		return false;
	passing->pace.least = serve_least_rate(request->services->serve);
	passing->patience = (struct web_patience){ pass_on_may_wait, passing };
	if (request->has_upload)
		web_set_patience(request, &passing->patience);
	return true;
}

struct pass_on *pass_on_new(const struct pass_on_kind *kind,
			    const struct web_request *request, const char *name,
			    struct fair *places, struct web_response *response)
{
	struct pass_on *passing = xcalloc(1, sizeof(*passing));

	passing->places = places;
	if (places && !pass_on_enter(passing, request)) {
		free(passing);
		pass_on_refuse(response, 503, "BUSY", PASS_ON_BUSY,
			       "try again in a moment");
		return NULL;
	}
	passing->kind = kind;
	passing->services = request->services;
	passing->request = request;
	passing->name = xstrdup(name);
	passing->type = pass_on_type(kind, request);
	return passing;
}

void pass_on_close(struct pass_on *passing)
{
	forward_close(passing->forward);
	if (passing->kind->end)
		passing->kind->end(passing);
	if (passing->places)
		fair_leave(passing->places, &passing->place);
	free(passing->name);
	free(passing->type);
	free(passing);
}

/* The kind of a blob stands before its name, as in all lines of the log. */
static size_t pass_on_add_subject(const struct pass_on_kind *kind, const char *type,
				  const char *name, struct log_field *fields)
{
	size_t count = 0;

	if (!kind->type && type)
		fields[count++] = LOG_TEXT("kind", type);
	fields[count++] = LOG_TEXT(kind->name_field, name);
	if (kind->type)
		fields[count++] = LOG_TEXT("kind", type);
	return count;
}

static void pass_on_warn(const struct pass_on_kind *kind, const char *event,
			 const char *type, const char *name, const struct err *err)
{
	struct log_field fields[5] = { LOG_ERR(err) };

	pass_on_add_subject(kind, type, name, fields + 2);
	log_write(LOG_LEVEL_WARN, event, fields);
}

static void pass_on_log(const struct pass_on *passing, const struct log_field *said,
			int status)
{
	struct log_field fields[8] = { 0 };
	size_t count =
		pass_on_add_subject(passing->kind, passing->type, passing->name, fields);

	for (; said && said->name; said++) {
		assert(count < ARRAY_SIZE(fields) - 2);
		fields[count++] = *said;
	}
	fields[count] = LOG_NUMBER("status", status);
	log_write(LOG_LEVEL_INFO, passing->kind->forwarded, fields);
}

static ssize_t pass_on_read_answer(void *arg, void *buffer, size_t size)
{
	struct pass_on *passing = arg;
	struct err err = { 0 };
	ssize_t got = forward_read(passing->forward, buffer, size, &err);

	if (got < 0)
		pass_on_warn(passing->kind, passing->kind->broken, passing->type,
			     passing->name, &err);
	return got;
}

static void pass_on_close_answer(void *arg)
{
	pass_on_close(arg);
}

static ssize_t pass_on_read_upload(struct pass_on *passing, void *buffer, size_t size,
				   struct err *err)
{
	pace_begin_wait(&passing->pace);
	ssize_t count = web_read_upload(passing->request, buffer, size, err);
	pace_end_wait(&passing->pace);
	pace_add(&passing->pace, count > 0 ? (size_t)count : 0);
	return count;
}

static ssize_t pass_on_read_file(struct pass_on *passing, void *buffer, size_t size,
				 struct err *err)
{
	ssize_t got = pread(passing->request->body_fd, buffer, size, (off_t)passing->at);

	if (got < 0)
		return err_errno(err, "cannot read the request");
	passing->at += (size_t)got;
	return got;
}

static ssize_t pass_on_read_any(struct pass_on *passing, void *buffer, size_t size,
				struct err *err)
{
	const struct web_request *request = passing->request;
	const struct str *body = passing->body;

	if (!request)
		return err_set(err, ERR_NETWORK,
			       "the primary answered before it was asked all");
	if (!body && request->has_upload)
		return pass_on_read_upload(passing, buffer, size, err);
	if (!body && request->body_fd >= 0)
		return pass_on_read_file(passing, buffer, size, err);
	if (!body)
		body = request->body;
	if (size > body->len - passing->at)
		size = body->len - passing->at;
	memcpy(buffer, body->data + passing->at, size);
	passing->at += size;
	return (ssize_t)size;
}

static ssize_t pass_on_read_body(void *arg, void *buffer, size_t size, struct err *err)
{
	struct pass_on *passing = arg;
	ssize_t count = pass_on_read_any(passing, buffer, size, err);

	if (count > 0 && !passing->has_begun_body) {
		passing->has_begun_body = true;
		if (passing->kind->begin_body &&
		    passing->kind->begin_body(passing, err) != 0)
			return -1;
	}
	return count;
}

uint64_t pass_on_body_size(const struct pass_on *passing)
{
	const char *length = web_header(passing->request, "Content-Length");
	uint64_t size;

	if (passing->body)
		return passing->body->len;
	if (!passing->request->has_upload)
		return passing->request->body ? passing->request->body->len : 0;
	if (web_header(passing->request, "Content-Encoding")) /* it is inflated here */
		return UINT64_MAX;
	return length && text_to_uint64(length, &size) ? size : UINT64_MAX;
}

static void pass_on_add_header(struct http_header *headers, const char *name,
			       const char *value)
{
	size_t count = 0;

	if (!value)
		return;
	while (headers[count].name)
		count++;
	assert(count < HEADERS - 1);
	headers[count] = (struct http_header){ name, value };
}

static bool pass_on_is_of_type(const struct pass_on *passing, const char *type)
{
	AUTO_STR struct str value = STR_INIT;

	return forward_add_header(passing->forward, "Content-Type", &value) &&
	       strncasecmp(value.data, type, strlen(type)) == 0;
}

/* What a server in front says of a primary that it does not reach. refrelay itself
 * refuses with text for Git, and JSON for others; as some such servers do, too. */
static int pass_on_check_front(const struct pass_on *passing, struct err *err)
{
	int status = forward_status(passing->forward);

	if (passing->is_spared && (status >= 500 || status == 429))
		return err_set(err, ERR_NETWORK, "the primary answers with status %d",
			       status);
	if (status < 502 || status > 504 || pass_on_is_of_type(passing, "text/plain") ||
	    pass_on_is_of_type(passing, "application/json") ||
	    pass_on_is_of_type(passing, WEB_PROBLEM_TYPE))
		return 0;
	err_set(err, ERR_NETWORK,
		"a server in front of it answered in its place, with status %d", status);
	return err_remedy(err, "see whether refrelay runs there, and look into that "
			       "server's log");
}

static int pass_on_prepare(const struct pass_on *passing, const char *url_end, char **url,
			   char **token, struct err *err)
{
	const struct pass_on_kind *kind = passing->kind;
	const struct web_services *services = passing->services;
	AUTO_FREE char *base = NULL;

	if (!kind->is_own_right)
		base = primary_url(services->primary, passing->name);
	else if (primary_git(services->primary, passing->name,
			     kind->token_s > 0 ? kind->token_s
					       : serve_timeout_ms(services->serve) / 1000,
			     &base, token, err) != 0)
		return -1;
	*url = xasprintf("%s%s", base, url_end);
	return 0;
}

static int pass_on_ask(struct pass_on *passing, struct http_request *asked,
		       const char *token, bool *is_sent, struct err *err)
{
	const struct web_request *request = passing->request;
	struct http_header headers[HEADERS] = { 0 };

	for (const char *const *name = passing->kind->headers; *name; name++)
		pass_on_add_header(headers, *name, web_header(request, *name));
	pass_on_add_header(headers, "Authorization",
			   token ? token + strlen("Authorization: ") : NULL);
	asked->method = request->method;
	asked->headers = headers;
	if (strcmp(request->method, "POST") == 0 || strcmp(request->method, "PUT") == 0)
		asked->read = pass_on_read_body;
	asked->arg = passing;
	asked->stop = request->cut;
	return forward_open(passing->services->forwarder, asked, &passing->forward,
			    is_sent, err);
}

int pass_on_open(struct pass_on *passing, struct http_request asked, const char *url_end,
		 struct err *err)
{
	AUTO_FREE char *url = NULL;
	AUTO_FREE char *token = NULL;
	bool is_sent = false;
	int result = 0;

	if (url_end)
		result = pass_on_prepare(passing, url_end, &url, &token, err);
	if (url)
		asked.url = url;
	if (result == 0)
		result = pass_on_ask(passing, &asked, token, &is_sent, err);
	if (result == 0 && passing->kind->knows_front)
		result = pass_on_check_front(passing, err);
	passing->request = NULL;
	if (passing->kind->settle)
		passing->kind->settle(passing, result, is_sent);
	return result;
}

static void pass_on_make_head(const struct pass_on *passing,
			      struct web_response *response)
{
	static const char *const names[] = {
		"Content-Type",
		"Content-Encoding",
		"Content-Range",
		"Accept-Ranges",
		"ETag",
		"Last-Modified",
		"WWW-Authenticate",
		"Retry-After",
		WIRE_ERROR_REASON,
	};

	response->status = forward_status(passing->forward);
	response->is_expected = true; /* the primary's log tells why */
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_STR struct str value = STR_INIT;
		forward_add_header(passing->forward, names[i], &value);
		if (value.len > 0)
			web_add_header(response, names[i], "%s", value.data);
	}
}

/* The client's own faults are told as the primary tells them; the client cannot help what
 * is wrong between the sites: a secret, a role (409). With a reason the primary speaks of
 * the repository, e.g. that it is closed to everybody. */
static bool pass_on_is_between_sites(const struct pass_on *passing)
{
	const struct pass_on_kind *kind = passing->kind;
	int status = forward_status(passing->forward);
	AUTO_STR struct str reason = STR_INIT;

	if (status >= 300 && status < 400)
		return true;
	if (!kind->is_own_right || (status != 401 && status != 403 && status != 409))
		return false;
	if (!forward_add_header(passing->forward, WIRE_ERROR_REASON, &reason))
		return true;
	return status != 409 &&
	       !(kind->reports_closed &&
		 strcmp(reason.data, err_reason_name(REASON_CLOSED)) == 0);
}

void pass_on_hand_on(struct pass_on *passing, struct web_response *response)
{
	if (pass_on_is_between_sites(passing)) {
		pass_on_refuse_status(response, forward_status(passing->forward));
		pass_on_close(passing);
		return;
	}
	pass_on_make_head(passing, response);
	response->read = pass_on_read_answer;
	response->close = pass_on_close_answer;
	response->stream = passing;
	if (passing->places) {
		response->is_wanted = pass_on_is_wanted;
		response->least_rate = passing->pace.least;
	}
	if (passing->kind->finish_answer)
		passing->kind->finish_answer(response);
}

int pass_on_send(struct pass_on *passing, struct http_request asked, const char *url_end,
		 const struct log_field *said, struct web_response *response,
		 struct err *err)
{
	if (pass_on_open(passing, asked, url_end, err) != 0) {
		pass_on_close(passing);
		return -1;
	}
	pass_on_log(passing, said, forward_status(passing->forward));
	pass_on_hand_on(passing, response);
	return 0;
}

void pass_on_refuse_unreached(const struct pass_on_kind *kind,
			      const struct web_request *request, const char *name,
			      const struct err *err, struct web_response *response)
{
	AUTO_FREE char *type = pass_on_type(kind, request);
	AUTO_FREE char *message =
		xasprintf("%s, and it does not answer: %s", kind->unreached, err->text);

	pass_on_warn(kind, kind->not_forwarded, type, name, err);
	pass_on_refuse(response, 503, "PRIMARY_UNREACHABLE", message, kind->remedy);
}
