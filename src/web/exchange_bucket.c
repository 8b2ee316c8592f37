#include "base/clock.h"
#include "web/answer.h"
#include "web/exchange_parts.h"
#include "web/services.h"

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
