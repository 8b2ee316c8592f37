/*
 * What is signed is the target below the base URL. A path that the base URL has belongs
 * to a server in front of the primary, which takes it off.
 *
 * An answer of many bytes goes to a sink as it comes: what is held of it is one buffer.
 */
#include "net/site_client.h"

#include "base/clock.h"
#include "base/json.h"
#include "net/http.h"
#include "wire/wire.h"

#define TIMEOUT_MS 30000
#define CONNECT_TIMEOUT_MS 10000
#define LIMIT (64u << 20)
#define PROBLEM_MAX (64u << 10)
#define STREAM_BUFFER (256L << 10)
#define SKEW_REPORTED_MS 5000

struct site_client {
	struct http_line line;
	char *base;    /* owned; without a slash at the end */
	char *ca_file; /* owned; NULL: the authorities of the system */
	bool has_key;
	struct site_key key;
};

/* One request under way. */
struct site_call {
	struct http_call http;
	const struct site_client *client;
	const struct site_request *request;
	struct site_answer *answer;
	size_t limit;
	bool has_body; /* its first byte came, so that the head is known */
};

/* The URL goes into messages, so it must hold no password. */
static int site_client_check_url(const char *url, struct err *err)
{
	const char *why = http_check_url(url, false, NULL);

	if (!why)
		return 0;
	err_set(err, ERR_CONFIG, "\"%s\" is not the URL of a site: %s",
		strchr(url, '@') ? "..." : url, why);
	return err_remedy(err, "it looks like https://git.example.com");
}

int site_client_open(const char *url, const struct site_key *key,
		     struct site_client **client, struct err *err)
{
	struct site_client *made;
	size_t len = strlen(url);

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
	made->line = http_line_open();
	*client = made;
	return 0;
}

void site_client_trust(struct site_client *client, const char *ca_file)
{
	client->ca_file = ca_file ? xstrdup(ca_file) : NULL;
}

void site_client_close(struct site_client *client)
{
	if (!client)
		return;
	http_line_close(&client->line);
	site_key_clear(&client->key);
	free(client->base);
	free(client->ca_file);
	free(client);
}

void site_answer_clear(struct site_answer *answer)
{
	str_clear(&answer->body);
	*answer = (struct site_answer){ .body = STR_INIT };
}

/* What does not fit is left out: half an ETag is none. */
static void site_client_keep_header(const struct http_call *http, const char *name,
				    char *out, size_t size)
{
	const char *value = http_find_header(http, name, 0);
	size_t len = value ? strlen(value) : size;

	if (len < size)
		memcpy(out, value, len + 1);
}

static void site_client_keep_head(const struct site_call *call)
{
	struct site_answer *answer = call->answer;
	const struct {
		const char *name;
		char *out;
		size_t size;
	} kept[] = {
		{ "ETag", answer->etag, sizeof(answer->etag) },
		{ WIRE_TIMELINE, answer->timeline, sizeof(answer->timeline) },
		{ WIRE_LAST_EVENT, answer->last_event, sizeof(answer->last_event) },
		{ WIRE_CHECKSUM, answer->checksum, sizeof(answer->checksum) },
		{ "Content-Range", answer->range, sizeof(answer->range) },
	};

	answer->status = (int)call->http.status;
	answer->length = http_get_length(&call->http);
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		site_client_keep_header(&call->http, kept[i].name, kept[i].out,
					kept[i].size);
}

static int site_client_fail_too_long(const struct site_call *call, struct err *err)
{
	return err_set(err, ERR_CORRUPT,
		       "%s answered with more than the %zu bytes that are taken",
		       call->client->base, call->limit);
}

static void site_client_tell_begun(const struct site_call *call)
{
	if (call->request->begun)
		call->request->begun(call->request->begun_arg);
}

static int site_client_take_body(void *arg, const char *bytes, size_t count,
				 struct err *err)
{
	struct site_call *call = arg;
	const struct site_sink *sink = call->request->sink;
	struct site_answer *answer = call->answer;

	if (!call->has_body) {
		site_client_keep_head(call);
		site_client_tell_begun(call);
	}
	call->has_body = true;
	if (sink && (answer->status == 200 || answer->status == 206))
		return sink->take(sink->arg, answer, bytes, count, err);
	if (count > call->limit - answer->body.len)
		return site_client_fail_too_long(call, err);
	str_add_bytes(&answer->body, bytes, count);
	return 0;
}

static int site_client_sign_request(const struct site_call *call, char **value,
				    struct err *err)
{
	const struct site_request *request = call->request;
	struct signed_request what = {
		.method = call->http.request.method,
		.target = request->target,
		.body = request->body,
		.body_len = request->body_len,
	};
	AUTO_FREE char *token = NULL;

	if (!call->client->has_key)
		return 0;
	token = wire_token_for_request(&call->client->key, &what, err);
	if (!token)
		return -1;
	*value = xasprintf("Bearer %s", token);
	return 0;
}

static int site_client_begin(struct site_call *call, struct err *err)
{
	const struct site_request *request = call->request;
	AUTO_FREE char *url = xasprintf("%s%s", call->client->base, request->target);
	AUTO_FREE char *rate = xasprintf("%" PRIu64, request->bandwidth);
	AUTO_FREE char *signature = NULL;
	bool has_type = request->body_len > 0 && request->content_type;

	if (site_client_sign_request(call, &signature, err) != 0)
		return -1;
	const struct http_header all[] = {
		{ "If-None-Match", request->if_none_match },
		{ "If-Match", request->if_match },
		{ "Range", request->range },
		{ WIRE_REPORT, request->report },
		{ WIRE_BANDWIDTH, request->reports_bandwidth ? rate : NULL },
		{ "Content-Type", has_type ? request->content_type : NULL },
		{ "Authorization", signature },
	};
	struct http_header said[ARRAY_SIZE(all) + 3] = { { "Expect", NULL } };
	size_t count = 1;

	/* Left to itself, libcurl gives a body a type. */
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i].value && all[i].value[0])
			said[count++] = all[i];
		else if (strcmp(all[i].name, "Content-Type") == 0)
			said[count++] = (struct http_header){ all[i].name, NULL };
	call->http.request.url = url;
	call->http.request.ca_file = call->client->ca_file;
	call->http.request.headers = said;
	return http_begin(&call->http, err);
}

static int site_client_fail(const struct site_call *call, struct err *err)
{
	const struct http_call *http = &call->http;

	if (http->is_head_too_long)
		return site_client_fail_too_long(call, err);
	if (http->failure.class != ERR_NONE || !http_is_no_http(http))
		return http_fail(http, err);
	err_set(err, ERR_CORRUPT, "%s did not answer in HTTP: %s", http->peer,
		http_describe_end(http));
	return err_remedy(err, "see whether the URL names another service");
}

/* A Date is cut to the second, so it is half a second old when it leaves, on average. */
static void site_client_keep_time(const struct http_call *http,
				  struct site_answer *answer)
{
	char text[64] = "";

	site_client_keep_header(http, WIRE_TIME, text, sizeof(text));
	if (clock_parse(text, &answer->time_ms)) {
		answer->skew_ms = answer->time_ms - http->arrived_at;
		answer->is_time_exact = true;
		return;
	}
	answer->time_ms = http_get_date(http);
	if (answer->time_ms > 0)
		answer->skew_ms = answer->time_ms + 500 - http->arrived_at;
}

static void site_client_keep_code(struct site_answer *answer)
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

static int site_client_fail_redirected(const struct http_call *http, struct err *err)
{
	char where[256] = "another place";

	site_client_keep_header(http, "Location", where, sizeof(where));
	err_set(err, ERR_CONFIG, "%s redirects to %s; redirects are not followed",
		http->peer, where);
	return err_remedy(err, "set the URL to the site itself");
}

static int site_client_read_answer(struct site_call *call, struct err *err)
{
	const struct http_call *http = &call->http;
	struct site_answer *answer = call->answer;

	if (http_check_end(http, ERR_IGNORED) != 0)
		return site_client_fail(call, err);
	site_client_keep_head(call);
	if (http_check_length(http,
			      "if it happens again, see whether a server in front cuts "
			      "answers, or speaks HTTP/1.0",
			      err) != 0)
		return -1;
	if (answer->status >= 300 && answer->status < 400 && answer->status != 304)
		return site_client_fail_redirected(http, err);
	site_client_keep_time(http, answer);
	site_client_keep_code(answer);
	return 0;
}

static int site_client_call_once(const struct site_client *client,
				 const struct site_request *request, int64_t until,
				 struct site_answer *answer, struct err *err)
{
	struct site_call call = {
		.http = { .line = client->line,
			  .request = { .method =
					       request->method ? request->method : "GET",
				       .body = request->body,
				       .body_size = request->body_len,
				       .connect_ms = CONNECT_TIMEOUT_MS,
				       .silence_ms = request->stall_ms,
				       .until = until,
				       .stop = request->stop },
			  .peer = client->base,
			  .remedy = "see whether refrelay runs there and can be reached; "
				    "a node tries again by itself",
			  .take = site_client_take_body,
			  .taker = &call,
			  .buffer_size = request->sink ? STREAM_BUFFER : 0 },
		.client = client,
		.request = request,
		.answer = answer,
		.limit = request->limit > 0 ? request->limit : LIMIT,
	};
	int result = site_client_begin(&call, err);

	if (result == 0)
		result = http_run(&call.http, http_has_ended, err);
	if (call.http.has_whole_head && !call.has_body)
		site_client_tell_begun(&call);
	if (result == 0)
		result = site_client_read_answer(&call, err);
	http_end(&call.http);
	return result;
}

/* When a kept connection breaks before the answer's first byte, curl repeats the request
 * as it was. If the primary had read it after all, it refuses the token as used: that
 * one case is repeated with a new token. */
int site_client_call(struct site_client *client, const struct site_request *request,
		     struct site_answer *answer, struct err *err)
{
	int64_t timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : TIMEOUT_MS;
	int64_t until = clock_boot_ms() + timeout_ms;
	int result = -1;

	*answer = (struct site_answer){ .body = STR_INIT };
	for (int tries = 0; tries < 2; tries++) {
		site_answer_clear(answer);
		result = site_client_call_once(client, request, until, answer, err);
		if (result != 0 || answer->status != 401 ||
		    strcmp(answer->code, "REPLAYED") != 0)
			break;
	}
	if (result != 0)
		site_answer_clear(answer);
	return result;
}

static const char *site_client_find_member(const json_t *problem, const char *key)
{
	const char *text = json_string_value(json_object_get(problem, key));

	return text && text[0] ? text : NULL;
}

/* No refrelay answers so: a server in front, or another service. */
static int site_client_fail_strange(const struct site_answer *answer, struct err *err)
{
	enum err_class class = http_classify_status(answer->status);

	/* Its 404 says nothing about our repositories. */
	if (class == ERR_MISSING || class == ERR_CONFLICT)
		class = ERR_NETWORK;
	err_set(err, class,
		"the answer, of status %d, is not one that refrelay gives: a server in "
		"front of that site gave it, or the URL is not a site's",
		answer->status);
	return err_remedy(err, "look into that server's log, and compare the URL with "
			       "http.url of the other site");
}

static int site_client_fail_skewed(const struct site_answer *answer, const char *message,
				   struct err *err)
{
	double skew_s = (double)answer->skew_ms / 1000;

	err_set(err, ERR_AUTH, "%s (measured here, its clock is %.1f s %s this one)",
		message, skew_s < 0 ? -skew_s : skew_s,
		skew_s < 0 ? "behind" : "ahead of");
	return err_remedy(err, "let both machines follow a time server (NTP)");
}

int site_answer_error(const struct site_answer *answer, struct err *err)
{
	json_auto_t *problem = json_parse_object(answer->body.data, answer->body.len,
						 PROBLEM_MAX, ERR_IGNORED);
	const char *message = site_client_find_member(problem, "message");
	const char *remedy = site_client_find_member(problem, "remedy");

	if (!message || !answer->code[0])
		return site_client_fail_strange(answer, err);
	if (strcmp(answer->code, "CLOCK_SKEW") == 0 &&
	    (answer->skew_ms > SKEW_REPORTED_MS || answer->skew_ms < -SKEW_REPORTED_MS))
		return site_client_fail_skewed(answer, message, err);
	err_set(err, http_classify_status(answer->status), "%s", message);
	if (remedy)
		err_remedy(err, "%s", remedy);
	return -1;
}

static bool url_is_unreserved_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

void url_add_encoded(struct str *url, const char *text)
{
	for (; *text; text++) {
		if (url_is_unreserved_byte(*text))
			str_add_char(url, *text);
		else
			str_addf(url, "%%%02X", (unsigned char)*text);
	}
}

void url_add_path(struct str *url, const char *name)
{
	AUTO_FREE char *copy = xstrdup(name);
	char *rest = copy, *part;

	while ((part = strsep(&rest, "/")) != NULL) {
		str_add_char(url, '/');
		url_add_encoded(url, part);
	}
}
