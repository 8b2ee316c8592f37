#include "web/exchange.h"

#include "base/clock.h"
#include "web/answer.h"
#include "web/services.h"
#include "wire/wire.h"

enum { LONG = 64 << 10 };

void exchange_find_bucket(struct exchange *exchange)
{
	const struct web_request *request = &exchange->request;
	struct buckets *buckets = request->services->buckets;
	const char *asked;
	uint64_t rate;

	if (exchange->bucket || !buckets || !request->site[0])
		return;
	struct bucket *bucket = buckets_find(buckets, request->site);
	asked = web_header(request, WIRE_BANDWIDTH);
	if (asked && text_to_uint64(asked, &rate))
		bucket_ask(bucket, rate);
	if (bucket_is_limited(bucket))
		exchange->bucket = bucket;
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

void exchange_pay(struct exchange *exchange)
{
	struct web_response *response = &exchange->response;
	bool is_shared = response->shared.owner;
	size_t len = is_shared ? response->shared.len : response->body.len;
	int64_t turn;

	if (!exchange->bucket || response->read || strcmp(exchange->method, "HEAD") == 0)
		return;
	if (len > LONG) {
		make_stream(response,
			    is_shared ? response->shared.data : response->body.data, len);
		return;
	}
	turn = bucket_take(exchange->bucket, len);
	while (clock_boot_ms() < turn)
		if (stop_wait(&exchange->server->cut, turn - clock_boot_ms()))
			return;
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

static bool is_lfs(const struct exchange *exchange)
{
	const struct web_route *route = exchange->match.route;

	return route && strstr(route->pattern, "/info/lfs/");
}

enum MHD_Result exchange_answer(struct exchange *exchange)
{
	struct web_response *response = &exchange->response;

	if (response->status >= 400 && !exchange->flow &&
	    exchange_answer_is_git(exchange))
		answer_as_text(response);
	else if (response->status >= 400 && !exchange->flow && is_lfs(exchange))
		answer_as_lfs(response);
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
