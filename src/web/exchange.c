/*
 * The life of an exchange:
 *
 *	on_target	it is made, with the target as sent
 *	on_request	first: route, limits and, where it can be made without the body,
 *			the decision who asks; then once for each piece of the body; then,
 *			when the body is whole: decide, handle, answer
 *	on_completed	the answer is with the client, or never will be: logged, freed
 *
 * The library takes an answer before the first piece of a body, and then closes the
 * connection, or after the last one. So a request that is refused is answered at once if
 * its body is large or endless; a small one is read and thrown away first, since a client
 * that is still writing may not read the answer before its connection breaks.
 */
#include "web/exchange.h"

#include <arpa/inet.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "web/access.h"
#include "web/answer.h"
#include "web/body.h"
#include "web/git_request.h"
#include "web/listen.h"
#include "web/router.h"
#include "web/server.h"
#include "web/services.h"

enum {
	BLOCK = 64 << 10,
	SWALLOW = 64 << 10,        /* of a body that nobody wants */
	SWALLOW_CHUNKED = 8 << 20, /* ... whose length was not told */
	PROGRESS = 64 << 10,       /* of a body, within each idle time */
};

struct exchange {
	struct web_server *server;
	struct MHD_Connection *connection;
	struct idle_conn *idle; /* borrowed */
	struct web_request request;
	struct target target;
	struct route_match match;
	struct body body;
	struct web_response response;
	struct err err;                 /* why the answer is what it is, or none */
	const struct sockaddr *address; /* borrowed from the connection */
	char peer[ADDRESS_TEXT_SIZE];
	char method[16];
	int64_t begun_at;
	uint64_t swallowed;
	size_t progress; /* bytes of the body since the client's time was renewed */
	bool is_begun, is_decided, is_active;
	bool is_refused; /* response is made; nothing is handled */
	int status;      /* sent */
	bool is_broken;  /* our stream ended too early */
};

const char *web_header(const struct web_request *request, const char *name)
{
	struct exchange *exchange = request->connection;

	return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

const char *web_query(const struct web_request *request, const char *key)
{
	struct exchange *exchange = request->connection;

	return target_query(&exchange->target, key);
}

int web_query_number(const struct web_request *request, const char *key, uint64_t max,
		     uint64_t *value, struct err *err)
{
	const char *text = web_query(request, key);

	if (!text)
		return 0;
	if (!text_to_uint64(text, value) || *value > max)
		return err_set(err, ERR_CONFIG, "%s must be a number, at most %" PRIu64,
			       key, max);
	return 0;
}

static struct log_context enter_log(const struct exchange *exchange)
{
	return log_set_context((struct log_context){
		.site = exchange->server->services->site, .peer = exchange->peer });
}

static void count_active(struct exchange *exchange, bool is_active)
{
	struct web_server *server = exchange->server;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&server->mutex);

	if (exchange->is_active == is_active)
		return;
	exchange->is_active = is_active;
	server->active += is_active ? 1 : -1;
	if (server->active == 0)
		pthread_cond_signal(&server->settled);
}

void *exchange_on_target(void *arg, const char *target, struct MHD_Connection *connection)
{
	struct exchange *exchange = xcalloc(1, sizeof(*exchange));
	struct web_server *server = arg;

	exchange->server = server;
	exchange->connection = connection;
	exchange->idle =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
			->socket_context;
	exchange->address =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)
			->client_addr;
	address_format(exchange->address, exchange->peer);
	exchange->begun_at = clock_boot_ms();
	exchange->body = (struct body){ .memory = STR_INIT, .fd = -1 };
	exchange->response = (struct web_response){ .status = 200, .body = STR_INIT };
	if (target_parse(target, &exchange->target, &exchange->err)) {
		answer_err(&exchange->response, 400, &exchange->err);
		exchange->is_refused = true;
	}
	count_active(exchange, true);
	return exchange;
}

/* Always false, so that a check can end in it. */
static bool refuse(struct exchange *exchange, int status)
{
	answer_err(&exchange->response, status, &exchange->err);
	exchange->is_refused = true;
	return false;
}

static bool refuse_problem(struct exchange *exchange, int status, const char *code,
			   const char *message, const char *remedy)
{
	web_answer_problem(&exchange->response, status, code, message, remedy);
	exchange->is_refused = true;
	return false;
}

static bool find_route(struct exchange *exchange)
{
	struct web_server *server = exchange->server;
	struct route_match *match = &exchange->match;

	route_find(server->routes, exchange->method, &exchange->target, match);
	if (match->route) {
		exchange->request.name = match->name;
		return true;
	}
	if (!*match->allow)
		return refuse_problem(exchange, 404, "NOT_FOUND",
				      "there is nothing at this URL", "");
	refuse_problem(exchange, 405, "METHOD_NOT_ALLOWED",
		       "this URL does not take this method", "");
	web_add_header(&exchange->response, "Allow", "%s", match->allow);
	return false;
}

/* The length that the client announced: UINT64_MAX if it comes in chunks. */
static uint64_t announced_length(const struct exchange *exchange)
{
	const char *length = web_header(&exchange->request, "Content-Length");
	uint64_t value = UINT64_MAX;

	if (web_header(&exchange->request, "Transfer-Encoding"))
		return UINT64_MAX;
	if (!length)
		return 0;
	return text_to_uint64(length, &value) ? value : UINT64_MAX;
}

static bool begin_body(struct exchange *exchange, uint64_t length)
{
	const char *encoding = web_header(&exchange->request, "Content-Encoding");
	struct body *body = &exchange->body;

	if (body_begin(body, exchange->match.route->body, encoding,
		       exchange->server->services->data, &exchange->err))
		return refuse(exchange, body->refusal);
	if (length != UINT64_MAX && length > body->limit) {
		err_set(&exchange->err, ERR_CONFIG,
			"the body has more than %" PRIu64 " bytes", body->limit);
		return refuse(exchange, 413);
	}
	return true;
}

static bool is_forwarded(const struct web_request *request)
{
	static const char *const names[] = { "Forwarded", "X-Forwarded-For", "X-Real-IP",
					     "Via" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (web_header(request, names[i]))
			return true;
	return false;
}

/* Whether the client asks for this machine by an address or as localhost. A browser that
 * was given our address for some other name, by whoever owns that name, does not. */
static bool host_is_plain(const struct web_request *request)
{
	const char *host = web_header(request, "Host");
	char name[INET_ADDRSTRLEN];
	struct in_addr address;

	if (!host || *host == '[')
		return true;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(host, ":"), host);
	return strcasecmp(name, "localhost") == 0 ||
	       inet_pton(AF_INET, name, &address) == 1;
}

static void say_who_may(struct exchange *exchange)
{
	bool is_git = exchange->match.route->right == WEB_GIT_READER;

	web_add_header(&exchange->response, "WWW-Authenticate", "%s realm=\"refrelay\"",
		       is_git ? "Basic" : "Bearer");
}

/* The whole decision. It is made once, as a token of a site is good for once. */
static bool decide(struct exchange *exchange)
{
	struct web_request *request = &exchange->request;
	enum web_right right = exchange->match.route->right;
	struct access_answer answer = { 0 };
	AUTO_FREE char *repository = git_request_repository(request);
	struct signed_request shown = { request->method, request->target,
					exchange->body.memory.data,
					exchange->body.memory.len };
	struct access_question question = {
		.needs = right,
		.request = &shown,
		.authorization = web_header(request, "Authorization"),
		.is_loopback =
			address_is_loopback(exchange->address) && host_is_plain(request),
		.is_forwarded = is_forwarded(request),
		.git_service = git_request_service(request),
		.git_repository = repository,
	};

	exchange->is_decided = true;
	if (right == WEB_ANYBODY)
		return true;
	/* Every other service is refused to everybody, without a look at the disk; who
	 * pushes shall read that, and not be asked for a password first. */
	if (right == WEB_GIT_READER && strcmp(question.git_service, GIT_UPLOAD_PACK) != 0)
		return true;
	access_decide(exchange->server->services->access, &question, &answer,
		      &exchange->err);
	if (answer.status == 0) {
		snprintf(request->site, sizeof(request->site), "%s", answer.site);
		return true;
	}
	refuse_problem(exchange, answer.status, answer.code, exchange->err.text,
		       exchange->err.remedy);
	if (answer.status == 401)
		say_who_may(exchange);
	return false;
}

/* A site's token for the API covers the body, which must be whole first. */
static bool must_wait_for_body(const struct exchange *exchange, uint64_t length)
{
	return length > 0 && exchange->match.route->right != WEB_GIT_READER &&
	       web_header(&exchange->request, "Authorization");
}

struct header_count {
	const char *name;
	size_t count;
};

static enum MHD_Result count_header(void *arg, enum MHD_ValueKind kind, const char *key,
				    const char *value)
{
	struct header_count *counted = arg;

	(void)kind;
	(void)value;
	if (strcasecmp(key, counted->name) == 0)
		counted->count++;
	return MHD_YES;
}

static size_t headers_named(const struct exchange *exchange, const char *name)
{
	struct header_count counted = { name, 0 };

	MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND, count_header,
				  &counted);
	return counted.count;
}

/* Where a request ends, and who sends it, must be the same to us as to a proxy before us;
 * the library takes the first of two that contradict each other. RFC 9112, 6.1 and 6.3.
 */
static bool check_framing(struct exchange *exchange)
{
	size_t lengths = headers_named(exchange, "Content-Length");
	size_t encodings = headers_named(exchange, "Transfer-Encoding");
	const char *encoding = web_header(&exchange->request, "Transfer-Encoding");

	if (lengths + encodings <= 1 && headers_named(exchange, "Authorization") <= 1 &&
	    (!encoding || strcasecmp(encoding, "chunked") == 0))
		return true;
	refuse_problem(exchange, 400, "BAD_REQUEST",
		       "the headers of this request contradict each other", "");
	web_add_header(&exchange->response, "Connection", "close");
	return false;
}

static void check_head(struct exchange *exchange, uint64_t length)
{
	struct web_server *server = exchange->server;

	if (exchange->is_refused || !check_framing(exchange))
		return;
	if (stop_is_requested(&server->stop)) {
		refuse_problem(exchange, 503, "STOPPING", "this node is ending",
			       "try again in a moment");
		web_add_header(&exchange->response, "Connection", "close");
		return;
	}
	if (!find_route(exchange) || !begin_body(exchange, length))
		return;
	if (!must_wait_for_body(exchange, length))
		decide(exchange);
}

/* What a stream or a long body is while the library sends it. It can outlive the
 * exchange, but is read only before that ends. */
struct outflow {
	struct exchange *exchange;
	struct web_response response;
};

static ssize_t read_outflow(void *arg, uint64_t at, char *buffer, size_t size)
{
	struct outflow *outflow = arg;
	struct web_response *response = &outflow->response;
	struct exchange *exchange = outflow->exchange;

	if (!response->read) {
		size_t left = response->body.len - (size_t)at;
		size = size < left ? size : left;
		memcpy(buffer, response->body.data + at, size);
		idle_expect(exchange->idle);
		return (ssize_t)size;
	}
	struct log_context before = enter_log(exchange);
	idle_hold(exchange->idle);
	ssize_t count = response->read(response->stream, buffer, size);
	idle_expect(exchange->idle);
	log_set_context(before);
	if (count > 0)
		return count;
	exchange->is_broken = count < 0;
	return count == 0 ? MHD_CONTENT_READER_END_OF_STREAM
			  : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void free_outflow(void *arg)
{
	struct outflow *outflow = arg;

	answer_reset(&outflow->response);
	free(outflow);
}

/* To HEAD the library sends the end of a stream, though it has no body. */
static void drop_stream(struct web_response *response)
{
	response->close(response->stream);
	response->stream = NULL;
	response->read = NULL;
}

/* Takes the body or stream of the response. */
static struct MHD_Response *make_response(struct exchange *exchange)
{
	struct web_response *response = &exchange->response;
	size_t len = response->body.len;

	if (response->read && strcmp(exchange->method, "HEAD") == 0)
		drop_stream(response);
	if (!response->read && len <= BLOCK)
		return MHD_create_response_from_buffer(len, str_take(&response->body),
						       MHD_RESPMEM_MUST_FREE);
	struct outflow *outflow = xcalloc(1, sizeof(*outflow));
	outflow->exchange = exchange;
	outflow->response.body = response->body;
	outflow->response.read = response->read;
	outflow->response.close = response->close;
	outflow->response.stream = response->stream;
	response->body = (struct str)STR_INIT;
	response->stream = NULL;
	return MHD_create_response_from_callback(
		outflow->response.read ? MHD_SIZE_UNKNOWN : len, BLOCK, read_outflow,
		outflow, free_outflow);
}

static void add_headers(const struct web_response *from, struct MHD_Response *to)
{
	for (size_t i = 0; i < from->headers.count; i++)
		MHD_add_response_header(to, from->headers.items[i].name,
					from->headers.items[i].value);
	if (from->content_type)
		MHD_add_response_header(to, "Content-Type", from->content_type);
	if (!answer_has_header(from, "Cache-Control"))
		MHD_add_response_header(to, "Cache-Control", "no-store");
}

static enum MHD_Result answer(struct exchange *exchange)
{
	struct web_response *response = &exchange->response;

	exchange->status = response->status;
	idle_expect(exchange->idle);
	struct MHD_Response *made = make_response(exchange);
	if (!made)
		return MHD_NO;
	add_headers(response, made);
	enum MHD_Result result = MHD_queue_response(exchange->connection,
						    (unsigned)response->status, made);
	MHD_destroy_response(made);
	return result;
}

static enum MHD_Result begin(struct exchange *exchange, const char *method)
{
	struct web_request *request = &exchange->request;

	exchange->is_begun = true;
	snprintf(exchange->method, sizeof(exchange->method), "%s", method);
	*request = (struct web_request){
		.services = exchange->server->services,
		.method = exchange->method,
		.target = exchange->target.raw,
		.body = &exchange->body.memory,
		.body_fd = -1,
		.stop = &exchange->server->stop,
		.cut = &exchange->server->cut,
		.connection = exchange,
	};
	uint64_t length = announced_length(exchange);
	check_head(exchange, length);
	return exchange->is_refused && length > SWALLOW ? answer(exchange) : MHD_YES;
}

/* Its time is not renewed by single bytes, nor as long as nobody wants the body: else
 * whoever has no right here could keep all connections with a few bytes a minute. */
static void note_progress(struct exchange *exchange, size_t size)
{
	exchange->progress += size;
	if (exchange->is_refused || !exchange->is_decided ||
	    exchange->progress < PROGRESS)
		return;
	exchange->progress = 0;
	idle_expect(exchange->idle);
}

static enum MHD_Result take(struct exchange *exchange, const char *data, size_t size)
{
	note_progress(exchange, size);
	if (exchange->is_refused)
		exchange->swallowed += size;
	else if (body_add(&exchange->body, data, size, &exchange->err))
		refuse(exchange, exchange->body.refusal);
	return exchange->swallowed <= SWALLOW_CHUNKED ? MHD_YES : MHD_NO;
}

static void handle(struct exchange *exchange)
{
	struct body *body = &exchange->body;

	if (body_end(body, &exchange->err)) {
		refuse(exchange, body->refusal);
		return;
	}
	if (!exchange->is_decided && !decide(exchange))
		return;
	exchange->request.body_fd = body->fd;
	idle_hold(exchange->idle);
	if (exchange->match.route->handle(&exchange->request, &exchange->response,
					  &exchange->err))
		answer_err(&exchange->response, 0, &exchange->err);
	else
		exchange->err =
			(struct err){ 0 }; /* who succeeds may leave anything there */
}

enum MHD_Result exchange_on_request(void *arg, struct MHD_Connection *connection,
				    const char *url, const char *method,
				    const char *version, const char *data,
				    size_t *data_size, void **context)
{
	struct exchange *exchange = *context;
	struct log_context before = enter_log(exchange);
	enum MHD_Result result;

	(void)arg;
	(void)connection;
	(void)url;
	(void)version;
	if (!exchange->is_begun) {
		result = begin(exchange, method);
	} else if (*data_size > 0) {
		result = take(exchange, data, *data_size);
		*data_size = 0;
	} else {
		if (!exchange->is_refused)
			handle(exchange);
		result = answer(exchange);
	}
	log_set_context(before);
	return result;
}

static void count_answer(int status)
{
	static const char *const classes[] = {
		"none", "1xx", "2xx", "3xx", "4xx", "5xx"
	};
	struct metric *metric = metric_counter("refrelay_http_requests_total",
					       "Requests that were answered.", "class");
	size_t class = (size_t)status / 100;

	metric_add(metric_at(metric, classes[class < ARRAY_SIZE(classes) ? class : 0]),
		   1);
}

static const char *end_name(const struct exchange *exchange, bool is_whole)
{
	if (exchange->is_broken)
		return "broken";
	return is_whole ? "whole" : "client_gone";
}

/* The client's part in a bad end is nothing that an operator must hear of. */
static enum log_level level_of(const struct exchange *exchange)
{
	bool is_ours = exchange->is_broken ||
		       (exchange->status >= 500 && !exchange->response.is_expected);

	return is_ours && !stop_is_requested(&exchange->server->stop) ? LOG_LEVEL_WARN
								      : LOG_LEVEL_DEBUG;
}

static void log_exchange(const struct exchange *exchange, bool is_whole)
{
	const struct err *err = &exchange->err;
	struct log_field fields[] = {
		LOG_NUMBER("dur_ms", clock_boot_ms() - exchange->begun_at),
		LOG_TEXT("method", exchange->method),
		LOG_TEXT("target", exchange->target.raw),
		LOG_NUMBER("status", exchange->status),
		LOG_TEXT("end", end_name(exchange, is_whole)),
		LOG_ERR(err),
		{ 0 },
	};

	if (err->class == ERR_NONE)
		fields[5] = (struct log_field){ 0 };
	log_write(level_of(exchange), "http.request", fields);
}

void exchange_on_completed(void *arg, struct MHD_Connection *connection, void **context,
			   enum MHD_RequestTerminationCode how)
{
	struct exchange *exchange = *context;
	struct log_context before;

	(void)arg;
	(void)connection;
	if (!exchange)
		return;
	*context = NULL;
	before = enter_log(exchange);
	log_exchange(exchange, how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
	log_set_context(before);
	count_answer(exchange->status);
	count_active(exchange, false);
	idle_expect(exchange->idle);
	answer_reset(&exchange->response);
	body_clear(&exchange->body);
	route_match_clear(&exchange->match);
	target_clear(&exchange->target);
	free(exchange);
}
