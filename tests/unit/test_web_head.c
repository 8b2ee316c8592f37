/* Heads of requests that are broken, or too large, on real connections. */
#include "web_test.h"

#include <malloc.h>

enum { MANY = 1000 };

static int get_who(const struct web_request *request, struct web_response *response,
		   struct err *e)
{
	(void)e;
	str_add(&response->body, request->client);
	return 0;
}

static const struct web_route routes[] = {
	{ "GET", "/who", WEB_ANYBODY, WEB_BODY_NONE, get_who },
	{ 0 },
};

static int begin(void **state)
{
	if (test_make_root(state))
		return -1;
	start_server(routes, 0);
	return 0;
}

static int end(void **state)
{
	web_server_stop(TAKE(server), 0);
	return test_remove_root(state);
}

static void wait_for_no_request(void)
{
	int64_t until = clock_boot_ms() + 5000;

	while (atomic_load(&server->active) > 0) {
		if (clock_boot_ms() > until)
			fail_msg("%zu requests are still open", server->active);
		usleep(1000);
	}
}

static void send_many(const char *request, const char *status)
{
	AUTO_STR struct str answer = STR_INIT;

	for (int i = 0; i < MANY; i++) {
		AUTO_CLOSE int fd = dial();
		send_text(fd, request);
		str_reset(&answer);
		assert_true(receive_all(fd, 5000, &answer));
		assert_true(text_starts_with(answer.data, status));
	}
}

/* What more requests of the kind than there were need, when those before have ended. */
static size_t grown_by(const char *request, const char *status)
{
	send_many(request, status);
	wait_for_no_request();
	struct mallinfo2 before = mallinfo2();
	send_many(request, status);
	wait_for_no_request();
	struct mallinfo2 after = mallinfo2();
	return after.uordblks > before.uordblks ? after.uordblks - before.uordblks : 0;
}

TEST(a_query_of_too_many_fields_leaves_nothing_behind)
{
	AUTO_STR struct str request = STR_INIT;

	str_add(&request, "GET /?");
	for (int i = 0; i < 1000; i++)
		str_add_char(&request, '&');
	str_add(&request, " HTTP/1.1\r\nHost: h\r\n\r\n");
	assert_in_range(grown_by(request.data, "HTTP/1.1 414 "), 0, 64 << 10);
}

TEST(too_many_cookies_leave_nothing_behind)
{
	AUTO_STR struct str request = STR_INIT;

	str_add(&request, "GET /who HTTP/1.1\r\nHost: h\r\nCookie: a=b");
	for (int i = 0; i < 1000; i++)
		str_add(&request, "; a=b");
	str_add(&request, "\r\n\r\n");
	assert_in_range(grown_by(request.data, "HTTP/1.1 431 "), 0, 64 << 10);
}

/* With its zero bytes; "": the connection ended without an answer. */
static const char *answer_to(const char *bytes, size_t len, size_t piece)
{
	static struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	str_reset(&answer);
	for (size_t at = 0; at < len; at += piece)
		send_bytes(fd, bytes + at, at + piece < len ? piece : len - at);
	assert_true(receive_all(fd, 5000, &answer));
	return answer.data;
}

/* However the bytes come. */
static void refused(const char *bytes, size_t len, const char *status)
{
	static const size_t pieces[] = { 1 << 20, 1, 7 };

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		const char *answer = answer_to(bytes, len, pieces[i]);
		if (!text_starts_with(answer, status))
			fail_msg("to %.*s: %s", (int)len, bytes, answer);
		assert_non_null(strstr(answer, "Connection: close\r\n"));
		assert_non_null(strstr(answer, "\"BAD_REQUEST\""));
		assert_null(strstr(answer + 1, "HTTP/1.1"));
	}
	wait_for_no_request();
}

#define BAD(text) refused(text, sizeof(text) - 1, "HTTP/1.1 400 Bad Request\r\n")

TEST(a_head_that_could_be_understood_in_two_ways_is_answered_400_and_nothing_else)
{
	BAD("GET /who HTTP/1.1\r\nHost: h\r\nAuthor: Bearer x\r\n ization\r\n\r\n");
	BAD("GET /who HTTP/1.1\r\nHost: h\r\nContent-Length : 4\r\n\r\nabcd");
	BAD("GET /who HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n");
	BAD("GET /who HTTP/1.1\r\nHost: h\0\r\n\r\n");
	BAD("GET /who HTTP/1.1\nHost: h\n\n");
	BAD("GET /who HTTP/1.1\r\nHost: h\r\nX: a\rY: b\r\n\r\n");
	BAD("GET /who HTTP/1.1\r\nHost: h\r\nX: \x01\r\n\r\n");
	BAD("GET /who HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"
	    "Content-Length: 2\r\n\r\n");
	BAD("GET  /who HTTP/1.1\r\nHost: h\r\n\r\n");
	BAD("\r\n\r\nGET /who HTTP/1.1\r\nHost: h\r\n\r\n");
	BAD("\r\n\r\n");
}

TEST(a_good_request_before_a_bad_one_has_its_answer)
{
	static const char text[] = "GET /who HTTP/1.1\r\nHost: h\r\n\r\n"
				   "GET /who HTTP/1.1\r\nHost : h\r\n\r\n";
	const char *answer = answer_to(text, sizeof(text) - 1, 1 << 20);

	assert_true(text_starts_with(answer, "HTTP/1.1 200 OK\r\n"));
	assert_non_null(strstr(answer, "\r\n\r\n127.0.0.1HTTP/1.1 400 Bad Request\r\n"));
}

/* As large as the judge lets pass, in each of the ways. */
TEST(what_is_as_large_as_it_may_be_is_answered)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, "GET /who HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX: ");
	for (int i = 0; i < 11 << 10; i++)
		str_add_char(&text, 'x');
	str_add(&text, "\r\n\r\n");
	assert_true(text_starts_with(answer_to(text.data, text.len, 1 << 20),
				     "HTTP/1.1 200"));
	str_reset(&text);
	str_add(&text, "GET /who?x");
	for (int i = 0; i < 160; i++)
		str_add(&text, "&a=b");
	str_add(&text, " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	assert_true(text_starts_with(answer_to(text.data, text.len, 1 << 20),
				     "HTTP/1.1 200"));
	str_reset(&text);
	str_add(&text, "GET /who HTTP/1.1\r\nHost: h\r\nConnection: close\r\nCookie: x");
	for (int i = 0; i < 150; i++)
		str_add(&text, "; a=b");
	str_add(&text, "\r\n\r\n");
	assert_true(text_starts_with(answer_to(text.data, text.len, 1 << 20),
				     "HTTP/1.1 200"));
}

/* The answer must reach who is still sending. */
TEST(who_is_refused_while_he_sends_reads_why)
{
	AUTO_STR struct str text = STR_INIT;

	str_add(&text, "GET /who HTTP/1.1\r\nHost : h\r\n");
	for (int i = 0; i < 1 << 20; i++)
		str_add_char(&text, 'x');
	for (int i = 0; i < 20; i++)
		assert_true(text_starts_with(answer_to(text.data, text.len, 4096),
					     "HTTP/1.1 400"));
}

#define SERVED(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(a_query_of_too_many_fields_leaves_nothing_behind),
		SERVED(too_many_cookies_leave_nothing_behind),
		SERVED(a_head_that_could_be_understood_in_two_ways_is_answered_400_and_nothing_else),
		SERVED(a_good_request_before_a_bad_one_has_its_answer),
		SERVED(what_is_as_large_as_it_may_be_is_answered),
		SERVED(who_is_refused_while_he_sends_reads_why),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
