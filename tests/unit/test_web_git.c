/*
 * The routes of Git, with a facade that is scripted here: what it is asked, and what
 * becomes of its answers and failures.
 */
#include "web_test.h"

#include "serve/serve.h"

static struct {
	enum err_class fails;
	bool is_request_bad, is_known, is_gzip, streams, breaks;
	char name[256], protocol[64], body[64];
	off_t body_size; /* of its file; -1: it is in memory */
	bool accepts_gzip;
	atomic_int asked, asked_at_once, open, references;
} script;

struct generation {
	int unused;
};
static struct generation generation;
static const char refs[] = "001e# service=git-upload-pack\n00000000";

void generation_unref(struct generation *given)
{
	if (given)
		atomic_fetch_sub(&script.references, 1);
}

void serve_answer_clear(struct serve_answer *answer)
{
	if (answer->stream)
		answer->close(answer->stream);
	generation_unref(answer->generation);
	str_clear(&answer->bytes);
}

int64_t serve_timeout_ms(const struct serve *serve)
{
	(void)serve;
	return 60 * 1000;
}

uint64_t serve_least_rate(const struct serve *serve)
{
	(void)serve;
	return 0;
}

static ssize_t read_stream(void *stream, void *buffer, size_t size)
{
	int *reads = stream;

	assert_true(size > 4);
	if ((*reads)++ == 0) {
		memcpy(buffer, "0000", 4);
		return 4;
	}
	return script.breaks ? -1 : 0;
}

static void close_stream(void *stream)
{
	atomic_fetch_sub(&script.open, 1);
	free(stream);
}

static void answer_stream(struct serve_answer *answer)
{
	answer->read = read_stream;
	answer->close = close_stream;
	answer->stream = xcalloc(1, sizeof(int));
	atomic_fetch_add(&script.open, 1);
}

static void answer_shared(struct serve_answer *answer)
{
	answer->generation = &generation;
	atomic_fetch_add(&script.references, 1);
	answer->shared =
		(struct generation_body){ refs, sizeof(refs) - 1, script.is_gzip };
	snprintf(answer->etag, sizeof(answer->etag), "\"abc\"");
}

static void note(const struct serve_request *request)
{
	snprintf(script.name, sizeof(script.name), "%s", request->name);
	snprintf(script.protocol, sizeof(script.protocol), "%s",
		 request->protocol ? request->protocol : "");
	script.accepts_gzip = request->accepts_gzip;
}

static int fail_as_told(struct serve_answer *answer, struct err *e)
{
	answer->retry_after_s = 7;
	answer->is_request_bad = script.is_request_bad;
	return err_set(e, script.fails, "upload-pack says no");
}

bool serve_info_refs_now(struct serve *serve, const struct serve_request *request,
			 struct serve_answer *answer)
{
	(void)serve;
	atomic_fetch_add(&script.asked_at_once, 1);
	if (!script.is_known)
		return false;
	note(request);
	answer_shared(answer);
	return true;
}

int serve_info_refs(struct serve *serve, const struct serve_request *request,
		    struct serve_answer *answer, struct err *e)
{
	(void)serve;
	atomic_fetch_add(&script.asked, 1);
	note(request);
	if (script.fails != ERR_NONE)
		return fail_as_told(answer, e);
	if (script.streams)
		answer_stream(answer);
	else
		answer_shared(answer);
	return 0;
}

int serve_upload_pack(struct serve *serve, const struct serve_request *request,
		      struct serve_answer *answer, struct err *e)
{
	(void)serve;
	atomic_fetch_add(&script.asked, 1);
	note(request);
	script.body_size = -1;
	if (request->body_fd >= 0)
		script.body_size = lseek(request->body_fd, 0, SEEK_END);
	else
		snprintf(script.body, sizeof(script.body), "%s", request->body->data);
	if (script.fails != ERR_NONE)
		return fail_as_told(answer, e);
	if (script.streams)
		answer_stream(answer);
	else
		str_add(&answer->bytes, "0000");
	return 0;
}

static void read_configuration(const char *text)
{
	struct conf *conf;

	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(access_read(conf, true, &services.access, &err));
	conf_free(conf);
}

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	memset(&script, 0, sizeof(script));
	services.root = root;
	start_server(web_git_routes, 0);
	return 0;
}

static int teardown(void **state)
{
	web_server_stop(server, 0);
	assert_int_equal(atomic_load(&script.open), 0);
	assert_int_equal(atomic_load(&script.references), 0);
	access_free(services.access);
	services.access = NULL;
	return test_remove_root(state);
}

#define REFS "/info/refs?service=git-upload-pack"

TEST(a_name_is_handed_on_without_its_suffix)
{
	static const struct {
		const char *target, *name;
	} cases[] = {
		{ "/group/tool.git" REFS, "group/tool" },
		{ "/group/tool" REFS, "group/tool" },
		{ "/group%2Ftool.git" REFS, "group/tool" },
		{ "/plain.git.git" REFS, "plain.git" },
	};

	read_configuration("[http]\n anonymousRead\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *answer = get(cases[i].target);
		assert_int_equal(status_of(answer), 200);
		assert_string_equal(script.name, cases[i].name);
		assert_non_null(strstr(answer, "Content-Type: application/"
					       "x-git-upload-pack-advertisement\r\n"));
		assert_non_null(strstr(answer, "Cache-Control: no-cache, max-age=0, "
					       "must-revalidate\r\n"));
		assert_non_null(strstr(answer, "Pragma: no-cache\r\n"));
	}
}

TEST(an_answer_from_memory_has_a_length_and_a_tag)
{
	static const char *const methods[] = { "GET", "HEAD" };

	read_configuration("[http]\n anonymousRead\n");
	script.is_known = true;
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		AUTO_FREE char *head =
			xasprintf("%s /plain" REFS " HTTP/1.1", methods[i]);
		const char *answer = exchange(head, NULL, 0);
		assert_int_equal(status_of(answer), 200);
		assert_non_null(strstr(answer, "Content-Length: 38\r\n"));
		assert_non_null(strstr(answer, "ETag: \"abc\"\r\n"));
		assert_non_null(
			strstr(answer, "Vary: Git-Protocol, Accept-Encoding\r\n"));
		assert_null(strstr(answer, "Content-Encoding"));
		assert_string_equal(body_of(answer), i == 0 ? refs : "");
	}
	assert_int_equal(atomic_load(&script.asked), 0); /* so no worker was needed */
}

TEST(what_is_not_known_at_once_is_asked_by_a_worker)
{
	read_configuration("[http]\n anonymousRead\n");
	assert_string_equal(body_of(get("/plain" REFS)), refs);
	assert_int_equal(atomic_load(&script.asked_at_once), 1);
	assert_int_equal(atomic_load(&script.asked), 1);
}

TEST(who_shows_the_tag_gets_no_body)
{
	static const struct {
		const char *tags;
		int status;
	} cases[] = {
		{ "\"abc\"", 304 }, { "W/\"abc\"", 304 },  { "\"x\", \"abc\"", 304 },
		{ "*", 304 },       { "\"abc-gz\"", 200 }, { "abc", 200 },
	};

	read_configuration("[http]\n anonymousRead\n");
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *head =
			xasprintf("GET /plain" REFS " HTTP/1.1\r\nIf-None-Match: %s",
				  cases[i / 2].tags);
		script.is_known = i % 2;
		const char *answer = exchange(head, NULL, 0);
		if (status_of(answer) != cases[i / 2].status)
			fail_msg("%s: %s", cases[i / 2].tags, answer);
		assert_non_null(strstr(answer, "ETag: \"abc\"\r\n"));
		if (status_of(answer) == 304)
			assert_string_equal(body_of(answer), "");
	}
}

TEST(gzip_is_asked_for_and_named)
{
	read_configuration("[http]\n anonymousRead\n");
	script.is_gzip = true;
	const char *answer = exchange("GET /plain" REFS " HTTP/1.1\r\n"
				      "Accept-Encoding: deflate, gzip",
				      NULL, 0);
	assert_true(script.accepts_gzip);
	assert_non_null(strstr(answer, "Content-Encoding: gzip\r\n"));
	get("/plain" REFS);
	assert_false(script.accepts_gzip);
}

TEST(a_fetch_hands_its_body_and_protocol_on)
{
	read_configuration("[http]\n anonymousRead\n");
	const char *answer =
		exchange("POST /group/tool.git/git-upload-pack HTTP/1.1\r\n"
			 "Content-Type: application/x-git-upload-pack-request\r\n"
			 "Git-Protocol: version=2",
			 "0014command=ls-refs", 19);
	assert_int_equal(status_of(answer), 200);
	assert_int_equal(script.body_size, -1);
	assert_string_equal(script.body, "0014command=ls-refs");
	assert_string_equal(script.protocol, "version=2");
	assert_non_null(strstr(answer, "application/x-git-upload-pack-result\r\n"));
	assert_non_null(strstr(answer, "Content-Length: 4\r\n"));
	assert_null(strstr(answer, "ETag"));
	assert_string_equal(body_of(answer), "0000");
}

TEST(a_large_body_is_handed_on_as_a_file)
{
	size_t len = (1 << 20) + 1;
	AUTO_FREE char *body = xcalloc(1, len);

	read_configuration("[http]\n anonymousRead\n");
	script.streams = true;
	const char *answer =
		exchange("POST /group/tool.git/git-upload-pack HTTP/1.1\r\n"
			 "Content-Type: application/x-git-upload-pack-request",
			 body, len);
	assert_int_equal(status_of(answer), 200);
	assert_int_equal(script.body_size, (off_t)len);
	assert_true(text_ends_with(answer, "4\r\n0000\r\n0\r\n\r\n"));
}

TEST(who_must_come_again_is_told_when)
{
	read_configuration("[http]\n anonymousRead\n");
	script.fails = ERR_BUSY;
	const char *answer = get("/plain" REFS);
	assert_int_equal(status_of(answer), 503);
	assert_non_null(strstr(answer, "Retry-After: 7\r\n"));
	assert_non_null(strstr(answer, "\"code\":\"BUSY\""));
}

TEST(what_is_not_built_says_so)
{
	static const struct {
		const char *head;
		int status;
		const char *code;
	} cases[] = {
		{ "GET /plain/info/refs?service=git-receive-pack", 403, "NO_PUSHES" },
		{ "GET /nothing/info/refs?service=git-receive-pack", 403, "NO_PUSHES" },
		{ "POST /plain/git-receive-pack", 403, "NO_PUSHES" },
		{ "GET /plain/info/refs", 403, "DUMB_PROTOCOL" },
		{ "GET /plain/info/refs?service=", 403, "DUMB_PROTOCOL" },
		{ "GET /plain/info/refs?service=git-upload-pack&service=x", 403,
		  "UNKNOWN_SERVICE" },
		{ "POST /plain/git-upload-archive", 404, "NOT_FOUND" },
		{ "GET /plain/git-upload-pack", 405, "METHOD_NOT_ALLOWED" },
		{ "POST /plain/git-upload-pack", 415, "WRONG_CONTENT_TYPE" },
		{ "POST /plain/git-upload-pack HTTP/1.1\r\nContent-Type: "
		  "application/x-git-upload-pack-request; charset=utf-8\r\nX: 1",
		  415, "WRONG_CONTENT_TYPE" },
	};

	read_configuration("[http]\n anonymousRead\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		AUTO_FREE char *head = strstr(cases[i].head, "HTTP")
					       ? xstrdup(cases[i].head)
					       : xasprintf("%s HTTP/1.1", cases[i].head);
		const char *answer = exchange(head, NULL, 0);
		if (status_of(answer) != cases[i].status ||
		    !strstr(answer, cases[i].code))
			fail_msg("%s: %s", cases[i].head, answer);
	}
	assert_int_equal(atomic_load(&script.asked), 0);
}

TEST(reading_needs_a_name_unless_everybody_may)
{
	read_configuration("");
	script.is_known = true;
	const char *answer = get("/plain" REFS);
	assert_int_equal(status_of(answer), 401);
	assert_non_null(strstr(answer, "WWW-Authenticate: Basic realm=\"refrelay\"\r\n"));
	/* Whether there is such a repository is nobody's business either. */
	assert_int_equal(status_of(get("/nothing" REFS)), 401);
	assert_int_equal(status_of(exchange("POST /plain/git-upload-pack HTTP/1.1\r\n"
					    "Content-Length: 100000000",
					    NULL, 0)),
			 401);
	assert_int_equal(atomic_load(&script.asked), 0);
	assert_int_equal(atomic_load(&script.asked_at_once), 0);
}

TEST(a_failure_before_the_first_byte_is_a_status)
{
	read_configuration("[http]\n anonymousRead\n");
	script.fails = ERR_CORRUPT;
	const char *answer = get("/plain" REFS);
	assert_int_equal(status_of(answer), 500);
	assert_non_null(strstr(answer, "upload-pack says no"));
	assert_non_null(strstr(answer, "Content-Type: application/json\r\n"));
	script.fails = ERR_CONFIG; /* of this site */
	assert_int_equal(status_of(get("/plain" REFS)), 500);
	script.is_request_bad = true;
	assert_int_equal(status_of(get("/plain" REFS)), 400);
	script.fails = ERR_MISSING;
	assert_int_equal(status_of(get("/plain" REFS)), 404);
}

TEST(a_failure_behind_it_breaks_the_connection)
{
	read_configuration("[http]\n anonymousRead\n");
	script.streams = script.breaks = true;
	const char *answer = get("/plain" REFS);
	assert_int_equal(status_of(answer), 200);
	assert_true(text_ends_with(answer, "4\r\n0000\r\n"));
}

#define SERVED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(a_name_is_handed_on_without_its_suffix),
		SERVED(an_answer_from_memory_has_a_length_and_a_tag),
		SERVED(what_is_not_known_at_once_is_asked_by_a_worker),
		SERVED(who_shows_the_tag_gets_no_body),
		SERVED(gzip_is_asked_for_and_named),
		SERVED(a_large_body_is_handed_on_as_a_file),
		SERVED(who_must_come_again_is_told_when),
		SERVED(a_fetch_hands_its_body_and_protocol_on),
		SERVED(what_is_not_built_says_so),
		SERVED(reading_needs_a_name_unless_everybody_may),
		SERVED(a_failure_before_the_first_byte_is_a_status),
		SERVED(a_failure_behind_it_breaks_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
