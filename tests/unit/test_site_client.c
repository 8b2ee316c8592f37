#include "site_client_test.h"

#include "base/clock.h"
#include "net/nonces.h"

static void token_of(const char *request, char *token, size_t size)
{
	const char *value = strstr(request, "Authorization: Bearer ");

	assert_non_null(value);
	value += strlen("Authorization: Bearer ");
	snprintf(token, size, "%.*s", (int)strcspn(value, "\r"), value);
}

static const struct site_request plain = { .target = "/x", .timeout_ms = 3000 };

TEST(requests_are_signed_and_share_one_connection)
{
	static const struct step script[] = { { OK_ANSWER, KEEP }, { OK_ANSWER, KEEP } };
	const struct site_request requests[] = {
		{ .target = "/api/a%2Fb?x=../y", .if_none_match = "\"1\"" },
		{ .method = "POST",
		  .target = "/p/../q",
		  .body = "{}",
		  .body_len = 2,
		  .content_type = "application/json",
		  .report = "{\"behind\":0}" },
	};
	AUTO_SITE_KEY struct site_key key = { .site = "paris", .secret = STR_INIT };
	struct nonces *nonces = nonces_new();

	str_add(&key.secret, SECRET);
	start_server(script, 2);
	struct site_client *client = open_client();
	for (int i = 0; i < 2; i++) {
		AUTO_ANSWER struct site_answer answer;
		assert_ok(site_client_call(client, &requests[i], &answer, &err));
		assert_int_equal(answer.status, 200);
		assert_string_equal(answer.body.data, "ok");
	}
	site_client_close(client);
	stop_server();
	assert_int_equal(server.connections, 1);
	for (int i = 0; i < 2; i++) {
		char token[1024];
		struct signed_request what = { i ? "POST" : "GET", requests[i].target,
					       requests[i].body, requests[i].body_len };
		token_of(server.requests[i], token, sizeof(token));
		assert_int_equal(nonces_check_request(nonces, &key, token, &what, &err),
				 TOKEN_GOOD);
	}
	assert_non_null(strstr(server.requests[0], "GET /api/a%2Fb?x=../y HTTP/1.1\r\n"));
	assert_non_null(strstr(server.requests[0], "If-None-Match: \"1\"\r\n"));
	assert_non_null(strstr(server.requests[1], "POST /p/../q HTTP/1.1\r\n"));
	assert_non_null(
		strstr(server.requests[1], "Refrelay-Report: {\"behind\":0}\r\n"));
	assert_non_null(strstr(server.requests[1], "Content-Type: application/json\r\n"));
	nonces_free(nonces);
}

TEST(a_request_on_a_connection_that_had_died_is_repeated)
{
	static const struct step script[] = {
		{ OK_ANSWER, CLOSE },
		{ OK_ANSWER, CLOSE_AFTER_NEXT },
		{ OK_ANSWER, KEEP },
	};

	start_server(script, ARRAY_SIZE(script));
	struct site_client *client = open_client();
	for (int i = 0; i < 3; i++) {
		AUTO_ANSWER struct site_answer answer;
		assert_ok(site_client_call(client, &plain, &answer, &err));
		assert_int_equal(answer.status, 200);
	}
	site_client_close(client);
	stop_server();
	assert_int_equal(server.connections, 3);
}

TEST(a_token_that_was_used_up_by_a_repetition_is_made_anew)
{
	static const struct step script[] = {
		{ "HTTP/1.1 401 X\r\nContent-Length: 42\r\n\r\n"
		  "{\"code\": \"REPLAYED\", \"message\": \"used up\"}",
		  KEEP },
		{ OK_ANSWER, KEEP },
	};
	AUTO_ANSWER struct site_answer answer;
	char first[1024], second[1024];

	start_server(script, 2);
	struct site_client *client = open_client();
	assert_ok(site_client_call(client, &plain, &answer, &err));
	site_client_close(client);
	stop_server();
	assert_int_equal(answer.status, 200);
	token_of(server.requests[0], first, sizeof(first));
	token_of(server.requests[1], second, sizeof(second));
	assert_string_not_equal(first, second);
}

TEST(a_redirect_is_an_error_and_nothing_is_sent_there)
{
	static const struct step redirect = {
		"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n",
		KEEP
	};
	AUTO_ANSWER struct site_answer answer;

	assert_fails(ask(&redirect, &plain, &answer), ERR_CONFIG);
	assert_non_null(strstr(err.text, "/elsewhere"));
	assert_int_equal(server.served, 1);
	assert_string_equal(server.requests[1], "");
}

TEST(broken_answers_are_errors_with_their_class)
{
	static const struct {
		struct step step;
		enum err_class class;
	} table[] = {
		{ { "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut", CLOSE },
		  ERR_NETWORK },
		{ { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ncut\r\n",
		    CLOSE },
		  ERR_NETWORK },
		{ { "HTTP/1.1 200 OK\r\nContent-Le", CLOSE }, ERR_NETWORK },
		{ { "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", CLOSE }, ERR_NETWORK },
		{ { "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n", CLOSE },
		  ERR_NETWORK },
		{ { "HTTP/1.1 304 Not Modified\r\nETag: x\r\n", CLOSE }, ERR_NETWORK },
		{ { "HTTP/1.1 200 OK\r\n\r\nends where the connection does", CLOSE },
		  ERR_NETWORK },
		{ { "", CLOSE }, ERR_NETWORK },
		{ { "SSH-2.0-OpenSSH_9.2p1 Debian\r\n", CLOSE }, ERR_CORRUPT },
		{ { "\x16\x03\x01 some bytes that are no answer\r\n\r\n", CLOSE },
		  ERR_CORRUPT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_ANSWER struct site_answer answer;
		if (ask(&table[i].step, &plain, &answer) != -1)
			fail_msg("case %zu: answered %d", i, answer.status);
		if (err.class != table[i].class)
			fail_msg("case %zu: %s: %s", i, err_class_name(err.class),
				 err.text);
		assert_int_equal(answer.body.len, 0);
	}
}

TEST(a_body_above_the_limit_is_refused)
{
	static const struct step step = {
		"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n12345678901", KEEP
	};
	struct site_request request = { .target = "/x", .limit = 10 };
	AUTO_ANSWER struct site_answer answer;

	assert_fails(ask(&step, &request, &answer), ERR_CORRUPT);
	site_answer_clear(&answer);
	request.limit = 11;
	assert_ok(ask(&step, &request, &answer));
	assert_int_equal(answer.body.len, 11);
}

TEST(headers_without_end_are_refused)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_ANSWER struct site_answer answer;

	str_add(&text, "HTTP/1.1 200 OK\r\n");
	for (int i = 0; i < 2000; i++)
		str_addf(&text, "X-%d: 0123456789012345678901234567890123456789\r\n", i);
	str_add(&text, "Content-Length: 0\r\n\r\n");
	assert_fails(ask(&(struct step){ text.data, KEEP }, &plain, &answer),
		     ERR_CORRUPT);
}

TEST(a_stalled_answer_ends_in_time)
{
	static const struct step stalls[] = {
		{ "", STALL },
		{ "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", STALL },
	};
	struct site_request request = { .target = "/x", .timeout_ms = 200 };

	for (int i = 0; i < 2; i++) {
		AUTO_ANSWER struct site_answer answer;
		int64_t before = clock_boot_ms();
		assert_fails(ask(&stalls[i], &request, &answer), ERR_TIMEOUT);
		int64_t took = clock_boot_ms() - before;
		assert_true(took >= 200 && took < 15000);
	}
}

TEST(after_a_timeout_the_next_answer_is_not_the_late_one)
{
	static const struct step script[] = { { "", STALL }, { OK_ANSWER, KEEP } };
	struct site_request request = { .target = "/x", .timeout_ms = 100 };

	start_server(script, 2);
	struct site_client *client = open_client();
	for (int i = 0; i < 2; i++) {
		AUTO_ANSWER struct site_answer answer;
		assert_fails(site_client_call(client, &request, &answer, &err),
			     ERR_TIMEOUT);
	}
	site_client_close(client);
	stop_server();
}

static void *stop_soon(void *arg)
{
	usleep(400 * 1000); /* beyond what curl's own timers wake for */
	stop_request(arg);
	return NULL;
}

TEST(a_stop_ends_a_request_at_once)
{
	static const struct step stall = { "", STALL };
	struct stop stop;
	pthread_t thread;
	AUTO_ANSWER struct site_answer answer;
	struct site_request request = { .target = "/x", .stop = &stop };

	stop_init(&stop);
	int64_t before = clock_boot_ms();
	thread_start(&thread, "stopper", stop_soon, &stop);
	assert_fails(ask(&stall, &request, &answer), ERR_CANCELED);
	assert_true(clock_boot_ms() - before < 8000);
	thread_join(thread);
	assert_fails(ask(&stall, &request, &answer), ERR_CANCELED);
	assert_int_equal(server.served, 0);
	stop_clear(&stop);
}

TEST(nobody_there_is_a_network_error)
{
	AUTO_ANSWER struct site_answer answer;

	start_server(NULL, 0);
	struct site_client *client = open_client();
	stop_server();
	assert_fails(site_client_call(client, &plain, &answer, &err), ERR_NETWORK);
	assert_string_not_equal(err.remedy, "");
	site_client_close(client);
}

TEST(proxies_of_the_environment_are_ignored)
{
	static const struct step step = { OK_ANSWER, KEEP };
	AUTO_ANSWER struct site_answer answer;

	setenv("http_proxy", "http://127.0.0.1:1", 1);
	setenv("ALL_PROXY", "http://127.0.0.1:1", 1);
	assert_ok(ask(&step, &plain, &answer));
	unsetenv("http_proxy");
	unsetenv("ALL_PROXY");
}

TEST(headers_that_matter_are_kept_and_clocks_compared)
{
	AUTO_STR struct str text = STR_INIT;
	char now[CLOCK_TEXT_SIZE];
	AUTO_ANSWER struct site_answer answer;

	clock_format(clock_wall_ms() + 90000, now);
	str_addf(&text,
		 "HTTP/1.1 200 OK\r\nETag: \"abc\"\r\nRefrelay-Timeline: 8a2f\r\n"
		 "refrelay-last-event: 42 5f0c\r\nRefrelay-Time: %s\r\n"
		 "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n\r\n",
		 now);
	assert_ok(ask(&(struct step){ text.data, KEEP }, &plain, &answer));
	assert_string_equal(answer.etag, "\"abc\"");
	assert_string_equal(answer.timeline, "8a2f");
	assert_string_equal(answer.last_event, "42 5f0c");
	assert_true(answer.skew_ms > 80000 && answer.skew_ms <= 90000);
}

TEST(without_our_own_header_the_date_tells_the_clock)
{
	static const struct step step = {
		"HTTP/1.1 401 No\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
		"Content-Length: 58\r\n\r\n"
		"{\"code\": \"CLOCK_SKEW\", \"message\": \"off\", \"remedy\": \"mend\"}",
		KEEP
	};
	AUTO_ANSWER struct site_answer answer;

	assert_ok(ask(&step, &plain, &answer));
	assert_int_equal(answer.time_ms, 784111777000);
	assert_string_equal(answer.code, "CLOCK_SKEW");
	assert_fails(site_answer_error(&answer, &err), ERR_AUTH);
	assert_non_null(strstr(err.text, "behind this one"));
}

TEST(an_error_answer_keeps_its_message_and_gets_its_class)
{
	static const struct {
		int status;
		enum err_class class;
	} table[] = {
		{ 400, ERR_CONFIG },  { 401, ERR_AUTH },    { 403, ERR_AUTH },
		{ 404, ERR_MISSING }, { 408, ERR_TIMEOUT }, { 409, ERR_CONFLICT },
		{ 410, ERR_CONFIG },  { 429, ERR_NETWORK }, { 500, ERR_NETWORK },
		{ 503, ERR_NETWORK }, { 504, ERR_TIMEOUT },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		AUTO_ANSWER struct site_answer answer = { .status = table[i].status,
							  .body = STR_INIT,
							  .code = "X" };
		str_add(&answer.body,
			"{\"code\":\"X\",\"message\":\"it 50%s\",\"remedy\":\"do %d\"}");
		assert_fails(site_answer_error(&answer, &err), table[i].class);
		assert_string_equal(err.text, "it 50%s");
		assert_string_equal(err.remedy, "do %d");
	}
}

/* A server in front that has lost its way must not make us delete copies. */
TEST(a_strangers_404_does_not_mean_that_a_repository_is_missing)
{
	static const char *const bodies[] = { "<html>404</html>", "",
					      "{\"error\":\"no such page\"}" };

	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		AUTO_ANSWER struct site_answer answer = { .status = 404,
							  .body = STR_INIT };
		str_add(&answer.body, bodies[i]);
		assert_fails(site_answer_error(&answer, &err), ERR_NETWORK);
	}
}

TEST(what_is_no_url_of_a_site_is_refused)
{
	static const char *const table[] = {
		"",
		"git.example.com",
		"ftp://git.example.com",
		"file:///srv/git",
		"https://",
		"https://git.example.com/?a=b",
		"https://git.example.com/#a",
		"https://user:pass-word@git.example.com",
		"https://git.example.com:99999",
	};
	struct site_client *client;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		if (site_client_open(table[i], NULL, &client, &err) == 0)
			fail_msg("\"%s\"", table[i]);
		assert_int_equal(err.class, ERR_CONFIG);
		assert_null(strstr(err.text, "pass-word"));
	}
}

TEST(any_name_becomes_one_segment_of_a_path)
{
	AUTO_STR struct str url = STR_INIT;

	url_add_encoded(&url, "a/b c%?#\xc3\xbc~.-_");
	assert_string_equal(url.data, "a%2Fb%20c%25%3F%23%C3%BC~.-_");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_are_signed_and_share_one_connection),
		cmocka_unit_test(a_request_on_a_connection_that_had_died_is_repeated),
		cmocka_unit_test(a_token_that_was_used_up_by_a_repetition_is_made_anew),
		cmocka_unit_test(a_redirect_is_an_error_and_nothing_is_sent_there),
		cmocka_unit_test(broken_answers_are_errors_with_their_class),
		cmocka_unit_test(a_body_above_the_limit_is_refused),
		cmocka_unit_test(headers_without_end_are_refused),
		cmocka_unit_test(a_stalled_answer_ends_in_time),
		cmocka_unit_test(after_a_timeout_the_next_answer_is_not_the_late_one),
		cmocka_unit_test(a_stop_ends_a_request_at_once),
		cmocka_unit_test(nobody_there_is_a_network_error),
		cmocka_unit_test(proxies_of_the_environment_are_ignored),
		cmocka_unit_test(headers_that_matter_are_kept_and_clocks_compared),
		cmocka_unit_test(without_our_own_header_the_date_tells_the_clock),
		cmocka_unit_test(an_error_answer_keeps_its_message_and_gets_its_class),
		cmocka_unit_test(
			a_strangers_404_does_not_mean_that_a_repository_is_missing),
		cmocka_unit_test(what_is_no_url_of_a_site_is_refused),
		cmocka_unit_test(any_name_becomes_one_segment_of_a_path),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
