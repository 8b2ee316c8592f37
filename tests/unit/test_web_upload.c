#include "web_test.h"

#include <sys/resource.h>
#include <zlib.h>

enum { MIB = 1 << 20, LARGE = 50 * MIB };

/* What the handlers have seen. */
static atomic_int started, ended, held;
static atomic_int error_class; /* of the last that failed to read */
static pthread_mutex_t seen_mutex = PTHREAD_MUTEX_INITIALIZER;
static char last_header[64]; /* guarded by seen_mutex */
static struct stop gate;     /* /slow waits for it */

/* Reads all, and says what it was. */
static int read_sum(const struct web_request *request, struct str *out, struct err *e)
{
	unsigned char block[10007];
	uLong crc = 0;
	size_t total = 0;
	ssize_t count;

	while ((count = web_read_upload(request, block, sizeof(block), e)) > 0) {
		crc = crc32(crc, block, (uInt)count);
		total += (size_t)count;
	}
	if (count < 0) {
		atomic_store(&error_class, (int)e->class);
		return -1;
	}
	/* The end stays the end. */
	assert_int_equal(web_read_upload(request, block, 1, e), 0);
	str_addf(out, "%zu bytes, crc %lu\n", total, crc);
	return 0;
}

static int post_sum(const struct web_request *request, struct web_response *response,
		    struct err *e)
{
	assert_true(request->has_upload && request->may_wait);
	atomic_fetch_add(&started, 1);
	int result = read_sum(request, &response->body, e);
	/* Whether or not the client is still there. */
	const char *header = web_header(request, "x-note");
	assert_non_null(request->client);
	lock(&seen_mutex);
	snprintf(last_header, sizeof(last_header), "%s", header ? header : "");
	unlock(&seen_mutex);
	atomic_fetch_add(&ended, 1);
	return result;
}

static int post_slow(const struct web_request *request, struct web_response *response,
		     struct err *e)
{
	atomic_fetch_add(&held, 1);
	stop_wait(&gate, 10000);
	return post_sum(request, response, e);
}

/* Answers with ?status= when it has read ?after= bytes. */
static int post_early(const struct web_request *request, struct web_response *response,
		      struct err *e)
{
	uint64_t after = 0, status = 403;
	char byte;

	assert_ok(web_query_number(request, "after", INT32_MAX, &after, e));
	assert_ok(web_query_number(request, "status", 599, &status, e));
	for (; after > 0; after--)
		assert_int_equal(web_read_upload(request, &byte, 1, e), 1);
	response->status = (int)status;
	str_add(&response->body, "that is all\n");
	atomic_fetch_add(&ended, 1);
	return 0;
}

static atomic_int open_streams;

static ssize_t read_stream(void *arg, void *buffer, size_t size)
{
	size_t *left = arg;

	size = size < *left ? size : *left;
	memset(buffer, 's', size);
	*left -= size;
	return (ssize_t)size;
}

static void close_stream(void *arg)
{
	free(arg);
	atomic_fetch_sub(&open_streams, 1);
}

/* A stream of ?len=, when it has read all, or ?early. */
static int post_stream(const struct web_request *request, struct web_response *response,
		       struct err *e)
{
	AUTO_STR struct str sum = STR_INIT;
	uint64_t len = 700000; /* long enough to be sent by its worker */

	if (!web_query(request, "early"))
		read_sum(request, &sum, e);
	assert_ok(web_query_number(request, "len", INT32_MAX, &len, e));
	size_t *left = xmalloc(sizeof(*left));
	*left = len;
	atomic_fetch_add(&open_streams, 1);
	response->read = read_stream;
	response->close = close_stream;
	response->stream = left;
	atomic_fetch_add(&ended, 1);
	return 0;
}

static int get_hello(const struct web_request *request, struct web_response *response,
		     struct err *e)
{
	(void)request;
	(void)e;
	str_add(&response->body, "hello\n");
	return 0;
}

static const struct web_route routes[] = {
	{ "POST", "/sum", WEB_ANYBODY, WEB_BODY_STREAM, post_sum },
	{ "POST", "/slow", WEB_ANYBODY, WEB_BODY_STREAM, post_slow },
	{ "POST", "/early", WEB_ANYBODY, WEB_BODY_STREAM, post_early },
	{ "POST", "/stream", WEB_ANYBODY, WEB_BODY_STREAM, post_stream },
	{ "GET", "/hello", WEB_ANYBODY, WEB_QUICK, get_hello },
	{ 0 },
};

static int setup_idle(void **state, int64_t idle_ms)
{
	if (test_make_root(state))
		return -1;
	atomic_store(&started, 0);
	atomic_store(&ended, 0);
	atomic_store(&held, 0);
	atomic_store(&error_class, ERR_NONE);
	*last_header = '\0';
	stop_init(&gate);
	start_server(routes, idle_ms);
	return 0;
}

static int setup(void **state)
{
	return setup_idle(state, 0);
}

static int setup_impatient(void **state)
{
	return setup_idle(state, 400);
}

static int teardown(void **state)
{
	stop_request(&gate);
	web_server_stop(TAKE(server), 0);
	stop_clear(&gate);
	assert_int_equal(atomic_load(&open_streams), 0);
	return test_remove_root(state);
}

/* Until it is so; fails after a minute. */
static void wait_for(atomic_int *number, int wanted)
{
	int64_t until = clock_boot_ms() + 60000;

	while (atomic_load(number) != wanted) {
		if (clock_boot_ms() >= until)
			fail_msg("%d, and not %d", atomic_load(number), wanted);
		usleep(1000);
	}
}

/* It repeats itself after a MiB, so a piece of that length may begin anywhere in it. */
static const unsigned char *noise(void)
{
	static unsigned char bytes[2 * MIB];

	if (bytes[1] == 0)
		for (size_t i = 0; i < sizeof(bytes); i++) {
			size_t n = i % MIB;
			bytes[i] = (unsigned char)(((n * n >> 7) ^ n) | (n == 1));
		}
	return bytes;
}

/* What /sum says of so much noise; static. */
static const char *sum_of(size_t len)
{
	static char text[64];
	uLong crc = 0;

	for (size_t at = 0; at < len; at += MIB)
		crc = crc32(crc, noise(), (uInt)(len - at < MIB ? len - at : MIB));
	snprintf(text, sizeof(text), "%zu bytes, crc %lu\n", len, crc);
	return text;
}

/* Sends noise in pieces of `piece`, in chunks or as it is. */
static void send_noise(int fd, size_t len, size_t piece, bool in_chunks)
{
	char head[32];

	for (size_t at = 0; at < len; at += piece) {
		size_t count = len - at < piece ? len - at : piece;
		snprintf(head, sizeof(head), "%zx\r\n", count);
		if (in_chunks)
			send_text(fd, head);
		send_bytes(fd, noise() + at % MIB, count);
		if (in_chunks)
			send_text(fd, "\r\n");
	}
	if (in_chunks)
		send_text(fd, "0\r\n\r\n");
}

static void send_head(int fd, const char *target, size_t len, const char *more)
{
	AUTO_STR struct str head = STR_INIT;

	str_addf(&head, "POST %s HTTP/1.1\r\nHost: h\r\n%s", target, more);
	if (len == SIZE_MAX)
		str_add(&head, "Transfer-Encoding: chunked\r\n\r\n");
	else
		str_addf(&head, "Content-Length: %zu\r\n\r\n", len);
	send_text(fd, head.data);
}

static long peak_memory(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss; /* KiB */
}

TEST(a_large_body_passes_in_little_memory)
{
	static const size_t pieces[] = { 0, MIB, 65536, 4096 };

	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		AUTO_STR struct str answer = STR_INIT;
		AUTO_CLOSE int fd = dial();
		size_t len = pieces[i] == 4096 ? LARGE / 10 : LARGE;
		long before = peak_memory();
		send_head(fd, "/sum", pieces[i] ? SIZE_MAX : len,
			  "Connection: close\r\n");
		send_noise(fd, len, pieces[i] ? pieces[i] : MIB, pieces[i]);
		assert_true(receive_all(fd, 10000, &answer));
		assert_int_equal(status_of(answer.data), 200);
		assert_string_equal(body_of(answer.data), sum_of(len));
		assert_in_range(peak_memory() - before, 0, 20 << 10);
	}
}

TEST(a_body_of_nothing_is_read_as_such)
{
	assert_string_equal(body_of(exchange("POST /sum HTTP/1.1", "", 0)), sum_of(0));
	assert_string_equal(body_of(exchange("POST /sum HTTP/1.1", NULL, 0)), sum_of(0));
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();
	send_head(fd, "/sum", SIZE_MAX, "Connection: close\r\n");
	send_text(fd, "0\r\n\r\n");
	assert_true(receive_all(fd, 5000, &answer));
	assert_string_equal(body_of(answer.data), sum_of(0));
}

/* How much noise goes into the socket before nothing does for a while. */
static size_t fill(int fd, size_t max)
{
	struct pollfd watched = { .fd = fd, .events = POLLOUT };
	size_t total = 0;

	while (total < max && poll(&watched, 1, 300) > 0) {
		size_t left = max - total < MIB ? max - total : MIB;
		ssize_t count = send(fd, noise() + total % MIB, left,
				     MSG_NOSIGNAL | MSG_DONTWAIT);
		assert_true(count > 0);
		total += (size_t)count;
	}
	return total;
}

TEST(a_slow_handler_holds_the_client_up)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();
	int size = 64 << 10;

	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	send_head(fd, "/slow", LARGE, "Connection: close\r\n");
	size_t sent = fill(fd, LARGE);
	assert_in_range(sent, 1, LARGE / 3);
	assert_int_equal(atomic_load(&started), 0);
	/* Others are served meanwhile. */
	assert_int_equal(status_of(get("/hello")), 200);
	stop_request(&gate);
	for (size_t at = sent; at < LARGE; at += MIB)
		send_bytes(fd, noise() + at % MIB, LARGE - at < MIB ? LARGE - at : MIB);
	assert_true(receive_all(fd, 10000, &answer));
	assert_string_equal(body_of(answer.data), sum_of(LARGE));
}

/* How long it takes until the reader of one that leaves has heard of it. */
static int64_t leave(size_t announced, size_t sent)
{
	int number = atomic_load(&started) + 1;
	int fd = dial();

	send_head(fd, "/sum", announced, "X-Note: still here\r\n");
	send_noise(fd, sent, 65536, false);
	wait_for(&started, number);
	atomic_store(&error_class, ERR_NONE);
	int64_t left_at = clock_boot_ms();
	close(fd);
	wait_for(&ended, number);
	int64_t took_ms = clock_boot_ms() - left_at;
	assert_int_equal(atomic_load(&error_class), ERR_NETWORK);
	assert_string_equal(last_header, "still here");
	return took_ms;
}

TEST(when_the_client_leaves_its_reader_hears_of_it_at_once)
{
	static const size_t announced[] = { LARGE, SIZE_MAX };

	/* web/listen.c would find it only by its own look, a second later at the
	 * earliest. A quick end, even if it is one of three, did not wait for that. */
	for (size_t i = 0; i < ARRAY_SIZE(announced); i++) {
		int64_t took_ms = INT64_MAX;
		for (int try = 0; try < 3 && took_ms > 900; try++)
			took_ms = leave(announced[i], 0);
		assert_in_range(took_ms, 0, 900);
	}
	/* If its end came together with bytes, web/listen.c must see it, which takes it
	 * six looks, one a second. */
	assert_in_range(leave(LARGE, 3 * MIB), 0, 20000);
}

TEST(what_ends_in_the_middle_of_a_chunk_is_no_body)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	send_head(fd, "/sum", SIZE_MAX, "");
	send_text(fd, "5\r\nhello\r\n8\r\nand");
	shutdown(fd, SHUT_WR);
	wait_for(&ended, 1);
	assert_int_equal(atomic_load(&error_class), ERR_NETWORK);
	assert_true(receive_all(fd, 60000, &answer));
	assert_string_equal(answer.data, "");
}

TEST(who_sends_a_few_bytes_now_and_then_is_cut)
{
	AUTO_CLOSE int fd = dial();
	int64_t until = clock_boot_ms() + 60000;

	send_head(fd, "/sum", LARGE, "");
	while (atomic_load(&ended) == 0) {
		assert_true(clock_boot_ms() < until);
		send_bytes(fd, noise(), 100);
		usleep(20000);
	}
	assert_int_equal(atomic_load(&error_class), ERR_NETWORK);
}

/* If we are late with our bytes we are cut, and rightly: that proves nothing. */
TEST(who_is_held_up_by_us_is_not_cut)
{
	AUTO_STR struct str answer = STR_INIT;

	for (int i = 0; i < 10 && answer.len == 0; i++) {
		AUTO_CLOSE int fd = dial();
		send_head(fd, "/slow", 2 * MIB, "Connection: close\r\n");
		send_noise(fd, 2 * MIB, MIB, false);
		usleep(1000 * 1000); /* more than twice the time it would have */
		stop_request(&gate);
		assert_true(receive_all(fd, 20000, &answer));
		wait_for(&ended, atomic_load(&held));
		stop_clear(&gate);
		stop_init(&gate);
	}
	assert_string_equal(body_of(answer.data), sum_of(2 * MIB));
}

TEST(what_a_handler_leaves_is_thrown_away_and_the_connection_stays)
{
	static const char *const targets[] = { "/early", "/early?after=100000",
					       "/early?status=200" };
	AUTO_CLOSE int fd = dial();

	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		bool is_success = strstr(targets[i], "200");
		size_t len = is_success ? 30 * MIB : 3 * MIB;
		AUTO_STR struct str answer = STR_INIT;
		send_head(fd, targets[i], i == 1 ? SIZE_MAX : len, "");
		send_noise(fd, len, MIB, i == 1);
		receive_until(fd, "that is all\n", &answer);
		assert_int_equal(status_of(answer.data), is_success ? 200 : 403);
	}
	AUTO_STR struct str answer = STR_INIT;
	send_text(fd, "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
	receive_until(fd, "hello\n", &answer);
}

TEST(what_is_refused_is_not_taken_for_ever)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	send_head(fd, "/early", SIZE_MAX, "");
	wait_for(&ended, 1);
	send_noise(fd, 24 * MIB, MIB, true);
	assert_true(receive_all(fd, 5000, &answer));
	assert_string_equal(answer.data, "");
}

/* The caller frees. */
static unsigned char *gzip(const void *bytes, size_t len, size_t *packed_len)
{
	z_stream stream = { 0 };
	unsigned char *packed = xmalloc(len + 1000);

	assert_int_equal(deflateInit2(&stream, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY),
			 Z_OK);
	stream.next_in = (Bytef *)(uintptr_t)bytes;
	stream.avail_in = (uInt)len;
	stream.next_out = packed;
	stream.avail_out = (uInt)(len + 1000);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	*packed_len = stream.total_out;
	deflateEnd(&stream);
	return packed;
}

#define POST_GZIP "POST /sum HTTP/1.1\r\nContent-Encoding: "

TEST(gzip_is_inflated_as_it_comes)
{
	static const size_t sizes[] = { 0, 1, 10007, 300000, MIB };
	size_t len;

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		AUTO_FREE unsigned char *packed = gzip(noise(), sizes[i], &len);
		assert_string_equal(body_of(exchange(POST_GZIP "gzip", packed, len)),
				    sum_of(sizes[i]));
	}
	/* Little that stands for much; and two members for one. */
	AUTO_FREE unsigned char *zeros = xcalloc(1, 20 * MIB);
	AUTO_FREE unsigned char *packed = gzip(zeros, 20 * MIB, &len);
	AUTO_FREE char *twice = xmalloc(2 * len);
	memcpy(twice, packed, len);
	memcpy(twice + len, packed, len);
	uLong crc = crc32(crc32(0, zeros, 20 * MIB), zeros, 20 * MIB);
	AUTO_FREE char *expected = xasprintf("%d bytes, crc %lu\n", 40 * MIB, crc);
	assert_string_equal(body_of(exchange(POST_GZIP "x-gzip", twice, 2 * len)),
			    expected);
}

TEST(gzip_that_is_cut_or_garbage_is_400)
{
	size_t len;
	AUTO_FREE unsigned char *packed = gzip("0123456789", 10, &len);

	for (size_t cut = 1; cut <= len; cut++)
		if (status_of(exchange(POST_GZIP "gzip", packed, len - cut)) != 400)
			fail_msg("cut by %zu", cut);
	AUTO_FREE unsigned char *longer = xcalloc(1, len + 8);
	memcpy(longer, packed, len);
	assert_int_equal(status_of(exchange(POST_GZIP "gzip", longer, len + 8)), 400);
	packed[len - 8] ^= 1; /* the check sum */
	assert_int_equal(status_of(exchange(POST_GZIP "gzip", packed, len)), 400);
	assert_int_equal(atomic_load(&error_class), ERR_CONFIG);
	/* No handler is asked for what cannot be read. */
	int before = atomic_load(&started);
	assert_int_equal(status_of(exchange(POST_GZIP "br", packed, len)), 415);
	assert_int_equal(atomic_load(&started), before);
}

TEST(who_expects_100_is_told_to_go_on)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	send_head(fd, "/sum", 2 * MIB, "Expect: 100-continue\r\n");
	receive_until(fd, "HTTP/1.1 100 Continue\r\n\r\n", &answer);
	send_noise(fd, 2 * MIB, MIB, false);
	receive_until(fd, sum_of(2 * MIB), &answer);
}

TEST(pipelined_requests_follow_an_upload)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	send_text(fd, "POST /sum HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\none"
		      "POST /sum HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
		      "chunked\r\n\r\n2\r\ntw\r\n1\r\no\r\n1\r\n!\r\n0\r\n\r\n"
		      "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
	assert_true(receive_all(fd, 5000, &answer));
	const char *first = strstr(answer.data, "3 bytes");
	const char *second = strstr(answer.data, "4 bytes");
	const char *third = strstr(answer.data, "hello\n");
	assert_true(first && first < second && second < third);
}

TEST(a_stream_may_answer_an_upload)
{
	AUTO_CLOSE int fd = dial();

	for (int i = 0; i < 3; i++) {
		AUTO_STR struct str answer = STR_INIT;
		send_head(fd, i == 1 ? "/stream?early" : "/stream", 3 * MIB, "");
		send_noise(fd, 3 * MIB, MIB, false);
		receive_until(fd, "\r\n0\r\n\r\n", &answer);
		assert_int_equal(status_of(answer.data), 200);
		assert_in_range(answer.len, 700000, 710000);
	}
}

TEST(a_stream_that_nobody_waits_for_is_closed)
{
	int fd = dial();

	/* Before its handler has ended, and after. */
	send_head(fd, "/stream", 3 * MIB, "");
	send_noise(fd, MIB, MIB, false);
	close(fd);
	wait_for(&ended, 1);
	wait_for(&open_streams, 0);
	fd = dial();
	send_head(fd, "/stream?early", 3 * MIB, "");
	wait_for(&ended, 2);
	close(fd);
	wait_for(&open_streams, 0);
}

TEST(the_end_of_the_server_ends_a_reader)
{
	AUTO_CLOSE int fd = dial();
	AUTO_CLOSE int full = dial();

	send_head(fd, "/sum", LARGE, "");
	send_noise(fd, MIB, MIB, false);
	send_head(full, "/slow", LARGE, "");
	fill(full, LARGE);
	wait_for(&started, 1);
	wait_for(&held, 1);
	/* What is begun may end within the grace. */
	int64_t begun_at = clock_boot_ms();
	stop_request(&gate); /* /slow has less than announced, too */
	web_server_stop(TAKE(server), 100);
	assert_in_range(clock_boot_ms() - begun_at, 100, 20000);
	assert_int_equal(atomic_load(&ended), 2);
	assert_int_equal(atomic_load(&error_class), ERR_CANCELED);
}

static void *upload_one(void *arg)
{
	size_t number = (size_t)(uintptr_t)arg;
	size_t len = MIB + number * 1000;
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	send_head(fd, "/sum", number % 2 ? SIZE_MAX : len, "Connection: close\r\n");
	send_noise(fd, len, 30000 + number, number % 2);
	assert_true(receive_all(fd, 20000, &answer));
	AUTO_FREE char *begin = xasprintf("%zu bytes", len);
	assert_non_null(strstr(answer.data, begin));
	return NULL;
}

TEST(twenty_may_send_at_once)
{
	pthread_t threads[20];

	noise();
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		thread_start(&threads[i], "client", upload_one, (void *)(uintptr_t)i);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		thread_join(threads[i]);
	assert_int_equal(atomic_load(&ended), (int)ARRAY_SIZE(threads));
}

#define WITH_SERVER(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define IMPATIENT(name) cmocka_unit_test_setup_teardown(name, setup_impatient, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SERVER(a_large_body_passes_in_little_memory),
		WITH_SERVER(a_body_of_nothing_is_read_as_such),
		WITH_SERVER(a_slow_handler_holds_the_client_up),
		WITH_SERVER(when_the_client_leaves_its_reader_hears_of_it_at_once),
		WITH_SERVER(what_ends_in_the_middle_of_a_chunk_is_no_body),
		IMPATIENT(who_sends_a_few_bytes_now_and_then_is_cut),
		IMPATIENT(who_is_held_up_by_us_is_not_cut),
		WITH_SERVER(
			what_a_handler_leaves_is_thrown_away_and_the_connection_stays),
		WITH_SERVER(what_is_refused_is_not_taken_for_ever),
		WITH_SERVER(gzip_is_inflated_as_it_comes),
		WITH_SERVER(gzip_that_is_cut_or_garbage_is_400),
		WITH_SERVER(who_expects_100_is_told_to_go_on),
		WITH_SERVER(pipelined_requests_follow_an_upload),
		WITH_SERVER(a_stream_may_answer_an_upload),
		WITH_SERVER(a_stream_that_nobody_waits_for_is_closed),
		WITH_SERVER(the_end_of_the_server_ends_a_reader),
		WITH_SERVER(twenty_may_send_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
