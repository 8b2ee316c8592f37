/*
 * Blobs given out, from real files over real sockets.
 */
#include "web_blob_test.h"

#include <sys/resource.h>
#include <sys/un.h>

#define DIGEST_A                                                                         \
	"87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7" /* a\n */
#define ID_A "87/42/8fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"
#define URL_A "87%2F42%2F8fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"

enum { LARGE = 100 << 20 };

static int setup(void **state)
{
	return start_primary(state, web_retrieve_routes);
}

static int teardown(void **state)
{
	forget_answer();
	return stop_primary(state);
}

static const struct answer *retrieve(const char *id, const char *headers)
{
	AUTO_FREE char *head = xasprintf("GET /api/v1/retrieve/files/%s HTTP/1.1%s%s", id,
					 *headers ? "\r\n" : "", headers);

	return ask(head, NULL, 0);
}

/* The tag of what is recorded now. */
static char *etag_of(const char *id)
{
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, id);

	return xasprintf("\"%s-%" PRIu64 "\"", row.timeline, row.generation);
}

TEST(a_file_comes_whole_with_what_is_known_of_it)
{
	must("echo a >files/x; touch -d '2026-11-21 09:14:03 UTC' files/x");
	look(files, "x");
	verify(files, "x");
	AUTO_FREE char *etag = etag_of("x");
	AUTO_FREE char *line = xasprintf("ETag: %s", etag);
	const struct answer *answer = retrieve("x", "");
	assert_int_equal(answer->status, 200);
	assert_string_equal(answer->body, "a\n");
	assert_true(has_header(answer, line));
	assert_true(has_header(answer, "Content-Length: 2"));
	assert_true(has_header(answer, "Refrelay-Checksum: " DIGEST_A));
	assert_true(has_header(answer, "Last-Modified: Sat, 21 Nov 2026 09:14:03 GMT"));
	assert_true(has_header(answer, "Accept-Ranges: bytes"));
	assert_true(has_header(answer, "Content-Type: application/octet-stream"));
	answer = ask("HEAD /api/v1/retrieve/files/x HTTP/1.1", NULL, 0);
	assert_int_equal(answer->status, 200);
	assert_true(has_header(answer, "Content-Length: 2"));
	assert_true(has_header(answer, line));
	assert_int_equal(answer->len, 0);
	assert_int_equal(all_events()->count, 2); /* nobody had anything to notice */
}

TEST(parts_are_given_as_asked)
{
	static const struct {
		const char *range;
		int status;
		const char *content_range, *body;
	} cases[] = {
		{ "bytes=0-3", 206, "bytes 0-3/10", "0123" },
		{ "bytes=4-", 206, "bytes 4-9/10", "456789" },
		{ "bytes=-3", 206, "bytes 7-9/10", "789" },
		{ "bytes=-30", 206, "bytes 0-9/10", "0123456789" },
		{ "bytes=9-99999999999999999999999", 206, "bytes 9-9/10", "9" },
		{ "Bytes= 2-2 ", 206, "bytes 2-2/10", "2" },
		{ "bytes=10-", 416, "bytes */10", NULL },
		{ "bytes=-0", 416, "bytes */10", NULL },
		{ "bytes=99999999999999999999999-", 416, "bytes */10", NULL },
		{ "bytes=0-1,4-5", 200, NULL, "0123456789" },
		{ "bytes=3-1", 200, NULL, "0123456789" },
		{ "bytes=-", 200, NULL, "0123456789" },
		{ "bytes=x-", 200, NULL, "0123456789" },
		{ "lines=1-2", 200, NULL, "0123456789" },
	};

	must("printf 0123456789 >files/x");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *header = xasprintf("Range: %s", cases[i].range);
		AUTO_FREE char *line =
			xasprintf("Content-Range: %s", cases[i].content_range);
		const struct answer *answer = retrieve("x", header);
		if (answer->status != cases[i].status ||
		    (cases[i].body && strcmp(answer->body, cases[i].body) != 0) ||
		    (cases[i].content_range && !has_header(answer, line)))
			fail_msg("%s: %s", header, answer->text.data);
		assert_true(cases[i].content_range ||
			    !strstr(answer->text.data, "Content-Range"));
	}
	/* It counts for GET alone. */
	const struct answer *answer = ask(
		"HEAD /api/v1/retrieve/files/x HTTP/1.1\r\nRange: bytes=0-3", NULL, 0);
	assert_int_equal(answer->status, 200);
	assert_true(has_header(answer, "Content-Length: 10"));
}

TEST(an_empty_file_has_no_parts)
{
	must(": >files/x");
	const struct answer *answer = retrieve("x", "");
	assert_int_equal(answer->status, 200);
	assert_true(has_header(answer, "Content-Length: 0"));
	answer = retrieve("x", "Range: bytes=0-");
	assert_int_equal(answer->status, 416);
	/* By these a secondary knows it all the same. */
	assert_true(has_header(answer, "Content-Range: bytes */0"));
	assert_true(strcasestr(answer->text.data, "\nETag: ") != NULL);
}

TEST(conditions_are_kept)
{
	/* @ stands for the tag. */
	static const struct {
		const char *header;
		int status;
		const char *body;
	} cases[] = {
		{ "If-Match: @", 200, "0123456789" },
		{ "If-Match: *", 200, "0123456789" },
		{ "If-Match: \"x\", @", 200, "0123456789" },
		{ "If-Match: \"x\"", 412, NULL },
		{ "If-Match: W/@", 412, NULL },
		{ "If-Match: \"x\"\r\nRange: bytes=0-1", 412, NULL },
		{ "If-Match: @\r\nRange: bytes=0-1", 206, "01" },
		{ "If-None-Match: @", 304, "" },
		{ "If-None-Match: W/@", 304, "" },
		{ "If-None-Match: *", 304, "" },
		{ "If-None-Match: \"x\"", 200, "0123456789" },
		{ "If-Range: @\r\nRange: bytes=0-1", 206, "01" },
		{ "If-Range: \"x\"\r\nRange: bytes=0-1", 200, "0123456789" },
		{ "If-Range: W/@\r\nRange: bytes=0-1", 200, "0123456789" },
		{ "If-Range: Sat, 21 Nov 2026 09:14:03 GMT\r\nRange: bytes=0-1", 200,
		  "0123456789" },
	};

	must("printf 0123456789 >files/x");
	look(files, "x");
	AUTO_FREE char *etag = etag_of("x");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *at = strchr(cases[i].header, '@');
		AUTO_FREE char *header =
			at ? xasprintf("%.*s%s%s", (int)(at - cases[i].header),
				       cases[i].header, etag, at + 1)
			   : xstrdup(cases[i].header);
		const struct answer *answer = retrieve("x", header);
		if (answer->status != cases[i].status ||
		    (cases[i].body && strcmp(answer->body, cases[i].body) != 0))
			fail_msg("%s: %s", header, answer->text.data);
	}
}

TEST(what_nobody_told_is_noticed_before_it_is_given_out)
{
	must("echo a >files/x");
	assert_string_equal(retrieve("x", "")->body, "a\n");
	assert_int_equal(last_event()->what, EVENT_CREATED);
	AUTO_FREE char *first = etag_of("x");
	must("echo bb >files/x");
	AUTO_FREE char *header = xasprintf("If-Match: %s", first);
	assert_int_equal(retrieve("x", header)->status, 412);
	assert_int_equal(last_event()->what, EVENT_UPDATED);
	assert_int_equal(last_event()->generation, 2);
	AUTO_FREE char *second = etag_of("x");
	AUTO_FREE char *line = xasprintf("ETag: %s", second);
	const struct answer *answer = retrieve("x", "");
	assert_string_equal(answer->body, "bb\n");
	assert_true(has_header(answer, line));
	must("rm files/x");
	answer = retrieve("x", "");
	assert_int_equal(answer->status, 404);
	assert_true(has_code(answer, "FILE_NOT_FOUND"));
	assert_int_equal(last_event()->what, EVENT_DELETED);
}

TEST(what_is_no_file_is_not_given_out)
{
	static const struct {
		const char *target;
		int status;
		const char *code;
	} cases[] = {
		{ "files/none", 404, "FILE_NOT_FOUND" },
		{ "files/x%2Fbelow", 404, "FILE_NOT_FOUND" },
		{ "files/link", 409, "CORRUPT" },
		{ "files/away%2Ffile", 409, "CORRUPT" },
		{ "files/socket", 409, "CORRUPT" },
		{ "files/pipe", 409, "CORRUPT" },
		{ "files/folder", 404, "FILE_NOT_FOUND" },
		{ "files/..%2Fsecret", 400, "CONFIG" },
		{ "files/%2Fetc%2Fpasswd", 400, "CONFIG" },
		{ "files/.refrelay%2Fx", 400, "CONFIG" },
		{ "files/a%0Ab", 400, "CONFIG" },
		{ "files/%ff", 400, "CONFIG" },
		{ "files/a%00b", 400, "CONFIG" },
		{ "files/x%2F%2Fy", 400, "CONFIG" },
		{ "lfs/x", 400, "CONFIG" },
		{ "others/x", 404, "KIND_NOT_FOUND" },
		{ "repository/x", 404, "KIND_NOT_FOUND" },
		{ "files/x/below", 404, "NOT_FOUND" },
	};
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	AUTO_CLOSE int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must("echo a >files/x; echo s >secret; mkdir out files/folder; echo s >out/file; "
	     "ln -s ../secret files/link; ln -s ../out files/away; mkfifo files/pipe");
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/files/socket", root);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *head =
			xasprintf("GET /api/v1/retrieve/%s HTTP/1.1", cases[i].target);
		const struct answer *answer = ask(head, NULL, 0);
		if (answer->status != cases[i].status || !has_code(answer, cases[i].code))
			fail_msg("%s: %s", cases[i].target, answer->text.data);
	}
}

TEST(ids_with_odd_bytes_are_one_encoded_segment)
{
	static const char *const ids[] = {
		"a b/%41/c?d#e&f=g+h;i",
		"\"'\\`$(x)*[a-z]~|<>",
		"\xc3\xbc/\xf0\x9f\x98\x80",
		"-rf",
		"a./.b/c..d",
	};

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		AUTO_STR struct str encoded = STR_INIT;
		AUTO_FREE char *path = xasprintf("files/%s", ids[i]);
		for (const char *c = ids[i]; *c; c++)
			str_addf(&encoded, "%%%02X", (unsigned char)*c);
		assert_ok(dir_make_parents(root_fd, path, &err));
		assert_ok(file_replace(root_fd, path, ids[i], strlen(ids[i]),
				       FILE_NO_SYNC, &err));
		const struct answer *answer = retrieve(encoded.data, "");
		if (answer->status != 200)
			fail_msg("%s: %s", ids[i], answer->text.data);
		assert_string_equal(answer->body, ids[i]);
	}
}

TEST(only_a_site_or_an_operator_is_given_any)
{
	must("echo a >files/x");
	assert_int_equal(status_of(get("/api/v1/retrieve/files/x")), 401);
	assert_int_equal(status_of(exchange("POST /api/v1/retrieve/files HTTP/1.1",
					    "{\"ids\":[\"x\"]}", 13)),
			 401);
	services.role = SITE_SECONDARY;
	const struct answer *answer = retrieve("x", "");
	assert_int_equal(answer->status, 409);
	assert_true(has_code(answer, "WRONG_ROLE"));
}

TEST(what_is_known_to_be_wrong_is_kept_back)
{
	must("mkdir -p lfs/87/42; echo b >lfs/" ID_A);
	assert_int_equal(look(lfs, ID_A), ERR_NONE);
	verify(lfs, ID_A);
	const struct answer *answer =
		ask("GET /api/v1/retrieve/lfs/" URL_A " HTTP/1.1", NULL, 0);
	assert_int_equal(answer->status, 409);
	assert_true(has_code(answer, "CORRUPT"));
	must("echo a >lfs/" ID_A);
	verify(lfs, ID_A);
	answer = ask("GET /api/v1/retrieve/lfs/" URL_A " HTTP/1.1", NULL, 0);
	assert_int_equal(answer->status, 200);
	assert_true(has_header(answer, "Refrelay-Checksum: " DIGEST_A));
}

/* Begins to receive it, and lets `between` happen when its head is here; as much of the
 * body as came. */
static size_t receive_with(const char *head, const char *id, const char *between)
{
	AUTO_FREE char *request =
		xasprintf("GET /api/v1/retrieve/files/%s %s\r\nHost: h" AUTHORIZED
			  "\r\nConnection: close\r\n\r\n",
			  id, head);
	AUTO_CLOSE int fd = dial();
	int small = 65536;

	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	send_text(fd, request);
	if (!last.text.data)
		last.text = (struct str)STR_INIT;
	str_reset(&last.text);
	receive_until(fd, "\r\n\r\n", &last.text);
	must("%s", between);
	return take_answer(fd, 20000)->len;
}

static bool text_ends_with_bytes(const char *end)
{
	size_t len = strlen(end);

	return last.text.len > len &&
	       memcmp(last.text.data + last.text.len - len, end, len) == 0;
}

TEST(a_file_that_changes_while_it_is_sent_is_cut)
{
	static const struct {
		const char *between;
		bool is_whole;
	} cases[] = {
		{ "true", true },
		{ "echo x >>files/x", false },
		{ "truncate -s 1M files/x", false },
		{ "printf x | dd of=files/x bs=1 seek=14M conv=notrunc 2>log", false },
		/* The bytes of before are all right. */
		{ "rm files/x", true },
		{ "echo x >files/y; mv files/y files/x", true },
	};
	/* Sent by the kernel, by the kernel in chunks, by the library. */
	static const struct {
		const char *head;
		bool has_length;
	} ways[] = {
		{ "HTTP/1.1", true },
		{ "HTTP/1.1\r\nRange: bytes=0-", false },
		{ "HTTP/1.0", true },
	};
	const size_t size = 16 << 20;

	for (size_t i = 0; i < 3 * ARRAY_SIZE(cases); i++) {
		bool has_length = ways[i % 3].has_length;
		must("truncate -s %zu files/x", size);
		size_t got = receive_with(ways[i % 3].head, "x", cases[i / 3].between);
		bool is_whole =
			has_length ? got == size : text_ends_with_bytes("\r\n0\r\n\r\n");
		if (is_whole != cases[i / 3].is_whole)
			fail_msg("%s, %s: %zu bytes", ways[i % 3].head,
				 cases[i / 3].between, got);
		assert_int_equal(has_header(&last, "Content-Length: 16777216"),
				 has_length);
		assert_int_equal(has_header(&last, "Transfer-Encoding: chunked"),
				 !has_length);
	}
}

static long peak_kib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

/* Reads an answer in chunks, and compares the digest of what is in them. */
static void receive_chunks(FILE *stream, size_t size, const unsigned char *expected)
{
	static char block[1 << 16];
	AUTO_HASH struct hash hash;
	unsigned char digest[HASH_MAX_SIZE];
	size_t left = 1, got = 0;

	hash_init(&hash, HASH_SHA256);
	do {
		assert_non_null(fgets(block, sizeof(block), stream));
	} while (strcmp(block, "\r\n") != 0);
	while (left > 0) {
		assert_non_null(fgets(block, sizeof(block), stream));
		left = strtoul(block, NULL, 16);
		for (size_t count = 0; count < left;) {
			size_t some = left - count;
			some = some < sizeof(block) ? some : sizeof(block);
			assert_int_equal(fread(block, 1, some, stream), some);
			hash_add(&hash, block, some);
			count += some;
		}
		got += left;
		assert_non_null(fgets(block, sizeof(block), stream));
		assert_string_equal(block, "\r\n");
	}
	assert_int_equal(got, size);
	hash_end(&hash, digest);
	assert_memory_equal(digest, expected, 32);
}

TEST(a_large_file_is_sent_in_little_memory_and_the_connection_stays)
{
	static unsigned char block[1 << 20];
	AUTO_HASH struct hash hash;
	unsigned char digest[HASH_MAX_SIZE];
	AUTO_CLOSE int file = openat(root_fd, "files/x", O_WRONLY | O_CREAT, 0666);
	int fd = dial();
	AUTO_FCLOSE FILE *stream = fdopen(fd, "r");

	hash_init(&hash, HASH_SHA256);
	for (size_t i = 0; i < LARGE / sizeof(block); i++) {
		memset(block, (int)i, sizeof(block));
		hash_add(&hash, block, sizeof(block));
		assert_ok(file_write_all(file, block, sizeof(block), "x", &err));
	}
	hash_end(&hash, digest);
	assert_int_equal(retrieve("x", "Range: bytes=0-0")->status, 206);
	long before = peak_kib();
	for (int i = 0; i < 3; i++) {
		send_text(fd,
			  "GET /api/v1/retrieve/files/x HTTP/1.1\r\nHost: h" AUTHORIZED
			  "\r\nRange: bytes=0-\r\n\r\n");
		receive_chunks(stream, LARGE, digest);
	}
	assert_true(peak_kib() - before < 24 << 10);
}

TEST(who_leaves_in_the_middle_holds_nothing)
{
	must("truncate -s 64M files/x");
	for (int i = 0; i < 20; i++) {
		AUTO_STR struct str answer = STR_INIT;
		AUTO_CLOSE int fd = dial();
		send_text(fd,
			  "GET /api/v1/retrieve/files/x HTTP/1.1\r\nHost: h" AUTHORIZED
			  "\r\n\r\n");
		receive_until(fd, "\r\n\r\n", &answer);
	}
	assert_int_equal(retrieve("x", "Range: bytes=-1")->len, 1);
	web_server_stop(server, 2000);
	server = NULL;
}

/* --- many at once --- */

static const struct answer *retrieve_many(const char *ids)
{
	AUTO_FREE char *body = xasprintf("{\"ids\":%s}", ids);

	/* Without chunks, so that what comes is what is read. */
	return ask("POST /api/v1/retrieve/files HTTP/1.0", body, strlen(body));
}

static const char *at;

/* The next line as an object; NULL at the end. */
static json_t *next_line(void)
{
	size_t len = strcspn(at, "\n");

	if (len == 0)
		return NULL;
	json_t *line = json_parse_object(at, len, len, &err);
	if (!line)
		fail_msg("no line: %.*s", (int)len, at);
	at += len + 1;
	return line;
}

/* Byte for byte: sites of other versions read it. */
static void expect_line(const char *line)
{
	if (!text_starts_with(at, line))
		fail_msg("not %s but %.200s", line, at);
	at += strlen(line);
}

static void expect_bytes(const char *id, const char *bytes)
{
	AUTO_ORIGIN_ROW struct origin_row row = row_of(files, id);
	AUTO_FREE char *line = xasprintf(
		"{\"name\":\"%s\",\"size\":%zu,\"timeline\":\"%s\",\"generation\":"
		"%" PRIu64 ",\"checksum\":%s%s%s}\n",
		id, strlen(bytes), row.timeline, row.generation, row.checksum ? "\"" : "",
		row.checksum ? row.checksum : "null", row.checksum ? "\"" : "");

	expect_line(line);
	assert_memory_equal(at, bytes, strlen(bytes));
	at += strlen(bytes);
}

static void expect_refusal(const char *id, const char *code)
{
	json_auto_t *line = next_line();

	assert_string_equal(json_string_value(json_object_get(line, "name")), id);
	assert_string_equal(json_string_value(json_object_get(line, "code")), code);
	assert_non_null(json_object_get(line, "message"));
	assert_null(json_object_get(line, "size"));
}

static void expect_end(void)
{
	expect_line("{\"end\":true}\n");
	assert_int_equal(*at, '\0');
}

TEST(many_come_in_order_with_what_is_wrong_in_its_place)
{
	must("echo a >files/a; printf 'no\\nend' >files/b; : >files/empty; "
	     "ln -s a files/link; truncate -s 1048577 files/large; "
	     "truncate -s 1048576 files/fits; rm files/fits; echo z >files/z");
	const struct answer *answer =
		retrieve_many("[\"b\",\"none\",\"a\",\"link\",\"empty\",\"large\",\"../"
			      "z\",\"a\",\"z\"]");
	assert_int_equal(answer->status, 200);
	assert_true(has_header(answer, "Content-Type: application/vnd.refrelay.blobs"));
	at = answer->body;
	expect_bytes("b", "no\nend");
	expect_refusal("none", "FILE_NOT_FOUND");
	expect_bytes("a", "a\n");
	expect_refusal("link", "CORRUPT");
	expect_bytes("empty", "");
	expect_refusal("large", "TOO_LARGE");
	expect_refusal("../z", "CONFIG");
	expect_bytes("a", "a\n");
	expect_bytes("z", "z\n");
	expect_end();
	at = retrieve_many("[]")->body;
	expect_end();
}

TEST(a_list_that_is_none_is_refused)
{
	AUTO_STR struct str ids = STR_INIT;
	static const char *const lists[] = { "7", "[7]", "{}", "[null]" };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		assert_int_equal(retrieve_many(lists[i])->status, 400);
	for (int i = 0; i < 1001; i++)
		str_addf(&ids, "%s\"%d\"", i ? "," : "[", i);
	str_add(&ids, "]");
	assert_int_equal(retrieve_many(ids.data)->status, 400);
	assert_int_equal(ask("POST /api/v1/retrieve/files HTTP/1.1", "no", 2)->status,
			 400);
}

TEST(a_thousand_come_in_little_memory)
{
	AUTO_STR struct str ids = STR_INIT;

	must("i=0; while [ $i -lt 1000 ]; do echo 100000000$i >files/$i; i=$((i+1)); "
	     "done;"
	     "truncate -s 1M files/large");
	for (int i = 0; i < 1000; i++)
		str_addf(&ids, "%s\"%d\"", i ? "," : "[", i);
	str_add(&ids, "]");
	at = retrieve_many(ids.data)->body;
	for (int i = 0; i < 1000; i++) {
		AUTO_FREE char *id = xasprintf("%d", i);
		AUTO_FREE char *bytes = xasprintf("100000000%d\n", i);
		expect_bytes(id, bytes);
	}
	expect_end();
	/* 200 MB of them */
	str_reset(&ids);
	for (int i = 0; i < 200; i++)
		str_addf(&ids, "%s\"large\"", i ? "," : "[");
	AUTO_FREE char *body = xasprintf("{\"ids\":%s]}", ids.data);
	AUTO_FREE char *request =
		xasprintf("POST /api/v1/retrieve/files HTTP/1.1\r\nHost: h" AUTHORIZED
			  "\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s",
			  strlen(body), body);
	static char block[1 << 16];
	AUTO_CLOSE int fd = dial();
	long before = peak_kib();
	ssize_t count;
	size_t got = 0;
	send_text(fd, request);
	while ((count = recv(fd, block, sizeof(block), 0)) > 0)
		got += (size_t)count;
	assert_true(got > (size_t)200 << 20);
	assert_true(peak_kib() - before < 24 << 10);
}

#define SERVED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(a_file_comes_whole_with_what_is_known_of_it),
		SERVED(parts_are_given_as_asked),
		SERVED(an_empty_file_has_no_parts),
		SERVED(conditions_are_kept),
		SERVED(what_nobody_told_is_noticed_before_it_is_given_out),
		SERVED(what_is_no_file_is_not_given_out),
		SERVED(ids_with_odd_bytes_are_one_encoded_segment),
		SERVED(only_a_site_or_an_operator_is_given_any),
		SERVED(what_is_known_to_be_wrong_is_kept_back),
		SERVED(a_file_that_changes_while_it_is_sent_is_cut),
		SERVED(a_large_file_is_sent_in_little_memory_and_the_connection_stays),
		SERVED(who_leaves_in_the_middle_holds_nothing),
		SERVED(many_come_in_order_with_what_is_wrong_in_its_place),
		SERVED(a_list_that_is_none_is_refused),
		SERVED(a_thousand_come_in_little_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
