/*
 * The life of an exchange:
 *
 *	on_target	it is made, with the target as sent
 *	on_request	first: route, limits and, where it can be made without the body,
 *			the decision who asks; then once for each piece of the body; then,
 *			when the body is whole: decide, handle, answer
 *	on_completed	the answer is with the client, or never will be: logged, freed
 *	abandon		the connection ends, and on_completed was not called: the library
 *			does not for a request that it refused itself while it read the
 *			head, as one with more fields than its memory holds
 *
 * All of these run on the few threads that serve all connections, so nothing may wait
 * there. What a handler of WEB_QUICK can answer at once is answered there; for all else
 * the connection is suspended, a worker handles the request and, if the answer is a
 * stream, reads that to its end; the connection is resumed, and on_request called again,
 * when there is an answer. So whoever waits for an answer from memory never waits for a
 * disk or a child, and pays for no thread of its own. A password, too, takes a while to
 * be checked: then a worker decides before any of the body is taken.
 *
 * A handler of WEB_BODY_STREAM runs while the body comes, and the connection with it. It
 * and the library each hold the exchange, which goes with the last of them; why neither
 * touches what the other has freed is said in web/request.c.
 *
 * The library takes an answer before the first piece of a body, and then closes the
 * connection, or after the last one. So a request that is refused is answered at once if
 * its body is large or endless; a small one, or an upload of some size, is read and
 * thrown away first, since a client that is still writing may not read the answer before
 * its connection breaks. So is what a handler leaves of an upload; but who asks first
 *whether it may send one (Expect: 100-continue) is not told to before the handler reads
 *it, and is answered at once if it does not.
 */
#include "web/exchange.h"

#include <assert.h>
#include <strings.h>

#include "base/clock.h"
#include "web/answer.h"
#include "web/services.h"
#include "wire/wire.h"

enum { LONG = 64 << 10 };

/* Finds out whether this one is: it is decided who asks. */
static void exchange_find_bucket(struct exchange *exchange)
{
	const struct web_request *request = &exchange->request;
	struct buckets *buckets = request->services->buckets;
	const char *asked;
	uint64_t rate;

	if (exchange->bucket || !buckets || !request->site[0])
		return;
	exchange->bucket = buckets_find(buckets, request->site);
	asked = web_header(request, WIRE_BANDWIDTH);
	if (asked && text_to_uint64(asked, &rate))
		bucket_ask(exchange->bucket, rate);
}

static bool exchange_is_limited(const struct exchange *exchange)
{
	return exchange->bucket && bucket_is_limited(exchange->bucket);
}

/* What the answer was made of. */
struct memory {
	struct str body;
	struct web_shared shared;
	const char *data;
	size_t len, at;
};

static ssize_t read_memory(void *stream, void *buffer, size_t size)
{
	struct memory *memory = stream;
	size_t left = memory->len - memory->at;

	size = size < left ? size : left;
	memcpy(buffer, memory->data + memory->at, size);
	memory->at += size;
	return (ssize_t)size;
}

static void close_memory(void *stream)
{
	struct memory *memory = stream;

	str_clear(&memory->body);
	answer_release(&memory->shared);
	free(memory);
}

static void make_stream(struct web_response *response, const char *data, size_t len)
{
	struct memory *memory = xmalloc(sizeof(*memory));

	*memory = (struct memory){ .body = response->body,
				   .shared = response->shared,
				   .data = data,
				   .len = len };
	response->body = (struct str)STR_INIT;
	response->shared = (struct web_shared){ 0 };
	response->read = read_memory;
	response->close = close_memory;
	response->stream = memory;
	response->length = len;
}

/* Of an answer from memory, which nobody sends piece by piece: a long one becomes a
 * stream, and for a short one its turn is waited for. On a worker. */
static void exchange_pay(struct exchange *exchange)
{
	struct web_response *response = &exchange->response;
	bool is_shared = response->shared.owner;
	size_t len = is_shared ? response->shared.len : response->body.len;

	if (!exchange_is_limited(exchange) || response->read ||
	    strcmp(exchange->method, "HEAD") == 0)
		return;
	if (len > LONG) {
		make_stream(response,
			    is_shared ? response->shared.data : response->body.data, len);
		return;
	}
	bucket_wait(exchange->bucket, len, INT64_MAX, &exchange->server->cut);
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

/* The library asks for none of it: it is the answer to HEAD. */
static ssize_t read_nothing(void *arg, uint64_t at, char *buffer, size_t size)
{
	(void)arg;
	(void)at;
	(void)buffer;
	(void)size;
	return MHD_CONTENT_READER_END_WITH_ERROR;
}

/* Without a length, which GET's stream does not have either. In chunks the library
 * (0.9.75) would send the last one, which the client takes for the next answer; so the
 * connection ends instead. */
static struct MHD_Response *make_head_of_flow(void)
{
	struct MHD_Response *made = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, FLOW_BLOCK, read_nothing, NULL, NULL);

	if (made)
		MHD_set_response_options(made, MHD_RF_HTTP_VERSION_1_0_ONLY, MHD_RO_END);
	return made;
}

static struct MHD_Response *make_flow(struct flow *flow)
{
	struct MHD_Response *made = MHD_create_response_from_callback(
		flow_size(flow), FLOW_BLOCK, flow_read, flow, NULL);

	if (made && flow_ends_connection(flow))
		MHD_add_response_header(made, "Connection", "close");
	return made;
}

/* Takes the body, shared bytes or stream of the response. */
static struct MHD_Response *make_response(struct exchange *exchange)
{
	struct web_response *response = &exchange->response;
	size_t len = response->body.len;

	if (exchange->flow)
		return make_flow(exchange->flow);
	if (exchange->has_no_length)
		return make_head_of_flow();
	if (response->length > 0 && response->status < 300)
		return MHD_create_response_from_callback(response->length, FLOW_BLOCK,
							 read_nothing, NULL, NULL);
	if (response->shared.owner)
		return share_bytes(&response->shared);
	return MHD_create_response_from_buffer(len, str_take(&response->body),
					       MHD_RESPMEM_MUST_FREE);
}

static void exchange_answer_add_headers(const struct web_response *from,
					struct MHD_Response *to)
{
	for (size_t i = 0; i < from->headers.count; i++)
		MHD_add_response_header(to, from->headers.items[i].name,
					from->headers.items[i].value);
	if (from->content_type)
		MHD_add_response_header(to, "Content-Type", from->content_type);
	if (!answer_has_header(from, "Cache-Control"))
		MHD_add_response_header(to, "Cache-Control", "no-store");
}

/* It shows people text that comes with an error, and nothing else. */
static bool exchange_answer_is_git(const struct exchange *exchange)
{
	const struct web_route *route = exchange->match.route;
	const char *agent = NULL;

	if (route && route->right == WEB_GIT)
		agent = web_header(&exchange->request, "User-Agent");
	return agent && text_starts_with(agent, "git/");
}

/* A site of before 0.2.0 that hands a request of Git on takes an error of any other type
 * for one of a server in front of this. What has no route may be Git's, too. */
static bool needs_plain_json(const struct exchange *exchange)
{
	const struct web_route *route = exchange->match.route;

	return route ? route->right == WEB_GIT
		     : !text_starts_with(exchange->target.path, "/api/");
}

static bool is_lfs(const struct exchange *exchange)
{
	const struct web_route *route = exchange->match.route;

	return route && strstr(route->pattern, "/info/lfs/");
}

/* Gives the answer to the library. */
static enum MHD_Result exchange_answer(struct exchange *exchange)
{
	struct web_response *response = &exchange->response;

	if (response->status >= 400 && !exchange->flow &&
	    exchange_answer_is_git(exchange))
		answer_as_text(response);
	else if (response->status >= 400 && !exchange->flow && is_lfs(exchange))
		answer_as_lfs(response);
	else if (response->status >= 400 && needs_plain_json(exchange))
		answer_as_json(response);
	exchange->status = response->status;
	idle_expect(exchange->idle);
	struct MHD_Response *made = make_response(exchange);
	if (!made)
		return MHD_NO;
	exchange_answer_add_headers(response, made);
	enum MHD_Result result = MHD_queue_response(exchange->connection,
						    (unsigned)response->status, made);
	MHD_destroy_response(made);
	return result;
}

/* What a handler asks of its request. */

static struct kept_header *exchange_find_kept(const struct exchange *exchange,
					      const char *name)
{
	for (size_t i = 0; i < exchange->headers.count; i++)
		if (strcasecmp(exchange->headers.items[i].name, name) == 0)
			return &exchange->headers.items[i];
	return NULL;
}

static void free_value(struct kept_header *header)
{
	explicit_bzero(header->value, strlen(header->value)); /* a password */
	free(header->value);
}

/* One that comes again continues a list (RFC 9110, 5.3). */
static enum MHD_Result exchange_keep_header(void *arg, enum MHD_ValueKind kind,
					    const char *name, const char *value)
{
	struct exchange *exchange = arg;
	struct kept_header *before = exchange_find_kept(exchange, name);
	struct kept_header header = { .name = before ? before->name : xstrdup(name) };

	(void)kind;
	if (before) {
		header.value = xasprintf("%s, %s", before->value, value ? value : "");
		free_value(before);
		*before = header;
	} else {
		header.value = xstrdup(value ? value : "");
		vec_add(&exchange->headers, header);
	}
	return MHD_YES;
}

static void exchange_keep_headers(struct exchange *exchange)
{
	MHD_get_connection_values(exchange->connection, MHD_HEADER_KIND,
				  exchange_keep_header, exchange);
}

static void exchange_forget_headers(struct exchange *exchange)
{
	for (size_t i = 0; i < exchange->headers.count; i++) {
		struct kept_header *header = &exchange->headers.items[i];
		free(header->name);
		free_value(header);
	}
	vec_clear(&exchange->headers);
}

const char *web_header(const struct web_request *request, const char *name)
{
	struct exchange *exchange = request->connection;

	if (exchange->upload) {
		const struct kept_header *kept = exchange_find_kept(exchange, name);
		return kept ? kept->value : NULL;
	}
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

void web_set_patience(const struct web_request *request,
		      const struct web_patience *patience)
{
	struct exchange *exchange = request->connection;

	upload_set_patience(exchange->upload, patience);
}

ssize_t web_read_upload(const struct web_request *request, void *buffer, size_t size,
			struct err *err)
{
	struct exchange *exchange = request->connection;

	assert(request->has_upload);
	return upload_read(exchange->upload, buffer, size, err);
}

static struct log_context exchange_enter_log(const struct exchange *exchange)
{
	return log_set_context((struct log_context){
		.site = exchange->server->services->site, .peer = exchange->peer });
}

static const char *end_name(const struct exchange *exchange)
{
	if (exchange->end == FLOW_BROKEN)
		return "broken";
	return exchange->is_whole || exchange->end == FLOW_WHOLE ? "whole"
								 : "client_gone";
}

/* The client's part in a bad end is nothing that an operator must hear of. */
static enum log_level level_of(const struct exchange *exchange)
{
	bool is_ours = exchange->end == FLOW_BROKEN ||
		       (exchange->status >= 500 && !exchange->response.is_expected);

	return is_ours && !stop_is_requested(&exchange->server->stop) ? LOG_LEVEL_WARN
								      : LOG_LEVEL_DEBUG;
}

static void exchange_log(const struct exchange *exchange)
{
	const struct err *err = &exchange->err;
	enum log_level level = level_of(exchange);

	if (!log_is_on(level))
		return;
	struct log_field fields[] = {
		LOG_NUMBER("dur_ms", (clock_boot_us() - exchange->begun_us) / 1000),
		LOG_TEXT("method", exchange->method),
		LOG_TEXT("target", exchange->target.raw),
		LOG_NUMBER("status", exchange->status),
		LOG_TEXT("end", end_name(exchange)),
		LOG_ERR(err),
		{ 0 },
	};

	if (err->class == ERR_NONE)
		fields[5] = (struct log_field){ 0 };
	log_write(level, "http.request", fields);
}

enum {
	SWALLOW = 64 << 10,      /* of a body that nobody wants */
	SWALLOW_LATE = 16 << 20, /* ... once part of it was read, as of a bomb */
	PROGRESS = 64 << 10,     /* of a body, within each idle time */
};

void *exchange_on_target(void *arg, const char *target, struct MHD_Connection *connection)
{
	struct exchange *exchange = xcalloc(1, sizeof(*exchange));
	struct web_server *server = arg;

	exchange->server = server;
	exchange->connection = connection;
	exchange->client =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
			->socket_context;
	exchange->idle = exchange->client->idle;
	memcpy(exchange->peer, exchange->client->peer, sizeof(exchange->peer));
	idle_await_head(exchange->idle);
	atomic_init(&exchange->holders, 1);
	exchange->begun_us = clock_boot_us();
	exchange->body = (struct body){ .memory = STR_INIT, .fd = -1 };
	exchange->response = (struct web_response){ .status = 200, .body = STR_INIT };
	if (target_parse(target, &exchange->target, &exchange->err)) {
		answer_err(&exchange->response, 400, &exchange->err);
		exchange->is_refused = true;
	}
	atomic_fetch_add(&server->active, 1);
	metric_add(server->open_requests, 1);
	exchange->client->open = exchange;
	return exchange;
}

/* Who waits for the last one has requested the stop before it counts them. */
static void count_ended(struct web_server *server)
{
	metric_add(server->open_requests, -1);
	if (atomic_fetch_sub(&server->active, 1) != 1 ||
	    !stop_is_requested(&server->stop))
		return;
	lock(&server->mutex);
	pthread_cond_signal(&server->settled);
	unlock(&server->mutex);
}

static void exchange_release(struct exchange *exchange)
{
	if (atomic_fetch_sub(&exchange->holders, 1) != 1)
		return;
	exchange_log(exchange);
	server_count_answer(exchange->server, exchange->status);
	server_observe(exchange->server, route_kind_of(exchange->match.route),
		       exchange->status, clock_boot_us() - exchange->begun_us);
	count_ended(exchange->server);
	answer_reset(&exchange->response);
	upload_free(exchange->upload);
	exchange_forget_headers(exchange);
	body_clear(&exchange->body);
	route_match_clear(&exchange->match);
	target_clear(&exchange->target);
	free(exchange);
}

static struct exchange *of_work(struct work *work)
{
	return (void *)((char *)work - offsetof(struct exchange, work));
}

static bool end_body(struct exchange *exchange)
{
	struct body *body = &exchange->body;

	if (body_end(body, &exchange->err))
		return exchange_refuse(exchange, body->refusal);
	exchange->request.body_fd = body->fd;
	return exchange->is_decided || exchange_decide(exchange);
}

/* A misspelt parameter would change what is answered, and nobody would notice. */
static int check_query(struct exchange *exchange)
{
	const struct web_route *route = exchange->match.route;

	if (exchange->target.query.count == 0 || !route_is_api(route) ||
	    exchange->request.site[0])
		return 0;
	return route_check_query(route, &exchange->target, &exchange->err);
}

/* False: the handler must be asked again, by who may wait. */
static bool handle(struct exchange *exchange)
{
	int result = check_query(exchange);

	if (result == 0)
		result = exchange->match.route->handle(
			&exchange->request, &exchange->response, &exchange->err);
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
	response->send = NULL;
}

/* On a worker. NULL: the answer is no stream. */
static struct flow *begin_flow(struct exchange *exchange)
{
	struct web_response *response = &exchange->response;

	if (response->read && strcmp(exchange->method, "HEAD") == 0) {
		exchange->has_no_length = response->length == 0;
		drop_stream(response);
	}
	if (!response->read)
		return NULL;
	exchange->flow = flow_new(
		response, &(struct flow_path){ .connection = exchange->connection,
					       .idle = exchange->idle,
					       .cut = &exchange->server->cut,
					       .may_be_taken = exchange->may_be_taken,
					       .bucket = exchange->bucket });
	return exchange->flow;
}

/* The exchange may be gone once the connection is resumed. */
static struct flow *run_request(struct exchange *exchange)
{
	exchange->request.may_wait = true;
	if (end_body(exchange)) {
		exchange_find_bucket(exchange);
		handle(exchange);
		exchange_pay(exchange);
	}
	struct flow *flow = begin_flow(exchange);
	exchange->is_handled = true;
	MHD_resume_connection(exchange->connection);
	return flow;
}

/* The exchange may be gone behind it, too. */
static struct flow *run_upload(struct exchange *exchange)
{
	exchange_find_bucket(exchange);
	handle(exchange);
	struct flow *flow = begin_flow(exchange);
	if (!upload_finish(exchange->upload) && flow)
		flow_leave(TAKE(exchange->flow)); /* as on_completed did not */
	exchange_release(exchange);
	return flow;
}

static void exchange_run_worker(struct work *work)
{
	struct exchange *exchange = of_work(work);
	char peer[ADDRESS_TEXT_SIZE];
	struct flow *flow;

	memcpy(peer, exchange->peer, sizeof(peer));
	struct log_context before = log_set_context((struct log_context){
		.site = exchange->server->services->site, .peer = peer });
	flow = exchange->upload ? run_upload(exchange) : run_request(exchange);
	if (flow)
		flow_pump(flow);
	log_set_context(before);
}

/* The body has not begun. */
static void run_decision(struct work *work)
{
	struct exchange *exchange = of_work(work);
	struct log_context before = exchange_enter_log(exchange);

	exchange->request.may_wait = true;
	exchange_decide(exchange);
	exchange->request.may_wait = false;
	log_set_context(before);
	MHD_resume_connection(exchange->connection);
}

static enum MHD_Result hand_to_worker(struct exchange *exchange,
				      void (*run)(struct work *work))
{
	struct web_server *server = exchange->server;

	idle_hold(exchange->idle);
	exchange->work.run = run;
	MHD_suspend_connection(exchange->connection);
	if (workers_add(server->workers, &exchange->work))
		return MHD_YES;
	MHD_resume_connection(exchange->connection);
	exchange_refuse_stopping(exchange);
	return MHD_YES;
}

/* The worker starts at once, and the body with it. */
static void begin_upload(struct exchange *exchange)
{
	struct web_server *server = exchange->server;
	bool expects = web_header(&exchange->request, "Expect") != NULL;

	exchange_keep_headers(exchange);
	exchange->upload = upload_new(&(struct upload_path){
		.connection = exchange->connection,
		.idle = exchange->idle,
		.cut = &server->cut,
		.gunzip = exchange->body.is_packed ? &exchange->body.gunzip : NULL });
	if (expects)
		upload_await_reader(exchange->upload);
	exchange->is_held = expects;
	exchange->request.has_upload = true;
	exchange->request.may_wait = true;
	exchange->work.run = exchange_run_worker;
	atomic_fetch_add(&exchange->holders, 1);
	if (workers_add(server->workers, &exchange->work))
		return;
	atomic_fetch_sub(&exchange->holders, 1);
	upload_finish(exchange->upload);
	upload_free(TAKE(exchange->upload));
	exchange_refuse_stopping(exchange);
}

static bool is_upload_refused(const struct exchange *exchange)
{
	return exchange->upload && upload_is_finished(exchange->upload) &&
	       exchange->response.status >= 400;
}

static void exchange_read_head(struct exchange *exchange, const char *method,
			       const char *version)
{
	struct web_request *request = &exchange->request;

	exchange->stage = EXCHANGE_HEAD;
	exchange->may_be_taken =
		strcmp(version, MHD_HTTP_VERSION_1_1) == 0 && !exchange->server->has_tls;
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
	idle_await(exchange->idle);
	exchange_check_head(exchange);
}

static void renew_time(struct exchange *exchange)
{
	exchange->progress = 0;
	idle_await(exchange->idle);
}

/* It was our turn so far. */
static void renew_if_held(struct exchange *exchange)
{
	if (exchange->is_held)
		renew_time(exchange);
	exchange->is_held = false;
}

/* Who uploads a file sends it at once, and may see its connection break before it sees
 * why. */
static uint64_t most_to_swallow(const struct exchange *exchange)
{
	const struct web_route *route = exchange->match.route;

	return route && route->body == WEB_BODY_STREAM ? SWALLOW_LATE : SWALLOW;
}

/* ... to go on: who is refused is not. */
static bool expects_to_be_reported(const struct exchange *exchange)
{
	return web_header(&exchange->request, "Expect") != NULL;
}

/* The library asks for the head a second time if the connection was suspended there. */
static enum MHD_Result leave_head(struct exchange *exchange)
{
	if (exchange_must_decide(exchange)) {
		exchange->is_held = true;
		return hand_to_worker(exchange, run_decision);
	}
	renew_if_held(exchange);
	bool was_awaited = exchange->upload != NULL;
	if (!exchange->is_refused && !was_awaited &&
	    exchange->match.route->body == WEB_BODY_STREAM) {
		begin_upload(exchange);
		if (exchange->is_held)
			return MHD_YES;
	}
	exchange->stage = EXCHANGE_BODY;
	if ((exchange->is_refused && (exchange->length > most_to_swallow(exchange) ||
				      expects_to_be_reported(exchange))) ||
	    (was_awaited && is_upload_refused(exchange)))
		return exchange_answer(exchange);
	return MHD_YES;
}

/* Where no credential is asked for, as of webhooks, only the whole body tells who sends
 * it. */
static bool is_sender_known(const struct exchange *exchange)
{
	const struct web_route *route = exchange->match.route;

	return exchange->is_decided && route && route->right != WEB_ANYBODY;
}

/* Its time is not renewed by single bytes, nor as long as nobody wants the body: else
 * whoever has no right here could keep all connections with a few bytes a minute. */
static void note_progress(struct exchange *exchange, size_t size)
{
	exchange->progress += size;
	if (!exchange->is_refused && is_sender_known(exchange) &&
	    exchange->progress >= PROGRESS)
		renew_time(exchange);
}

static bool is_unwanted(struct exchange *exchange)
{
	return exchange->is_refused || is_upload_refused(exchange);
}

/* Returns how much was taken. */
static size_t exchange_take_bytes(struct exchange *exchange, const char *data,
				  size_t size)
{
	if (!exchange->upload) {
		if (body_add(&exchange->body, data, size, &exchange->err))
			exchange_refuse(exchange, exchange->body.refusal);
		return size;
	}
	size_t taken = upload_give(exchange->upload, data, size);
	exchange->is_held = taken < size;
	return taken;
}

static enum MHD_Result take_or_swallow(struct exchange *exchange, const char *data,
				       size_t *size)
{
	size_t taken = *size;

	renew_if_held(exchange);
	if (is_unwanted(exchange))
		exchange->swallowed += taken;
	else
		taken = exchange_take_bytes(exchange, data, taken);
	if (!exchange->is_held) /* else its time begins when it is wanted again */
		note_progress(exchange, taken);
	*size -= taken;
	return exchange->swallowed <= SWALLOW_LATE ? MHD_YES : MHD_NO;
}

/* The request is whole. */
static enum MHD_Result proceed(struct exchange *exchange)
{
	if (exchange->upload)
		return upload_end(exchange->upload) ? exchange_answer(exchange) : MHD_YES;
	if (exchange->is_decided)
		exchange_find_bucket(exchange);
	bool is_done =
		exchange->is_refused || exchange->is_handled ||
		(exchange->match.route->body == WEB_QUICK && exchange->is_decided &&
		 !exchange_is_limited(exchange) && handle(exchange));

	return is_done ? exchange_answer(exchange)
		       : hand_to_worker(exchange, exchange_run_worker);
}

enum MHD_Result exchange_on_request(void *arg, struct MHD_Connection *connection,
				    const char *url, const char *method,
				    const char *version, const char *data,
				    size_t *data_size, void **context)
{
	struct exchange *exchange = *context;
	struct log_context before = exchange_enter_log(exchange);
	enum MHD_Result result;

	(void)arg;
	(void)connection;
	(void)url;
	if (exchange->stage == EXCHANGE_NEW)
		exchange_read_head(exchange, method, version);
	if (exchange->stage == EXCHANGE_HEAD)
		result = leave_head(exchange);
	else if (*data_size > 0)
		result = take_or_swallow(exchange, data, data_size);
	else
		result = proceed(exchange);
	log_set_context(before);
	return result;
}

/* A client that ends its side together with its request waits for us to end ours. The
 * library, which is told of changes only, took the request and did not see that end. Who
 * has sent more than one request is left to web/listen.c. */
static void end_half_closed(struct web_connection *client)
{
	char byte;

	if (client->is_known || gate_is_shut(client->gate))
		return;
	client->is_known = true;
	if (recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		shutdown(client->fd, SHUT_RDWR);
}

/* What a worker made of an upload is looked at only if it was done with it. */
static void leave_flow(struct exchange *exchange)
{
	if ((exchange->upload && !upload_leave(exchange->upload)) || !exchange->flow)
		return;
	exchange->end = flow_end(exchange->flow);
	flow_leave(TAKE(exchange->flow));
}

static void complete(struct exchange *exchange, bool is_whole)
{
	struct log_context before = exchange_enter_log(exchange);

	exchange->client->open = NULL;
	gate_end_request(exchange->client->gate);
	exchange->is_whole = is_whole;
	leave_flow(exchange);
	if (is_whole)
		end_half_closed(exchange->client);
	idle_await(exchange->idle);
	exchange_release(exchange);
	log_set_context(before);
}

void exchange_on_completed(void *arg, struct MHD_Connection *connection, void **context,
			   enum MHD_RequestTerminationCode how)
{
	struct exchange *exchange = *context;

	(void)arg;
	(void)connection;
	if (!exchange)
		return;
	*context = NULL;
	complete(exchange, how == MHD_REQUEST_TERMINATED_COMPLETED_OK);
}

void exchange_abandon(struct web_connection *client)
{
	if (client->open)
		complete(client->open, false);
}
