/*
 * What upstreams answer, those included that none should: asked of a server on a loopback
 * address, with the credentials of two watchers.
 */
#include "mirror/upstream.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "http_peer.h"

#define ONE "1111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222"
#define ADVERT "Content-Type: application/x-git-upload-pack-advertisement\r\n"

/* To each watcher's token, and to whoever shows none. */
static struct {
	const char *to_first, *to_second, *to_others; /* status and header lines */
	struct str body;
	bool is_endless, is_silent;
	bool replaces_first; /* its file, with the other token, before it answers it */
	atomic_size_t asked_by_first, asked_by_second, asked_by_others;
} server;

static struct mirrors mirrors;
static struct store *store;
static struct credential_marks *marks;
static const struct upstream_tag *known;
static struct upstream_view view;

static void write_secret(const char *name, const char *text, mode_t mode)
{
	int fd = openat(root_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static bool shows(const char *head, const char *token)
{
	AUTO_FREE char *header = http_make_basic_header("x-access-token", token);

	return strstr(head, header) != NULL;
}

static const char *answer_to(const char *head)
{
	if (shows(head, "token-one")) {
		server.asked_by_first++;
		if (server.replaces_first)
			write_secret("one", "token-new", 0600);
		return server.to_first;
	}
	if (shows(head, "token-two")) {
		server.asked_by_second++;
		return server.to_second;
	}
	server.asked_by_others++;
	return server.to_others;
}

/* The helper of all tests keeps the first heads only. */
static bool hear_head(struct peer_link *link, char head[4096])
{
	size_t len = 0;

	while (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0)
		if (len == 4095 || read(link->fd, head + len++, 1) != 1)
			return false;
	head[len] = '\0';
	size_t number = peer.requests++;
	if (number < ARRAY_SIZE(peer.heads))
		memcpy(peer.heads[number], head, len + 1);
	return true;
}

static void serve(struct peer_link *link)
{
	AUTO_STR struct str answer = STR_INIT;
	char head[4096];

	if (!hear_head(link, head))
		return;
	const char *first = answer_to(head);
	char byte;
	if (server.is_silent) {
		peer_hear(link, &byte, 1);
		return;
	}
	str_addf(&answer, "HTTP/1.1 %sConnection: close\r\n", first);
	if (!server.is_endless)
		str_addf(&answer, "Content-Length: %zu\r\n", server.body.len);
	str_add(&answer, "\r\n");
	str_add_bytes(&answer, server.body.data ? server.body.data : "", server.body.len);
	if (!peer_say_bytes(link, answer.data, answer.len))
		return;
	while (server.is_endless && peer_say_bytes(link, answer.data, answer.len))
		;
}

static void add_packet(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void add_packet(const char *format, ...)
{
	va_list args;
	char *text = NULL;

	va_start(args, format);
	assert_true(vasprintf(&text, format, args) > 0);
	va_end(args);
	for (char *at = text; *at; at++)
		if (*at == '@') { /* stands for NUL */
			str_addf(&server.body, "%04zx", strlen(text) + 4);
			str_add_bytes(&server.body, text, (size_t)(at - text));
			str_add_bytes(&server.body, "", 1);
			str_add(&server.body, at + 1);
			free(text);
			return;
		}
	str_addf(&server.body, "%04zx%s", strlen(text) + 4, text);
	free(text);
}

static void begin_advert(void)
{
	str_reset(&server.body);
	add_packet("# service=git-upload-pack\n");
	str_add(&server.body, "0000");
}

static void make_advert(void)
{
	begin_advert();
	add_packet(ONE " HEAD@symref=HEAD:refs/heads/main agent=x\n");
	add_packet(ONE " refs/heads/main\n");
	add_packet(TWO " refs/tags/v1\n");
	str_add(&server.body, "0000");
}

static const char sections[] = "[mirror \"m\"]\nurl = http://127.0.0.1:%d/m.git/\n"
			       "[mirror \"open\"]\nurl = http://127.0.0.1:%d/open\n"
			       "[mirror \"other\"]\nurl = http://127.0.0.1:%d/o\n"
			       "[watcher \"first\"]\nmirror = m\nmirror = other\n"
			       "tokenFile = %s/one\n"
			       "[watcher \"second\"]\nmirror = m\ntokenFile = %s/two\n";

static int set_up(void **state)
{
	AUTO_CONF struct conf *conf = NULL;
	int result = test_make_root(state);

	memset(&server, 0, sizeof(server));
	server.to_first = server.to_second = server.to_others = "200 OK\r\n" ADVERT;
	make_advert();
	peer_start(serve);
	write_secret("one", "token-one\n", 0600);
	write_secret("two", "token-two", 0600);
	AUTO_FREE char *text =
		xasprintf(sections, peer.port, peer.port, peer.port, root, root);
	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	assert_ok(mirrors_read(conf, &mirrors, &err));
	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(credential_marks_open(store, &marks, &err));
	known = NULL;
	return result;
}

static int tear_down(void **state)
{
	peer_stop();
	upstream_view_clear(&view);
	credential_marks_close(TAKE(marks));
	store_close(store);
	mirrors_clear(&mirrors);
	str_clear(&server.body);
	return test_remove_root(state);
}

#define UPSTREAM_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static int ask(const char *name, const struct watcher *watcher, int64_t timeout_ms)
{
	upstream_view_clear(&view);
	return upstream_read(
		&(struct upstream_call){ .mirrors = &mirrors,
					 .mirror = mirrors_find(&mirrors, name),
					 .watcher = watcher,
					 .marks = marks,
					 .known = known,
					 .timeout_ms = timeout_ms },
		&view, &err);
}

/* As a person may: whatever is marked is tried. */
static void forget_marks(void)
{
	credential_marks_close(TAKE(marks));
	assert_ok(credential_marks_open(store, &marks, &err));
}

static bool is_marked(const char *watcher)
{
	AUTO_FREE char *message = NULL;
	int64_t refused_at;

	assert_ok(credential_mark_read(store, "m", watcher, &refused_at, &message, &err));
	return refused_at != 0;
}

static int ask_all(void)
{
	return ask("m", NULL, 20000);
}

TEST(refs_come_by_one_request_with_the_first_watchers_token)
{
	struct oid head;
	char text[OID_MAX_TEXT];

	assert_ok(ask_all());
	assert_int_equal(view.refs.refs.count, 2);
	assert_string_equal(view.refs.head_target, "refs/heads/main");
	assert_true(ref_snapshot_head(&view.refs, &head));
	assert_string_equal(oid_text(&head, text), ONE);
	assert_string_equal(view.watcher->name, "first");
	assert_non_null(view.header);
	assert_null(strstr(view.url, "token"));
	assert_int_equal(peer.requests, 1);
	assert_non_null(strstr(peer.heads[0],
			       "GET /m.git/info/refs?service=git-upload-pack HTTP/1.1"));
}

TEST(where_nobody_watches_no_credential_is_shown)
{
	assert_ok(ask("open", NULL, 20000));
	assert_null(view.watcher);
	assert_null(view.header);
	assert_int_equal(server.asked_by_others, 1);
	assert_null(strstr(peer.heads[0], "Authorization"));
}

TEST(a_token_is_read_anew_for_each_request)
{
	assert_ok(ask_all());
	write_secret("one", "token-two\n", 0600);
	assert_ok(ask_all());
	assert_int_equal(server.asked_by_first, 1);
	assert_int_equal(server.asked_by_second, 1);
	assert_string_equal(view.watcher->name, "first");
}

TEST(the_next_watcher_is_taken_where_the_upstream_refuses)
{
	static const char *const refusals[] = { "401 No\r\n", "403 No\r\n", "404 No\r\n",
						"410 Gone\r\n" };

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		forget_marks();
		server.to_first = refusals[i];
		assert_ok(ask_all());
		assert_string_equal(view.watcher->name, "second");
		assert_int_equal(server.asked_by_first, i + 1);
		assert_int_equal(server.asked_by_second, i + 1);
		assert_true(is_marked("first"));
		assert_false(is_marked("second"));
	}
}

TEST(one_that_shows_nothing_is_not_shown_again_while_another_one_does)
{
	server.to_first = "404 No\r\n";
	for (size_t i = 0; i < 3; i++) {
		assert_ok(ask_all());
		assert_string_equal(view.watcher->name, "second");
	}
	assert_int_equal(server.asked_by_first, 1);
	assert_int_equal(server.asked_by_second, 3);
	/* As soon as no other one does, its word of another day does not count. */
	server.to_second = "404 No\r\n";
	assert_fails(ask_all(), ERR_MISSING);
	assert_int_equal(err.reason, REASON_GONE);
	assert_int_equal(server.asked_by_first, 2);
	server.to_second = "401 No\r\n";
	server.to_first = "200 OK\r\n" ADVERT;
	assert_ok(ask_all());
	assert_string_equal(view.watcher->name, "first");
	assert_false(is_marked("first"));
	assert_true(is_marked("second"));
}

TEST(one_that_is_put_there_while_another_is_refused_is_tried)
{
	static const char *const refusals[] = { "401 No\r\n", "404 No\r\n" };

	for (size_t i = 0; i < ARRAY_SIZE(refusals); i++) {
		forget_marks();
		server.to_first = refusals[i];
		server.replaces_first = true;
		assert_ok(ask_all());
		assert_string_equal(view.watcher->name, "second");
		assert_true(is_marked("first"));
		server.replaces_first = false;
		assert_ok(ask_all());
		assert_string_equal(view.watcher->name, "first");
		assert_int_equal(server.asked_by_first, i + 1);
		assert_int_equal(server.asked_by_others, i + 1);
		assert_false(is_marked("first"));
		write_secret("one", "token-one", 0600);
	}
}

TEST(where_all_say_that_there_is_none_no_credential_is_marked)
{
	server.to_first = server.to_second = "404 No\r\n";
	assert_fails(ask_all(), ERR_MISSING);
	assert_int_equal(err.reason, REASON_GONE);
	assert_false(is_marked("first"));
	assert_false(is_marked("second"));
	assert_fails(ask("m", &mirrors.watchers.items[1], 20000), ERR_MISSING);
	assert_int_equal(err.reason, REASON_HIDDEN);
	assert_false(is_marked("second"));
	assert_int_equal(server.asked_by_first, 1);
	server.to_others = "410 Gone\r\n";
	assert_fails(ask("open", NULL, 20000), ERR_MISSING);
	assert_int_equal(err.reason, REASON_GONE);
}

/* Of the last answer. */
static void take_tag(struct upstream_tag *tag)
{
	upstream_tag_clear(tag);
	*tag = view.tag;
	view.tag = (struct upstream_tag){ 0 };
	known = tag;
}

static bool last_head_has(const char *text)
{
	assert_in_range(peer.requests, 1, ARRAY_SIZE(peer.heads));
	return strstr(peer.heads[peer.requests - 1], text) != NULL;
}

TEST(it_is_asked_whether_all_is_as_it_was_where_the_server_helps)
{
	struct upstream_tag tag = { 0 };

	server.to_first = "200 OK\r\nETag: \"one\"\r\n" ADVERT;
	assert_ok(ask_all());
	assert_false(last_head_has("If-None-Match"));
	take_tag(&tag);
	server.to_first = "304 As it was\r\n";
	str_reset(&server.body);
	assert_ok(ask_all());
	assert_true(last_head_has("If-None-Match: \"one\"\r\n"));
	assert_true(view.is_as_known);
	assert_int_equal(view.refs.refs.count, 0);
	/* Another answer is another, whatever was asked. */
	server.to_first = "200 OK\r\nETag: \"two\"\r\n" ADVERT;
	make_advert();
	assert_ok(ask_all());
	assert_false(view.is_as_known);
	assert_int_equal(view.refs.refs.count, 2);
	assert_string_equal(view.tag.etag, "\"two\"");
	upstream_tag_clear(&tag);
}

TEST(what_is_known_is_so_by_the_same_credential_alone)
{
	struct upstream_tag tag = { 0 };

	server.to_first = server.to_second = "200 OK\r\nETag: \"one\"\r\n" ADVERT;
	assert_ok(ask_all());
	take_tag(&tag);
	assert_ok(ask("m", &mirrors.watchers.items[1], 20000));
	assert_false(last_head_has("If-None-Match"));
	write_secret("one", "token-one", 0600); /* the same text, in another file */
	assert_ok(ask_all());
	assert_false(last_head_has("If-None-Match"));
	/* Nobody asked for that. */
	server.to_first = "304 As it was\r\n";
	assert_int_equal(ask_all(), -1);
	upstream_tag_clear(&tag);
}

TEST(a_time_of_change_counts_when_it_is_old_enough)
{
	static const struct {
		const char *date, *modified;
		bool counts;
	} cases[] = {
		{ "12:01:00", "12:00:00", true },  { "12:00:59", "12:00:00", false },
		{ "12:00:00", "12:00:00", false }, { "11:00:00", "12:00:00", false },
		{ NULL, "12:00:00", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct upstream_tag tag = { 0 };
		AUTO_FREE char *date =
			cases[i].date ? xasprintf("Date: Wed, 25 Nov 2026 %s GMT\r\n",
						  cases[i].date)
				      : xstrdup("");
		AUTO_FREE char *answer =
			xasprintf("200 OK\r\n%sLast-Modified: Wed, 25 Nov 2026 %s "
				  "GMT\r\n" ADVERT,
				  date, cases[i].modified);
		known = NULL;
		server.to_first = answer;
		assert_ok(ask_all());
		take_tag(&tag);
		assert_ok(ask_all());
		assert_int_equal(
			last_head_has("If-Modified-Since: Wed, 25 Nov 2026 12:00:00 GMT"),
			cases[i].counts);
		upstream_tag_clear(&tag);
	}
}

TEST(the_next_watcher_is_taken_where_a_file_cannot_be_used)
{
	write_secret("one", "token-one", 0644);
	assert_ok(ask_all());
	assert_string_equal(view.watcher->name, "second");
	assert_int_equal(unlinkat(root_fd, "one", 0), 0);
	assert_ok(ask_all());
	assert_string_equal(view.watcher->name, "second");
	/* What is said when nobody's does. */
	server.to_second = "404 No\r\n";
	assert_fails(ask_all(), ERR_CONFIG);
	assert_non_null(strstr(err.text, "/one is not there"));
	server.to_second = "401 No\r\n";
	assert_fails(ask_all(), ERR_AUTH);
	assert_fails(ask("m", &mirrors.watchers.items[0], 20000), ERR_CONFIG);
	assert_int_equal(server.asked_by_first + server.asked_by_others, 0);
}

TEST(who_is_asked_for_is_asked_for_alone)
{
	server.to_second = "401 No\r\n";
	assert_fails(ask("m", &mirrors.watchers.items[1], 20000), ERR_AUTH);
	assert_non_null(strstr(err.text, "the credential of watcher second"));
	assert_true(upstream_refuses(&err));
	assert_int_equal(server.asked_by_first, 0);
	assert_int_equal(server.asked_by_second, 1);
}

TEST(other_failures_are_no_reason_to_try_the_next)
{
	static const struct {
		const char *answer;
		enum err_class class;
		enum err_reason reason;
	} cases[] = {
		{ "500 Broken\r\n", ERR_NETWORK, REASON_NONE },
		{ "503 Busy\r\n", ERR_NETWORK, REASON_NONE },
		{ "429 Slow\r\nRetry-After: 7\r\n", ERR_NETWORK, REASON_RATE_LIMITED },
		{ "400 What\r\n", ERR_CONFIG, REASON_NONE },
		{ "405 Not so\r\n", ERR_CONFIG, REASON_NONE },
		{ "408 Too late\r\n", ERR_NETWORK, REASON_NONE },
		{ "409 Now not\r\n", ERR_NETWORK, REASON_NONE },
		{ "421 Not here\r\n", ERR_NETWORK, REASON_NONE },
		{ "423 Locked\r\n", ERR_NETWORK, REASON_NONE },
		{ "425 Too early\r\n", ERR_NETWORK, REASON_NONE },
		{ "301 There\r\nLocation: http://127.0.0.1/x\r\n", ERR_CONFIG,
		  REASON_MOVED },
		{ "302 There\r\nLocation: http://127.0.0.1/x\r\n", ERR_NETWORK,
		  REASON_MOVED },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		forget_marks();
		server.to_first = cases[i].answer;
		assert_fails(ask_all(), cases[i].class);
		assert_int_equal(err.reason, cases[i].reason);
		assert_true(err.remedy[0]);
		assert_int_equal(server.asked_by_second, 0);
	}
}

TEST(it_is_missing_only_if_it_is_for_all)
{
	server.to_first = "404 No\r\n";
	server.to_second = "401 No\r\n";
	assert_fails(ask_all(), ERR_AUTH);
	assert_int_equal(err.reason, REASON_REFUSED);
	assert_non_null(strstr(err.text, "second"));
	forget_marks();
	server.to_first = "401 No\r\n";
	server.to_second = "404 No\r\n";
	assert_fails(ask_all(), ERR_AUTH);
	assert_non_null(strstr(err.text, "first"));
	forget_marks();
	server.to_first = "404 No\r\n";
	assert_fails(ask_all(), ERR_MISSING);
}

TEST(an_upstream_that_wants_rest_is_understood)
{
	AUTO_FREE char *later = xasprintf(
		"403 No\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: %" PRId64
		"\r\n",
		clock_wall_ms() / 1000 + 100);
	AUTO_FREE char *past = xasprintf(
		"403 No\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: %" PRId64
		"\r\n",
		clock_wall_ms() / 1000 - 100);
	const struct {
		const char *answer;
		int64_t least_ms, most_ms;
	} cases[] = {
		{ "429 No\r\nRetry-After: 7\r\n", 7000, 7000 },
		{ "403 No\r\nRetry-After: 9\r\n", 9000, 9000 },
		{ "429 No\r\n", 60000, 60000 },
		{ "429 No\r\nRetry-After: -1\r\n", 60000, 60000 },
		{ "429 No\r\nRetry-After: 99999999999999999999\r\n", 60000, 60000 },
		{ later, 50000, 100000 },
		{ past, 5000, 5000 },
		{ "429 No\r\nRetry-After: 1\r\n", 5000, 5000 },
		{ "429 No\r\nX-RateLimit-Remaining: 0\r\n"
		  "X-RateLimit-Reset: 9223372036854775807\r\n",
		  86400000, 86400000 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		forget_marks();
		server.to_first = cases[i].answer;
		assert_fails(ask_all(), ERR_NETWORK);
		assert_int_equal(err.reason, REASON_RATE_LIMITED);
		assert_in_range(view.retry_after_ms, cases[i].least_ms, cases[i].most_ms);
	}
	server.to_first = server.to_second =
		"403 No\r\nX-RateLimit-Remaining: 7\r\nX-RateLimit-Reset: 1\r\n";
	forget_marks();
	assert_fails(ask_all(), ERR_AUTH);
	assert_int_equal(view.retry_after_ms, 0);
}

/* With the same credential; and until a person finds out that it is over. */
TEST(a_host_that_wants_rest_is_left_alone_for_all_of_its_mirrors)
{
	const struct watcher *first = &mirrors.watchers.items[0];

	server.to_first = "429 No\r\nRetry-After: 30\r\n";
	assert_fails(ask_all(), ERR_NETWORK);
	assert_false(view.is_at_rest);
	server.to_first = "200 OK\r\n" ADVERT;
	for (int i = 0; i < 3; i++) {
		assert_fails(ask("other", NULL, 20000), ERR_NETWORK);
		assert_int_equal(err.reason, REASON_RATE_LIMITED);
		assert_true(view.is_at_rest && view.watcher == first);
		assert_in_range(view.retry_after_ms, 1, 30000);
	}
	assert_int_equal(server.asked_by_first, 1);
	server.to_first = "429 No\r\nRetry-After: 9\r\n";
	assert_fails(ask("other", first, 20000), ERR_NETWORK);
	assert_fails(ask("other", NULL, 20000), ERR_NETWORK);
	assert_in_range(view.retry_after_ms, 1, 9000);
	server.to_first = "200 OK\r\n" ADVERT;
	assert_ok(ask("open", NULL, 20000));
	assert_ok(ask("other", first, 20000));
	assert_false(view.is_at_rest);
	assert_int_equal(server.asked_by_first, 3);
	assert_ok(ask_all());
}

/* Not for a day, if it is wrong about one of them. */
TEST(a_host_rests_no_longer_than_an_hour)
{
	server.to_first = "429 No\r\nRetry-After: 86400\r\n";
	assert_fails(ask_all(), ERR_NETWORK);
	assert_int_equal(view.retry_after_ms, 86400000);
	assert_fails(ask("other", NULL, 20000), ERR_NETWORK);
	assert_in_range(view.retry_after_ms, 1, 3600000);
}

TEST(no_credential_follows_a_redirect)
{
	static const int statuses[] = { 301, 302, 303, 307, 308 };

	for (size_t i = 0; i < ARRAY_SIZE(statuses); i++) {
		AUTO_FREE char *answer = xasprintf(
			"%d There\r\nLocation: http://localhost:%d/stolen.git/info/refs"
			"?service=git-upload-pack\r\n",
			statuses[i], peer.port);
		server.to_first = answer;
		assert_fails(ask_all(), statuses[i] == 301 || statuses[i] == 308
						? ERR_CONFIG
						: ERR_NETWORK);
		assert_int_equal(err.reason, REASON_MOVED);
		assert_non_null(strstr(err.text, "redirects elsewhere"));
		assert_int_equal(peer.requests, i + 1);
	}
}

TEST(what_makes_no_sense_is_an_error)
{
	static const char *const bodies[] = {
		"",
		"0000",
		"zzzz",
		"001e# service=git-upload-pack\n",
		"001e# service=git-upload-pack\n0000ffffshort",
		"001e# service=git-upload-pack\n0000000dnonsense\n0000",
		"001e# service=git-upload-pack\n00000005",
		"<html>nothing</html>",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		str_reset(&server.body);
		str_add(&server.body, bodies[i]);
		if (ask_all() == 0)
			fail_msg("%zu is taken", i);
		assert_int_equal(err.class, ERR_CORRUPT);
		assert_int_equal(server.asked_by_second, 0);
	}
}

TEST(each_cut_of_an_answer_is_an_error)
{
	size_t whole = server.body.len;

	for (size_t len = 34; len < whole; len += 7) {
		make_advert();
		str_truncate(&server.body, len);
		assert_fails(ask_all(), ERR_CORRUPT);
		if (peer.connections > PEER_LINKS - 4)
			break;
	}
}

TEST(an_answer_without_end_ends)
{
	int64_t begun = clock_boot_ms();

	server.is_endless = true;
	assert_int_equal(ask("m", NULL, 300), -1);
	assert_true(err.class == ERR_TIMEOUT || err.class == ERR_CORRUPT);
	assert_true(clock_boot_ms() - begun < 15000);
}

TEST(an_upstream_that_says_nothing_holds_nobody)
{
	struct stop stop;
	int64_t begun = clock_boot_ms();

	server.is_silent = true;
	assert_fails(ask("m", NULL, 300), ERR_TIMEOUT);
	assert_int_equal(err.reason, REASON_TOO_SLOW);
	assert_true(clock_boot_ms() - begun < 10000);
	assert_int_equal(server.asked_by_second, 0);
	stop_init(&stop);
	stop_request(&stop);
	upstream_view_clear(&view);
	assert_fails(upstream_read(&(struct upstream_call){ .mirrors = &mirrors,
							    .mirror = mirrors_find(
								    &mirrors, "m"),
							    .timeout_ms = 60000,
							    .stop = &stop },
				   &view, &err),
		     ERR_CANCELED);
	stop_clear(&stop);
}

TEST(a_server_of_files_is_asked_by_git)
{
	server.to_first = "200 OK\r\nContent-Type: text/plain\r\n";
	str_reset(&server.body);
	str_add(&server.body, ONE "\trefs/heads/main\n" TWO "\trefs/tags/v1\n");
	assert_ok(ask_all());
	assert_int_equal(view.refs.refs.count, 2);
	assert_int_equal(server.asked_by_others, 0);
	assert_true(server.asked_by_first > 1);
}

TEST(a_hundred_thousand_refs_are_read)
{
	begin_advert();
	add_packet(ONE " HEAD@symref=HEAD:refs/heads/r000000\n");
	for (int i = 0; i < 100000; i++)
		add_packet(ONE " refs/heads/r%06d\n", i);
	str_add(&server.body, "0000");
	assert_ok(ask_all());
	assert_int_equal(view.refs.refs.count, 100000);
}

TEST(an_empty_repository_has_no_refs)
{
	begin_advert();
	add_packet("%040d capabilities^{}@symref=HEAD:refs/heads/trunk\n", 0);
	str_add(&server.body, "0000");
	assert_ok(ask_all());
	assert_int_equal(view.refs.refs.count, 0);
	begin_advert();
	str_add(&server.body, "0000");
	assert_ok(ask_all());
	assert_int_equal(view.refs.refs.count, 0);
}

TEST(a_repository_of_sha256_says_so)
{
	begin_advert();
	add_packet("%064d HEAD@symref=HEAD:refs/heads/main object-format=sha256\n", 7);
	add_packet("%064d refs/heads/main\n", 7);
	str_add(&server.body, "0000");
	assert_ok(ask_all());
	assert_int_equal(view.oid_len, 32);
	assert_int_equal(view.refs.refs.count, 1);
}

TEST(a_head_that_is_detached_has_a_commit)
{
	struct oid head;

	begin_advert();
	add_packet(TWO " HEAD@agent=x\n");
	add_packet(ONE " refs/heads/main\n");
	str_add(&server.body, "0000");
	assert_ok(ask_all());
	assert_true(!view.refs.head_target || !view.refs.head_target[0]);
	assert_true(ref_snapshot_head(&view.refs, &head));
}

TEST(a_secret_that_cannot_be_one_is_not_sent)
{
	static const struct {
		const char *text;
		mode_t mode;
	} cases[] = {
		{ "", 0600 },
		{ "\n\n", 0600 },
		{ "two words\n", 0600 },
		{ "a\nX-Injected: 1\n", 0600 },
		{ "token-one\n", 0644 },
		{ "tok\001en\n", 0600 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		write_secret("one", cases[i].text, cases[i].mode);
		assert_fails(ask("m", &mirrors.watchers.items[0], 20000), ERR_CONFIG);
		assert_non_null(strstr(err.text, "/one"));
		assert_null(strstr(err.text, "token-one"));
	}
	assert_int_equal(peer.requests, 0);
	AUTO_FREE char *path = xasprintf("%s/one", root);
	unlink(path);
	assert_fails(ask("m", &mirrors.watchers.items[0], 20000), ERR_CONFIG);
	assert_int_equal(peer.requests, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UPSTREAM_CASE(refs_come_by_one_request_with_the_first_watchers_token),
		UPSTREAM_CASE(where_nobody_watches_no_credential_is_shown),
		UPSTREAM_CASE(a_token_is_read_anew_for_each_request),
		UPSTREAM_CASE(the_next_watcher_is_taken_where_the_upstream_refuses),
		UPSTREAM_CASE(
			one_that_shows_nothing_is_not_shown_again_while_another_one_does),
		UPSTREAM_CASE(one_that_is_put_there_while_another_is_refused_is_tried),
		UPSTREAM_CASE(where_all_say_that_there_is_none_no_credential_is_marked),
		UPSTREAM_CASE(
			it_is_asked_whether_all_is_as_it_was_where_the_server_helps),
		UPSTREAM_CASE(what_is_known_is_so_by_the_same_credential_alone),
		UPSTREAM_CASE(a_time_of_change_counts_when_it_is_old_enough),
		UPSTREAM_CASE(the_next_watcher_is_taken_where_a_file_cannot_be_used),
		UPSTREAM_CASE(who_is_asked_for_is_asked_for_alone),
		UPSTREAM_CASE(other_failures_are_no_reason_to_try_the_next),
		UPSTREAM_CASE(it_is_missing_only_if_it_is_for_all),
		UPSTREAM_CASE(an_upstream_that_wants_rest_is_understood),
		UPSTREAM_CASE(
			a_host_that_wants_rest_is_left_alone_for_all_of_its_mirrors),
		UPSTREAM_CASE(a_host_rests_no_longer_than_an_hour),
		UPSTREAM_CASE(no_credential_follows_a_redirect),
		UPSTREAM_CASE(what_makes_no_sense_is_an_error),
		UPSTREAM_CASE(each_cut_of_an_answer_is_an_error),
		UPSTREAM_CASE(an_answer_without_end_ends),
		UPSTREAM_CASE(an_upstream_that_says_nothing_holds_nobody),
		UPSTREAM_CASE(a_server_of_files_is_asked_by_git),
		UPSTREAM_CASE(a_hundred_thousand_refs_are_read),
		UPSTREAM_CASE(an_empty_repository_has_no_refs),
		UPSTREAM_CASE(a_repository_of_sha256_says_so),
		UPSTREAM_CASE(a_head_that_is_detached_has_a_commit),
		UPSTREAM_CASE(a_secret_that_cannot_be_one_is_not_sent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
