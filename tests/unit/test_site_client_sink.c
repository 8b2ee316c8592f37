/*
 * Answers of many bytes, which go to a sink as they come.
 */
#include "site_client_test.h"

#include "base/clock.h"

struct tap {
	struct str text;
	int pieces, refuses_at;
	char etag[32];
};

static int take_piece(void *arg, const struct site_answer *head, const void *bytes,
		      size_t len, struct err *error)
{
	struct tap *tap = arg;

	snprintf(tap->etag, sizeof(tap->etag), "%.31s", head->etag);
	str_add_bytes(&tap->text, bytes, len);
	if (++tap->pieces == tap->refuses_at)
		return err_set(error, ERR_DISK, "no room");
	return 0;
}

TEST(a_body_goes_to_the_sink_and_its_head_is_known_by_then)
{
	static const struct step step = {
		"HTTP/1.1 206 Part\r\nContent-Length: 5\r\nETag: \"t-1\"\r\n"
		"Content-Range: bytes 3-7/9\r\nRefrelay-Checksum: 00ff\r\n\r\nhello",
		KEEP
	};
	struct tap tap = { .text = STR_INIT };
	const struct site_sink sink = { take_piece, &tap };
	const struct site_request request = { .target = "/x",
					      .if_match = "\"t-1\"",
					      .range = "bytes=3-7",
					      .limit = 2, /* of memory */
					      .sink = &sink };
	AUTO_ANSWER struct site_answer answer;

	assert_ok(ask(&step, &request, &answer));
	assert_string_equal(tap.text.data, "hello");
	assert_string_equal(tap.etag, "\"t-1\"");
	assert_int_equal(answer.body.len, 0);
	assert_int_equal(answer.length, 5);
	assert_string_equal(answer.range, "bytes 3-7/9");
	assert_string_equal(answer.checksum, "00ff");
	assert_non_null(strstr(server.requests[0], "If-Match: \"t-1\"\r\n"));
	assert_non_null(strstr(server.requests[0], "Range: bytes=3-7\r\n"));
	str_clear(&tap.text);
}

TEST(an_error_answer_is_no_body_for_the_sink)
{
	static const struct step step = {
		"HTTP/1.1 404 No\r\nContent-Length: 38\r\n\r\n"
		"{\"code\": \"GONE\", \"message\": \"no more\"}",
		KEEP
	};
	struct tap tap = { .text = STR_INIT };
	const struct site_sink sink = { take_piece, &tap };
	const struct site_request request = { .target = "/x", .sink = &sink };
	AUTO_ANSWER struct site_answer answer;

	assert_ok(ask(&step, &request, &answer));
	assert_int_equal(tap.pieces, 0);
	assert_string_equal(answer.code, "GONE");
}

TEST(what_the_sink_refuses_ends_the_request_with_its_error)
{
	static const struct step step = { OK_ANSWER, KEEP };
	struct tap tap = { .text = STR_INIT, .refuses_at = 1 };
	const struct site_sink sink = { take_piece, &tap };
	const struct site_request request = { .target = "/x", .sink = &sink };
	AUTO_ANSWER struct site_answer answer;

	assert_fails(ask(&step, &request, &answer), ERR_DISK);
	assert_string_equal(err.text, "no room");
	str_clear(&tap.text);
}

TEST(an_answer_that_stops_coming_is_left_however_much_time_it_has)
{
	static const struct step step = {
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", STALL
	};
	struct tap tap = { .text = STR_INIT };
	const struct site_sink sink = { take_piece, &tap };
	struct site_request request = {
		.target = "/x", .timeout_ms = 60000, .stall_ms = 200, .sink = &sink
	};

	/* A server that takes longer to begin is given more time. */
	for (; tap.text.len == 0 && request.stall_ms < 15000; request.stall_ms *= 2) {
		AUTO_ANSWER struct site_answer answer;
		int64_t started = clock_boot_ms();
		assert_fails(ask(&step, &request, &answer), ERR_TIMEOUT);
		assert_true(clock_boot_ms() - started < 30000);
	}
	assert_string_equal(tap.text.data, "half");
	str_clear(&tap.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_body_goes_to_the_sink_and_its_head_is_known_by_then),
		cmocka_unit_test(an_error_answer_is_no_body_for_the_sink),
		cmocka_unit_test(what_the_sink_refuses_ends_the_request_with_its_error),
		cmocka_unit_test(
			an_answer_that_stops_coming_is_left_however_much_time_it_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
