#include "forward_test.h"

static atomic_bool saw_end;

static void look_for_end(struct peer_link *link)
{
	char bytes[4096];
	AUTO_STR struct str body = STR_INIT;

	if (!peer_hear_head(link) || !peer_say(link, CONTINUE))
		return;
	for (size_t got; (got = peer_hear(link, bytes, sizeof(bytes))) > 0;)
		str_add_bytes(&body, bytes, got);
	saw_end = text_ends_with(body.data, "0\r\n\r\n");
}

TEST(a_body_that_breaks_is_never_ended)
{
	static const struct {
		uint64_t body_size;
		bool breaks;
		const char *text;
	} table[] = {
		{ UINT64_MAX, true, "the client is gone" },
		{ 2000000, true, "the client is gone" },
		{ 2000000, false, "1900000 bytes early" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct source source = { .size = 100000, .breaks = table[i].breaks };
		struct http_request request = post(&source);
		request.body_size = table[i].body_size;
		saw_end = false;
		peer_start(look_for_end);
		assert_fails(open_it(&request), ERR_NETWORK);
		assert_non_null(strstr(err.text, table[i].text));
		assert_true(is_sent);
		close_it();
		peer_stop();
		assert_false(saw_end);
	}
}

static void say_and_close(struct peer_link *link)
{
	if (peer_hear_head(link))
		peer_say(link, script);
}

TEST(a_connection_that_breaks_before_the_answer_is_told_as_that)
{
	static const char *const scripts[] = {
		"",
		"HTTP/1.1 200 OK\r\nContent-Le",
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n",
		"HTTP/1.1 100 Continue\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nETag: x\r\n",
		"HTTP/1.1 200 OK\r\n\r\nends where the connection does",
		"SSH-2.0-OpenSSH_9.2p1 Debian\r\n",
		"\x16\x03\x01 some bytes that are no answer\r\n\r\n",
	};
	struct http_request request = get();

	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		script = scripts[i];
		peer_start(say_and_close);
		if (open_it(&request) == 0)
			fail_msg("case %zu: answered %d", i, forward_status(forward));
		if (err.class != ERR_NETWORK)
			fail_msg("case %zu: %s", i, err.text);
		assert_true(is_sent);
		assert_null(forward);
		assert_non_null(strstr(err.text, "127.0.0.1"));
		assert_string_not_equal(err.remedy, "");
		close_it();
		peer_stop();
	}
}

TEST(where_nobody_listens_nothing_was_sent)
{
	struct source source = { .size = 5 };
	struct http_request request = post(&source);

	peer_start(NULL);
	peer_stop();
	assert_fails(open_it(&request), ERR_NETWORK);
	assert_false(is_sent);
	assert_int_equal(source.calls, 0);
	close_it();
}

TEST(an_answer_that_breaks_off_is_no_whole_one)
{
	static const char *const scripts[] = {
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ncut",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ncut\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ncut",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ncut\r\n0\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ncut\r\nx\r\n",
	};
	struct http_request request = get();

	for (size_t i = 0; i < ARRAY_SIZE(scripts); i++) {
		AUTO_STR struct str text = STR_INIT;
		script = scripts[i];
		peer_start(say_and_close);
		assert_ok(open_it(&request));
		if (read_rest(&text) != -1)
			fail_msg("case %zu: is whole", i);
		assert_string_equal(text.data, "cut");
		assert_int_equal(err.class, ERR_NETWORK);
		assert_fails(forward_read(forward, (char[1]){ 0 }, 1, &err), ERR_NETWORK);
		close_it();
		peer_stop();
	}
}

static size_t answered; /* requests that are answered; the next one is not */

static void answer_some(struct peer_link *link)
{
	for (size_t i = 0; peer_hear_head(link); i++) {
		if (link->number == 0 && i == answered)
			return;
		bool is_end = false;
		bool has_body = strncmp(peer.heads[peer.requests - 1], "POST", 4) == 0;
		if (has_body && (!peer_say(link, CONTINUE) ||
				 peer_hear_chunk(link, NULL, &is_end) == 0))
			return;
		while (has_body && !is_end && peer_hear_chunk(link, NULL, &is_end) > 0)
			;
		peer_say(link, OK_ANSWER);
	}
}

TEST(a_request_on_a_kept_connection_that_died_is_repeated_once)
{
	for (int has_body = 0; has_body < 2; has_body++) {
		struct source source = { .size = 5 };
		struct http_request first = get();
		struct http_request second = has_body ? post(&source) : get();
		answered = 1;
		peer_start(answer_some);
		assert_ok(open_it(&first));
		assert_body("ok");
		close_it();
		assert_ok(open_it(&second));
		assert_body("ok");
		close_it();
		peer_stop();
		assert_int_equal(peer.connections, 2);
		assert_int_equal(peer.requests, 3);
		assert_int_equal(source.given, has_body ? 5 : 0);
		tear_down(NULL);
		set_up(NULL);
	}
}

static void die_in_second_body(struct peer_link *link)
{
	char bytes[5];

	if (peer_hear_head(link) && peer_say(link, OK_ANSWER) && peer_hear_head(link))
		recv(link->fd, bytes, sizeof(bytes), MSG_WAITALL);
}

TEST(a_body_that_was_begun_is_never_sent_again)
{
	struct source source = { .size = 5 };
	struct http_request first = get();
	struct http_request second = post(&source);

	second.body_size = 5;
	peer_start(die_in_second_body);
	assert_ok(open_it(&first));
	assert_body("ok");
	close_it();
	assert_fails(open_it(&second), ERR_NETWORK);
	assert_true(is_sent);
	assert_int_equal(source.given, 5);
	close_it();
	peer_stop();
	assert_int_equal(peer.requests, 2);
}

/* Nobody accepts, and the queue is full: connecting waits. */
static void fill_queue(int fds[2])
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);

	peer_listen(0);
	getsockname(peer.fd, (struct sockaddr *)&address, &len);
	for (int i = 0; i < 2; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		connect(fds[i], (struct sockaddr *)&address, len);
	}
	usleep(20 * 1000);
}

static void empty_queue(const int fds[2])
{
	close(fds[0]);
	close(fds[1]);
	close(peer.fd);
}

TEST(a_site_that_cannot_be_reached_is_given_up_in_time_unsent)
{
	int fds[2];

	fill_queue(fds);
	struct http_request request = get();
	request.connect_ms = 200;
	int64_t before = clock_boot_ms();
	assert_fails(open_it(&request), ERR_TIMEOUT);
	assert_true(clock_boot_ms() - before < 10000);
	assert_false(is_sent);
	close_it();
	empty_queue(fds);
}

struct soon {
	struct stop *stop;
	int64_t at;
};

static void *stop_soon(void *arg)
{
	struct soon *soon = arg;

	usleep(150 * 1000);
	soon->at = clock_boot_ms();
	stop_request(soon->stop);
	return NULL;
}

/* All of it, with a stop in its middle. */
static void assert_stops(struct http_request *request)
{
	struct stop stop;
	struct soon soon = { .stop = &stop };
	pthread_t thread;
	AUTO_STR struct str text = STR_INIT;

	stop_init(&stop);
	request->stop = &stop;
	request->silence_ms = 0;
	request->connect_ms = 60000;
	thread_start(&thread, "stopper", stop_soon, &soon);
	if (open_it(request) == 0)
		assert_int_equal(read_rest(&text), -1);
	int64_t now = clock_boot_ms();
	thread_join(thread);
	assert_int_equal(err.class, ERR_CANCELED);
	assert_in_range(now - soon.at, 0, 20000); /* a busy machine's */
	close_it();
	stop_clear(&stop);
}

TEST(a_stop_ends_every_phase_at_once)
{
	struct source endless = { .size = UINT64_MAX };
	int fds[2];

	fill_queue(fds);
	struct http_request request = get();
	assert_stops(&request);
	empty_queue(fds);

	script = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf";
	peer_start(follow_script);
	request = get();
	assert_stops(&request);
	peer_stop();

	peer_start(take_nothing);
	request = get();
	assert_stops(&request);
	request = post(&endless);
	assert_stops(&request);
	peer_stop();
}

/* What comes until then. */
static void assert_given_up(bool is_silent, int64_t most, struct str *text)
{
	struct http_request request = get();
	int64_t before = clock_boot_ms();

	request.silence_ms = is_silent ? most : 0;
	request.until = is_silent ? 0 : before + most;
	peer_start(follow_script);
	if (open_it(&request) == 0)
		assert_int_equal(read_rest(text), -1);
	int64_t took = clock_boot_ms() - before;
	assert_int_equal(err.class, ERR_TIMEOUT);
	assert_true(took >= most && took < 30000);
	close_it();
	peer_stop();
}

TEST(a_silent_site_and_a_late_one_are_given_up)
{
	static const char *const scripts[] = {
		"", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"
	};

	for (int i = 0; i < 4; i++) {
		AUTO_STR struct str text = STR_INIT;
		script = scripts[i / 2];
		assert_given_up(i % 2, i < 2 ? 200 : 2000, &text);
		/* a busy machine's peer may come too late */
		for (int more = 0; i >= 2 && text.len == 0 && more < 3; more++)
			assert_given_up(i % 2, 4000, &text);
		assert_string_equal(text.data, i < 2 ? "" : "half");
	}
}

static void count_requests(struct peer_link *link)
{
	while (peer_hear_head(link) && peer_say(link, OK_ANSWER))
		;
}

static void *ask_often(void *arg)
{
	size_t *good = arg;

	for (int i = 0; i < 40; i++) {
		struct http_request request = get();
		struct forward *one;
		struct err failure;
		char bytes[8];
		bool sent;
		if (forward_open(forwarder, &request, &one, &sent, &failure) == 0 &&
		    forward_read(one, bytes, sizeof(bytes), &failure) == 2)
			*good += forward_read(one, bytes, sizeof(bytes), &failure) == 0;
		forward_close(one);
	}
	return NULL;
}

TEST(threads_share_kept_connections)
{
	pthread_t threads[12];
	size_t good[ARRAY_SIZE(threads)] = { 0 };

	peer_start(count_requests);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		thread_start(&threads[i], "asker", ask_often, &good[i]);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		thread_join(threads[i]);
		assert_int_equal(good[i], 40);
	}
	peer_stop();
	assert_int_equal(peer.requests, 40 * ARRAY_SIZE(threads));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FORWARDS(a_body_that_breaks_is_never_ended),
		FORWARDS(a_connection_that_breaks_before_the_answer_is_told_as_that),
		FORWARDS(where_nobody_listens_nothing_was_sent),
		FORWARDS(an_answer_that_breaks_off_is_no_whole_one),
		FORWARDS(a_request_on_a_kept_connection_that_died_is_repeated_once),
		FORWARDS(a_body_that_was_begun_is_never_sent_again),
		FORWARDS(a_site_that_cannot_be_reached_is_given_up_in_time_unsent),
		FORWARDS(a_stop_ends_every_phase_at_once),
		FORWARDS(a_silent_site_and_a_late_one_are_given_up),
		FORWARDS(threads_share_kept_connections),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
