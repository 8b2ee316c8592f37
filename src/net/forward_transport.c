/*
 * How a forward looks to libcurl: its options, its callbacks, its errors.
 *
 * The callbacks never wait. The body's gives what was read of it (forward.c does that),
 * and pauses libcurl when there is none; the answer's pauses when nothing more can be
 * held.
 */
#include <assert.h>

#include "base/clock.h"
#include "net/forward_private.h"
#include "net/transport.h"

#define CONNECT_MS 5000
#define KEPT_S 30L        /* a connection is not used after so long a rest */
#define CONTINUE_MS 2000L /* the body is sent then, if nothing was said of it */
#define HEAD_MAX (64u << 10)
#define BUFFER 65536L

static size_t give_body(char *buffer, size_t one, size_t count, void *arg)
{
	struct forward *forward = arg;
	struct forward_bytes *piece = &forward->piece;
	size_t len = piece->len - piece->at;

	assert(one == 1);
	if (forward_is_refused(forward))
		return CURL_READFUNC_PAUSE;
	if (len == 0 && forward->has_body_ended)
		return 0;
	if (len == 0) {
		forward->wants_body = true;
		return CURL_READFUNC_PAUSE;
	}
	if (len > count)
		len = count;
	memcpy(buffer, piece->data + piece->at, len);
	piece->at += len;
	forward->body_taken += len;
	return len;
}

static size_t forward_transport_take_answer(char *bytes, size_t one, size_t count,
					    void *arg)
{
	struct forward *forward = arg;
	struct forward_bytes *held = &forward->held;

	assert(one == 1 && count <= FORWARD_HELD);
	if (!held->data)
		held->data = xmalloc(FORWARD_HELD);
	if (count > FORWARD_HELD - held->len) {
		forward->is_held_back = true;
		return CURL_WRITEFUNC_PAUSE;
	}
	memcpy(held->data + held->len, bytes, count);
	held->len += count;
	return count;
}

/* Called for each line: of heads of 100 to 199, of the head, of trailers. */
static size_t take_head(char *bytes, size_t one, size_t count, void *arg)
{
	struct forward *forward = arg;

	assert(one == 1);
	forward->head_bytes += count;
	if (forward->head_bytes > HEAD_MAX) {
		forward->is_head_too_long = true;
		return CURL_WRITEFUNC_ERROR;
	}
	if (count >= 5 && memcmp(bytes, "HTTP/", 5) == 0)
		forward->has_whole_head = false;
	if (count > 0 && (bytes[0] == '\r' || bytes[0] == '\n')) {
		curl_easy_getinfo(forward->line.easy, CURLINFO_RESPONSE_CODE,
				  &forward->status);
		forward->has_whole_head = forward->status >= 200;
	}
	return count;
}

/* libcurl is about to send the head, maybe for the second time: the first time was on a
 * kept connection that had died, or its Expect was refused by a 417. What it took of the
 * body then is lost. */
static int forward_transport_begin_request(void *arg, char *address, char *own, int port,
					   int own_port)
{
	struct forward *forward = arg;

	(void)address, (void)own, (void)port, (void)own_port;
	forward->wants_body = false;
	forward->has_whole_head = false;
	return forward->body_taken > 0 ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

static void forward_transport_add_header(struct forward *forward, const char *name,
					 const char *value)
{
	AUTO_FREE char *line = NULL;

	if (!value)
		line = xasprintf("%s:", name); /* not sent, whatever libcurl has */
	else if (!value[strspn(value, " \t")])
		line = xasprintf("%s;", name);
	else
		line = xasprintf("%s: %s", name, value);
	struct curl_slist *list = curl_slist_append(forward->headers, line);
	if (!list)
		abort();
	forward->headers = list;
}

static bool forward_transport_is_named(const char *name, const char *const *names)
{
	while (*names && strcasecmp(name, *names) != 0)
		names++;
	return *names != NULL;
}

/* A byte that ends a line would begin a header, or a request, of the client's choice. */
static bool forward_transport_is_good(const struct forward_header *header)
{
	static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789!#$%&'*+-.^_`|~";

	if (!header->name[0] || header->name[strspn(header->name, token)])
		return false;
	for (const char *c = header->value; *c; c++)
		if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
			return false;
	return true;
}

/* The list that follows is given on, without what belongs to one connection. */
static int add_given(struct forward *forward, char **via, struct err *err)
{
	static const char *const of_connection[] = {
		"Connection",
		"Content-Length",
		"Expect",
		"Host",
		"HTTP2-Settings",
		"Keep-Alive",
		"TE",
		"Proxy-Authorization",
		"Proxy-Connection",
		"Transfer-Encoding",
		"Trailer",
		"Upgrade",
		NULL,
	};
	const struct forward_header *header = forward->request.headers;

	for (; header && header->name; header++) {
		if (!forward_transport_is_good(header))
			return err_set(err, ERR_CONFIG,
				       "a header of the request cannot be given on to "
				       "%s: it is none",
				       forward->host);
		if (strcasecmp(header->name, "Via") == 0) {
			char *joined = xasprintf("%s%s%s", *via ? *via : "",
						 *via ? ", " : "", header->value);
			free(*via);
			*via = joined;
		} else if (!forward_transport_is_named(header->name, of_connection)) {
			forward_transport_add_header(forward, header->name,
						     header->value);
		}
	}
	return 0;
}

static bool is_given(const struct forward *forward, const char *name)
{
	const struct forward_header *header = forward->request.headers;

	while (header && header->name && strcasecmp(header->name, name) != 0)
		header++;
	return header && header->name;
}

static int forward_transport_set_headers(struct forward *forward, const char *site,
					 struct err *err)
{
	static const char *const of_libcurl[] = { "Accept", "Content-Type" };
	AUTO_FREE char *came = NULL;
	AUTO_FREE char *via = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(of_libcurl); i++)
		if (!is_given(forward, of_libcurl[i]))
			forward_transport_add_header(forward, of_libcurl[i], NULL);
	if (add_given(forward, &came, err) != 0)
		return -1;
	via = forward_via(came, site);
	forward_transport_add_header(forward, "Via", via);
	curl_easy_setopt(forward->line.easy, CURLOPT_HTTPHEADER, forward->headers);
	return 0;
}

/* libcurl asks by Expect: 100-continue before it sends a body of unknown size, or above
 * 1 MiB. */
static void forward_transport_set_method(struct forward *forward)
{
	const struct forward_request *request = &forward->request;
	CURL *easy = forward->line.easy;

	if (strcmp(request->method, "POST") != 0 && strcmp(request->method, "PUT") != 0) {
		curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
		if (strcmp(request->method, "HEAD") == 0)
			curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
		return;
	}
	curl_off_t size =
		request->body_size <= INT64_MAX ? (curl_off_t)request->body_size : -1;
	curl_easy_setopt(easy, CURLOPT_POST, 1L);
	if (strcmp(request->method, "PUT") == 0) /* sent like a POST */
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "PUT");
	if (!request->read) {
		curl_easy_setopt(easy, CURLOPT_POSTFIELDS, "");
		size = 0;
	}
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, size);
	curl_easy_setopt(easy, CURLOPT_READFUNCTION, give_body);
	curl_easy_setopt(easy, CURLOPT_READDATA, forward);
	curl_easy_setopt(easy, CURLOPT_EXPECT_100_TIMEOUT_MS, CONTINUE_MS);
	curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER);
}

static void forward_transport_set_options(struct forward *forward)
{
	CURL *easy = forward->line.easy;
	int64_t connect_ms = forward->request.connect_ms;

	transport_set(easy, forward->request.url,
		      connect_ms > 0 ? connect_ms : CONNECT_MS);
	curl_easy_setopt(easy, CURLOPT_HTTP_CONTENT_DECODING, 0L);
	curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, KEPT_S);
	curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, BUFFER);
}

int forward_set_up(struct forward *forward, const char *site, struct err *err)
{
	CURL *easy = forward->line.easy;

	curl_easy_reset(easy);
	forward_transport_set_options(forward);
	forward_transport_set_method(forward);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, forward_transport_take_answer);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, forward);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_head);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, forward);
	curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, forward_transport_begin_request);
	curl_easy_setopt(easy, CURLOPT_PREREQDATA, forward);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, forward->detail);
	return forward_transport_set_headers(forward, site, err);
}

static enum err_class forward_transport_classify_error(CURLcode code)
{
	switch (code) {
	case CURLE_OPERATION_TIMEDOUT:
		return ERR_TIMEOUT;
	case CURLE_OUT_OF_MEMORY:
		return ERR_INTERNAL;
	case CURLE_URL_MALFORMAT:
		return ERR_CONFIG;
	default:
		return ERR_NETWORK;
	}
}

int forward_curl_error(const struct forward *forward, struct err *err)
{
	CURLcode code = forward->code;
	const char *detail =
		forward->detail[0] ? forward->detail : curl_easy_strerror(code);

	if (forward->is_head_too_long)
		detail = "the head of its answer is too long";
	else if (code == CURLE_ABORTED_BY_CALLBACK || code == CURLE_SEND_FAIL_REWIND)
		detail = "the connection broke while the request was sent";
	else if (code == CURLE_OK)
		detail = "the head of its answer was cut";
	err_set(err, forward_transport_classify_error(code), "%s: %s", forward->host,
		detail);
	const char *remedy = transport_remedy(code);
	return err_remedy(err, "%s",
			  remedy ? remedy
				 : "see whether refrelay runs there and can be reached, "
				   "and whether a server in front of it cuts requests");
}
