#include "web_test.h"

#include <dlfcn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

enum { LARGE = 3 << 20 };

static int answer_text(struct web_response *response, const char *text)
{
	response->content_type = "text/plain";
	str_add(&response->body, text);
	return 0;
}

static int get_name(const struct web_request *request, struct web_response *response,
		    struct err *e)
{
	const char *word = web_query(request, "word");
	uint64_t number = 7;

	if (web_query_number(request, "number", 100, &number, e))
		return -1;
	str_addf(&response->body, "name=%s word=%s number=%" PRIu64, request->name,
		 word ? word : "(none)", number);
	return 0;
}

static int get_large(const struct web_request *request, struct web_response *response,
		     struct err *e)
{
	(void)request;
	(void)e;
	str_reserve(&response->body, LARGE);
	for (size_t i = 0; i < LARGE; i++)
		str_add_char(&response->body, (char)('a' + i % 26));
	return 0;
}

static int post_echo(const struct web_request *request, struct web_response *response,
		     struct err *e)
{
	(void)e;
	return answer_text(response, request->body->data);
}

static atomic_int waiters;

static int get_wait(const struct web_request *request, struct web_response *response,
		    struct err *e)
{
	(void)e;
	atomic_fetch_add(&waiters, 1);
	return answer_text(response,
			   stop_wait(request->stop, 30000) ? "asked to stop" : "waited");
}

static int get_failure(const struct web_request *request, struct web_response *response,
		       struct err *e)
{
	uint64_t class = 0;

	(void)response;
	if (web_query_number(request, "class", ERR_INTERNAL, &class, e))
		return -1;
	err_set(e, (enum err_class) class, "it went wrong");
	return err_remedy(e, "do better");
}

/* A stream of three blocks, slowly; or one that breaks; or one that lasts until cut. */
struct flow {
	const struct stop *cut;
	int left, pause_ms;
	bool breaks;
};
static atomic_int open_flows;

static ssize_t read_flow(void *arg, void *buffer, size_t size)
{
	struct flow *flow = arg;

	assert_true(size >= 60000);
	if (flow->left-- == 0)
		return flow->breaks ? -1 : 0;
	if (stop_wait(flow->cut, flow->pause_ms))
		return -1;
	memcpy(buffer, "block\n", 6);
	return 6;
}

static void close_flow(void *arg)
{
	atomic_fetch_sub(&open_flows, 1);
	free(arg);
}

static int get_flow(const struct web_request *request, struct web_response *response,
		    struct err *e)
{
	struct flow *flow = xcalloc(1, sizeof(*flow));
	uint64_t left = 3, pause = 0;

	assert_ok(web_query_number(request, "blocks", 1000, &left, e));
	assert_ok(web_query_number(request, "pause", 30000, &pause, e));
	*flow = (struct flow){ request->cut, (int)left, (int)pause,
			       web_query(request, "breaks") };
	atomic_fetch_add(&open_flows, 1);
	response->read = read_flow;
	response->close = close_flow;
	response->stream = flow;
	return 0;
}

/* A stream that is long enough to be sent by its worker. */
struct torrent {
	const struct stop *cut;
	size_t left;
	bool breaks;
};

static ssize_t read_torrent(void *arg, void *buffer, size_t size)
{
	struct torrent *torrent = arg;

	if (stop_is_requested(torrent->cut))
		return -1;
	if (torrent->left == 0)
		return torrent->breaks ? -1 : 0;
	size = size < torrent->left ? size : torrent->left;
	for (size_t i = 0; i < size; i++)
		((char *)buffer)[i] = (char)('a' + (torrent->left - i) % 26);
	torrent->left -= size;
	return (ssize_t)size;
}

static int get_torrent(const struct web_request *request, struct web_response *response,
		       struct err *e)
{
	struct torrent *torrent = xcalloc(1, sizeof(*torrent));
	uint64_t len = LARGE;

	assert_ok(web_query_number(request, "len", INT64_MAX, &len, e));
	*torrent = (struct torrent){ request->cut, (size_t)len,
				     web_query(request, "breaks") };
	atomic_fetch_add(&open_flows, 1);
	response->read = read_torrent;
	response->close = close_flow;
	response->stream = torrent;
	return 0;
}

/* Bytes that are not the response's: how often they are given back is counted. */
static char *shared_bytes;
static atomic_int held_shared, released_shared;

static void release_shared(void *owner)
{
	assert_ptr_equal(owner, &shared_bytes);
	atomic_fetch_sub(&held_shared, 1);
	atomic_fetch_add(&released_shared, 1);
}

static int get_shared(const struct web_request *request, struct web_response *response,
		      struct err *e)
{
	if (!request->may_wait && web_query(request, "later"))
		return WEB_LATER;
	atomic_fetch_add(&held_shared, 1);
	response->shared = (struct web_shared){ .data = shared_bytes,
						.len = LARGE,
						.release = release_shared,
						.owner = &shared_bytes };
	web_answer_tagged(request, response, "\"abc\"");
	if (web_query(request, "fails"))
		return err_set(e, ERR_INTERNAL, "it went wrong behind that");
	return 0;
}

static const struct web_route routes[] = {
	{ "GET", "/torrent", WEB_ANYBODY, WEB_BODY_NONE, get_torrent },
	{ "GET", "/shared", WEB_ANYBODY, WEB_QUICK, get_shared },
	{ "GET", "/name/{name}/verb", WEB_ANYBODY, WEB_BODY_NONE, get_name },
	{ "GET", "/large", WEB_ANYBODY, WEB_BODY_NONE, get_large },
	{ "POST", "/echo", WEB_ANYBODY, WEB_BODY_MEMORY, post_echo },
	{ "GET", "/wait", WEB_ANYBODY, WEB_BODY_NONE, get_wait },
	{ "GET", "/failure", WEB_ANYBODY, WEB_BODY_NONE, get_failure },
	{ "GET", "/flow", WEB_ANYBODY, WEB_BODY_NONE, get_flow },
	{ "GET", "/read", WEB_READER, WEB_BODY_NONE, get_wait },
	{ "POST", "/site", WEB_SITE, WEB_BODY_MEMORY, post_echo },
	{ "POST", "/read", WEB_READER, WEB_BODY_MEMORY, post_echo },
	{ "DELETE", "/echo", WEB_ANYBODY, WEB_BODY_NONE, post_echo },
	{ 0 },
};

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	if (!shared_bytes) {
		shared_bytes = xmalloc(LARGE);
		memset(shared_bytes, 's', LARGE);
	}
	atomic_store(&released_shared, 0);
	start_server(routes, 0);
	return 0;
}

static int teardown(void **state)
{
	if (server)
		web_server_stop(server, 0);
	server = NULL;
	assert_int_equal(atomic_load(&open_flows), 0);
	assert_int_equal(atomic_load(&held_shared), 0);
	access_free(services.access);
	services.access = NULL;
	return test_remove_root(state);
}

TEST(a_request_torn_into_bytes_is_answered_like_a_whole_one)
{
	const char *request = "POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
			      "Transfer-Encoding: chunked\r\n\r\n"
			      "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n";
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	for (const char *c = request; *c; c++) {
		send_bytes(fd, c, 1);
		usleep(200);
	}
	assert_true(receive_all(fd, 5000, &answer));
	assert_int_equal(status_of(answer.data), 200);
	assert_string_equal(body_of(answer.data), "abcde");
	assert_non_null(strstr(answer.data, "Cache-Control: no-store\r\n"));
	assert_null(strcasestr(answer.data, "\r\nServer:"));
}

TEST(pipelined_requests_are_answered_in_order_on_one_connection)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	send_text(fd,
		  "GET /name/1/verb HTTP/1.1\r\nHost: h\r\n\r\n"
		  "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\ntwo"
		  "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n"
		  "GET /name/4/verb HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	assert_true(receive_all(fd, 5000, &answer));
	const char *first = strstr(answer.data, "name=1");
	const char *second = strstr(answer.data, "two");
	const char *third = strstr(answer.data, "NOT_FOUND");
	const char *fourth = strstr(answer.data, "name=4");
	assert_true(first && first < second && second < third && third < fourth);
}

TEST(head_is_get_without_the_body)
{
	const char *answer = exchange("HEAD /large HTTP/1.1", NULL, 0);

	assert_int_equal(status_of(answer), 200);
	assert_non_null(strstr(answer, "Content-Length: 3145728\r\n"));
	assert_string_equal(body_of(answer), "");
}

/* Where GET has a stream, its length is not known, and nothing may follow the head. */
TEST(head_of_a_stream_has_no_length_and_no_last_chunk)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	send_text(fd, "HEAD /flow HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_true(receive_all(fd, 5000, &answer));
	assert_true(text_starts_with(answer.data, "HTTP/1.1 200 OK\r\n"));
	assert_null(strcasestr(answer.data, "Content-Length"));
	assert_null(strcasestr(answer.data, "Transfer-Encoding"));
	assert_string_equal(body_of(answer.data), "");
}

TEST(shared_bytes_are_sent_and_given_back_once)
{
	static const struct {
		const char *head;
		int status;
		size_t len;
	} cases[] = {
		{ "GET /shared HTTP/1.1", 200, LARGE },
		{ "GET /shared?later HTTP/1.1", 200, LARGE },
		{ "HEAD /shared HTTP/1.1", 200, 0 },
		{ "GET /shared HTTP/1.1\r\nIf-None-Match: \"abc\"", 304, 0 },
		{ "GET /shared?later HTTP/1.1\r\nIf-None-Match: *", 304, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *answer = exchange(cases[i].head, NULL, 0);
		assert_int_equal(status_of(answer), cases[i].status);
		assert_int_equal(strlen(body_of(answer)), cases[i].len);
		AUTO_FREE char *length = xasprintf("Content-Length: %d\r\n", LARGE);
		assert_non_null(strstr(answer, length));
	}
	assert_int_equal(status_of(get("/shared?fails")), 500);
	web_server_stop(server, 0);
	server = NULL;
	assert_int_equal(atomic_load(&released_shared), (int)ARRAY_SIZE(cases) + 1);
}

TEST(shared_bytes_are_given_back_when_the_client_leaves)
{
	AUTO_STR struct str answer = STR_INIT;
	int fd = dial();

	send_text(fd, "GET /shared HTTP/1.1\r\nHost: x\r\n\r\n");
	receive_until(fd, "ssss", &answer);
	close(fd);
	for (int i = 0; i < 5000 && atomic_load(&released_shared) == 0; i++)
		usleep(1000);
	assert_int_equal(atomic_load(&released_shared), 1);
}

TEST(who_waits_keeps_nobody_from_a_quick_answer)
{
	int waiting[40], before = atomic_load(&waiters);

	for (size_t i = 0; i < ARRAY_SIZE(waiting); i++) {
		waiting[i] = dial();
		send_text(waiting[i], "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n");
	}
	for (int i = 0; i < 20; i++)
		assert_int_equal(status_of(exchange("HEAD /shared HTTP/1.1", NULL, 0)),
				 200);
	/* Who comes after the stop is told so. */
	for (int i = 0; i < 5000 && atomic_load(&waiters) - before < 40; i++)
		usleep(1000);
	web_server_stop(server, 5000);
	server = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(waiting); i++) {
		AUTO_STR struct str answer = STR_INIT;
		assert_true(receive_all(waiting[i], 5000, &answer));
		assert_true(text_ends_with(answer.data, "asked to stop"));
		close(waiting[i]);
	}
}

/* Takes chunks apart: the bytes in them; *is_whole: the last chunk was there. */
static size_t bytes_in_chunks(const char *at, bool *is_whole)
{
	size_t total = 0;
	char *end;

	*is_whole = false;
	for (;;) {
		size_t len = strtoul(at, &end, 16);
		if (end == at)
			return total;
		*is_whole = len == 0;
		if (len == 0 || strlen(end) < len + 4)
			return total;
		for (size_t i = 0; i < len; i++)
			assert_int_equal(end[2 + i],
					 (char)('a' + (LARGE - total - i) % 26));
		total += len;
		at = end + 2 + len + 2;
	}
}

TEST(a_long_stream_comes_whole)
{
	bool is_whole;

	assert_int_equal(bytes_in_chunks(body_of(get("/torrent")), &is_whole), LARGE);
	assert_true(is_whole);
	const char *broken = body_of(get("/torrent?breaks"));
	assert_int_equal(bytes_in_chunks(broken, &is_whole), LARGE);
	assert_false(is_whole);
}

TEST(a_long_stream_ends_with_its_client)
{
	AUTO_STR struct str answer = STR_INIT;
	int fd = dial();

	send_text(fd, "GET /torrent?len=1000000000000 HTTP/1.1\r\nHost: x\r\n\r\n");
	receive_until(fd, "cba", &answer);
	close(fd);
	for (int i = 0; i < 5000 && atomic_load(&open_flows) > 0; i++)
		usleep(1000);
	assert_int_equal(atomic_load(&open_flows), 0);
}

TEST(a_client_that_takes_nothing_of_a_long_stream_is_closed)
{
	web_server_stop(server, 0);
	start_server(routes, 200);
	int fd = dial();
	send_text(fd, "GET /torrent?len=1000000000000 HTTP/1.1\r\nHost: x\r\n\r\n");
	for (int i = 0; i < 5000 && atomic_load(&open_flows) == 0; i++)
		usleep(1000);
	assert_int_equal(atomic_load(&open_flows), 1);
	for (int i = 0; i < 5000 && atomic_load(&open_flows) > 0; i++)
		usleep(1000);
	assert_int_equal(atomic_load(&open_flows), 0);
	close(fd);
}

TEST(a_long_stream_that_is_stuck_is_cut_with_the_server)
{
	AUTO_STR struct str answer = STR_INIT;
	int fd = dial();

	send_text(fd, "GET /torrent?len=1000000000000 HTTP/1.1\r\nHost: x\r\n\r\n");
	receive_until(fd, "cba", &answer);
	web_server_stop(server, 50);
	server = NULL;
	assert_int_equal(atomic_load(&open_flows), 0);
	close(fd);
}

TEST(a_client_that_ends_its_side_gets_its_answer_and_the_end)
{
	static const char *const targets[] = { "/shared", "/large", "/torrent",
					       "/flow?blocks=2&pause=20" };

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		AUTO_STR struct str answer = STR_INIT;
		AUTO_FREE char *head =
			xasprintf("GET %s HTTP/1.1\r\nHost: x\r\n\r\n", targets[i]);
		int fd = dial();
		/* Both in one segment. */
		assert_true(send(fd, head, strlen(head), MSG_MORE) > 0);
		shutdown(fd, SHUT_WR);
		if (!receive_all(fd, 20000, &answer))
			fail_msg("%s is not ended", targets[i]);
		assert_int_equal(status_of(answer.data), 200);
		close(fd);
	}
}

TEST(a_client_that_ends_its_side_within_a_request_is_let_go)
{
	static const char *const heads[] = {
		"", "GE", "GET /shared HTTP/1.1\r\nHost",
		"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"
	};
	int fds[ARRAY_SIZE(heads)];

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		fds[i] = dial();
		if (*heads[i])
			assert_true(send(fds[i], heads[i], strlen(heads[i]), MSG_MORE) >
				    0);
		shutdown(fds[i], SHUT_WR);
	}
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		AUTO_STR struct str answer = STR_INIT;
		if (!receive_all(fds[i], 20000, &answer))
			fail_msg("\"%s\" is not ended", heads[i]);
		close(fds[i]);
	}
}

TEST(a_connection_stays_after_a_long_stream)
{
	int fd = dial();

	for (int i = 0; i < 3; i++) {
		AUTO_STR struct str answer = STR_INIT;
		send_text(fd, "GET /torrent?len=3000000 HTTP/1.1\r\nHost: x\r\n\r\n");
		receive_until(fd, "\r\n0\r\n\r\n", &answer);
		assert_int_equal(status_of(answer.data), 200);
		assert_true(answer.len > 3000000);
	}
	close(fd);
}

TEST(a_long_body_comes_whole)
{
	const char *body = body_of(get("/large"));

	assert_int_equal(strlen(body), LARGE);
	for (size_t i = 0; i < LARGE; i++)
		assert_int_equal(body[i], (char)('a' + i % 26));
}

TEST(another_method_is_told_which_are_allowed)
{
	const char *answer = exchange("PUT /echo HTTP/1.1", "x", 1);

	assert_int_equal(status_of(answer), 405);
	assert_non_null(strstr(answer, "Allow: POST, DELETE\r\n"));
	answer = exchange("OPTIONS /large HTTP/1.1", NULL, 0);
	assert_int_equal(status_of(answer), 405);
	assert_non_null(strstr(answer, "Allow: GET, HEAD\r\n"));
}

TEST(a_target_that_climbs_or_is_badly_encoded_is_400)
{
	static const char *const bad[] = { "/../large",
					   "/name/../verb",
					   "/name/%2e%2E/verb",
					   "//large",
					   "/name//verb",
					   "/name/a%2F%2Fb/verb",
					   "/name/a%2f..%2fb/verb",
					   "/name/%00/verb",
					   "/name/a%/verb",
					   "/name/a%4/verb",
					   "/name/a%zz/verb",
					   "/large?x=%g0",
					   "/large?x=%00",
					   "large",
					   "http://127.0.0.1/large" };
	AUTO_STR struct str longest = STR_INIT;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		const char *answer = get(bad[i]);
		if (status_of(answer) != 400 || !strstr(answer, "\"code\":\"CONFIG\""))
			fail_msg("%s: %s", bad[i], answer);
	}
	for (int i = 0; i < 9000; i++)
		str_add_char(&longest, i ? 'x' : '/');
	assert_int_equal(status_of(get(longest.data)), 400);
}

TEST(an_unknown_path_is_404_as_json)
{
	const char *answer = get("/name/x/other");

	assert_int_equal(status_of(answer), 404);
	assert_non_null(strstr(answer, "Content-Type: application/json\r\n"));
	assert_non_null(strstr(answer, "\"code\":\"NOT_FOUND\""));
	assert_int_equal(status_of(get("/large/")), 404);
	assert_int_equal(status_of(get("/")), 404);
}

TEST(a_request_whose_end_is_in_doubt_is_the_last_of_its_connection)
{
	static const char *const heads[] = {
		"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
		"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
		"Transfer-Encoding: gzip\r\n\r\nabc",
		"Authorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		AUTO_FREE char *request = xasprintf("POST /echo HTTP/1.1\r\nHost: h\r\n"
						    "%sGET /name/smuggled/verb HTTP/1.1"
						    "\r\nHost: h\r\n\r\n",
						    heads[i]);
		AUTO_STR struct str answer = STR_INIT;
		AUTO_CLOSE int fd = dial();
		send_text(fd, request);
		assert_true(receive_all(fd, 5000, &answer));
		if (status_of(answer.data) != 400 || strstr(answer.data, "smuggled"))
			fail_msg("%s: %s", heads[i], answer.data);
	}
}

TEST(an_encoded_name_is_one_segment)
{
	assert_string_equal(body_of(get("/name/a%2Fb+c%20%c3%a9/verb?word=x%2By+z&"
					"word=p%26q&number=100")),
			    "name=a/b+c \xc3\xa9 word=p&q number=100");
	assert_string_equal(body_of(get("/name/..a/verb?word")),
			    "name=..a word= number=7");
	assert_int_equal(status_of(get("/name/x/verb?number=101")), 400);
	assert_int_equal(status_of(get("/name/x/verb?number=-1")), 400);
}

TEST(a_handlers_error_is_a_problem_with_a_fitting_status)
{
	static const struct {
		enum err_class class;
		int status;
		const char *code, *title;
	} cases[] = {
		{ ERR_MISSING, 404, "MISSING", "Not found" },
		{ ERR_CONFLICT, 409, "CONFLICT", "Conflict" },
		{ ERR_CONFIG, 400, "CONFIG", "Invalid request or setting" },
		{ ERR_AUTH, 403, "AUTH", "Not permitted" },
		{ ERR_BUSY, 409, "BUSY", "Busy" },
		{ ERR_DISK, 507, "DISK", "Disk failure" },
		{ ERR_TIMEOUT, 504, "TIMEOUT", "Timeout" },
		{ ERR_CORRUPT, 500, "CORRUPT", "Damaged data" },
		{ ERR_INTERNAL, 500, "INTERNAL", "Internal error" },
		{ ERR_LOCK_TIMEOUT, 503, "LOCK_TIMEOUT", "Lock timeout" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *target = xasprintf("/failure?class=%d", cases[i].class);
		AUTO_FREE char *problem = xasprintf(
			"{\"code\":\"%s\",\"message\":\"it went wrong\","
			"\"remedy\":\"do better\","
			"\"type\":\"urn:refrelay:error:%s\","
			"\"title\":\"%s\",\"status\":%d,"
			"\"detail\":\"it went wrong\"}\n",
			cases[i].code, cases[i].code, cases[i].title, cases[i].status);
		const char *answer = get(target);
		assert_int_equal(status_of(answer), cases[i].status);
		assert_string_equal(body_of(answer), problem);
	}
}

/* What is not below /api/ may be Git's, which sites of before 0.2.0 know as JSON. */
TEST(a_problem_of_the_api_says_so_by_its_type)
{
	static const char problem[] = "Content-Type: application/problem+json\r\n";
	static const char plain[] = "Content-Type: application/json\r\n";
	const char *answer = get("/api/v1/nothing");

	assert_int_equal(status_of(answer), 404);
	assert_non_null(strstr(answer, problem));
	assert_non_null(strstr(answer, "\"title\":\"Not found\",\"status\":404,"
				       "\"detail\":\"nothing at this URL\""));
	assert_non_null(strstr(get("/failure?class=4"), problem));
	assert_non_null(strstr(get("/nothing"), plain));
	assert_non_null(strstr(get("/team/a.git/info/ref"), plain));
}

TEST(a_stream_that_breaks_is_seen_as_broken)
{
	const char *whole = body_of(get("/flow"));

	assert_true(text_ends_with(whole, "\r\n0\r\n\r\n"));
	const char *broken = body_of(get("/flow?breaks=1"));
	assert_non_null(strstr(broken, "block"));
	assert_false(text_ends_with(broken, "0\r\n\r\n"));
}

TEST(stop_ends_a_long_poll_at_once_with_its_answer)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int waiting = dial();
	AUTO_CLOSE int silent = dial();
	int before = atomic_load(&waiters);

	send_text(waiting, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n");
	wait_until(atomic_load(&waiters) > before);
	int64_t begun = clock_boot_ms();
	web_server_stop(TAKE(server), 20000);
	assert_in_range(clock_boot_ms() - begun, 0, 15000);
	assert_true(receive_all(waiting, 1000, &answer));
	assert_string_equal(body_of(answer.data), "asked to stop");
	assert_true(receive_all(silent, 1000, &answer));
}

static void *stop_soon(void *arg)
{
	web_server_stop(TAKE(server), *(int64_t *)arg);
	return NULL;
}

TEST(a_stream_has_its_grace_when_the_server_ends)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();
	int64_t grace_ms = 20000;
	pthread_t thread;

	send_text(fd, "GET /flow?pause=100&blocks=5 HTTP/1.1\r\nHost: h\r\n\r\n");
	receive_until(fd, "block", &answer);
	thread_start(&thread, "stopper", stop_soon, &grace_ms);
	assert_true(receive_all(fd, 5000, &answer));
	thread_join(thread);
	assert_true(text_ends_with(answer.data, "\r\n0\r\n\r\n"));
}

TEST(a_stream_is_cut_when_its_grace_is_over)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();
	int64_t begun = clock_boot_ms();

	send_text(fd, "GET /flow?pause=300&blocks=1000 HTTP/1.1\r\nHost: h\r\n\r\n");
	receive_until(fd, "block", &answer);
	web_server_stop(TAKE(server), 200);
	assert_in_range(clock_boot_ms() - begun, 200, 30000);
	assert_true(receive_all(fd, 1000, &answer));
	assert_false(text_ends_with(answer.data, "0\r\n\r\n"));
}

/* To this version the library sends all by itself, and waits for the client. */
TEST(a_client_that_takes_nothing_delays_no_end)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();
	int64_t begun = clock_boot_ms();

	send_text(fd, "GET /torrent?len=1000000000000 HTTP/1.0\r\n\r\n");
	receive_until(fd, "cba", &answer);
	web_server_stop(TAKE(server), 200);
	assert_in_range(clock_boot_ms() - begun, 200, 30000);
}

TEST(a_silent_client_is_closed_and_a_slow_answer_is_not)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_STR struct str nothing = STR_INIT;
	int64_t begun = clock_boot_ms();

	web_server_stop(server, 0);
	start_server(routes, 400);
	AUTO_CLOSE int slow = dial();
	/* at once, lest it be silent for too long before */
	send_text(slow, "GET /flow?pause=600&blocks=2 HTTP/1.1\r\nHost: h\r\n\r\n");
	AUTO_CLOSE int silent = dial();
	AUTO_CLOSE int torn = dial();
	send_text(torn, "GET /wait HTT");
	assert_true(receive_all(silent, 5000, &nothing));
	assert_true(receive_all(torn, 5000, &nothing));
	assert_in_range(clock_boot_ms() - begun, 400, 10000);
	assert_string_equal(nothing.data, "");
	/* It ends well, and is closed when nothing more is asked. */
	assert_true(receive_all(slow, 5000, &answer));
	assert_true(text_ends_with(answer.data, "\r\n0\r\n\r\n"));
}

TEST(an_address_that_is_taken_or_none_is_told)
{
	AUTO_FREE char *taken = xasprintf("127.0.0.1:%u", web_server_port(server));
	static const char *const bad[] = { "",         "8418",       "localhost:1",
					   "::1:8418", "127.0.0.1:", "127.0.0.1:65536",
					   ":80",      "[::1]",      "192.0.2.1:0" };
	struct web_server_options options = { .listen = taken, .services = &services };
	struct web_server *other;

	assert_fails(server_start(&options, &other, &err), ERR_BUSY);
	assert_non_null(strstr(err.text, taken));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		options.listen = bad[i];
		assert_fails(server_start(&options, &other, &err), ERR_CONFIG);
	}
}

/* The library aborts otherwise when two of its threads stop listening at once. */
TEST(what_is_taken_out_of_an_epoll_set_twice_is_out)
{
	AUTO_CLOSE int set = epoll_create1(EPOLL_CLOEXEC);
	AUTO_CLOSE int fd = eventfd(0, EFD_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN };
	/* as the library calls it */
	int (*control)(int, int, int, struct epoll_event *) =
		dlsym(RTLD_DEFAULT, "epoll_ctl");

	assert_int_equal(control(set, EPOLL_CTL_ADD, fd, &event), 0);
	assert_int_equal(control(set, EPOLL_CTL_DEL, fd, NULL), 0);
	assert_int_equal(control(set, EPOLL_CTL_DEL, fd, NULL), 0);
	assert_int_equal(control(set, EPOLL_CTL_DEL, -1, NULL), -1);
	assert_int_equal(errno, EBADF);
	assert_int_equal(control(set, EPOLL_CTL_MOD, fd, &event), -1);
}

TEST(every_address_is_a_star)
{
	struct web_server_options options = { .listen = "*:0", .services = &services };
	static const struct web_route *const tables[] = { routes, NULL };

	web_server_stop(server, 0);
	options.routes = tables;
	assert_ok(server_start(&options, &server, &err));
	assert_int_equal(status_of(get("/name/x/verb")), 200);
}

/* A site "paris" whose secret this is. */
static void let_paris_in(struct site_key *key)
{
	AUTO_FREE char *text =
		xasprintf("[secondary \"paris\"]\n\tsecretFile = %s/secret\n", root);
	AUTO_FREE char *file = xasprintf("%s/secret", root);
	AUTO_CONF struct conf *conf = NULL;

	assert_ok(file_replace(root_fd, "secret", "0123456789abcdef0123", 20,
			       FILE_NO_SYNC, &err));
	assert_int_equal(fchmodat(root_fd, "secret", 0600, 0), 0);
	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(access_read(conf, true, &services.access, &err));
	assert_ok(site_key_read("paris", file, key, &err));
}

/* How long it takes until the connection ends, in milliseconds. */
static int64_t drip(const char *head, const char *piece)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();
	int64_t begun = clock_boot_ms();

	send_text(fd, head);
	while (clock_boot_ms() < begun + 30000) {
		send_text(fd, piece);
		if (receive_all(fd, 20, &answer))
			break;
	}
	return clock_boot_ms() - begun;
}

TEST(a_body_that_drips_keeps_no_connection)
{
	static const char *const heads[] = {
		/* not wanted */
		"GET /nowhere HTTP/1.1\r\nHost: h\r\n",
		/* not decided before it is whole */
		"POST /site HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\n",
		/* wanted */
		"POST /echo HTTP/1.1\r\nHost: h\r\n",
	};
	AUTO_SITE_KEY struct site_key key;

	let_paris_in(&key);
	web_server_stop(server, 0);
	start_server(routes, 300);
	for (size_t i = 0; i < ARRAY_SIZE(heads); i++) {
		AUTO_FREE char *sized =
			xasprintf("%sContent-Length: 60000\r\n\r\n", heads[i]);
		AUTO_FREE char *chunked =
			xasprintf("%sTransfer-Encoding: chunked\r\n\r\n", heads[i]);
		assert_in_range(drip(sized, "x"), 0, 20000);
		assert_in_range(drip(chunked, "1\r\nx\r\n"), 0, 20000);
	}
}

/* Sends eight pieces on a connection that is not older than `begun`; returns the longest
 * time in which the server may have got nothing, in milliseconds. */
static int64_t send_steadily(int fd, int64_t begun, const char *head, const char *piece)
{
	int64_t longest = 0;

	send_text(fd, head);
	for (int i = 0; i < 8; i++) {
		int64_t next = clock_boot_ms();
		send_text(fd, piece);
		int64_t gap = clock_boot_ms() - begun;
		longest = gap > longest ? gap : longest;
		begun = next;
		usleep(70000);
	}
	return longest;
}

/* Where we, or the server's thread, were late it may rightly cut, which proves nothing.
 */
TEST(a_body_that_comes_steadily_has_all_the_time_it_needs)
{
	static const char head[] = "POST /read HTTP/1.1\r\nHost: 127.0.0.1\r\n"
				   "Content-Length: 800000\r\n"
				   "Connection: close\r\n\r\n";
	AUTO_FREE char *piece = xcalloc(1, 100001);
	AUTO_SITE_KEY struct site_key key;

	let_paris_in(&key);
	web_server_stop(server, 0);
	start_server(routes, 250);
	memset(piece, 'y', 100000);
	for (int i = 0; i < 50; i++) {
		AUTO_STR struct str answer = STR_INIT;
		int64_t begun = clock_boot_ms();
		AUTO_CLOSE int fd = dial();
		if (send_steadily(fd, begun, head, piece) >= 250 ||
		    !receive_all(fd, 5000, &answer) || answer.len == 0)
			continue;
		assert_int_equal(status_of(answer.data), 200);
		return;
	}
	fail_msg("never sent steadily");
}

/* As that of a webhook, which is signed or not: that is seen when it is whole. */
TEST(a_body_of_whoever_it_may_be_has_no_more_time_than_one_that_is_silent)
{
	enum { PIECE = 64 << 10, PIECES = 16 };
	AUTO_FREE char *piece = xmalloc(PIECE);
	AUTO_STR struct str answer = STR_INIT;

	web_server_stop(server, 0);
	start_server(routes, 250);
	memset(piece, 'z', PIECE);
	AUTO_CLOSE int fd = dial();
	send_text(fd, "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n"
		      "Connection: close\r\n\r\n");
	for (int i = 0; i < PIECES; i++) {
		send_bytes(fd, piece, PIECE);
		usleep(175000);
	}
	assert_true(receive_all(fd, 5000, &answer));
	assert_string_equal(answer.data, "");
}

TEST(a_signed_request_is_let_in_once_and_only_with_its_body)
{
	AUTO_SITE_KEY struct site_key key;
	struct signed_request signed_one = { "POST", "/site?a=%41", "body", 4 };

	let_paris_in(&key);
	AUTO_FREE char *token = wire_token_for_request(&key, &signed_one, &err);
	AUTO_FREE char *head = xasprintf("POST /site?a=%%41 HTTP/1.1\r\n"
					 "Authorization: Bearer %s",
					 token);
	const char *answer = exchange(head, "BODY", 4);
	assert_int_equal(status_of(answer), 401);
	assert_non_null(strstr(answer, "WRONG_REQUEST"));
	assert_non_null(strstr(answer, "WWW-Authenticate: Bearer"));
	AUTO_FREE char *fresh = wire_token_for_request(&key, &signed_one, &err);
	AUTO_FREE char *good = xasprintf("POST /site?a=%%41 HTTP/1.1\r\n"
					 "Authorization: Bearer %s",
					 fresh);
	answer = exchange(good, "body", 4);
	assert_int_equal(status_of(answer), 200);
	assert_string_equal(body_of(answer), "body");
	assert_non_null(strstr(exchange(good, "body", 4), "REPLAYED"));
}

TEST(without_a_credential_the_body_is_not_waited_for)
{
	AUTO_SITE_KEY struct site_key key;

	let_paris_in(&key);
	const char *answer =
		exchange("POST /site HTTP/1.1\r\nContent-Length: 900000", NULL, 0);
	assert_int_equal(status_of(answer), 401);
	assert_non_null(strstr(answer, "NO_CREDENTIALS"));
	/* A small one is read, so that the connection can go on. */
	AUTO_STR struct str both = STR_INIT;
	AUTO_CLOSE int fd = dial();
	send_text(fd,
		  "POST /site HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}"
		  "GET /name/x/verb HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	assert_true(receive_all(fd, 5000, &both));
	assert_non_null(strstr(both.data, "NO_CREDENTIALS"));
	assert_non_null(strstr(both.data, "name=x"));
}

TEST(a_reader_on_loopback_must_not_come_by_another_name)
{
	AUTO_SITE_KEY struct site_key key;
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	let_paris_in(&key);
	assert_int_equal(
		status_of(exchange("HEAD /read HTTP/1.1\r\nX-Forwarded-For: x", NULL, 0)),
		401);
	send_text(fd, "GET /read HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n"
		      "\r\n");
	assert_true(receive_all(fd, 5000, &answer));
	assert_int_equal(status_of(answer.data), 401);
}

#define SERVED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(a_request_torn_into_bytes_is_answered_like_a_whole_one),
		SERVED(pipelined_requests_are_answered_in_order_on_one_connection),
		SERVED(head_is_get_without_the_body),
		SERVED(head_of_a_stream_has_no_length_and_no_last_chunk),
		SERVED(shared_bytes_are_sent_and_given_back_once),
		SERVED(shared_bytes_are_given_back_when_the_client_leaves),
		SERVED(who_waits_keeps_nobody_from_a_quick_answer),
		SERVED(a_long_stream_comes_whole),
		SERVED(a_long_stream_ends_with_its_client),
		SERVED(a_client_that_takes_nothing_of_a_long_stream_is_closed),
		SERVED(a_long_stream_that_is_stuck_is_cut_with_the_server),
		SERVED(a_client_that_ends_its_side_gets_its_answer_and_the_end),
		SERVED(a_client_that_ends_its_side_within_a_request_is_let_go),
		SERVED(a_connection_stays_after_a_long_stream),
		SERVED(a_long_body_comes_whole),
		SERVED(another_method_is_told_which_are_allowed),
		SERVED(a_target_that_climbs_or_is_badly_encoded_is_400),
		SERVED(an_unknown_path_is_404_as_json),
		SERVED(a_request_whose_end_is_in_doubt_is_the_last_of_its_connection),
		SERVED(an_encoded_name_is_one_segment),
		SERVED(a_handlers_error_is_a_problem_with_a_fitting_status),
		SERVED(a_problem_of_the_api_says_so_by_its_type),
		SERVED(a_stream_that_breaks_is_seen_as_broken),
		SERVED(stop_ends_a_long_poll_at_once_with_its_answer),
		SERVED(a_stream_has_its_grace_when_the_server_ends),
		SERVED(a_stream_is_cut_when_its_grace_is_over),
		SERVED(a_client_that_takes_nothing_delays_no_end),
		SERVED(a_silent_client_is_closed_and_a_slow_answer_is_not),
		SERVED(a_body_that_drips_keeps_no_connection),
		SERVED(a_body_that_comes_steadily_has_all_the_time_it_needs),
		SERVED(a_body_of_whoever_it_may_be_has_no_more_time_than_one_that_is_silent),
		SERVED(an_address_that_is_taken_or_none_is_told),
		cmocka_unit_test(what_is_taken_out_of_an_epoll_set_twice_is_out),
		SERVED(every_address_is_a_star),
		SERVED(a_signed_request_is_let_in_once_and_only_with_its_body),
		SERVED(without_a_credential_the_body_is_not_waited_for),
		SERVED(a_reader_on_loopback_must_not_come_by_another_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
