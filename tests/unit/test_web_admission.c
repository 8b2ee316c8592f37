/* Who is let in, and when that is decided: before a body is taken. */
#include "web_test.h"

static atomic_int started;
static char last_user[WEB_USER_SIZE]; /* the handler's, then the test's */

static int post_stream(const struct web_request *request, struct web_response *response,
		       struct err *e)
{
	char block[100];
	size_t total = 0;
	ssize_t count;

	atomic_fetch_add(&started, 1);
	while ((count = web_read_upload(request, block, sizeof(block), e)) > 0)
		total += (size_t)count;
	snprintf(last_user, sizeof(last_user), "%s", request->user);
	str_addf(&response->body, "%zu bytes came\n", total);
	return count < 0 ? -1 : 0;
}

static int post_whole(const struct web_request *request, struct web_response *response,
		      struct err *e)
{
	(void)e;
	assert_false(request->has_upload);
	str_addf(&response->body, "%zu bytes\n", request->body->len);
	return 0;
}

static int get_quick(const struct web_request *request, struct web_response *response,
		     struct err *e)
{
	(void)e;
	str_addf(&response->body, "quick for \"%s\" %s\n", request->user,
		 request->may_wait ? "on a worker" : "at once");
	return 0;
}

static const struct web_route routes[] = {
	{ "POST", "/operator", WEB_OPERATOR, WEB_BODY_STREAM, post_stream },
	{ "POST", "/{path}/git-receive-pack", WEB_GIT, WEB_BODY_STREAM, post_stream },
	{ "PUT", "/{path}/info/lfs/objects/{last}", WEB_GIT, WEB_BODY_STREAM,
	  post_stream },
	{ "POST", "/{path}/git-upload-pack", WEB_GIT, WEB_BODY_FILE, post_whole },
	{ "GET", "/{path}/info/refs", WEB_GIT, WEB_QUICK, get_quick },
	{ "GET", "/hello", WEB_ANYBODY, WEB_QUICK, get_quick },
	{ 0 },
};

/* In place of the real decision, of which nothing else is linked here. */
static struct {
	struct access_answer answer;
	bool takes_a_while;
	atomic_int asked_quickly, asked;
	bool is_forwarded_push;
	char service[32];
} door;

void access_decide(struct access *access, const struct access_question *question,
		   struct access_answer *answer, struct err *e)
{
	(void)access;
	*answer = door.answer;
	if (question->is_quick && door.takes_a_while) {
		atomic_fetch_add(&door.asked_quickly, 1);
		answer->status = ACCESS_LATER;
		return;
	}
	atomic_fetch_add(&door.asked, 1);
	snprintf(door.service, sizeof(door.service), "%s", question->git_service);
	door.is_forwarded_push = question->is_forwarded_push;
	if (answer->status)
		err_set(e, ERR_AUTH, "who are you?");
}

static int setup(void **state)
{
	if (test_make_root(state))
		return -1;
	memset(&door, 0, sizeof(door));
	door.answer.code = "DOOR";
	services.role = SITE_PRIMARY;
	atomic_store(&started, 0);
	start_server(routes, 0);
	return 0;
}

static int teardown(void **state)
{
	web_server_stop(TAKE(server), 0);
	return test_remove_root(state);
}

static void send_head(int fd, const char *target, size_t len, const char *more)
{
	AUTO_FREE char *head = xasprintf("POST %s HTTP/1.1\r\nHost: h\r\n%s"
					 "Content-Length: %zu\r\n\r\n",
					 target, more, len);

	send_text(fd, head);
}

/* The answer to a head alone. */
static void ask_head(const char *target, size_t len, struct str *answer)
{
	AUTO_CLOSE int fd = dial();

	send_head(fd, target, len, "Expect: 100-continue\r\n");
	assert_true(receive_all(fd, 5000, answer));
}

TEST(who_is_not_let_in_is_told_before_a_byte_of_the_body)
{
	static const char *const targets[] = { "/a/git-receive-pack",
					       "/a/git-upload-pack", "/operator" };

	for (size_t i = 0; i < 2 * ARRAY_SIZE(targets); i++) {
		const char *target = targets[i / 2];
		AUTO_STR struct str answer = STR_INIT;
		door.takes_a_while = i % 2;
		door.answer.status = 401;
		ask_head(target, 100 << 20, &answer);
		assert_int_equal(status_of(answer.data), 401);
		assert_non_null(strstr(answer.data, i < 4 ? "WWW-Authenticate: Basic "
							  : "WWW-Authenticate: Bearer "));
		str_reset(&answer);
		door.answer.status = 429;
		ask_head(target, 100 << 20, &answer);
		assert_int_equal(status_of(answer.data), 429);
		assert_non_null(strstr(answer.data, "Retry-After: 5\r\n"));
	}
	assert_int_equal(atomic_load(&door.asked_quickly), 6);
	assert_int_equal(atomic_load(&door.asked), 12);
	assert_int_equal(atomic_load(&started), 0);
}

/* A small body would be read and thrown away: nobody is asked for it either. */
TEST(who_is_not_let_in_is_not_told_to_go_on)
{
	static const size_t sizes[] = { 1, 1000, 100 << 20 };

	door.answer.status = 401;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		AUTO_STR struct str answer = STR_INIT;
		ask_head("/a/git-receive-pack", sizes[i], &answer);
		assert_int_equal(status_of(answer.data), 401);
		assert_null(strstr(answer.data, "100 Continue"));
	}
}

/* Its last part is a name like any other. */
TEST(an_object_that_is_called_like_a_service_is_put_by_who_may_push)
{
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();

	door.answer.status = 401;
	send_text(fd, "PUT /a/info/lfs/objects/git-upload-pack HTTP/1.1\r\nHost: h\r\n"
		      "Connection: close\r\nContent-Length: 1\r\n\r\nx");
	assert_true(receive_all(fd, 5000, &answer));
	assert_int_equal(status_of(answer.data), 401);
	assert_string_equal(door.service, "git-receive-pack");
}

TEST(a_password_is_checked_where_it_may_wait)
{
	door.takes_a_while = true;
	snprintf(door.answer.user, sizeof(door.answer.user), "ann");
	assert_string_equal(
		body_of(exchange("POST /a/git-receive-pack HTTP/1.1", "abc", 3)),
		"3 bytes came\n");
	assert_string_equal(last_user, "ann");
	assert_string_equal(
		body_of(exchange("POST /a/git-upload-pack HTTP/1.1", "abc", 3)),
		"3 bytes\n");
	assert_string_equal(body_of(get("/a/info/refs?service=git-upload-pack")),
			    "quick for \"ann\" on a worker\n");
	assert_string_equal(body_of(exchange("POST /a/git-receive-pack HTTP/1.1", "", 0)),
			    "0 bytes came\n");
	assert_int_equal(atomic_load(&door.asked_quickly), 4);
	assert_int_equal(atomic_load(&door.asked), 4);
	/* And a refused one that is small leaves the connection as it is. */
	AUTO_STR struct str answer = STR_INIT;
	AUTO_CLOSE int fd = dial();
	door.answer.status = 403;
	send_head(fd, "/a/git-receive-pack", 3, "");
	send_text(fd, "abcGET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
	receive_until(fd, "quick", &answer);
	assert_int_equal(status_of(answer.data), 403);
}

TEST(a_push_is_for_the_primary_only_at_a_secondary)
{
	exchange("POST /a/git-receive-pack HTTP/1.1", "abc", 3);
	assert_false(door.is_forwarded_push);
	services.role = SITE_SECONDARY;
	exchange("POST /a/git-receive-pack HTTP/1.1", "abc", 3);
	assert_true(door.is_forwarded_push);
	get("/a/info/refs?service=git-receive-pack");
	assert_true(door.is_forwarded_push);
	get("/a/info/refs?service=git-upload-pack");
	assert_false(door.is_forwarded_push);
}

TEST(unknown_services_of_git_are_refused_by_their_handler)
{
	door.answer.status = 401;
	assert_int_equal(status_of(get("/a/info/refs")), 200);
	assert_int_equal(status_of(get("/a/info/refs?service=git-daemon")), 200);
	assert_int_equal(atomic_load(&door.asked), 0);
	assert_int_equal(status_of(get("/a/info/refs?service=git-receive-pack")), 401);
}

TEST(a_token_of_a_site_says_nothing_of_a_body_that_comes)
{
	snprintf(door.answer.site, sizeof(door.answer.site), "far");
	assert_int_equal(status_of(exchange("POST /operator HTTP/1.1", "abc", 3)), 403);
	assert_int_equal(
		status_of(exchange("POST /a/git-receive-pack HTTP/1.1", "abc", 3)), 200);
}

#define WITH_SERVER(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_SERVER(who_is_not_let_in_is_told_before_a_byte_of_the_body),
		WITH_SERVER(who_is_not_let_in_is_not_told_to_go_on),
		WITH_SERVER(
			an_object_that_is_called_like_a_service_is_put_by_who_may_push),
		WITH_SERVER(a_password_is_checked_where_it_may_wait),
		WITH_SERVER(a_push_is_for_the_primary_only_at_a_secondary),
		WITH_SERVER(unknown_services_of_git_are_refused_by_their_handler),
		WITH_SERVER(a_token_of_a_site_says_nothing_of_a_body_that_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
