/*
 * One easy handle for requests, inside one multi handle of its own: the multi handle
 * keeps the connection open between requests, and waits for the socket and for the stop's
 * descriptor at once, so that a stop ends a request without delay and nothing polls.
 *
 * What is signed is the target below the base URL. A path that the base URL has belongs
 * to a server in front of the primary, which takes it off.
 *
 * An answer of many bytes goes to a sink as it comes: what is held of it is one buffer.
 */
#include "net/site_client.h"

#include <assert.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "base/json.h"
#include "net/transport.h"

#define TIMEOUT_MS 30000
#define CONNECT_TIMEOUT_MS 10000
#define LIMIT (64u << 20)
#define HEADERS_MAX (64u << 10)
#define PROBLEM_MAX (64u << 10)
#define STREAM_BUFFER (256L << 10)

struct site_client {
	CURL *easy;
	CURLM *multi;
	char *base; /* owned; without a slash at the end */
	bool has_key;
	struct site_key key;
};

/* One request under way. */
struct exchange {
	struct site_client *client;
	const struct site_request *request;
	struct site_answer *answer;
	size_t limit, header_bytes;
	int64_t until;      /* boot ms */
	int64_t moved_at;   /* boot ms of the last byte that came */
	int64_t arrived_at; /* wall ms of the answer's first line */
	bool is_too_long;
	bool has_body; /* its first byte came, so that the head is known */
	bool is_refused;
	struct err refusal;  /* the sink's, if is_refused */
	bool has_whole_head; /* its empty line came */
	struct curl_slist *headers;
	char detail[CURL_ERROR_SIZE];
};

static int bad_url(const char *url, const char *why, struct err *err)
{
	err_set(err, ERR_CONFIG, "\"%s\" is not the URL of a site: %s", url, why);
	return err_remedy(err, "it looks like https://git.example.com");
}

static bool has_part(CURLU *parts, CURLUPart part)
{
	char *text = NULL;
	bool has = curl_url_get(parts, part, &text, 0) == CURLUE_OK && text[0];

	curl_free(text);
	return has;
}

/* The URL goes into messages, so it must hold no password. */
static int site_client_check_url(const char *url, struct err *err)
{
	CURLU *parts = curl_url();
	const char *why = NULL;

	if (!parts)
		abort();
	CURLUcode code = curl_url_set(parts, CURLUPART_URL, url, 0);
	if (code != CURLUE_OK)
		why = curl_url_strerror(code);
	else if (strncasecmp(url, "http://", 7) != 0 &&
		 strncasecmp(url, "https://", 8) != 0)
		why = "it begins with neither https:// nor http://";
	else if (has_part(parts, CURLUPART_QUERY) || has_part(parts, CURLUPART_FRAGMENT))
		why = "it has a query or a fragment";
	else if (has_part(parts, CURLUPART_USER) || has_part(parts, CURLUPART_PASSWORD)) {
		why = "it has a user's name; sites know each other by secretFile";
		url = "...";
	}
	curl_url_cleanup(parts);
	return why ? bad_url(url, why, err) : 0;
}

int site_client_open(const char *url, const struct site_key *key,
		     struct site_client **client, struct err *err)
{
	struct site_client *made;
	size_t len = strlen(url);

	transport_start();
	if (site_client_check_url(url, err) != 0)
		return -1;
	while (len > 0 && url[len - 1] == '/')
		len--;
	made = xcalloc(1, sizeof(*made));
	made->base = xstrndup(url, len);
	made->key.secret = (struct str)STR_INIT;
	if (key) {
		made->has_key = true;
		memcpy(made->key.site, key->site, sizeof(key->site));
		str_add_bytes(&made->key.secret, key->secret.data, key->secret.len);
	}
	made->easy = curl_easy_init();
	made->multi = curl_multi_init();
	if (!made->easy || !made->multi)
		abort();
	curl_multi_setopt(made->multi, CURLMOPT_MAXCONNECTS, 1L);
	*client = made;
	return 0;
}

void site_client_close(struct site_client *client)
{
	if (!client)
		return;
	curl_easy_cleanup(client->easy);
	curl_multi_cleanup(client->multi);
	site_key_clear(&client->key);
	free(client->base);
	free(client);
}

void site_answer_clear(struct site_answer *answer)
{
	str_clear(&answer->body);
	*answer = (struct site_answer){ .body = STR_INIT };
}

/* What does not fit is left out: half an ETag is none. */
static void site_client_keep_header(CURL *easy, const char *name, char *out, size_t size)
{
	struct curl_header *header;

	if (curl_easy_header(easy, name, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
		return;
	size_t len = strlen(header->value);
	if (len < size)
		memcpy(out, header->value, len + 1);
}

static void site_client_keep_head(const struct exchange *exchange)
{
	struct site_answer *answer = exchange->answer;
	CURL *easy = exchange->client->easy;
	curl_off_t length = -1;
	long status = 0;

	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	answer->status = (int)status;
	answer->length = length;
	site_client_keep_header(easy, "ETag", answer->etag, sizeof(answer->etag));
	site_client_keep_header(easy, "Refrelay-Timeline", answer->timeline,
				sizeof(answer->timeline));
	site_client_keep_header(easy, "Refrelay-Last-Event", answer->last_event,
				sizeof(answer->last_event));
	site_client_keep_header(easy, "Refrelay-Checksum", answer->checksum,
				sizeof(answer->checksum));
	site_client_keep_header(easy, "Content-Range", answer->range,
				sizeof(answer->range));
}

static size_t give_to_sink(struct exchange *exchange, const char *bytes, size_t count)
{
	const struct site_sink *sink = exchange->request->sink;

	if (sink->take(sink->arg, exchange->answer, bytes, count, &exchange->refusal) ==
	    0)
		return count;
	exchange->is_refused = true;
	return CURL_WRITEFUNC_ERROR;
}

static size_t site_client_take_body(char *bytes, size_t one, size_t count, void *arg)
{
	struct exchange *exchange = arg;
	struct str *body = &exchange->answer->body;

	assert(one == 1);
	exchange->moved_at = clock_boot_ms();
	if (!exchange->has_body)
		site_client_keep_head(exchange);
	exchange->has_body = true;
	if (exchange->request->sink &&
	    (exchange->answer->status == 200 || exchange->answer->status == 206))
		return give_to_sink(exchange, bytes, count);
	if (count > exchange->limit - body->len) {
		exchange->is_too_long = true;
		return CURL_WRITEFUNC_ERROR;
	}
	str_add_bytes(body, bytes, count);
	return count;
}

static size_t take_header(char *bytes, size_t one, size_t count, void *arg)
{
	struct exchange *exchange = arg;

	assert(one == 1);
	if (count > 0 && (bytes[0] == '\r' || bytes[0] == '\n'))
		exchange->has_whole_head = true;
	exchange->moved_at = clock_boot_ms();
	if (exchange->header_bytes == 0)
		exchange->arrived_at = clock_wall_ms();
	exchange->header_bytes += count;
	if (exchange->header_bytes > HEADERS_MAX) {
		exchange->is_too_long = true;
		return CURL_WRITEFUNC_ERROR;
	}
	return count;
}

/* Without a value the header that curl would send by itself is left out. */
static void site_client_add_header(struct exchange *exchange, const char *name,
				   const char *value)
{
	AUTO_FREE char *line = value && value[0] ? xasprintf("%s: %s", name, value)
						 : xasprintf("%s:", name);
	struct curl_slist *longer = curl_slist_append(exchange->headers, line);

	if (!longer)
		abort();
	exchange->headers = longer;
}

static int site_client_sign_request(struct exchange *exchange, struct err *err)
{
	const struct site_request *request = exchange->request;
	struct signed_request what = {
		.method = request->method ? request->method : "GET",
		.target = request->target,
		.body = request->body,
		.body_len = request->body_len,
	};
	AUTO_FREE char *token = NULL;
	AUTO_FREE char *value = NULL;

	if (!exchange->client->has_key)
		return 0;
	token = wire_token_for_request(&exchange->client->key, &what, err);
	if (!token)
		return -1;
	value = xasprintf("Bearer %s", token);
	site_client_add_header(exchange, "Authorization", value);
	return 0;
}

static int site_client_set_headers(struct exchange *exchange, struct err *err)
{
	const struct site_request *request = exchange->request;

	site_client_add_header(exchange, "Expect", NULL);
	if (request->if_none_match)
		site_client_add_header(exchange, "If-None-Match", request->if_none_match);
	if (request->if_match)
		site_client_add_header(exchange, "If-Match", request->if_match);
	if (request->range)
		site_client_add_header(exchange, "Range", request->range);
	if (request->report)
		site_client_add_header(exchange, "Refrelay-Report", request->report);
	if (request->tells_bandwidth) {
		AUTO_FREE char *rate = xasprintf("%" PRIu64, request->bandwidth);
		site_client_add_header(exchange, "Refrelay-Bandwidth", rate);
	}
	site_client_add_header(exchange, "Content-Type",
			       request->body_len > 0 ? request->content_type : NULL);
	if (site_client_sign_request(exchange, err) != 0)
		return -1;
	curl_easy_setopt(exchange->client->easy, CURLOPT_HTTPHEADER, exchange->headers);
	return 0;
}

static void site_client_set_method(struct exchange *exchange)
{
	const struct site_request *request = exchange->request;
	CURL *easy = exchange->client->easy;
	const char *method = request->method ? request->method : "GET";

	if (strcmp(method, "GET") == 0) {
		curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
		return;
	}
	if (strcmp(method, "HEAD") == 0) {
		curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
		return;
	}
	curl_easy_setopt(easy, CURLOPT_POST, 1L);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
			 (curl_off_t)request->body_len);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
			 request->body_len > 0 ? request->body : "");
	if (strcmp(method, "POST") != 0)
		curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
}

static void site_client_set_transport(struct exchange *exchange)
{
	CURL *easy = exchange->client->easy;
	AUTO_FREE char *url =
		xasprintf("%s%s", exchange->client->base, exchange->request->target);

	transport_set(easy, url, CONNECT_TIMEOUT_MS);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, site_client_take_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(easy, CURLOPT_HEADERDATA, exchange);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->detail);
	if (exchange->request->sink)
		curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, STREAM_BUFFER);
}

static int stalled(const struct exchange *exchange, struct err *err)
{
	err_set(err, ERR_TIMEOUT, "%s: nothing has come for %.1f s",
		exchange->client->base, (double)exchange->request->stall_ms / 1000);
	return err_remedy(err, "see whether that site is overloaded, and how the network "
			       "between the sites does");
}

static int too_slow(const struct exchange *exchange, struct err *err)
{
	const char *base = exchange->client->base;
	int64_t timeout_ms = exchange->request->timeout_ms;

	err_set(err, ERR_TIMEOUT, "%s has not answered within %.1f s", base,
		(double)(timeout_ms > 0 ? timeout_ms : TIMEOUT_MS) / 1000);
	return err_remedy(err, "see whether that site is overloaded, and how the network "
			       "between the sites does");
}

static int too_long(const struct exchange *exchange, struct err *err)
{
	return err_set(err, ERR_CORRUPT,
		       "%s answered with more than the %zu bytes that are taken",
		       exchange->client->base, exchange->limit);
}

static bool is_no_http(CURLcode code)
{
	return code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_WEIRD_SERVER_REPLY ||
	       code == CURLE_BAD_CONTENT_ENCODING || code == CURLE_HTTP2 ||
	       code == CURLE_HTTP_RETURNED_ERROR;
}

static enum err_class site_client_classify_error(CURLcode code)
{
	if (code == CURLE_OPERATION_TIMEDOUT)
		return ERR_TIMEOUT;
	return code == CURLE_OUT_OF_MEMORY ? ERR_INTERNAL : ERR_NETWORK;
}

/* The one place where libcurl's errors become ours. */
static int site_client_report_curl_error(const struct exchange *exchange, CURLcode code,
					 struct err *err)
{
	const char *base = exchange->client->base;
	const char *detail =
		exchange->detail[0] ? exchange->detail : curl_easy_strerror(code);

	if (exchange->is_refused) {
		*err = exchange->refusal;
		return -1;
	}
	if (exchange->is_too_long)
		return too_long(exchange, err);
	if (is_no_http(code)) {
		err_set(err, ERR_CORRUPT, "%s did not answer in HTTP: %s", base, detail);
		return err_remedy(err, "see whether the URL names another service");
	}
	err_set(err, site_client_classify_error(code), "%s: %s", base, detail);
	const char *remedy = transport_remedy(code);
	return err_remedy(err, "%s",
			  remedy ? remedy
				 : "see whether refrelay runs there and can be reached; "
				   "a node tries again by itself");
}

/* 1: ended, with *code; 0: goes on. */
static int site_client_has_ended(struct site_client *client, CURLcode *code)
{
	int left;
	const CURLMsg *message = curl_multi_info_read(client->multi, &left);

	if (!message || message->msg != CURLMSG_DONE)
		return 0;
	*code = message->data.result;
	return 1;
}

/* 0: its time, or the time without a byte, is over. */
static int64_t site_client_get_time_left(const struct exchange *exchange)
{
	int64_t stall_ms = exchange->request->stall_ms, until = exchange->until;

	if (stall_ms > 0 && exchange->moved_at + stall_ms < until)
		until = exchange->moved_at + stall_ms;
	until -= clock_boot_ms();
	return until > 0 ? until : 0;
}

static int site_client_run_exchange(struct exchange *exchange, struct err *err)
{
	struct site_client *client = exchange->client;
	const struct stop *stop = exchange->request->stop;
	struct curl_waitfd watched = { .events = CURL_WAIT_POLLIN };
	CURLMcode failure = CURLM_OK;
	CURLcode code;
	int running;

	if (stop)
		watched.fd = stop->fd;
	while (failure == CURLM_OK) {
		if (stop && stop_is_requested(stop))
			return err_set(err, ERR_CANCELED, "the request was stopped");
		failure = curl_multi_perform(client->multi, &running);
		if (site_client_has_ended(client, &code))
			return code == CURLE_OK ? 0
						: site_client_report_curl_error(
							  exchange, code, err);
		int64_t left = site_client_get_time_left(exchange);
		if (left == 0)
			return clock_boot_ms() < exchange->until
				       ? stalled(exchange, err)
				       : too_slow(exchange, err);
		if (failure == CURLM_OK)
			failure =
				curl_multi_poll(client->multi, &watched, stop ? 1 : 0,
						(int)(left < 60000 ? left : 60000), NULL);
	}
	return err_set(err, ERR_INTERNAL, "%s: %s", client->base,
		       curl_multi_strerror(failure));
}

/* A Date is cut to the second, so it is half a second old when it leaves, on average. */
static void keep_time(CURL *easy, int64_t arrived_at, struct site_answer *answer)
{
	char text[64] = "";

	site_client_keep_header(easy, "Refrelay-Time", text, sizeof(text));
	if (clock_parse(text, &answer->time_ms)) {
		answer->skew_ms = answer->time_ms - arrived_at;
		answer->is_time_exact = true;
		return;
	}
	text[0] = '\0';
	site_client_keep_header(easy, "Date", text, sizeof(text));
	time_t date = text[0] ? curl_getdate(text, NULL) : -1;
	if (date <= 0)
		return;
	answer->time_ms = (int64_t)date * 1000;
	answer->skew_ms = answer->time_ms + 500 - arrived_at;
}

static void keep_code(struct site_answer *answer)
{
	json_auto_t *problem = NULL;
	const char *code;

	if (answer->status < 400)
		return;
	problem = json_parse_object(answer->body.data, answer->body.len, PROBLEM_MAX,
				    ERR_IGNORED);
	code = json_string_value(json_object_get(problem, "code"));
	if (code)
		snprintf(answer->code, sizeof(answer->code), "%s", code);
}

/* For curl an answer also ends where its connection ends, even between headers: it could
 * have been cut anywhere. */
static int check_is_whole(const struct exchange *exchange, struct err *err)
{
	CURL *easy = exchange->client->easy;
	int status = exchange->answer->status;
	struct curl_header *header;

	if (exchange->has_whole_head &&
	    (status == 204 || status == 304 || exchange->answer->length >= 0 ||
	     curl_easy_header(easy, "Transfer-Encoding", 0, CURLH_HEADER, -1, &header) ==
		     CURLHE_OK))
		return 0;
	err_set(err, ERR_NETWORK, "%s: the answer does not say where it ends",
		exchange->client->base);
	return err_remedy(err, "if it happens again, see whether a server in front cuts "
			       "answers, or speaks HTTP/1.0");
}

static int redirected(const struct exchange *exchange, struct err *err)
{
	char where[256] = "another place";

	site_client_keep_header(exchange->client->easy, "Location", where, sizeof(where));
	err_set(err, ERR_CONFIG, "%s redirects to %s; redirects are not followed",
		exchange->client->base, where);
	return err_remedy(err, "set the URL to the site itself");
}

static int site_client_read_answer(struct exchange *exchange, struct err *err)
{
	struct site_answer *answer = exchange->answer;

	site_client_keep_head(exchange);
	if (check_is_whole(exchange, err) != 0)
		return -1;
	if (answer->status >= 300 && answer->status < 400 && answer->status != 304)
		return redirected(exchange, err);
	keep_time(exchange->client->easy, exchange->arrived_at, answer);
	keep_code(answer);
	return 0;
}

static int exchange_once(struct exchange *exchange, struct err *err)
{
	struct site_client *client = exchange->client;
	int result = -1;

	curl_easy_reset(client->easy);
	site_client_set_transport(exchange);
	site_client_set_method(exchange);
	if (site_client_set_headers(exchange, err) == 0) {
		if (curl_multi_add_handle(client->multi, client->easy) != CURLM_OK)
			abort();
		result = site_client_run_exchange(exchange, err);
		if (result == 0)
			result = site_client_read_answer(exchange, err);
		/* Taken out before its end, its connection is closed. */
		curl_multi_remove_handle(client->multi, client->easy);
	}
	curl_slist_free_all(exchange->headers);
	exchange->headers = NULL;
	return result;
}

/* When a kept connection breaks before the answer's first byte, curl repeats the request
 * as it was. If the primary had read it after all, it refuses the token as used: that
 * one case is repeated with a new token. */
int site_client_call(struct site_client *client, const struct site_request *request,
		     struct site_answer *answer, struct err *err)
{
	int result = -1;

	*answer = (struct site_answer){ .body = STR_INIT };
	int64_t timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : TIMEOUT_MS;
	int64_t until = clock_boot_ms() + timeout_ms;
	for (int tries = 0; tries < 2; tries++) {
		struct exchange exchange = {
			.client = client,
			.request = request,
			.answer = answer,
			.limit = request->limit > 0 ? request->limit : LIMIT,
			.until = until,
			.moved_at = clock_boot_ms(),
		};
		site_answer_clear(answer);
		result = exchange_once(&exchange, err);
		if (result != 0 || answer->status != 401 ||
		    strcmp(answer->code, "REPLAYED") != 0)
			break;
	}
	if (result != 0)
		site_answer_clear(answer);
	return result;
}
