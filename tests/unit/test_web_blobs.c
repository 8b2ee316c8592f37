/*
 * Rows of blobs, and blobs that are put, from real files over real sockets; a secondary
 * hands uploads on to a primary in the same process.
 */
#include "web_blob_test.h"

#include <dirent.h>

#include "base/fair.h"
#include "net/forward.h"
#include "serve/serve.h"

#define DIGEST_A                                                                         \
	"87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7" /* a\n */
#define ID_A "87/42/8fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"
#define URL_A "87%2F42%2F8fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"
#define CONTENT_A "sha-256=:h0KPxSKAPTEGXnvOPPA/5HUJZjHl4Hu9eg/eYMTPJcc=:"
#define CONTENT_B                                                                        \
	"sha-256=:AmOYKYmyb9lU9yuqL8ZLwuLwHWktTeclmG6oCPbpmBM=:" /* none of ours */

static int setup(void **state)
{
	return start_primary(state, web_blob_routes);
}

static int teardown(void **state)
{
	forget_answer();
	return stop_primary(state);
}

static const struct answer *put(const char *target, const char *headers, const void *body,
				size_t len)
{
	AUTO_FREE char *head = xasprintf("PUT /api/v1/blobs/%s HTTP/1.1%s%s", target,
					 *headers ? "\r\n" : "", headers);

	return ask(head, body, len);
}

static const struct answer *ask_get(const char *target)
{
	AUTO_FREE char *head = xasprintf("GET %s HTTP/1.1", target);

	return ask(head, NULL, 0);
}

static size_t files_below(const char *path)
{
	AUTO_CLOSEDIR DIR *dir = dir_list(root_fd, path);
	struct dirent *entry;
	size_t count = 0;

	while (dir && (entry = readdir(dir)) != NULL)
		count += entry->d_name[0] != '.';
	return count;
}

static bool holds(const char *path, const char *text)
{
	AUTO_STR struct str content = STR_INIT;

	return file_read(root_fd, path, 1 << 20, &content, ERR_IGNORED) == 0 &&
	       strcmp(content.data, text) == 0;
}

static json_t *parse(const struct answer *answer)
{
	json_t *object = json_parse_object(answer->body, answer->len, 1 << 20, &err);

	if (!object)
		fail_msg("%s: %s", err.text, answer->text.data);
	return object;
}

TEST(types_are_listed_with_their_counts)
{
	must("echo a >files/x; echo a >files/y");
	look(files, "x");
	look(files, "y");
	verify(files, "x");
	json_auto_t *page = parse(ask_get("/api/v1/blobs"));
	const json_t *types = json_object_get(page, "types");
	assert_int_equal(json_array_size(types), 2);
	const json_t *one = json_array_get(types, 0);
	assert_string_equal(json_string_value(json_object_get(one, "type")), "files");
	assert_string_equal(json_string_value(json_object_get(one, "layout")), "plain");
	assert_int_equal(json_integer_value(json_object_get(one, "all")), 2);
	assert_int_equal(json_integer_value(json_object_get(one, "bytes")), 4);
	const json_t *states = json_object_get(one, "verification");
	assert_int_equal(json_integer_value(json_object_get(states, "succeeded")), 1);
	assert_int_equal(json_integer_value(json_object_get(states, "pending")), 1);
}

static void set_scanned(const char *type)
{
	assert_ok(event_log_set_scanned(store, type, SCANNED_ALL, &err));
}

TEST(rows_come_in_pages_by_type)
{
	const struct answer *answer = ask_get("/api/v1/blobs/files");
	assert_int_equal(answer->status, 503);
	assert_true(has_code(answer, "NOT_SCANNED"));
	must("echo a >files/x; mkdir files/d; echo bc >files/d/y; mkdir -p lfs/87/42; "
	     "echo a >lfs/" ID_A);
	look(files, "x");
	look(files, "d/y");
	look(lfs, ID_A);
	verify(files, "x");
	set_scanned("files");
	json_auto_t *first = parse(ask_get("/api/v1/blobs/files?limit=1"));
	assert_string_equal(json_string_value(json_object_get(first, "next")), "d/y");
	assert_true(json_is_true(json_object_get(first, "complete")));
	const json_t *row = json_array_get(json_object_get(first, "blobs"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "name")), "d/y");
	assert_int_equal(json_integer_value(json_object_get(row, "size")), 3);
	assert_true(json_is_null(json_object_get(row, "checksum")));
	json_auto_t *second = parse(ask_get("/api/v1/blobs/files?limit=1&after=d%2Fy"));
	assert_null(json_object_get(second, "next"));
	row = json_array_get(json_object_get(second, "blobs"), 0);
	assert_string_equal(json_string_value(json_object_get(row, "checksum")),
			    DIGEST_A);
	assert_int_equal(ask_get("/api/v1/blobs/lfs")->status, 503);
	set_scanned("lfs");
	json_auto_t *other = parse(ask_get("/api/v1/blobs/lfs"));
	assert_int_equal(json_array_size(json_object_get(other, "blobs")), 1);
	json_auto_t *alone = parse(ask_get("/api/v1/blobs/files/d%2Fy"));
	assert_int_equal(json_integer_value(json_object_get(alone, "size")), 3);
	assert_true(has_code(ask_get("/api/v1/blobs/files/none"), "BLOB_NOT_FOUND"));
	assert_true(has_code(ask_get("/api/v1/blobs/others"), "KIND_NOT_FOUND"));
	assert_true(has_code(ask_get("/api/v1/blobs/others/x"), "KIND_NOT_FOUND"));
}

TEST(an_inventory_that_is_known_is_not_sent_again)
{
	must("echo a >files/x");
	look(files, "x");
	set_scanned("files");
	const struct answer *answer = ask_get("/api/v1/blobs/files");
	const char *tag = strstr(answer->text.data, "ETag: ") + 6;
	AUTO_FREE char *head =
		xasprintf("GET /api/v1/blobs/files HTTP/1.1\r\nIf-None-Match: %.*s",
			  (int)strcspn(tag, "\r"), tag);
	assert_int_equal(ask(head, NULL, 0)->status, 304);
	must("echo b >files/y");
	look(files, "y");
	assert_int_equal(ask(head, NULL, 0)->status, 200);
}

TEST(a_blob_is_put_durably_and_told)
{
	const struct answer *answer = put(
		"files/d%2Fx", "Content-Digest: sha-512=:eA==:, " CONTENT_A, "a\n", 2);
	assert_int_equal(answer->status, 201);
	json_auto_t *row = parse(answer);
	assert_string_equal(json_string_value(json_object_get(row, "checksum")),
			    DIGEST_A);
	assert_int_equal(json_integer_value(json_object_get(row, "generation")), 1);
	assert_true(holds("files/d/x", "a\n"));
	assert_int_equal(all_events()->count, 1);
	assert_int_equal(last_event()->what, EVENT_CREATED);
	assert_string_equal(last_event()->checksum, DIGEST_A);
	/* The same again changes nothing. */
	assert_int_equal(
		put("files/d%2Fx", "Content-Digest: " CONTENT_A, "a\n", 2)->status, 200);
	assert_int_equal(all_events()->count, 1);
	/* Another content is a new generation. */
	must("echo b >files/d/x");
	answer = put("files/d%2Fx", "Content-Digest: " CONTENT_A, "a\n", 2);
	assert_int_equal(answer->status, 200);
	assert_true(holds("files/d/x", "a\n"));
	assert_int_equal(last_event()->what, EVENT_UPDATED);
	assert_int_equal(last_event()->generation, 2);
	assert_int_equal(files_below("files/.refrelay/incoming"), 0);
}

TEST(an_immutable_blob_needs_no_digest_and_takes_no_other)
{
	const struct answer *answer = put("lfs/" URL_A, "", "b\n", 2);
	assert_int_equal(answer->status, 422);
	assert_true(has_code(answer, "WRONG_DIGEST"));
	assert_int_equal(put("lfs/" URL_A, "", "a\n", 2)->status, 201);
	assert_true(holds("lfs/" ID_A, "a\n"));
	assert_int_equal(last_event()->what, EVENT_CREATED);
	answer = put("lfs/" URL_A, "Content-Digest: " CONTENT_B, "b\n", 2);
	assert_int_equal(answer->status, 409);
	assert_true(has_code(answer, "IMMUTABLE"));
	assert_int_equal(put("lfs/x", "Content-Digest: " CONTENT_A, "a\n", 2)->status,
			 400);
	/* What the disk has damaged is put right. */
	must("echo b >lfs/" ID_A);
	assert_int_equal(put("lfs/" URL_A, "", "a\n", 2)->status, 200);
	assert_true(holds("lfs/" ID_A, "a\n"));
}

TEST(nothing_is_left_of_what_is_refused)
{
	static const struct {
		const char *target, *headers;
		int status;
		const char *code;
	} cases[] = {
		{ "files/x", "", 400, "CONFIG" },
		{ "files/x", "Content-Digest: sha-512=:eA==:", 400, "CONFIG" },
		{ "files/x", "Content-Digest: sha-256=:AAAA:", 400, "CONFIG" },
		{ "files/x", "Content-Digest: sha-256=h0KP", 400, "CONFIG" },
		{ "files/x", "Content-Digest: " CONTENT_B, 422, "WRONG_DIGEST" },
		{ "files/x", "Content-Digest: " CONTENT_A ", " CONTENT_B, 400, "CONFIG" },
		{ "files/x",
		  "Content-Digest: " CONTENT_A "\r\nContent-Digest: " CONTENT_B, 400,
		  "CONFIG" },
		{ "files/x#y", "Content-Digest: " CONTENT_A, 400, "CONFIG" },
		{ "files/x",
		  "Content-Digest: " CONTENT_A "\r\nContent-Range: bytes 0-1/9", 400,
		  "CONFIG" },
		{ "files/x", "Content-Digest: " CONTENT_A "\r\nIf-None-Match: *", 400,
		  "CONFIG" },
		{ "files/x", "Content-Digest: " CONTENT_A "\r\nContent-Encoding: gzip",
		  400, "CONFIG" },
		{ "files/x", "Content-Digest: " CONTENT_A "\r\nContent-Encoding: br", 415,
		  "CONFIG" },
		{ "files/folder", "Content-Digest: " CONTENT_A, 409, "CONFLICT" },
		{ "files/file%2Fx", "Content-Digest: " CONTENT_A, 409, "CONFLICT" },
		{ "files/link", "Content-Digest: " CONTENT_A, 409, "CONFLICT" },
		{ "files/out%2Fx", "Content-Digest: " CONTENT_A, 409, "CONFLICT" },
		{ "files/..%2Fx", "Content-Digest: " CONTENT_A, 400, "CONFIG" },
		{ "others/x", "Content-Digest: " CONTENT_A, 404, "KIND_NOT_FOUND" },
	};

	must("mkdir files/folder out; echo y >files/folder/y; echo f >files/file; "
	     "ln -s file files/link; ln -s ../out files/out");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct answer *answer =
			put(cases[i].target, cases[i].headers, "a\n", 2);
		if (answer->status != cases[i].status || !has_code(answer, cases[i].code))
			fail_msg("%s, %s: %s", cases[i].target, cases[i].headers,
				 answer->text.data);
	}
	assert_int_equal(all_events()->count, 0);
	assert_int_equal(files_below("files"), 4);
	assert_int_equal(files_below("out"), 0);
	assert_int_equal(files_below("files/.refrelay/incoming"), 0);
	assert_true(holds("files/file", "f\n"));
}

TEST(a_body_that_breaks_off_leaves_nothing)
{
	int fd = dial();

	must("echo old >files/x");
	send_text(fd,
		  "PUT /api/v1/blobs/files/x HTTP/1.1\r\nHost: h" AUTHORIZED
		  "\r\nContent-Digest: " CONTENT_A "\r\nContent-Length: 100\r\n\r\na\n");
	for (int i = 0; i < 5000 && files_below("files/.refrelay/incoming") == 0; i++)
		usleep(1000);
	assert_int_equal(files_below("files/.refrelay/incoming"), 1);
	close(fd);
	for (int i = 0; i < 5000 && files_below("files/.refrelay/incoming") > 0; i++)
		usleep(1000);
	assert_int_equal(files_below("files/.refrelay/incoming"), 0);
	assert_true(holds("files/x", "old\n"));
	assert_int_equal(all_events()->count, 0);
}

/* More than any disk has: asked for before a byte is taken. */
TEST(what_there_is_no_room_for_is_refused_at_once)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CLOSE int fd = dial();

	send_text(fd, "PUT /api/v1/blobs/files/x HTTP/1.1\r\nHost: h" AUTHORIZED
		      "\r\nContent-Digest: " CONTENT_A "\r\nExpect: 100-continue"
		      "\r\nContent-Length: 4000000000000000\r\n\r\n");
	assert_true(receive_all(fd, 5000, &text));
	assert_int_equal(status_of(text.data), 507);
	assert_non_null(strstr(text.data, "\"code\":\"DISK\""));
	assert_int_equal(files_below("files/.refrelay/incoming"), 0);
}

TEST(who_asks_first_sends_nothing_in_vain)
{
	AUTO_STR struct str text = STR_INIT;
	AUTO_CLOSE int fd = dial();

	send_text(fd, "PUT /api/v1/blobs/files/x HTTP/1.1\r\nHost: h" AUTHORIZED
		      "\r\nExpect: 100-continue\r\nContent-Length: 2\r\nConnection: close"
		      "\r\nContent-Digest: " CONTENT_A "\r\n\r\n");
	receive_until(fd, "100 Continue\r\n\r\n", &text);
	send_text(fd, "a\n");
	assert_true(receive_all(fd, 5000, &text));
	assert_non_null(strstr(text.data, "HTTP/1.1 201 "));
	assert_true(holds("files/x", "a\n"));
	AUTO_CLOSE int other = dial();
	str_reset(&text);
	send_text(other, "PUT /api/v1/blobs/files/x HTTP/1.1\r\nHost: h" AUTHORIZED
			 "\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n");
	assert_true(receive_all(other, 5000, &text));
	assert_int_equal(status_of(text.data), 400);
}

TEST(a_large_body_comes_in_chunks_and_in_little_memory)
{
	static char piece[1 << 20];
	AUTO_HASH struct hash hash;
	AUTO_STR struct str text = STR_INIT;
	unsigned char bytes[HASH_MAX_SIZE];
	char digest[BLOB_DIGEST_SIZE];
	AUTO_CLOSE int fd = dial();

	hash_init(&hash, HASH_SHA256);
	for (int i = 0; i < 40; i++)
		hash_add(&hash, piece, sizeof(piece));
	hash_end(&hash, bytes);
	blob_digest_format(bytes, digest);
	AUTO_FREE char *head = xasprintf(
		"PUT /api/v1/blobs/lfs/%.2s%%2F%.2s%%2F%s HTTP/1.1\r\nHost: h" AUTHORIZED
		"\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n",
		digest, digest + 2, digest + 4);
	send_text(fd, head);
	for (int i = 0; i < 40; i++) {
		send_text(fd, "100000\r\n");
		send_bytes(fd, piece, sizeof(piece));
		send_text(fd, "\r\n");
	}
	send_text(fd, "0\r\n\r\n");
	assert_true(receive_all(fd, 20000, &text));
	assert_int_equal(status_of(text.data), 201);
	assert_int_equal(last_event()->size, 40 << 20);
}

TEST(only_an_operator_puts_and_orders)
{
	static const char *const heads[] = {
		("PUT /api/v1/blobs/files/x HTTP/1.1\r\nContent-Digest: " CONTENT_A),
		"POST /api/v1/blobs/files/x/sync HTTP/1.1",
		"POST /api/v1/blobs/files/x/resync HTTP/1.1",
		"POST /api/v1/blobs/files/x/reverify HTTP/1.1",
	};

	for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
		assert_int_equal(status_of(exchange(heads[i], "a\n", 2)), 401);
	assert_int_equal(files_below("files"), 0);
	AUTO_FREE char *wrong =
		xasprintf("%s\r\nAuthorization: Bearer %s", heads[0], DIGEST_A);
	assert_int_equal(status_of(exchange(wrong, "a\n", 2)), 401);
	const struct answer *answer = ask(heads[1], "", 0);
	assert_int_equal(answer->status, 409);
	assert_true(has_code(answer, "WRONG_ROLE"));
}

/* --- at a secondary --- */

static struct web_services second;
static struct web_server *primary_server;

static int setup_secondary(void **state)
{
	static const struct web_route *const tables[] = { web_blob_routes, NULL };
	char *url;

	if (setup(state) != 0)
		return -1;
	primary_server = server;
	url = xasprintf("http://127.0.0.1:%u/", web_server_port(server));
	second = (struct web_services){ .role = SITE_SECONDARY,
					.site = "paris",
					.store = store,
					.data = root,
					.here = &kinds,
					.primary_url = url,
					.forwarder = forwarder_new("paris") };
	/* It has no token of its own that anybody knows. */
	struct conf *conf;
	assert_ok(conf_load_text("test", "", 0, &conf, &err));
	assert_ok(access_read(conf, true, &second.access, &err));
	conf_free(conf);
	assert_ok(server_start(&(struct web_server_options){ .listen = "127.0.0.1:0",
							     .services = &second,
							     .routes = tables },
			       &server, &err));
	return 0;
}

static int teardown_secondary(void **state)
{
	char *url = (char *)(uintptr_t)second.primary_url;

	web_server_stop(server, 0);
	server = primary_server;
	forwarder_free(second.forwarder);
	access_free(second.access);
	free(url);
	return teardown(state);
}

TEST(a_secondary_hands_uploads_on_with_what_the_client_showed)
{
	AUTO_FREE char *large = xcalloc(1, 3 << 20);

	const struct answer *answer =
		put("files/d%2Fx", "Content-Digest: " CONTENT_A, "a\n", 2);
	assert_int_equal(answer->status, 201);
	assert_true(has_header(answer, "Content-Type: application/json"));
	assert_true(holds("files/d/x", "a\n"));
	assert_string_equal(last_event()->checksum, DIGEST_A);
	answer = put("files/y", "Content-Digest: " CONTENT_A, large, 3 << 20);
	assert_int_equal(answer->status, 422);
	assert_true(has_code(answer, "WRONG_DIGEST"));
	/* The primary decides. */
	const char *text = exchange("PUT /api/v1/blobs/files/z HTTP/1.1\r\n"
				    "Authorization: Bearer " DIGEST_A
				    "\r\nContent-Digest: " CONTENT_A,
				    "a\n", 2);
	assert_int_equal(status_of(text), 401);
	assert_non_null(strstr(text, "the token is not known here"));
	/* Who shows nothing is not passed on. */
	text = exchange(
		"PUT /api/v1/blobs/files/z HTTP/1.1\r\nContent-Digest: " CONTENT_A, "a\n",
		2);
	assert_int_equal(status_of(text), 401);
	assert_int_equal(files_below("files"), 1);
}

/* Else a part would become the whole, and what is there would be replaced. */
TEST(a_secondary_refuses_what_it_would_not_hand_on)
{
	static const char *const conditions[] = {
		"Content-Range: bytes 0-1/9",
		"If-None-Match: *",
		"If-Match: \"x\"",
		"If-Unmodified-Since: Sun, 22 Nov 2026 09:00:00 GMT",
		"Content-Encoding: gzip",
	};

	must("echo old >files/x");
	for (size_t i = 0; i < ARRAY_SIZE(conditions); i++) {
		AUTO_FREE char *headers =
			xasprintf("Content-Digest: " CONTENT_A "\r\n%s", conditions[i]);
		const struct answer *answer = put("files/x", headers, "a\n", 2);
		if (answer->status != 400 || !has_code(answer, "CONFIG"))
			fail_msg("%s: %s", conditions[i], answer->text.data);
	}
	assert_true(holds("files/x", "old\n"));
}

TEST(an_upload_that_went_in_a_circle_is_refused)
{
	const struct answer *answer = put("files/x",
					  "Via: 1.1 other\r\n"
					  "Via: 1.1 refrelay-paris\r\n"
					  "Content-Digest: " CONTENT_A,
					  "a\n", 2);
	assert_int_equal(answer->status, 508);
	assert_true(has_code(answer, "LOOP_DETECTED"));
}

TEST(without_the_primary_an_upload_is_told_so)
{
	web_server_stop(primary_server, 0);
	primary_server = NULL;
	const struct answer *answer =
		put("files/x", "Content-Digest: " CONTENT_A, "a\n", 2);
	assert_int_equal(answer->status, 503);
	assert_true(has_code(answer, "PRIMARY_UNREACHABLE"));
	assert_true(has_header(answer, "Retry-After: 10"));
}

/* There is no serve.leastRate here. */
uint64_t serve_least_rate(const struct serve *serve)
{
	(void)serve;
	return 0;
}

/* Who begins uploads without end does not take all connections to the primary. */
TEST(uploads_that_are_handed_on_have_only_so_many_places)
{
	struct fair_limits limits = { .places = 1 };
	struct fair_place place = { 0 };

	second.forwarded_files = fair_new(&limits);
	assert_int_equal(fair_enter(second.forwarded_files, &place,
				    &(struct fair_client){ { "other" } }, 0, NULL),
			 FAIR_ENTERED);
	const struct answer *answer =
		put("files/x", "Content-Digest: " CONTENT_A, "a\n", 2);
	assert_int_equal(answer->status, 503);
	assert_true(has_code(answer, "BUSY"));
	assert_true(has_header(answer, "Retry-After: 10"));
	fair_leave(second.forwarded_files, &place);
	/* Each leaves its place, perhaps only a moment after its answer. */
	limits.waiting = 1;
	fair_set(second.forwarded_files, &limits);
	for (int i = 0; i < 2; i++)
		assert_true(
			put("files/x", "Content-Digest: " CONTENT_A, "a\n", 2)->status <
			300);
	web_server_stop(server, 0);
	server = primary_server;
	primary_server = NULL;
	fair_free(second.forwarded_files);
}

#define SERVED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define PASSED_ON(name)                                                                  \
	cmocka_unit_test_setup_teardown(name, setup_secondary, teardown_secondary)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(types_are_listed_with_their_counts),
		SERVED(rows_come_in_pages_by_type),
		SERVED(an_inventory_that_is_known_is_not_sent_again),
		SERVED(a_blob_is_put_durably_and_told),
		SERVED(an_immutable_blob_needs_no_digest_and_takes_no_other),
		SERVED(nothing_is_left_of_what_is_refused),
		SERVED(a_body_that_breaks_off_leaves_nothing),
		SERVED(what_there_is_no_room_for_is_refused_at_once),
		SERVED(who_asks_first_sends_nothing_in_vain),
		SERVED(a_large_body_comes_in_chunks_and_in_little_memory),
		SERVED(only_an_operator_puts_and_orders),
		PASSED_ON(a_secondary_hands_uploads_on_with_what_the_client_showed),
		PASSED_ON(a_secondary_refuses_what_it_would_not_hand_on),
		PASSED_ON(an_upload_that_went_in_a_circle_is_refused),
		PASSED_ON(uploads_that_are_handed_on_have_only_so_many_places),
		PASSED_ON(without_the_primary_an_upload_is_told_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
