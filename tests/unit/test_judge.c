#include "test.h"

#include "base/str.h"
#include "web/gate.h"

#define GET "GET /r.git/info/refs?service=git-upload-pack HTTP/1.1\r\nHost: h\r\n"
#define POST "POST /r.git/git-upload-pack HTTP/1.1\r\nHost: h\r\n"

/* All at once, and again byte by byte: both must be judged alike. */
static struct judge judge_bytes(const char *bytes, size_t len, size_t *passed)
{
	struct judge whole = JUDGE_INIT, split = JUDGE_INIT;

	*passed = judge_take(&whole, bytes, len);
	for (size_t i = 0; i < len && split.status == 0; i++)
		judge_take(&split, bytes + i, 1);
	assert_int_equal(whole.status, split.status);
	assert_int_equal(whole.heads, split.heads);
	assert_int_equal(judge_is_within(&whole), judge_is_within(&split));
	return whole;
}

static void passes(const char *text, unsigned requests)
{
	size_t passed;
	struct judge judge = judge_bytes(text, strlen(text), &passed);

	if (judge.status != 0)
		fail_msg("%s\nis refused: %s", text, judge.why);
	assert_int_equal(passed, strlen(text));
	assert_int_equal(judge.heads, requests);
	assert_false(judge_is_within(&judge));
}

/* With its zero bytes. Nothing of it may be passed on. */
#define refused(text, status) refused_bytes(text, sizeof(text) - 1, status)

static void refused_bytes(const char *bytes, size_t len, int status)
{
	size_t passed;
	struct judge judge = judge_bytes(bytes, len, &passed);

	if (judge.status != status)
		fail_msg("%.*s\nis judged %d", (int)len, bytes, judge.status);
	assert_int_equal(passed, 0);
	assert_non_null(judge.why);
	assert_int_equal(judge.heads, 0);
}

TEST(what_clients_send_passes)
{
	passes(GET "\r\n", 1);
	passes("\r\n" GET "\r\n", 1);
	passes("GET / HTTP/1.0\r\n\r\n", 1);
	passes("GET /p\xc3\xa4th HTTP/1.1\r\nHost: [::1]:8418\r\n\r\n", 1);
	passes(GET "X:\r\nX: a\tb \xc3\xa4\r\nX:c\r\nAccept: */*, a;q=0.1\r\n\r\n", 1);
	passes(GET "Cookie: a=b; c=d\r\nCookie: e=f\r\n\r\n", 1);
	passes(POST "content-length: 4\r\nExpect: 100-continue\r\n\r\n\r\n\r\n", 1);
	passes(POST "Content-Length: 0\r\n\r\n" GET "\r\n", 2);
	passes(POST "Content-Length: 3\r\n\r\nabc\r\n" GET "\r\n", 2);
	passes(POST
	       "Transfer-Encoding: Chunked\r\n\r\n"
	       "5\r\nab\r\nc\r\n1F\r\n0123456789012345678901234567890\r\n0\r\n\r\n" GET
	       "\r\n",
	       2);
	passes(POST "Transfer-Encoding: chunked\r\n\r\n1;a=\"b\"\r\nx\r\n0\r\n"
		    "X: y\r\n\r\n" GET "\r\n",
	       2);
}

TEST(lines_end_in_cr_lf_and_are_not_folded)
{
	refused("GET / HTTP/1.1\nHost: h\r\n\r\n", 400);
	refused("GET / HTTP/1.1\r\nHost: h\n\r\n", 400);
	refused("GET / HTTP/1.1\r\nHost: h\r\n\n", 400);
	refused(GET "X: y\rAuthorization: Bearer x\r\n\r\n", 400);
	refused(GET "X: y\nAuthorization: Bearer x\r\n\r\n", 400);
	refused(GET "Author: Bearer x\r\n ization\r\n\r\n", 400);
	refused(GET "X: y\r\n\tz\r\n\r\n", 400);
	refused("GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400);
	refused("\n" GET "\r\n", 400);
}

TEST(names_and_values_are_what_they_look_like)
{
	refused(POST "Content-Length : 4\r\n\r\nabcd", 400);
	refused(POST "Content-Length\t: 4\r\n\r\nabcd", 400);
	refused(GET "X y: z\r\n\r\n", 400);
	refused(GET ": z\r\n\r\n", 400);
	refused(GET "X\r\n\r\n", 400);
	refused(GET "X\0: z\r\n\r\n", 400);
	refused(GET "X: a\0b\r\n\r\n", 400);
	refused(GET "X: a\x01\r\n\r\n", 400);
	refused(GET "X: a\x7f\r\n\r\n", 400);
	refused(GET "\x85X: a\r\n\r\n", 400);
}

TEST(a_request_line_has_three_words)
{
	refused("GET /\r\n\r\n", 400);
	refused("GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refused("GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400);
	refused("GET / x HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refused("GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refused("G(T / HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refused("GET /\0x HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refused("GET / HTTP/1.10\r\nHost: h\r\n\r\n", 400);
	refused("GET / http/1.1\r\nHost: h\r\n\r\n", 400);
	refused("GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505);
	refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
	refused("VERYLONGMETHODNAME / HTTP/1.1\r\nHost: h\r\n\r\n", 501);
	refused("\x16\x03\x01\x02", 400);
}

TEST(there_is_one_host_one_credential_and_one_length)
{
	refused("GET / HTTP/1.1\r\n\r\n", 400);
	refused(GET "Host: h\r\n\r\n", 400);
	refused(GET "hOST: i\r\n\r\n", 400);
	refused("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400);
	refused("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400);
	refused("GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", 400);
	refused(GET "Authorization: a\r\nauthorization: b\r\n\r\n", 400);
	refused(POST "Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", 400);
	refused(POST "Content-Length: 4, 4\r\n\r\nabcd", 400);
	refused(POST "Content-Length: +4\r\n\r\nabcd", 400);
	refused(POST "Content-Length: 4 \r\n\r\nabcd", 400);
	refused(POST "Content-Length:\r\n\r\nabcd", 400);
	refused(POST "Content-Length: 18446744073709551620\r\n\r\nabcd", 400);
	refused(POST "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
	refused(POST "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n", 400);
	refused(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		400);
	refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
	refused(POST "Transfer-Encoding: gzip, chunked\r\n\r\n", 400);
	refused(POST "Transfer-Encoding: chunked, identity\r\n\r\n", 400);
	refused(POST "Transfer-Encoding: xchunked\r\n\r\n", 400);
	refused(POST "Transfer-Encoding: chunk\r\n\r\n", 400);
	refused(POST "Transfer-Encoding:\r\n\r\n", 400);
}

/* Its head was good: what of the body came before is passed on. */
static void body_refused(const char *body)
{
	AUTO_FREE char *text =
		xasprintf(POST "Transfer-Encoding: chunked\r\n\r\n%s", body);
	size_t passed;
	struct judge judge = judge_bytes(text, strlen(text), &passed);

	assert_int_equal(judge.status, 400);
	assert_int_equal(judge.heads, 1);
	assert_int_equal(passed, 0);
}

TEST(chunks_are_as_long_as_they_say)
{
	body_refused("4;a=\x01\r\n");
	body_refused("4;\n");
	body_refused(";a=b\r\n");
	body_refused("0x4\r\n");
	body_refused(" 4\r\n");
	body_refused("4 \r\n");
	body_refused("-4\r\n");
	body_refused("\r\n");
	body_refused("4\nabcd\n0\n\n");
	body_refused("4\r\nabcdXX");
	body_refused("4\r\nabcd\n");
	body_refused("10000000000000000\r\n");
	body_refused("0\r\nContent-Length: 4\r\n\r\n");
	body_refused("0\r\nX: y\r\n z\r\n\r\n");
	body_refused("0\r\nX: y\n");
}

TEST(what_was_good_before_is_passed_on)
{
	static const char good[] = POST "Content-Length: 3\r\n\r\nabc";
	AUTO_FREE char *text = xasprintf("%s%s", good, GET "X : y\r\n\r\n");
	struct judge judge = JUDGE_INIT;

	assert_int_equal(judge_take(&judge, text, strlen(text)), strlen(good));
	assert_int_equal(judge.status, 400);
	assert_int_equal(judge.heads, 1);
}

TEST(one_empty_line_may_be_before_a_request)
{
	struct judge judge = JUDGE_INIT;

	assert_int_equal(judge_take(&judge, "\r\n\r\nGET", 7), 2);
	assert_int_equal(judge.status, 400);
}

static int status_with(const char *start, const char *repeated, unsigned times)
{
	AUTO_STR struct str text = STR_INIT;
	size_t passed;

	str_add(&text, start);
	for (unsigned i = 0; i < times; i++)
		str_add(&text, repeated);
	return judge_bytes(text.data, text.len, &passed).status;
}

TEST(what_the_library_has_no_room_for_is_refused)
{
	assert_int_equal(status_with("GET /?", "&", 1000), 414);
	assert_int_equal(status_with("GET /?", "&", 100), 0);
	assert_int_equal(status_with("GET /", "x", 16 << 10), 414);
	assert_int_equal(status_with(GET "X: ", "x", 16 << 10), 431);
	assert_int_equal(status_with(GET "X: ", "x", 11 << 10), 0);
	assert_int_equal(status_with(GET, "X: y\r\n", 1000), 431);
	assert_int_equal(status_with(GET, "X: y\r\n", 100), 0);
	assert_int_equal(status_with(GET "Cookie: ", "a;", 1000), 431);
	assert_int_equal(status_with(POST "Transfer-Encoding: chunked\r\n\r\n0\r\n",
				     "X: y\r\n", 1000),
			 431);
	assert_int_equal(status_with(POST "Transfer-Encoding: chunked\r\n\r\n",
				     "1\r\nx\r\n", 10000),
			 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_clients_send_passes),
		cmocka_unit_test(lines_end_in_cr_lf_and_are_not_folded),
		cmocka_unit_test(names_and_values_are_what_they_look_like),
		cmocka_unit_test(a_request_line_has_three_words),
		cmocka_unit_test(there_is_one_host_one_credential_and_one_length),
		cmocka_unit_test(chunks_are_as_long_as_they_say),
		cmocka_unit_test(what_was_good_before_is_passed_on),
		cmocka_unit_test(one_empty_line_may_be_before_a_request),
		cmocka_unit_test(what_the_library_has_no_room_for_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
