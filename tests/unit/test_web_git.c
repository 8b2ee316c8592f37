/*
 * The routes of Git, with an upload-pack that is scripted here: which repository it is
 * asked for, and what becomes of its failures.
 */
#include "web_test.h"

#include "git/repo.h"
#include "serve/upload_pack.h"

static struct {
	enum err_class fails; /* of open */
	bool breaks;
	char asked[256], protocol[64], body[64];
	atomic_int open;
} script;

struct upload_pack {
	int reads;
};

int upload_pack_open(const struct upload_pack_request *request, struct upload_pack **pack,
		     struct err *e)
{
	snprintf(script.asked, sizeof(script.asked), "%s", request->path);
	snprintf(script.protocol, sizeof(script.protocol), "%s",
		 request->protocol ? request->protocol : "");
	memset(script.body, 0, sizeof(script.body));
	if (request->step == UPLOAD_PACK_ANSWER)
		assert_true(read(request->body_fd, script.body, 63) >= 0);
	if (script.fails != ERR_NONE)
		return err_set(e, script.fails, "upload-pack says no");
	*pack = xcalloc(1, sizeof(**pack));
	atomic_fetch_add(&script.open, 1);
	return 0;
}

ssize_t upload_pack_read(struct upload_pack *pack, void *buffer, size_t size,
			 struct err *e)
{
	assert_true(size > 4);
	if (pack->reads++ == 0) {
		memcpy(buffer, "0000", 4);
		return 4;
	}
	return script.breaks ? err_set(e, ERR_INTERNAL, "killed") : 0;
}

void upload_pack_close(struct upload_pack *pack)
{
	if (pack)
		atomic_fetch_sub(&script.open, 1);
	free(pack);
}

static void read_configuration(const char *text)
{
	struct conf *conf;

	assert_ok(conf_load_text("test", text, strlen(text), &conf, &err));
	assert_ok(access_read(conf, &services.access, &err));
	conf_free(conf);
}

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	memset(&script, 0, sizeof(script));
	services.root = root;
	start_server(web_git_routes, 0);
	assert_ok(dir_make(root_fd, "group/deep", &err));
	assert_ok(repo_make(root_fd, "group/tool.git", 20, &err));
	assert_ok(repo_make(root_fd, "plain", 20, &err));
	return 0;
}

static int teardown(void **state)
{
	web_server_stop(server, 0);
	assert_int_equal(atomic_load(&script.open), 0);
	access_free(services.access);
	services.access = NULL;
	return test_remove_root(state);
}

#define REFS "/info/refs?service=git-upload-pack"

TEST(a_repository_is_found_with_and_without_git_behind_its_name)
{
	static const struct {
		const char *target, *path;
	} cases[] = {
		{ "/group/tool.git" REFS, "group/tool.git" },
		{ "/group/tool" REFS, "group/tool.git" },
		{ "/group%2Ftool.git" REFS, "group/tool.git" },
		{ "/plain.git" REFS, "plain" },
		{ "/plain" REFS, "plain" },
	};

	read_configuration("[http]\n anonymousRead\n");
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const char *answer = get(cases[i].target);
		AUTO_FREE char *path = xasprintf("%s/%s", root, cases[i].path);
		assert_int_equal(status_of(answer), 200);
		assert_string_equal(script.asked, path);
		assert_non_null(strstr(answer, "Content-Type: application/"
					       "x-git-upload-pack-advertisement\r\n"));
		assert_non_null(strstr(answer, "Cache-Control: no-cache, max-age=0, "
					       "must-revalidate\r\n"));
		assert_non_null(strstr(answer, "Pragma: no-cache\r\n"));
	}
	/* Both: the first is the one that is replicated. */
	assert_ok(repo_make(root_fd, "plain.git", 20, &err));
	get("/plain" REFS);
	assert_true(text_ends_with(script.asked, "/plain.git"));
}

TEST(what_is_not_replicated_is_not_served)
{
	static const char *const targets[] = {
		"/group" REFS,
		"/group/deep" REFS,
		"/nothing.git" REFS,
		"/link.git" REFS,
		"/linked/tool" REFS,
		"/group/tool.git/inner.git" REFS,
		"/.refrelay/own.git" REFS,
		"/group/tool.git/.git" REFS,
		"/./plain" REFS,
	};

	read_configuration("[http]\n anonymousRead\n");
	assert_int_equal(symlinkat("plain", root_fd, "link.git"), 0);
	assert_int_equal(symlinkat("group", root_fd, "linked"), 0);
	assert_ok(repo_make(root_fd, "group/tool.git/inner.git", 20, &err));
	assert_ok(dir_make(root_fd, ".refrelay", &err));
	assert_ok(repo_make(root_fd, ".refrelay/own.git", 20, &err));
	for (size_t i = 0; i < ARRAY_SIZE(targets); i++) {
		const char *answer = get(targets[i]);
		if (status_of(answer) != 404 || !strstr(answer, "\"message\":\""))
			fail_msg("%s: %s", targets[i], answer);
	}
	assert_string_equal(script.asked, "");
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
	assert_string_equal(script.body, "0014command=ls-refs");
	assert_string_equal(script.protocol, "version=2");
	assert_non_null(strstr(answer, "application/x-git-upload-pack-result\r\n"));
	assert_true(text_ends_with(answer, "4\r\n0000\r\n0\r\n\r\n"));
}

TEST(what_is_not_built_says_so)
{
	static const struct {
		const char *head;
		int status;
		const char *code;
	} cases[] = {
		{ "GET /plain/info/refs?service=git-receive-pack", 403,
		  "PUSH_NOT_SERVED" },
		{ "GET /nothing/info/refs?service=git-receive-pack", 403,
		  "PUSH_NOT_SERVED" },
		{ "POST /plain/git-receive-pack", 403, "PUSH_NOT_SERVED" },
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
	assert_string_equal(script.asked, "");
}

TEST(reading_needs_a_name_unless_everybody_may)
{
	read_configuration("");
	const char *answer = get("/plain" REFS);
	assert_int_equal(status_of(answer), 401);
	assert_non_null(strstr(answer, "WWW-Authenticate: Basic realm=\"refrelay\"\r\n"));
	/* Whether there is such a repository is nobody's business either. */
	assert_int_equal(status_of(get("/nothing" REFS)), 401);
	assert_int_equal(status_of(exchange("POST /plain/git-upload-pack HTTP/1.1\r\n"
					    "Content-Length: 100000000",
					    NULL, 0)),
			 401);
	assert_string_equal(script.asked, "");
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
	script.fails = ERR_MISSING;
	assert_int_equal(status_of(get("/plain" REFS)), 404);
}

TEST(a_failure_behind_it_breaks_the_connection)
{
	read_configuration("[http]\n anonymousRead\n");
	script.breaks = true;
	const char *answer = get("/plain" REFS);
	assert_int_equal(status_of(answer), 200);
	assert_true(text_ends_with(answer, "4\r\n0000\r\n"));
}

#define SERVED(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		SERVED(a_repository_is_found_with_and_without_git_behind_its_name),
		SERVED(what_is_not_replicated_is_not_served),
		SERVED(a_fetch_hands_its_body_and_protocol_on),
		SERVED(what_is_not_built_says_so),
		SERVED(reading_needs_a_name_unless_everybody_may),
		SERVED(a_failure_before_the_first_byte_is_a_status),
		SERVED(a_failure_behind_it_breaks_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
