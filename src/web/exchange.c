/*
 * The life of an exchange:
 *
 *	on_target	it is made, with the target as sent
 *	on_request	first: route, limits and, where it can be made without the body,
 *			the decision who asks; then once for each piece of the body; then,
 *			when the body is whole: decide, handle, answer
 *	on_completed	the answer is with the client, or never will be: logged, freed
 *
 * All of these run on the few threads that serve all connections, so nothing may wait
 * there. What a handler of WEB_QUICK can answer at once is answered there; for all else
 * the connection is suspended, a worker handles the request and, if the answer is a
 * stream, reads that to its end; the connection is resumed, and on_request called again,
 * when there is an answer. So whoever waits for an answer from memory never waits for a
 * disk or a child, and pays for no thread of its own.
 *
 * The library takes an answer before the first piece of a body, and then closes the
 * connection, or after the last one. So a request that is refused is answered at once if
 * its body is large or endless; a small one is read and thrown away first, since a client
 * that is still writing may not read the answer before its connection breaks.
 */
#include "web/exchange.h"

#include "base/clock.h"
#include "base/log.h"
#include "web/access.h"
#include "web/answer.h"
#include "web/body.h"
#include "web/flow.h"
#include "web/git_request.h"
#include "web/head.h"
#include "web/router.h"
#include "web/server.h"
#include "web/services.h"

enum {
	SWALLOW = 64 << 10,      /* of a body that nobody wants */
	SWALLOW_LATE = 16 << 20, /* ... once part of it was read, as of a bomb */
	PROGRESS = 64 << 10,     /* of a body, within each idle time */
};

struct exchange {
	struct web_server *server;
	struct MHD_Connection *connection;
	struct web_connection *client; /* borrowed */
	struct work work;
	struct web_request request;
	struct target target;
	struct head head;
	struct route_match match;
	struct body body;
	struct web_response response;
	struct flow *flow; /* of an answer that is a stream; its sender's part, or NULL */
	struct err err;    /* why the answer is what it is, or none */
	char method[16];
	int64_t begun_at;
	uint64_t swallowed;
	size_t progress; /* bytes of the body since the client's time was renewed */
	bool is_begun, is_decided;
	bool is_chunked; /* if its length is not known */
	bool is_refused; /* response is made; nothing is handled */
	bool is_handled; /* by a worker */
	int status;      /* sent */
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
	return log_set_context(
		(struct log_context){ .site = exchange->server->services->site,
				      .peer = exchange->client->peer });
}

/* Who waits for the last one has requested the stop before it counts them. */
static void count_ended(struct web_server *server)
{
	if (atomic_fetch_sub(&server->active, 1) != 1 ||
	    !stop_is_requested(&server->stop))
		return;
	lock(&server->mutex);
	pthread_cond_signal(&server->settled);
	unlock(&server->mutex);
}

void *exchange_on_target(void *arg, const char *target, struct MHD_Connection *connection)
{
	struct exchange *exchange = xcalloc(1, sizeof(*exchange));
	struct web_server *server = arg;

	exchange->server = server;
	exchange->connection = connection;
	exchange->client =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
			->socket_context;
	exchange->begun_at = clock_boot_ms();
	exchange->body = (struct body){ .memory = STR_INIT, .fd = -1 };
	exchange->response = (struct web_response){ .status = 200, .body = STR_INIT };
	if (target_parse(target, &exchange->target, &exchange->err)) {
		answer_err(&exchange->response, 400, &exchange->err);
		exchange->is_refused = true;
	}
	atomic_fetch_add(&server->active, 1);
	return exchange;
}

/* Always false, so that a check can end in it. */
static bool refuse(struct exchange *exchange, int status)
{
	answer_err(&exchange->response, status, &exchange->err);
	if (status == 503)
		web_set_header(&exchange->response, "Retry-After", "1");
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

static bool begin_body(struct exchange *exchange, uint64_t length)
{
	const char *encoding = exchange->head.content_encoding.text;
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
		.authorization = exchange->head.authorization.text,
		.is_loopback = exchange->client->is_loopback &&
			       head_host_is_plain(&exchange->head),
		.is_forwarded = exchange->head.is_forwarded,
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
	       exchange->head.authorization.text;
}

static bool check_framing(struct exchange *exchange)
{
	if (head_is_plain(&exchange->head))
		return true;
	refuse_problem(exchange, 400, "BAD_REQUEST",
		       "the headers of this request contradict each other", "");
	web_add_header(&exchange->response, "Connection", "close");
	return false;
}

static bool refuse_stopping(struct exchange *exchange)
{
	refuse_problem(exchange, 503, "STOPPING", "this node is ending",
		       "try again in a moment");
	web_add_header(&exchange->response, "Connection", "close");
	return false;
}

static void check_head(struct exchange *exchange, uint64_t length)
{
	struct web_server *server = exchange->server;

	if (exchange->is_refused || !check_framing(exchange))
		return;
	if (stop_is_requested(&server->stop)) {
		refuse_stopping(exchange);
		return;
	}
	if (!find_route(exchange) || !begin_body(exchange, length))
		return;
	if (!must_wait_for_body(exchange, length))
		decide(exchange);
}

/* They are given back when the library has sent them, or never will. */
static struct MHD_Response *share_bytes(struct web_shared *shared)
{
	/* The library does not write to it. */
	void *data = (void *)(uintptr_t)shared->data;
	struct MHD_Response *made =
		MHD_create_response_from_buffer_with_free_callback_cls(
			shared->len, data, shared->release, shared->owner);

	if (made)
		*shared = (struct web_shared){ 0 };
	return made;
}

/* Takes the body, shared bytes or stream of the response. */
static struct MHD_Response *make_response(struct exchange *exchange)
{
	struct web_response *response = &exchange->response;
	size_t len = response->body.len;

	if (exchange->flow)
		return MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, FLOW_BLOCK,
							 flow_read, exchange->flow, NULL);
	if (response->shared.owner)
		return share_bytes(&response->shared);
	return MHD_create_response_from_buffer(len, str_take(&response->body),
					       MHD_RESPMEM_MUST_FREE);
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
	idle_expect(exchange->client->idle);
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
	head_read(exchange->connection, &exchange->head);
	uint64_t length = head_length(&exchange->head);
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
	idle_await(exchange->client->idle);
}

static enum MHD_Result take(struct exchange *exchange, const char *data, size_t size)
{
	note_progress(exchange, size);
	if (exchange->is_refused)
		exchange->swallowed += size;
	else if (body_add(&exchange->body, data, size, &exchange->err))
		refuse(exchange, exchange->body.refusal);
	return exchange->swallowed <= SWALLOW_LATE ? MHD_YES : MHD_NO;
}

static bool end_body(struct exchange *exchange)
{
	struct body *body = &exchange->body;

	if (body_end(body, &exchange->err))
		return refuse(exchange, body->refusal);
	exchange->request.body_fd = body->fd;
	return exchange->is_decided || decide(exchange);
}

/* False: the handler must be asked again, by who may wait. */
static bool handle(struct exchange *exchange)
{
	int result = exchange->match.route->handle(&exchange->request,
						   &exchange->response, &exchange->err);

	if (result == WEB_LATER)
		return false;
	if (result != 0)
		answer_err(&exchange->response, 0, &exchange->err);
	else /* who succeeds may leave anything there */
		exchange->err.class = ERR_NONE;
	return true;
}

/* To HEAD the library sends the end of a stream, though it has no body. */
static void drop_stream(struct web_response *response)
{
	response->close(response->stream);
	response->stream = NULL;
	response->read = NULL;
}

/* On a worker. The exchange may be gone once the connection is resumed. */
static void run_worker(struct work *work)
{
	struct exchange *exchange =
		(void *)((char *)work - offsetof(struct exchange, work));
	struct web_response *response = &exchange->response;
	char peer[ADDRESS_TEXT_SIZE];
	struct flow *flow = NULL;

	memcpy(peer, exchange->client->peer, sizeof(peer));
	struct log_context before = log_set_context((struct log_context){
		.site = exchange->server->services->site, .peer = peer });
	exchange->request.may_wait = true;
	if (end_body(exchange))
		handle(exchange);
	if (response->read && strcmp(exchange->method, "HEAD") == 0)
		drop_stream(response);
	if (response->read)
		flow = flow_new(response, &(struct flow_path){
						  .connection = exchange->connection,
						  .idle = exchange->client->idle,
						  .cut = &exchange->server->cut,
						  .is_chunked = exchange->is_chunked });
	exchange->flow = flow;
	exchange->is_handled = true;
	MHD_resume_connection(exchange->connection);
	if (flow)
		flow_pump(flow);
	log_set_context(before);
}

static enum MHD_Result hand_to_worker(struct exchange *exchange)
{
	struct web_server *server = exchange->server;

	idle_hold(exchange->client->idle);
	exchange->work.run = run_worker;
	MHD_suspend_connection(exchange->connection);
	if (workers_add(server->workers, &exchange->work))
		return MHD_YES;
	MHD_resume_connection(exchange->connection);
	refuse_stopping(exchange);
	return MHD_YES;
}

/* The request is whole. */
static enum MHD_Result proceed(struct exchange *exchange)
{
	bool is_done = exchange->is_refused || exchange->is_handled ||
		       (exchange->match.route->body == WEB_QUICK &&
			exchange->is_decided && handle(exchange));

	return is_done ? answer(exchange) : hand_to_worker(exchange);
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
	if (!exchange->is_begun) {
		exchange->is_chunked = strcmp(version, MHD_HTTP_VERSION_1_1) == 0;
		result = begin(exchange, method);
	} else if (*data_size > 0) {
		result = take(exchange, data, *data_size);
		*data_size = 0;
	} else {
		result = proceed(exchange);
	}
	log_set_context(before);
	return result;
}

static const char *end_name(enum flow_end end, bool is_whole)
{
	if (end == FLOW_BROKEN)
		return "broken";
	return is_whole || end == FLOW_WHOLE ? "whole" : "client_gone";
}

/* The client's part in a bad end is nothing that an operator must hear of. */
static enum log_level level_of(const struct exchange *exchange, enum flow_end end)
{
	bool is_ours = end == FLOW_BROKEN ||
		       (exchange->status >= 500 && !exchange->response.is_expected);

	return is_ours && !stop_is_requested(&exchange->server->stop) ? LOG_LEVEL_WARN
								      : LOG_LEVEL_DEBUG;
}

static void log_exchange(const struct exchange *exchange, bool is_whole)
{
	const struct err *err = &exchange->err;
	enum flow_end end = exchange->flow ? flow_end(exchange->flow) : FLOW_OPEN;
	enum log_level level = level_of(exchange, end);

	if (!log_is_on(level))
		return;
	struct log_field fields[] = {
		LOG_NUMBER("dur_ms", clock_boot_ms() - exchange->begun_at),
		LOG_TEXT("method", exchange->method),
		LOG_TEXT("target", exchange->target.raw),
		LOG_NUMBER("status", exchange->status),
		LOG_TEXT("end", end_name(end, is_whole)),
		LOG_ERR(err),
		{ 0 },
	};

	if (err->class == ERR_NONE)
		fields[5] = (struct log_field){ 0 };
	log_write(level, "http.request", fields);
}

/* A client that ends its side together with its request waits for us to end ours. The
 * library, which is told of changes only, took the request and did not see that end. Who
 * has sent more than one request is left to web/idle.c. */
static void end_half_closed(struct web_connection *client)
{
	char byte;

	if (client->is_known)
		return;
	client->is_known = true;
	if (recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		shutdown(client->fd, SHUT_RDWR);
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
	if (exchange->flow)
		flow_leave(exchange->flow);
	if (how == MHD_REQUEST_TERMINATED_COMPLETED_OK)
		end_half_closed(exchange->client);
	server_count_answer(exchange->server, exchange->status);
	count_ended(exchange->server);
	idle_await(exchange->client->idle);
	answer_reset(&exchange->response);
	body_clear(&exchange->body);
	route_match_clear(&exchange->match);
	target_clear(&exchange->target);
	free(exchange);
}
