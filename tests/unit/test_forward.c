#include "forward_test.h"

#include <sys/syscall.h>

static atomic_int ahead_s; /* how far the clock is set forward by which limits go */

/* Stands before the C library's. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	if (syscall(SYS_clock_gettime, clock, now) != 0)
		return -1;
	if (clock == CLOCK_BOOTTIME)
		now->tv_sec += ahead_s;
	return 0;
}

static void tell_much(struct peer_link *link)
{
	AUTO_STR struct str body = STR_INIT;
	bool is_end = false;

	if (!peer_hear_head(link) || !peer_say(link, CONTINUE))
		return;
	while (peer_hear_chunk(link, &body, &is_end) > 0)
		;
	peer_say(link, "HTTP/1.1 203 Yes\r\nContent-Type: application/x-git\r\n"
		       "content-encoding: gzip\r\nRetry-After: 7\r\nX: y\r\n"
		       "WWW-Authenticate: Basic realm=\"x\"\r\n"
		       "WWW-Authenticate: Bearer\r\nTransfer-Encoding: chunked\r\n\r\n");
	peer_say(link, is_end ? "3\r\nend\r\n" : "3\r\ncut\r\n");
	peer_say(link, "5\r\n");
	peer_say_bytes(link, body.data, body.len);
	peer_say(link, "\r\n0\r\nTrailer: no\r\n\r\n");
}

TEST(a_request_and_its_answer_are_handed_on_as_they_come)
{
	const struct http_header headers[] = {
		{ "Content-Type", "application/x-git-receive-pack-request" },
		{ "Authorization", "Basic eDp5" },
		{ "Accept-Encoding", "gzip" },
		{ "Git-Protocol", "version=1" },
		{ "X-Empty", "" },
		{ "via", "1.0 fred, 1.1 p.example.net (Apache)" },
		{ "Expect", "100-continue" },
		{ "Transfer-Encoding", "chunked" },
		{ "Content-Length", "77" },
		{ "Host", "elsewhere" },
		{ "Connection", "close" },
		{ NULL, NULL },
	};
	struct source source = { .size = 5, .step = 2 };
	struct http_request request = post(&source);

	request.headers = headers;
	peer_start(tell_much);
	assert_ok(open_it(&request));
	assert_true(is_sent);
	assert_int_equal(forward_status(forward), 203);
	assert_header("Content-Type", "application/x-git");
	assert_header("Content-Encoding", "gzip");
	assert_header("WWW-Authenticate", "Basic realm=\"x\", Bearer");
	assert_header("Retry-After", "7");
	assert_body("endbbbbb");
	close_it();
	peer_stop();
	const char *head = peer.heads[0];
	assert_ptr_equal(strstr(head, "POST /a%2Fb?x=../y HTTP/1.1\r\n"), head);
	assert_non_null(strstr(head, "\r\nAuthorization: Basic eDp5\r\n"));
	assert_non_null(strstr(head, "\r\nX-Empty:\r\n"));
	assert_non_null(strstr(head, "\r\nVia: 1.0 fred, 1.1 p.example.net (Apache), "
				     "1.1 refrelay-paris\r\n"));
	assert_non_null(strstr(head, "\r\nHost: 127.0.0.1:"));
	assert_int_equal(count(head, "\r\nExpect:"), 1);
	assert_int_equal(count(head, "\r\nTransfer-Encoding:"), 1);
	assert_int_equal(count(head, "\r\nContent-Type:"), 1);
	assert_int_equal(count(head, "\r\nAccept-Encoding:"), 1);
	assert_int_equal(count(head, "\r\nAccept:"), 0);
	assert_int_equal(count(head, "\r\nContent-Length:"), 0);
	assert_int_equal(count(head, "\r\nConnection:"), 0);
}

TEST(what_is_no_url_or_no_header_is_refused_unsent)
{
	static const char *const urls[] = {
		"",
		"git.example.com",
		"ftp://git.example.com/",
		"https://",
		"http://127.0.0.1:99999/",
		"http://127.0.0.1/\r\nX: y",
		"http://127.0.0.1/a b",
		"http://127.0.0.1/#a",
		"http://user:pass-word@127.0.0.1/",
	};
	static const struct http_header headers[][2] = {
		{ { "X", "a\r\nTransfer-Encoding: chunked" } },
		{ { "X", "a\n" } },
		{ { "X: y\r\nZ", "a" } },
		{ { "X Y", "a" } },
		{ { "", "a" } },
	};

	peer_start(NULL);
	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		struct http_request request = { .method = "GET", .url = urls[i] };
		if (open_it(&request) == 0 || err.class != ERR_CONFIG)
			fail_msg("\"%s\": %s", urls[i], err.text);
		assert_false(is_sent);
		assert_null(strstr(err.text, "pass-word"));
	}
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++) {
		struct http_request request = get();
		request.headers = headers[i];
		assert_fails(open_it(&request), ERR_CONFIG);
		assert_false(is_sent);
	}
	peer_stop();
	assert_int_equal(peer.connections, 0);
}

static void say_bytewise(struct peer_link *link)
{
	int yes = 1;

	setsockopt(link->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	if (!peer_hear_head(link))
		return;
	for (const char *c = script; *c; c++) {
		peer_say_bytes(link, c, 1);
		usleep(200);
	}
	peer_hear_head(link);
}

TEST(a_head_may_come_in_any_pieces_and_after_others)
{
	struct http_request request = get();

	script = "HTTP/1.1 100 Continue\r\n\r\n"
		 "HTTP/1.1 103 Early Hints\r\nContent-Type: text/no\r\n\r\n"
		 "HTTP/1.1 200 OK\r\nContent-Type:text/x;\r\n  charset=y \r\n"
		 "CONTENT-LENGTH: 00012\r\n\r\nHTTP/1.1 500";
	peer_start(say_bytewise);
	assert_ok(open_it(&request));
	assert_int_equal(forward_status(forward), 200);
	assert_header("Content-Type", "text/x; charset=y");
	assert_body("HTTP/1.1 500");
	close_it();
	peer_stop();
}

TEST(any_status_is_handed_on_and_none_is_followed)
{
	static const struct {
		int status;
		const char *script, *body;
	} table[] = {
		{ 204, "HTTP/1.1 204 No Content\r\n\r\n", "" },
		{ 304, "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "" },
		{ 302,
		  "HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 2\r\n\r\nat",
		  "at" },
		{ 401,
		  "HTTP/1.1 401 Who\r\nWWW-Authenticate: Basic\r\n"
		  "Content-Length: 0\r\n\r\n",
		  "" },
		{ 417, "HTTP/1.1 417 No\r\nContent-Length: 2\r\n\r\nno", "no" },
		{ 503, "HTTP/1.1 503 Later\r\nContent-Length: 2\r\n\r\nno", "no" },
	};
	struct http_request request = get();

	peer_start(follow_script);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		script = table[i].script;
		assert_ok(open_it(&request));
		assert_int_equal(forward_status(forward), table[i].status);
		assert_body(table[i].body);
		close_it();
	}
	peer_stop();
	assert_int_equal(peer.connections, 1);
	assert_int_equal(peer.requests, ARRAY_SIZE(table));
}

/* Takes a body of any size, and says how large it was. */
static void take_body(struct peer_link *link)
{
	static char bytes[1 << 16];
	char text[128];
	uint64_t size = 0, left = 0;
	bool is_end = false;

	if (!peer_hear_head(link) || !peer_say(link, CONTINUE))
		return;
	const char *said = strstr(peer.heads[0], "Content-Length: ");
	if (said) {
		for (left = strtoull(said + 16, NULL, 10); size < left;) {
			size_t got = peer_hear(link, bytes, sizeof(bytes));
			if (got == 0)
				return;
			size += got;
		}
	}
	for (size_t got = 1; !said && got > 0; size += got)
		got = peer_hear_chunk(link, NULL, &is_end);
	snprintf(text, sizeof(text),
		 "HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n%012" PRIu64, size);
	if (said || is_end)
		peer_say(link, text);
}

static void say_the_head_only(struct peer_link *link)
{
	if (peer_hear_head(link))
		peer_say(link, "HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n"
			       "Content-Type: x/y\r\n\r\n");
}

TEST(of_what_is_asked_for_its_head_no_body_is_awaited)
{
	struct http_request request = get();

	request.method = "HEAD";
	peer_start(say_the_head_only);
	assert_ok(open_it(&request));
	assert_int_equal(forward_status(forward), 200);
	assert_header("Content-Type", "x/y");
	assert_body("");
	close_it();
	peer_stop();
	assert_ptr_equal(strstr(peer.heads[0], "HEAD "), peer.heads[0]);
}

TEST(large_bodies_of_known_and_unknown_size_arrive_whole)
{
	for (int is_known = 0; is_known < 2; is_known++) {
		struct source source = { .size = (40 << 20) + 1, .step = 50001 };
		struct http_request request = post(&source);
		if (is_known)
			request.body_size = source.size;
		peer_start(take_body);
		assert_ok(open_it(&request));
		assert_body("000041943041");
		close_it();
		peer_stop();
		assert_int_equal(count(peer.heads[0], "Expect: 100-continue"), 1);
	}
}

TEST(a_site_that_takes_nothing_holds_the_body_back_and_is_silent)
{
	struct source source = { .size = UINT64_MAX };
	struct http_request request = post(&source);

	request.silence_ms = 300;
	peer_start(take_nothing);
	int64_t before = clock_boot_ms();
	assert_fails(open_it(&request), ERR_TIMEOUT);
	int64_t took = clock_boot_ms() - before;
	assert_true(took >= 300 && took < 10000);
	assert_true(is_sent);
	assert_true(source.given > 0 && source.given < 16 << 20);
	close_it();
	peer_stop();
}

static atomic_uint_least64_t said;

static void say_endlessly(struct peer_link *link)
{
	static char bytes[1 << 16];

	if (!peer_hear_head(link) ||
	    !peer_say(link, "HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n"))
		return;
	while (peer_say_bytes(link, bytes, sizeof(bytes)))
		said += sizeof(bytes);
}

TEST(a_reader_that_reads_nothing_holds_the_answer_back)
{
	struct http_request request = get();
	char bytes[4096];
	uint64_t before, got = 0;

	said = 0;
	request.silence_ms = 20000;
	peer_start(say_endlessly);
	assert_ok(open_it(&request));
	do {
		before = said;
		usleep(500 * 1000);
	} while (said != before);
	ahead_s += 30; /* longer than it may be silent: we are, not it */
	assert_true(said < 16 << 20);
	while (got < 32 << 20) {
		ssize_t now = forward_read(forward, bytes, sizeof(bytes), &err);
		if (now <= 0)
			fail_msg("%s", err.text);
		got += (uint64_t)now;
	}
	assert_true(said < 64 << 20);
	close_it();
	peer_stop();
}

static const char *refusal;

/* Takes some of the body, or none, and refuses it. */
static void refuse_early(struct peer_link *link)
{
	char bytes[100000];

	if (!peer_hear_head(link) || !peer_say(link, CONTINUE) ||
	    recv(link->fd, bytes, sizeof(bytes), MSG_WAITALL) <= 0)
		return;
	size_t head = (size_t)(strstr(refusal, "\r\n\r\n") + 4 - refusal);
	peer_say_bytes(link, refusal, head);
	usleep(30 * 1000);
	peer_say(link, refusal + head);
	peer_wait_for_end(link);
}

TEST(a_refusal_in_the_middle_of_a_body_ends_its_sending)
{
	static const char *const refusals[] = {
		REFUSAL "\r\nwho",
		REFUSAL "Connection: close\r\n\r\nwho",
		("HTTP/1.1 401 Who\r\nTransfer-Encoding: chunked\r\n"
		 "Connection: close\r\nWWW-Authenticate: Basic realm=\"x\"\r\n\r\n"
		 "3\r\nwho\r\n0\r\n\r\n"),
	};

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct source source = { .size = UINT64_MAX };
		struct http_request request = post(&source);
		refusal = refusals[i];
		peer_start(refuse_early);
		if (open_it(&request) != 0)
			fail_msg("%zu: %s", i, err.text);
		assert_int_equal(forward_status(forward), 401);
		assert_header("WWW-Authenticate", "Basic realm=\"x\"");
		size_t calls = source.calls;
		assert_body("who");
		assert_int_equal(source.calls, calls);
		close_it();
		peer_stop();
	}
}

static void refuse_at_once(struct peer_link *link)
{
	if (peer_hear_head(link))
		peer_say(link, refusal);
	peer_wait_for_end(link);
}

TEST(a_refusal_of_the_head_leaves_the_body_unread)
{
	static const char *const refusals[] = { REFUSAL "\r\nwho",
						REFUSAL "Connection: close\r\n\r\nwho" };

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		struct source source = { .size = 5 };
		struct http_request request = post(&source);
		refusal = refusals[i];
		peer_start(refuse_at_once);
		assert_ok(open_it(&request));
		assert_int_equal(forward_status(forward), 401);
		assert_body("who");
		close_it();
		peer_stop();
		assert_int_equal(source.calls, 0);
	}
}

static atomic_bool has_refused;

static void refuse_behind_silence(struct peer_link *link)
{
	char byte;

	if (!peer_hear_head(link) || !peer_say(link, CONTINUE) ||
	    peer_hear(link, &byte, 1) == 0)
		return;
	peer_say(link, REFUSAL "Connection: close\r\n\r\nwho");
	peer_reset(link);
	has_refused = true;
}

/* The write of the second piece would fail: the connection is reset. */
TEST(a_refusal_that_comes_while_the_client_is_silent_is_not_lost)
{
	struct source source = { .size = 1 << 20,
				 .step = 1000,
				 .waits_for = &has_refused };
	struct http_request request = post(&source);

	has_refused = false;
	peer_start(refuse_behind_silence);
	assert_ok(open_it(&request));
	assert_int_equal(forward_status(forward), 401);
	assert_body("who");
	assert_in_range(source.calls, 1, 2);
	close_it();
	peer_stop();
}

static void refuse_expectations(struct peer_link *link)
{
	if (peer_hear_head(link))
		peer_say(link, "HTTP/1.1 417 No\r\nContent-Length: 40\r\n\r\n"
			       "a body that is no answer for the client.");
	take_body(link);
}

TEST(a_server_that_refuses_to_be_asked_is_given_the_body)
{
	struct source source = { .size = 5 };
	struct http_request request = post(&source);

	peer_start(refuse_expectations);
	assert_ok(open_it(&request));
	assert_int_equal(forward_status(forward), 200);
	assert_body("000000000005");
	close_it();
	peer_stop();
	assert_int_equal(count(peer.heads[0], "Expect:"), 1);
	assert_int_equal(count(peer.heads[1], "Expect:"), 0);
}

/* Both ways at once: more than fits on the way. */
static void echo(struct peer_link *link)
{
	bool is_end = false;

	if (!peer_hear_head(link) || !peer_say(link, CONTINUE) ||
	    !peer_say(link, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
		return;
	for (;;) {
		AUTO_STR struct str chunk = STR_INIT;
		char line[32];
		size_t got = peer_hear_chunk(link, &chunk, &is_end);
		if (got == 0)
			break;
		snprintf(line, sizeof(line), "%zx\r\n", got);
		if (!peer_say(link, line) || !peer_say_bytes(link, chunk.data, got) ||
		    !peer_say(link, "\r\n"))
			return;
	}
	if (is_end)
		peer_say(link, "0\r\n\r\n");
}

TEST(an_answer_that_begins_before_the_body_ends_is_read_beside_it)
{
	struct source source = { .size = 20 << 20 };
	struct http_request request = post(&source);
	AUTO_STR struct str text = STR_INIT;

	peer_start(echo);
	assert_ok(open_it(&request));
	assert_int_equal(forward_status(forward), 200);
	if (read_rest(&text) != 0)
		fail_msg("%s", err.text);
	assert_int_equal(text.len, source.size);
	assert_int_equal(strspn(text.data, "b"), source.size);
	close_it();
	peer_stop();
}

TEST(a_site_knows_itself_in_via)
{
	static const struct {
		const char *via;
		bool is_loop;
	} table[] = {
		{ NULL, false },
		{ "", false },
		{ "1.1 refrelay-paris", true },
		{ "1.1 Refrelay-Paris", true },
		{ "1.1 refrelay-paris2", false },
		{ "1.1 refrelay-pari", false },
		{ "1.1 paris", false },
		{ "1.1 refrelay-paris(why)", true },
		{ "1.0 fred,\tHTTP/1.1  refrelay-paris (why)", true },
		{ "1.0 fred (a, 1.1 refrelay-paris, b)", false },
		{ "1.0 fred (\\), 1.1 refrelay-paris", false },
		{ "1.0 fred (a) , , 1.1 refrelay-paris, 1.1 x", true },
		{ "1.0,1.1 refrelay-paris", true },
		{ "refrelay-paris", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		if (forward_is_loop(table[i].via, "paris") != table[i].is_loop)
			fail_msg("\"%s\"", table[i].via);
}

static void take_and_say_nothing(struct peer_link *link)
{
	char byte;

	if (peer_hear_head(link))
		while (read(link->fd, &byte, 1) > 0)
			;
}

static void say_ok(struct peer_link *link)
{
	if (peer_hear_head(link))
		peer_say(link, OK_ANSWER);
}

TEST(a_site_that_does_not_answer_is_known_until_it_does)
{
	struct http_request request = get();

	assert_false(forwarder_is_unanswered(forwarder, 10000));
	request.silence_ms = 200;
	peer_start(take_and_say_nothing);
	assert_fails(open_it(&request), ERR_TIMEOUT);
	close_it();
	peer_stop();
	assert_true(forwarder_is_unanswered(forwarder, 10000));
	usleep(20 * 1000);
	assert_false(forwarder_is_unanswered(forwarder, 10));
	peer_start(say_ok);
	request = get();
	assert_ok(open_it(&request));
	close_it();
	peer_stop();
	assert_false(forwarder_is_unanswered(forwarder, 10000));
}

TEST(a_body_that_breaks_says_nothing_of_the_other_site)
{
	struct source source = { .size = 0, .breaks = true };
	struct http_request request = post(&source);

	peer_start(take_and_say_nothing);
	assert_fails(open_it(&request), ERR_NETWORK);
	close_it();
	peer_stop();
	assert_false(forwarder_is_unanswered(forwarder, 10000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FORWARDS(a_request_and_its_answer_are_handed_on_as_they_come),
		FORWARDS(what_is_no_url_or_no_header_is_refused_unsent),
		FORWARDS(a_head_may_come_in_any_pieces_and_after_others),
		FORWARDS(any_status_is_handed_on_and_none_is_followed),
		FORWARDS(of_what_is_asked_for_its_head_no_body_is_awaited),
		FORWARDS(large_bodies_of_known_and_unknown_size_arrive_whole),
		FORWARDS(a_site_that_takes_nothing_holds_the_body_back_and_is_silent),
		FORWARDS(a_reader_that_reads_nothing_holds_the_answer_back),
		FORWARDS(a_refusal_in_the_middle_of_a_body_ends_its_sending),
		FORWARDS(a_refusal_of_the_head_leaves_the_body_unread),
		FORWARDS(a_refusal_that_comes_while_the_client_is_silent_is_not_lost),
		FORWARDS(a_server_that_refuses_to_be_asked_is_given_the_body),
		FORWARDS(an_answer_that_begins_before_the_body_ends_is_read_beside_it),
		FORWARDS(a_site_knows_itself_in_via),
		FORWARDS(a_site_that_does_not_answer_is_known_until_it_does),
		FORWARDS(a_body_that_breaks_says_nothing_of_the_other_site),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
