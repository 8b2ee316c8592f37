#include "web_test.h"

#include <dirent.h>
#include <zlib.h>

#include "web/request.h"

enum { LARGE = 3 << 20 };

static int post_echo(const struct web_request *request, struct web_response *response,
		     struct err *e)
{
	(void)e;
	str_add(&response->body, request->body->data);
	return 0;
}

/* Answers with the sum of what the body has. */
static int post_file(const struct web_request *request, struct web_response *response,
		     struct err *e)
{
	AUTO_FREE unsigned char *block = xmalloc(LARGE);
	ssize_t count = (ssize_t)request->body->len;

	(void)e;
	if (request->body_fd >= 0)
		count = read(request->body_fd, block, LARGE);
	else
		memcpy(block, request->body->data, request->body->len);
	assert_true(count >= 0);
	str_addf(&response->body, "%zd bytes, crc %lu", count,
		 crc32(0, block, (uInt)count));
	return 0;
}

static const struct web_route routes[] = {
	{ "POST", "/echo", WEB_ANYBODY, WEB_BODY_MEMORY, post_echo },
	{ "POST", "/{path}/file", WEB_ANYBODY, WEB_BODY_FILE, post_file },
	{ 0 },
};

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	start_server(routes, 0);
	return 0;
}

static int teardown(void **state)
{
	web_server_stop(server, 0);
	return test_remove_root(state);
}

/* The pack of the text in gzip; the caller frees. */
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

#define POST_GZIP "POST /a/b/file HTTP/1.1\r\nContent-Encoding: gzip"

TEST(a_gzip_body_is_inflated_in_memory_or_on_disk)
{
	static const size_t sizes[] = { 0, 100, 1 << 20, (1 << 20) + 1, LARGE };
	AUTO_FREE unsigned char *text = xmalloc(LARGE);
	AUTO_FREE char *folder = xasprintf("%s/tmp", root);

	for (size_t i = 0; i < LARGE; i++)
		text[i] = (unsigned char)(i * i >> 7);
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t len;
		AUTO_FREE unsigned char *packed = gzip(text, sizes[i], &len);
		AUTO_FREE char *expected = xasprintf("%zu bytes, crc %lu", sizes[i],
						     crc32(0, text, (uInt)sizes[i]));
		assert_string_equal(body_of(exchange(POST_GZIP, packed, len)), expected);
		assert_string_equal(
			body_of(exchange("POST /x/file HTTP/1.1", text, sizes[i])),
			expected);
	}
	/* It was used, and nothing is left in it. */
	assert_int_equal(rmdir(folder), 0);
}

TEST(a_gzip_body_that_is_cut_or_garbage_is_400)
{
	size_t len;
	AUTO_FREE unsigned char *packed = gzip("0123456789", 10, &len);

	for (size_t cut = 1; cut <= len; cut++)
		if (status_of(exchange(POST_GZIP, packed, len - cut)) != 400)
			fail_msg("cut by %zu", cut);
	AUTO_FREE unsigned char *longer = xcalloc(1, len + 8);
	memcpy(longer, packed, len);
	assert_int_equal(status_of(exchange(POST_GZIP, longer, len + 8)), 400);
	packed[len - 8] ^= 1; /* the check sum */
	assert_int_equal(status_of(exchange(POST_GZIP, packed, len)), 400);
	assert_int_equal(status_of(exchange(POST_GZIP, "garbage", 7)), 400);
}

TEST(other_encodings_are_415)
{
	assert_int_equal(
		status_of(exchange("POST /x/file HTTP/1.1\r\nContent-Encoding: br", "x",
				   1)),
		415);
	assert_int_equal(
		status_of(exchange("POST /echo HTTP/1.1\r\nContent-Encoding: gzip", "x",
				   1)),
		415);
}

TEST(a_body_above_its_limit_is_413)
{
	size_t len = WEB_BODY_MEMORY_MAX;
	AUTO_FREE char *text = xcalloc(1, len + 2);
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();
	AUTO_FREE char *head =
		xasprintf("POST /echo HTTP/1.1\r\nHost: h\r\nConnection: close\r\n"
			  "Transfer-Encoding: chunked\r\n\r\n%zx\r\n",
			  len + 1);

	memset(text, 'x', len + 1);
	/* In chunks: not known before it is there. */
	send_text(fd, head);
	send_bytes(fd, text, len + 1);
	send_text(fd, "\r\n0\r\n\r\n");
	assert_true(receive_all(fd, 5000, &answer));
	assert_int_equal(status_of(answer.data), 413);
	/* Announced: refused without a byte of it. */
	assert_int_equal(
		status_of(exchange("POST /echo HTTP/1.1\r\nContent-Length: 1048577", NULL,
				   0)),
		413);
	assert_int_equal(status_of(exchange("POST /echo HTTP/1.1", text, len)), 200);
}

TEST(a_small_gzip_does_not_become_more_than_the_limit)
{
	AUTO_FREE char *zeros = xcalloc(1, LARGE);
	struct body body;
	size_t len;
	AUTO_FREE unsigned char *packed = gzip(zeros, LARGE, &len);

	assert_true(len < 20000);
	assert_ok(body_begin(&body, WEB_BODY_FILE, "x-gzip", root, &err));
	body.limit = LARGE;
	assert_ok(body_add(&body, packed, len, &err));
	assert_ok(body_end(&body, &err));
	body_clear(&body);
	assert_ok(body_begin(&body, WEB_BODY_FILE, "gzip", root, &err));
	body.limit = LARGE - 1;
	assert_ok(body_add(&body, packed, len, &err));
	assert_int_equal(body.size, len); /* who adds must not wait */
	assert_fails(body_end(&body, &err), ERR_CONFIG);
	assert_int_equal(body.refusal, 413);
	body_clear(&body);
}

static int add_text(struct body *body, const char *text, size_t len)
{
	assert_ok(body_begin(body, WEB_BODY_FILE, NULL, root, &err));
	return body_add(body, text, len, &err);
}

TEST(all_files_together_are_bounded)
{
	AUTO_FREE char *text = xcalloc(1, LARGE);
	uint64_t before = body_bound_files(2 * LARGE);
	struct body bodies[3];
	size_t len;
	AUTO_FREE unsigned char *packed = gzip(text, LARGE, &len);

	for (int round = 0; round < 2; round++) {
		assert_ok(add_text(&bodies[0], text, LARGE));
		assert_ok(add_text(&bodies[1], text, LARGE));
		assert_fails(add_text(&bodies[2], text, LARGE), ERR_BUSY);
		assert_int_equal(bodies[2].refusal, 503);
		assert_int_equal(status_of(exchange(POST_GZIP, packed, len)), 503);
		body_clear(&bodies[0]);
		assert_int_equal(status_of(exchange(POST_GZIP, packed, len)), 200);
		body_clear(&bodies[1]);
		body_clear(&bodies[2]);
	}
	body_bound_files(before);
}

static void add_of(struct body *body, const char *client, const char *text, int refusal)
{
	assert_ok(body_begin(body, WEB_BODY_FILE, NULL, root, &err));
	snprintf(body->client, sizeof(body->client), "%s", client);
	assert_int_equal(body_add(body, text, LARGE, &err), refusal ? -1 : 0);
	assert_int_equal(body->refusal, refusal);
}

TEST(a_client_has_one_body_or_a_quarter_of_all_files)
{
	AUTO_FREE char *text = xcalloc(1, LARGE);
	uint64_t before = body_bound_files(8 * LARGE);
	struct body bodies[4];
	size_t len;
	AUTO_FREE unsigned char *packed = gzip(text, LARGE, &len);

	for (int round = 0; round < 2; round++) {
		add_of(&bodies[0], "192.0.2.1", text, 0);
		add_of(&bodies[1], "192.0.2.1", text, 0);
		add_of(&bodies[2], "192.0.2.1", text, 503);
		add_of(&bodies[3], "192.0.2.2", text, 0);
		for (size_t i = 0; i < ARRAY_SIZE(bodies); i++)
			body_clear(&bodies[i]);
	}
	body_bound_files(3 * LARGE); /* a quarter is less than one of them */
	add_of(&bodies[0], "192.0.2.1", text, 0);
	add_of(&bodies[1], "192.0.2.1", text, 503);
	body_clear(&bodies[0]);
	body_clear(&bodies[1]);
	assert_int_equal(status_of(exchange(POST_GZIP, packed, len)), 200);
	body_bound_files(before);
}

TEST(a_body_that_was_let_in_goes_on_above_the_quarter)
{
	AUTO_FREE char *text = xcalloc(1, LARGE);
	uint64_t before = body_bound_files(8 * LARGE);
	struct body bodies[3];

	add_of(&bodies[0], "192.0.2.1", text, 0);
	add_of(&bodies[1], "192.0.2.1", text, 0);
	assert_ok(body_add(&bodies[0], text, LARGE, &err));
	assert_ok(body_add(&bodies[1], text, LARGE, &err));
	add_of(&bodies[2], "192.0.2.1", text, 503);
	body_clear(&bodies[2]);
	/* The last quarter is for others. */
	assert_ok(body_add(&bodies[0], text, LARGE, &err));
	assert_ok(body_add(&bodies[1], text, LARGE, &err));
	assert_int_equal(body_add(&bodies[1], text, LARGE, &err), -1);
	assert_int_equal(bodies[1].refusal, 503);
	body_clear(&bodies[0]);
	body_clear(&bodies[1]);
	add_of(&bodies[0], "192.0.2.1", text, 0);
	body_clear(&bodies[0]);
	body_bound_files(before);
}

TEST(a_body_that_cannot_be_spooled_is_no_success)
{
	AUTO_FREE char *text = xcalloc(1, LARGE);

	assert_ok(file_replace(root_fd, "tmp", "", 0, FILE_NO_SYNC, &err));
	assert_int_equal(status_of(exchange("POST /x/file HTTP/1.1", text, LARGE)), 500);
}

static int count_descriptors(void)
{
	AUTO_CLOSEDIR DIR *dir = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(dir))
		count++;
	return count;
}

TEST(no_descriptor_is_left_when_the_server_ends)
{
	AUTO_FREE char *text = xcalloc(1, LARGE);

	web_server_stop(server, 0);
	int before = count_descriptors();
	start_server(routes, 0);
	AUTO_CLOSE int waiting = dial();
	exchange("POST /x/file HTTP/1.1", text, LARGE);
	exchange("POST /x/file HTTP/1.1", text, 10);
	exchange(POST_GZIP, "garbage", 7);
	web_server_stop(server, 0);
	close(TAKE_FD(waiting));
	assert_int_equal(count_descriptors(), before);
	start_server(routes, 0);
}

#define SERVED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(a_gzip_body_is_inflated_in_memory_or_on_disk),
		SERVED(a_gzip_body_that_is_cut_or_garbage_is_400),
		SERVED(other_encodings_are_415),
		SERVED(a_body_above_its_limit_is_413),
		SERVED(all_files_together_are_bounded),
		SERVED(a_client_has_one_body_or_a_quarter_of_all_files),
		SERVED(a_body_that_was_let_in_goes_on_above_the_quarter),
		SERVED(a_small_gzip_does_not_become_more_than_the_limit),
		SERVED(a_body_that_cannot_be_spooled_is_no_success),
		SERVED(no_descriptor_is_left_when_the_server_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
