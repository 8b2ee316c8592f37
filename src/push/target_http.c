#include "push/target_http.h"

#include <curl/curl.h>

#include "base/clock.h"
#include "net/transport.h"

#define TIMEOUT_MS 120000
#define BODY_KEPT 4096
#define LOOK_MS 1000 /* at a deadline that may have moved */

struct exchange {
	const struct http_request *request;
	struct str *body;
	CURL *easy;
	CURLM *multi;
	struct curl_slist *headers;
	int64_t until; /* boot ms */
	char detail[CURL_ERROR_SIZE];
};

/* What is more than an error's text is thrown away. */
static size_t target_http_take_body(char *bytes, size_t one, size_t count, void *arg)
{
	struct str *body = arg;
	size_t room = BODY_KEPT - body->len;

	str_add_bytes(body, bytes, count < room ? count : room);
	return one * count;
}

static void target_http_add_header(struct exchange *exchange, const char *line)
{
	exchange->headers = curl_slist_append(exchange->headers, line);
	if (!exchange->headers)
		abort();
}

static void set_credentials(const struct exchange *exchange)
{
	const struct http_request *request = exchange->request;

	if (!request->user)
		return;
	curl_easy_setopt(exchange->easy, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
	curl_easy_setopt(exchange->easy, CURLOPT_USERNAME, request->user);
	curl_easy_setopt(exchange->easy, CURLOPT_PASSWORD,
			 request->password ? request->password : "");
}

static void set_body(struct exchange *exchange)
{
	const struct http_request *request = exchange->request;

	curl_easy_setopt(exchange->easy, CURLOPT_CUSTOMREQUEST, request->method);
	target_http_add_header(exchange, "Accept: application/json");
	if (request->header)
		target_http_add_header(exchange, request->header);
	if (request->body) {
		target_http_add_header(exchange,
				       "Content-Type: application/json; charset=UTF-8");
		target_http_add_header(exchange, "Expect:");
		curl_easy_setopt(exchange->easy, CURLOPT_POSTFIELDS, request->body);
	}
	curl_easy_setopt(exchange->easy, CURLOPT_HTTPHEADER, exchange->headers);
}

static void target_http_set_transport(struct exchange *exchange)
{
	CURL *easy = exchange->easy;

	transport_set(easy, exchange->request->url, exchange->request->connect_ms);
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, target_http_take_body);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, exchange->body);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, exchange->detail);
}

static int target_http_fail_curl(const struct exchange *exchange, CURLcode code,
				 struct err *err)
{
	const char *detail =
		exchange->detail[0] ? exchange->detail : curl_easy_strerror(code);
	enum err_class class = code == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT
			       : code == CURLE_URL_MALFORMAT    ? ERR_CONFIG
								: ERR_NETWORK;

	err_set(err, class, "%.200s: %s", exchange->request->url, detail);
	if (code == CURLE_PEER_FAILED_VERIFICATION)
		return err_remedy(err, "%s", transport_remedy(code));
	return err_remedy(err, "check adminUrl of the remote, and that the server runs "
			       "there");
}

/* Before any wait, whose length in *wait_ms. */
static int target_http_check_limits(const struct exchange *exchange, int *wait_ms,
				    struct err *err)
{
	const struct git_work *work = exchange->request->work;
	int64_t now = clock_boot_ms(), left = exchange->until - now;

	if (work->stop && stop_is_requested(work->stop))
		return err_set(err, ERR_CANCELED, "the request was stopped");
	if (work->deadline && deadline_at(work->deadline) <= now)
		return err_set(err, ERR_LOST, "the request had to end at its deadline");
	if (left <= 0) {
		err_set(err, ERR_TIMEOUT, "%.200s has not answered in time",
			exchange->request->url);
		return err_remedy(err, "see whether that server is overloaded");
	}
	if (work->deadline && left > LOOK_MS)
		left = LOOK_MS;
	*wait_ms = (int)(left < 60000 ? left : 60000);
	return 0;
}

static bool target_http_is_over(const struct exchange *exchange, CURLcode *code)
{
	int left;
	const CURLMsg *message = curl_multi_info_read(exchange->multi, &left);

	if (!message || message->msg != CURLMSG_DONE)
		return false;
	*code = message->data.result;
	return true;
}

/* The multi handle waits for the socket and the stop's descriptor at once. */
static int target_http_run_transfer(const struct exchange *exchange, struct err *err)
{
	const struct stop *stop = exchange->request->work->stop;
	struct curl_waitfd watched = { .fd = stop ? stop->fd : -1,
				       .events = CURL_WAIT_POLLIN };
	CURLMcode failure = CURLM_OK;
	CURLcode code;
	int running, wait_ms = 0;

	while (failure == CURLM_OK) {
		if (target_http_check_limits(exchange, &wait_ms, err) != 0)
			return -1;
		failure = curl_multi_perform(exchange->multi, &running);
		if (target_http_is_over(exchange, &code))
			return code == CURLE_OK
				       ? 0
				       : target_http_fail_curl(exchange, code, err);
		if (failure == CURLM_OK)
			failure = curl_multi_poll(exchange->multi, &watched, stop ? 1 : 0,
						  wait_ms, NULL);
	}
	return err_set(err, ERR_INTERNAL, "%.200s: %s", exchange->request->url,
		       curl_multi_strerror(failure));
}

static int read_status(const struct exchange *exchange, int *status, struct err *err)
{
	long code = 0;

	curl_easy_getinfo(exchange->easy, CURLINFO_RESPONSE_CODE, &code);
	*status = (int)code;
	if (code < 300 || code >= 400)
		return 0;
	err_set(err, ERR_CONFIG,
		"%.200s redirects to another place, which is not "
		"followed",
		exchange->request->url);
	return err_remedy(err, "set adminUrl to where the server really is");
}

int http_request_run(const struct http_request *request, int *status, struct str *body,
		     struct err *err)
{
	int64_t timeout_ms = request->timeout_ms > 0 ? request->timeout_ms : TIMEOUT_MS;
	struct exchange exchange = {
		.request = request,
		.body = body,
		.until = clock_boot_ms() + timeout_ms,
	};
	int result;

	transport_start();
	exchange.easy = curl_easy_init();
	exchange.multi = curl_multi_init();
	if (!exchange.easy || !exchange.multi)
		abort();
	target_http_set_transport(&exchange);
	set_credentials(&exchange);
	set_body(&exchange);
	if (curl_multi_add_handle(exchange.multi, exchange.easy) != CURLM_OK)
		abort();
	result = target_http_run_transfer(&exchange, err);
	if (result == 0)
		result = read_status(&exchange, status, err);
	curl_multi_remove_handle(exchange.multi, exchange.easy);
	curl_slist_free_all(exchange.headers);
	curl_easy_cleanup(exchange.easy);
	curl_multi_cleanup(exchange.multi);
	return result;
}
