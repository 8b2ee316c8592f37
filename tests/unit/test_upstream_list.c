/*
 * Lists of repositories, asked of a forge on a loopback address that answers as GitHub,
 * GitLab or Gitea do, or as none should.
 */
#include "mirror/upstream_list.h"

#include <sys/stat.h>

#include "base/clock.h"
#include "git/repo.h"
#include "http_peer.h"

static ino_t inode_away; /* of a directory on another file system; 0: none */

/* The library's. */
int fstat(int fd, struct stat *st)
{
	int result = fstatat(fd, "", st, AT_EMPTY_PATH);

	if (result == 0 && inode_away && st->st_ino == inode_away)
		st->st_dev++;
	return result;
}

static struct {
	enum upstream_from from;
	size_t count, page_size;
	int64_t total;      /* as it is told; -1: not */
	int64_t total_then; /* ... from the second page on; 0: the same */
	bool has_last;      /* a link to the last page */
	bool has_etags;
	size_t page_at;     /* 0: none; this page is: */
	const char *answer; /* ... the whole of this */
	const char *body;   /* ... or has this body */
	size_t as_page;     /* ... or the entries of another */
	const char *next;   /* ... or leads there; "": nowhere */
	size_t cut_at;      /* ... or ends, with the connection, after so many bytes */
	const char *pushed; /* name whose time changed */
	atomic_size_t asked, unchanged;
	char head[4096]; /* of the last request */
} forge;

static struct upstream_source source;
static struct upstream_list list;
static char url[128];
static int64_t rest_ms;

static bool hear(struct peer_link *link)
{
	char head[sizeof(forge.head)];
	size_t len = 0;

	while (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0)
		if (len == sizeof(head) - 1 || read(link->fd, head + len++, 1) != 1)
			return false;
	head[len] = '\0';
	memcpy(forge.head, head, len + 1);
	return true;
}

static size_t asked_page(void)
{
	const char *at = strstr(forge.head, "&page=");

	return at ? strtoul(at + 6, NULL, 10) : 1;
}

static void add_entry(struct str *out, size_t i)
{
	AUTO_FREE char *name = xasprintf("acme/r%05zu", i);
	const char *time = forge.pushed && strcmp(forge.pushed, name) == 0
				   ? "2026-11-21T09:14:03Z"
				   : "2026-11-20T10:14:03.120+01:00";

	if (forge.from == UPSTREAM_GITLAB)
		str_addf(
			out,
			"{\"id\":%zu,\"path_with_namespace\":\"%s\",\"http_url_to_repo\":"
			"\"http://127.0.0.1/%s.git\",\"default_branch\":\"main\","
			"\"last_activity_at\":\"%s\"}",
			i, name, name, time);
	else
		str_addf(out,
			 "{\"id\":%zu,\"full_name\":\"%s\",\"clone_url\":"
			 "\"http://127.0.0.1/%s.git\",\"default_branch\":\"main\","
			 "\"fork\":false,\"size\":7,\"pushed_at\":\"%s\"}",
			 i, name, name, time);
}

static void add_entries(struct str *out, size_t page)
{
	size_t first = (page - 1) * forge.page_size;

	str_add(out, "[");
	for (size_t i = first; i < forge.count && i < first + forge.page_size; i++) {
		if (i > first)
			str_add(out, ",");
		add_entry(out, i);
	}
	str_add(out, "]");
}

static void add_link(struct str *out, size_t page, size_t last)
{
	const char *end = strstr(forge.head, "HTTP/1.1") - 1;
	const char *more = strstr(forge.head, "&page=");
	const char *path = forge.head + 4;
	int len = (int)((more && more < end ? more : end) - path);

	if (page == forge.page_at && forge.next) {
		if (forge.next[0])
			str_addf(out, "Link: <%s>; rel=\"next\"\r\n", forge.next);
	} else if (page < last) {
		str_addf(out,
			 "Link: <http://127.0.0.1:%d%.*s&page=1>; rel=\"first\", "
			 "<http://127.0.0.1:%d%.*s&page=%zu>; rel=\"next\"",
			 peer.port, len, path, peer.port, len, path, page + 1);
		if (forge.has_last)
			str_addf(out,
				 ", <http://127.0.0.1:%d%.*s&page=%zu>; rel=\"last\"",
				 peer.port, len, path, last);
		str_add(out, "\r\n");
	}
}

/* False: it says it is as it was. */
static bool add_etag(struct str *out, const struct str *body)
{
	AUTO_FREE char *etag = xasprintf("W/\"%zu-%zu\"", body->len, asked_page());
	AUTO_FREE char *asked = xasprintf("If-None-Match: %s\r\n", etag);

	if (!forge.has_etags)
		return true;
	str_addf(out, "ETag: %s\r\n", etag);
	return !strstr(forge.head, asked);
}

static void answer_page(struct str *out)
{
	AUTO_STR struct str body = STR_INIT, head = STR_INIT;
	size_t page = asked_page();
	size_t last = (forge.count + forge.page_size - 1) / forge.page_size;
	bool is_odd = page == forge.page_at;
	int64_t total = page > 1 && forge.total_then ? forge.total_then : forge.total;

	if (is_odd && forge.body)
		str_add(&body, forge.body);
	else
		add_entries(&body, is_odd && forge.as_page ? forge.as_page : page);
	if (total >= 0)
		str_addf(&head, "%s: %" PRId64 "\r\n",
			 forge.from == UPSTREAM_GITLAB ? "X-Total" : "X-Total-Count",
			 total);
	if (add_etag(&head, &body)) {
		add_link(&head, page, last);
		str_addf(out, "HTTP/1.1 200 OK\r\n%sContent-Length: %zu\r\n\r\n%s",
			 head.data, body.len, body.data);
	} else {
		forge.unchanged++;
		str_addf(out, "HTTP/1.1 304 Not Modified\r\n%s\r\n", head.data);
	}
}

static void serve_forge(struct peer_link *link)
{
	while (hear(link)) {
		AUTO_STR struct str out = STR_INIT;
		bool is_odd = asked_page() == forge.page_at;
		bool is_cut = is_odd && forge.cut_at > 0;
		forge.asked++;
		if (is_odd && forge.answer)
			str_add(&out, forge.answer);
		else
			answer_page(&out);
		if (is_cut)
			str_truncate(&out, forge.cut_at);
		/* From here on `forge` is the test's again. */
		if (!peer_say_bytes(link, out.data, out.len) || is_cut)
			return;
	}
}

static int start_forge(void **state)
{
	(void)state;
	memset(&forge, 0, sizeof(forge));
	forge.from = UPSTREAM_GITHUB;
	forge.count = 5;
	forge.page_size = 100;
	forge.total = -1;
	peer_start(serve_forge);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/orgs/acme", peer.port);
	source = (struct upstream_source){ .url = url,
					   .has_forks = true,
					   .has_archived = true };
	return 0;
}

static int stop_forge(void **state)
{
	(void)state;
	peer_stop();
	upstream_list_clear(&list);
	text_list_clear(&source.include);
	text_list_clear(&source.exclude);
	return 0;
}

#define FORGE(name) cmocka_unit_test_setup_teardown(name, start_forge, stop_forge)

static int read_with(const char *token)
{
	const struct upstream_list_call call = { .source = &source,
						 .token = token,
						 .timeout_ms = 20000 };

	source.from = forge.from;
	return upstream_list_read(&call, &list, &rest_ms, &err);
}

static int read_list(void)
{
	return read_with(NULL);
}

/* Nothing of a list that was there before is lost by one that fails. */
static void assert_list_fails(enum err_class class)
{
	size_t before = list.chosen.count;

	assert_fails(read_list(), class);
	assert_int_equal(list.chosen.count, before);
}

static void forge_of(enum upstream_from from, size_t count, int64_t total)
{
	forge.from = from;
	forge.count = count;
	forge.page_size = from == UPSTREAM_GITEA ? 50 : 100;
	forge.total = total;
	forge.has_last = true;
}

/* The page is as it was told by one of the members of `forge`; then all is well again. */
static void end_oddity(void)
{
	forge.page_at = 0;
	forge.answer = forge.body = forge.next = NULL;
	forge.as_page = forge.cut_at = 0;
}

TEST(all_pages_of_an_organisation_make_its_list)
{
	const enum upstream_from kinds[] = { UPSTREAM_GITHUB, UPSTREAM_GITLAB,
					     UPSTREAM_GITEA };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		forge_of(kinds[i], 5000, kinds[i] == UPSTREAM_GITHUB ? -1 : 5000);
		forge.asked = 0;
		assert_ok(read_list());
		assert_int_equal(forge.asked, kinds[i] == UPSTREAM_GITEA ? 100 : 50);
		assert_int_equal(list.chosen.count, 5000);
		assert_int_equal(list.findings.items.count, 0);
		assert_string_equal(list.chosen.items[4999].name, "acme/r04999");
		assert_string_equal(list.chosen.items[0].url,
				    "http://127.0.0.1/acme/r00000.git");
	}
	assert_int_equal(peer.connections, 3);
}

TEST(what_is_told_of_a_repository_is_kept)
{
	int64_t pushed_at = 0;

	assert_ok(read_list());
	const struct upstream_entry *entry = list.chosen.items[0].entry;
	assert_true(clock_parse("2026-11-20T09:14:03Z", &pushed_at));
	assert_string_equal(entry->branch, "main");
	assert_int_equal(entry->size, 7 * 1024);
	assert_int_equal(entry->pushed_at, pushed_at);
	assert_false(entry->is_fork || entry->is_archived || entry->is_empty);
}

TEST(the_token_is_sent_in_a_header_and_the_url_is_completed)
{
	assert_ok(read_with("ghp_secret"));
	assert_non_null(strstr(forge.head, "GET /orgs/acme/repos?per_page=100&"
					   "sort=created&direction=asc HTTP/1.1\r\n"));
	assert_non_null(strstr(forge.head, "Authorization: Bearer ghp_secret\r\n"));
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/user/repos/", peer.port);
	assert_ok(read_list());
	assert_non_null(strstr(forge.head, "GET /user/repos?per_page=100&"));
	assert_null(strstr(forge.head, "Authorization"));
}

TEST(an_organisation_without_repositories_is_an_empty_list)
{
	forge.count = 0;
	assert_ok(read_list());
	assert_int_equal(list.chosen.count, 0);
	forge_of(UPSTREAM_GITLAB, 0, 0);
	assert_ok(read_list());
	assert_int_equal(list.chosen.count, 0);
}

TEST(a_list_that_is_cut_halfway_changes_nothing)
{
	forge_of(UPSTREAM_GITHUB, 5000, -1);
	assert_ok(read_list());
	forge.page_at = 25;
	forge.cut_at = 3000;
	assert_list_fails(ERR_NETWORK);
	assert_string_equal(err.remedy, "see whether the forge can be reached from here");
	end_oddity();
	forge.page_at = 25;
	forge.answer = "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n";
	assert_list_fails(ERR_NETWORK);
	end_oddity();
	forge.page_at = 25;
	forge.body = "[{\"full_name\":\"acme/x\"";
	assert_list_fails(ERR_CORRUPT);
	end_oddity();
	forge.page_at = 25;
	forge.next = "";
	assert_list_fails(ERR_CORRUPT);
	assert_non_null(strstr(err.text, "after 25 of 50 pages"));
	end_oddity();
	assert_ok(read_list());
	assert_int_equal(list.chosen.count, 5000);
}

TEST(an_answer_that_does_not_say_where_it_ends_is_no_list)
{
	forge.page_at = 1;
	forge.answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[]";
	forge.cut_at = strlen(forge.answer);
	assert_list_fails(ERR_NETWORK);
}

TEST(what_is_no_array_of_repositories_is_refused)
{
	static const char *const bodies[] = {
		"",
		"null",
		"{}",
		"[1]",
		"[{}]",
		"[]]",
		"[],\"x\":1",
		"[{\"full_name\":7}]",
		"[{\"full_name\":\"\"}]",
		"{\"message\":\"Not Found\"}",
	};

	forge.page_at = 1;
	for (size_t i = 0; i < ARRAY_SIZE(bodies); i++) {
		forge.body = bodies[i];
		assert_list_fails(ERR_CORRUPT);
	}
}

TEST(pages_that_lead_in_circles_or_repeat_are_refused)
{
	AUTO_FREE char *back = NULL;

	forge_of(UPSTREAM_GITHUB, 500, -1);
	forge.page_at = 3;
	back = xasprintf("http://127.0.0.1:%d/orgs/acme/repos?per_page=100&sort=created&"
			 "direction=asc&page=2",
			 peer.port);
	forge.next = back;
	assert_list_fails(ERR_CORRUPT);
	assert_true(forge.asked < 10);
	end_oddity();
	forge.page_at = 4;
	forge.as_page = 2;
	assert_list_fails(ERR_CONFLICT);
}

TEST(totals_that_do_not_agree_are_refused)
{
	forge_of(UPSTREAM_GITLAB, 300, 301);
	assert_list_fails(ERR_CORRUPT);
	forge.total = 299;
	assert_list_fails(ERR_CORRUPT);
	forge.total = 300;
	forge.total_then = 299;
	assert_list_fails(ERR_CONFLICT);
	forge.total_then = 0;
	assert_ok(read_list());
	forge_of(UPSTREAM_GITEA, 120, 119);
	assert_list_fails(ERR_CORRUPT);
	forge.total = 151; /* more than three pages have */
	assert_list_fails(ERR_CORRUPT);
}

TEST(gitea_counts_what_the_token_may_not_read)
{
	forge_of(UPSTREAM_GITEA, 120, 130);
	assert_ok(read_list());
	assert_int_equal(list.chosen.count, 120);
}

TEST(a_page_at_another_host_is_not_asked_for)
{
	static const char *const others[] = {
		"http://127.0.0.2/orgs/acme/repos?page=2",
		"https://127.0.0.1/orgs/acme/repos?page=2",
		"http://127.0.0.1:1/orgs/acme/repos?page=2",
		"http://x@127.0.0.1/?page=2",
		"/orgs/acme/repos?page=2",
		"file:///etc/passwd",
	};

	forge.page_at = 1;
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		forge.next = others[i];
		assert_list_fails(ERR_CONFIG);
	}
	assert_int_equal(forge.asked, ARRAY_SIZE(others));
}

TEST(a_redirect_is_not_followed)
{
	forge.page_at = 1;
	forge.answer = "HTTP/1.1 301 Moved Permanently\r\nLocation: http://127.0.0.2/\r\n"
		       "Content-Length: 0\r\n\r\n";
	assert_list_fails(ERR_CONFIG);
	assert_int_equal(forge.asked, 1);
}

TEST(refusals_are_told_apart)
{
	forge.page_at = 1;
	forge.answer = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
	assert_fails(read_with("ghp_secret"), ERR_AUTH);
	assert_null(strstr(err.text, "ghp_secret"));
	assert_int_equal(rest_ms, 0);
	forge.answer = "HTTP/1.1 403 Forbidden\r\nX-RateLimit-Remaining: 12\r\n"
		       "Content-Length: 0\r\n\r\n";
	assert_list_fails(ERR_AUTH);
	forge.answer = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
	assert_list_fails(ERR_MISSING);
}

static int64_t limited_by(const char *headers)
{
	AUTO_FREE char *answer =
		xasprintf("HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n", headers);

	forge.page_at = 1;
	forge.answer = answer;
	assert_list_fails(ERR_NETWORK);
	assert_int_equal(err.reason, REASON_RATE_LIMITED);
	forge.answer = NULL;
	return rest_ms;
}

TEST(a_used_up_quota_says_when_to_ask_again)
{
	const char *now = "Date: Sat, 21 Nov 2026 09:14:03 GMT\r\n"; /* 1795252443 */
	AUTO_FREE char *reset =
		xasprintf("403 Forbidden\r\n%sX-RateLimit-Remaining: 0\r\n"
			  "X-RateLimit-Reset: 1795252543",
			  now);
	AUTO_FREE char *over = xasprintf("403 Forbidden\r\n%sX-RateLimit-Remaining: 0\r\n"
					 "X-RateLimit-Reset: 1795252443",
					 now);
	AUTO_FREE char *far = xasprintf("403 Forbidden\r\n%sX-RateLimit-Remaining: 0\r\n"
					"X-RateLimit-Reset: 99999999999999999",
					now);
	AUTO_FREE char *gitlab = xasprintf("429 Too Many\r\n%sRateLimit-Remaining: 0\r\n"
					   "RateLimit-Reset: 1795252473",
					   now);
	AUTO_FREE char *date = xasprintf("429 Too Many\r\n%sRetry-After: "
					 "Sat, 21 Nov 2026 09:15:03 GMT",
					 now);

	assert_int_equal(limited_by("429 Too Many\r\nRetry-After: 30"), 30000);
	assert_int_equal(limited_by("403 Forbidden\r\nRetry-After: 7"), 7000);
	assert_int_equal(limited_by("429 Too Many\r\nRetry-After: 99999999"), 86400000);
	assert_int_equal(limited_by("429 Too Many\r\nRetry-After: soon"), 60000);
	assert_int_equal(limited_by(reset), 100000);
	assert_int_equal(limited_by(over), 1000);
	assert_int_equal(limited_by(gitlab), 30000);
	assert_int_equal(limited_by(date), 60000);
	assert_int_equal(limited_by(far), 86400000);
}

TEST(pages_that_are_as_they_were_are_kept)
{
	forge_of(UPSTREAM_GITHUB, 250, -1);
	forge.has_etags = true;
	assert_ok(read_list());
	assert_int_equal(forge.unchanged, 0);
	assert_ok(read_list());
	assert_int_equal(forge.unchanged, 3);
	assert_int_equal(list.chosen.count, 250);
	assert_string_equal(list.chosen.items[249].name, "acme/r00249");
	forge.pushed = "acme/r00150";
	assert_ok(read_list());
	assert_int_equal(forge.unchanged, 5);
	assert_int_equal(list.chosen.count, 250);
	forge.count = 150;
	assert_ok(read_list());
	assert_int_equal(list.chosen.count, 150);
}

TEST(a_full_last_page_is_read_again_since_another_may_follow)
{
	forge_of(UPSTREAM_GITHUB, 100, -1);
	forge.has_etags = true;
	assert_ok(read_list());
	forge.count = 101;
	assert_ok(read_list());
	assert_int_equal(list.chosen.count, 101);
	assert_int_equal(forge.unchanged, 0);
}

TEST(nothing_can_be_as_it_was_that_was_not_there)
{
	forge.page_at = 1;
	forge.answer = "HTTP/1.1 304 Not Modified\r\n\r\n";
	assert_list_fails(ERR_CORRUPT);
}

static void assert_chosen(const char *expected)
{
	AUTO_STR struct str names = STR_INIT;

	for (size_t i = 0; i < list.chosen.count; i++)
		str_addf(&names, "%s ", list.chosen.items[i].name);
	assert_string_equal(names.data, expected);
}

static void assert_found(const char *expected)
{
	AUTO_STR struct str names = STR_INIT;

	for (size_t i = 0; i < list.findings.items.count; i++) {
		assert_true(list.findings.items.items[i].err.text[0]);
		str_add_printable(&names, list.findings.items.items[i].name);
		str_add_char(&names, ' ');
	}
	assert_string_equal(names.data, expected);
}

static void list_is(const char *body)
{
	forge.page_at = 1;
	forge.body = body;
}

#define REPO(name, more)                                                                 \
	"{\"full_name\":\"" name "\",\"clone_url\":\"http://127.0.0.1/x.git\"" more "}"

TEST(patterns_forks_archives_and_sizes_choose)
{
	list_is("[" REPO("acme/a", "") "," REPO("acme/a-archive", "") "," REPO(
		"acme/fork",
		",\"fork\":true") "," REPO("acme/old",
					   ",\"archived\":true") "," REPO("acme/big",
									  ",\"size\":"
									  "1024") "," REPO("acme/tool-x",
											   "") "]");
	source.max_size = 1 << 20;
	assert_ok(read_list());
	assert_chosen("acme/a acme/a-archive acme/big acme/fork acme/old acme/tool-x ");
	source.max_size--;
	source.has_forks = source.has_archived = false;
	vec_add(&source.exclude, xstrdup("*-archive"));
	assert_ok(read_list());
	assert_chosen("acme/a acme/tool-x ");
	assert_int_equal(list.excluded, 4);
	/* What may be mirrored already is told apart, but not what is excluded by name.
	 */
	assert_int_equal(list.unfit.count, 2);
	assert_string_equal(list.unfit.items[0].name, "acme/old");
	assert_string_equal(list.unfit.items[1].name, "acme/big");
	vec_add(&source.include, xstrdup("tool-*"));
	assert_ok(read_list());
	assert_chosen("acme/tool-x ");
	assert_int_equal(list.unfit.count, 0);
	vec_add(&source.include, xstrdup("acme/*"));
	assert_ok(read_list());
	assert_chosen("acme/a acme/tool-x ");
	assert_found("");
}

TEST(hostile_names_are_left_out_and_told)
{
	list_is("[" REPO("acme/..", "") "," REPO("../../etc/x", "") "," REPO("/abs", "") "," REPO("a//b", "") "," REPO(
		"acme/.git/hooks",
		"") "," REPO("acme/\\u001b[31m",
			     "") "," REPO("acme/a.git/b",
					  "") "," REPO("acme/Good",
						       "") "," REPO("acme/good",
								    "") "," REPO("ACME/"
										 "GOOD."
										 "git",
										 "") "," REPO(".refrelay/trash",
											      "") "]");
	assert_ok(read_list());
	assert_chosen("acme/Good ");
	assert_found("acme/.. ../../etc/x /abs a//b acme/.git/hooks acme/\\x1b[31m "
		     "acme/a.git/b acme/good ACME/GOOD.git .refrelay/trash ");
}

TEST(of_very_many_findings_the_rest_is_counted)
{
	AUTO_STR struct str body = STR_INIT;

	str_add(&body, "{");
	for (size_t i = 0; i < UPSTREAM_FINDINGS_MAX + 500; i++)
		str_addf(&body, "\"/../%zu\":{},\"/x/.git/%zu\":{},", i, i);
	str_add(&body, "\"/a.git\":{}}");
	list_is(body.data);
	forge.from = UPSTREAM_GROKMIRROR;
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/manifest.js.gz", peer.port);
	assert_ok(read_list());
	assert_chosen("a ");
	assert_int_equal(list.findings.items.count, UPSTREAM_FINDINGS_MAX);
	assert_int_equal(list.findings.left_out, 2 * UPSTREAM_FINDINGS_MAX + 1000);
}

TEST(a_name_of_ten_thousand_bytes_is_left_out)
{
	AUTO_STR struct str body = STR_INIT;

	str_add(&body, "[{\"clone_url\":\"http://127.0.0.1/x\",\"full_name\":\"");
	for (int i = 0; i < 10000; i++)
		str_add_char(&body, 'x');
	str_add(&body, "\"}]");
	list_is(body.data);
	assert_ok(read_list());
	assert_chosen("");
	assert_int_equal(list.findings.items.count, 1);
}

/* The URL that is chosen of one that a forge at this URL tells; "": none. */
static void assert_url(const char *api, const char *http, const char *ssh,
		       const char *expected)
{
	struct upstream_entry entry = { .name = xstrdup("a/b"),
					.http = http ? xstrdup(http) : NULL,
					.ssh = ssh ? xstrdup(ssh) : NULL };
	AUTO_URI struct uri_text uri;
	const char *chosen = NULL;

	assert_ok(uri_text_read(api, &uri, &err));
	if (upstream_entry_choose_url(&entry, &uri, &chosen, &err) != 0) {
		assert_int_equal(err.class, ERR_CONFIG);
		assert_null(strstr(err.text, "pw"));
	}
	assert_string_equal(chosen ? chosen : "", expected);
	upstream_entry_clear(&entry);
}

TEST(urls_lead_by_https_or_ssh_to_the_host_of_the_list)
{
	const char *hub = "https://api.github.com/orgs/acme",
		   *lab = "https://lab.example/x";

	assert_url(hub, "https://github.com/a/b.git", NULL, "https://github.com/a/b.git");
	assert_url(hub, "https://GitHub.com/a/b.git", NULL, "https://GitHub.com/a/b.git");
	assert_url(hub, "https://api.github.com/a/b", NULL, "https://api.github.com/a/b");
	assert_url(hub, NULL, "git@github.com:a/b.git", "git@github.com:a/b.git");
	assert_url(hub, "https://evil.example/a/b", "git@github.com:a/b.git",
		   "git@github.com:a/b.git");
	assert_url(hub, "https://xgithub.com/a/b", "git@com:a/b", "");
	assert_url(hub, "https://github.com.evil.example/a", NULL, "");
	assert_url(hub, "http://github.com/a/b.git", NULL, "");
	assert_url(hub, "https://user@github.com/a/b.git", NULL, "");
	assert_url(hub, "https://user:pw@github.com/a/b.git", NULL, "");
	assert_url(hub, "file:///etc/passwd", "/srv/git/x", "");
	assert_url(hub, "git://github.com/a/b", "ext::sh -c x", "");
	assert_url(hub, "https://github.com/a b", "-oProxyCommand=x:a", "");
	assert_url(hub, "https://github.com/a\nb", "ssh://-x@github.com/a", "");
	assert_url(hub, "https://github.com/\xff", "ssh://git:pw@github.com/a", "");
	assert_url(hub, NULL, NULL, "");
	assert_url(lab, "https://lab.example:8443/a/b", NULL,
		   "https://lab.example:8443/a/b");
	assert_url("http://lab.example/x", "http://lab.example/a", NULL, "");
	assert_url("http://localhost:1/x", "http://localhost/a", NULL,
		   "http://localhost/a");
	assert_url("https://localhost/x", "http://localhost/a", NULL, "");
	assert_url("http://[::1]:80/x", "http://[::1]/a", NULL, "http://[::1]/a");
}

TEST(gitlab_tells_forks_and_sizes_in_its_own_way)
{
	forge_of(UPSTREAM_GITLAB, 1, 2);
	list_is("[{\"path_with_namespace\":\"g/sub/a\",\"http_url_to_repo\":"
		"\"http://127.0.0.1/g/sub/a.git\",\"forked_from_project\":{\"id\":1},"
		"\"empty_repo\":true,\"default_branch\":null,\"statistics\":"
		"{\"repository_size\":12345}},{\"path_with_namespace\":\"g/b\","
		"\"http_url_to_repo\":\"http://127.0.0.1/g/b.git\"}]");
	source.max_size = 100000;
	assert_ok(read_list());
	assert_chosen("g/b g/sub/a ");
	const struct upstream_entry *entry = list.chosen.items[1].entry;
	assert_true(entry->is_fork && entry->is_empty);
	assert_null(entry->branch);
	assert_int_equal(entry->size, 12345);
	assert_int_equal(list.chosen.items[0].entry->size, -1);
	assert_non_null(strstr(forge.head, "GET /orgs/acme/projects?"));
	assert_non_null(strstr(forge.head, "&statistics=true"));
	assert_null(strstr(forge.head, "keyset"));
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/api/v4/projects", peer.port);
	assert_ok(read_list());
	assert_non_null(strstr(forge.head, "&pagination=keyset"));
}

TEST(a_url_that_is_none_is_refused)
{
	static const char *const wrong[] = { "ftp://x/y", "https://u:p@x/y",
					     "https://x/y?z", "x" };

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		snprintf(url, sizeof(url), "%s", wrong[i]);
		assert_list_fails(ERR_CONFIG);
	}
}

TEST(a_stop_ends_it)
{
	struct stop stop;
	const struct upstream_list_call call = { .source = &source,
						 .timeout_ms = 20000,
						 .stop = &stop };

	stop_init(&stop);
	stop_request(&stop);
	assert_fails(upstream_list_read(&call, &list, &rest_ms, &err), ERR_CANCELED);
	stop_clear(&stop);
}

static void make(const char *path)
{
	assert_ok(dir_make_parents(root_fd, path, &err));
	assert_ok(repo_make(root_fd, path, 20, &err));
}

TEST(repositories_below_a_directory_are_a_list)
{
	AUTO_FREE char *expected = xasprintf("%s/acme/one.git", root);

	make("acme/one.git");
	make("acme/two");
	make("x-archive.git");
	source = (struct upstream_source){ .from = UPSTREAM_DIRECTORY, .url = root };
	vec_add(&source.exclude, xstrdup("*-archive"));
	forge.from = UPSTREAM_DIRECTORY;
	assert_ok(read_list());
	assert_chosen("acme/one acme/two ");
	assert_string_equal(list.chosen.items[0].url, expected);
	assert_int_equal(list.excluded, 1);
	make("acme/two.git");
	assert_ok(read_list());
	assert_chosen("acme/one acme/two ");
	assert_found("acme/two ");
	text_list_clear(&source.exclude);
	upstream_list_clear(&list);
}

/* As without the disk that belongs there. */
TEST(a_directory_without_any_repository_is_no_list)
{
	make("a.git");
	source = (struct upstream_source){ .from = UPSTREAM_DIRECTORY, .url = root };
	forge.from = UPSTREAM_DIRECTORY;
	assert_ok(read_list());
	assert_ok(tree_remove(root_fd, "a.git", &err));
	assert_list_fails(ERR_CONFLICT);
	assert_non_null(strstr(err.remedy, "mounted"));
	assert_chosen("a ");
	upstream_list_clear(&list);
}

TEST(nor_is_one_in_which_a_disk_is_mounted_no_more)
{
	struct stat st;

	make("a.git");
	make("disk/b.git");
	assert_int_equal(fstatat(root_fd, "disk", &st, 0), 0);
	inode_away = st.st_ino;
	source = (struct upstream_source){ .from = UPSTREAM_DIRECTORY, .url = root };
	forge.from = UPSTREAM_DIRECTORY;
	assert_ok(read_list());
	assert_chosen("a disk/b ");
	inode_away = 0;
	assert_int_equal(renameat(root_fd, "disk/b.git", root_fd, ".away"), 0);
	assert_list_fails(ERR_CONFLICT);
	assert_non_null(strstr(err.text, "at disk any more"));
	make("x/disk/c.git"); /* not below it, as the next */
	make("diskette/d.git");
	assert_list_fails(ERR_CONFLICT);
	upstream_list_clear(&list);
}

/* By who removes its folder, or moves what was there to the disk above. */
TEST(unless_it_was_given_up)
{
	struct stat st;

	source = (struct upstream_source){ .from = UPSTREAM_DIRECTORY, .url = root };
	forge.from = UPSTREAM_DIRECTORY;
	make("a.git");
	assert_ok(dir_make(root_fd, "disk", &err));
	assert_int_equal(fstatat(root_fd, "disk", &st, 0), 0);
	inode_away = st.st_ino;
	assert_ok(read_list());
	assert_int_equal(list.mounts.count, 0); /* it has nothing to miss */
	make("disk/b.git");
	assert_ok(read_list());
	assert_int_equal(list.mounts.count, 1);
	inode_away = 0;
	assert_ok(read_list());
	assert_chosen("a disk/b ");
	assert_int_equal(list.mounts.count, 0);
	inode_away = st.st_ino;
	assert_ok(read_list());
	assert_int_equal(list.mounts.count, 1);
	inode_away = 0;
	assert_ok(tree_remove(root_fd, "disk", &err));
	assert_ok(read_list());
	assert_chosen("a ");
	upstream_list_clear(&list);
}

TEST(a_directory_that_cannot_be_read_whole_is_no_list)
{
	char path[256] = "d";

	make("a.git");
	source = (struct upstream_source){ .from = UPSTREAM_DIRECTORY, .url = root };
	forge.from = UPSTREAM_DIRECTORY;
	assert_ok(read_list());
	for (int i = 0; i < 66; i++)
		snprintf(path + strlen(path), 3, "/d");
	assert_ok(dir_make(root_fd, path, &err));
	assert_list_fails(ERR_CONFIG);
	source.url = url;
	snprintf(url, sizeof(url), "%s/none", root);
	assert_list_fails(ERR_MISSING);
	upstream_list_clear(&list);
}

#define PRINT "e5c2f0a1b3d4958677a8b9c0d1e2f30415263748"
#define MANIFEST                                                                         \
	"{\"/scm/a b.git\": {\"fingerprint\": \"" PRINT                                  \
	"\", \"modified\": 1700000000}, "                                                \
	"\"/c.git\": {}, \"/../d.git\": {}, \"/C.git\": {}}"

static void manifest_is(const char *headers)
{
	static char answer[1024];

	snprintf(answer, sizeof(answer),
		 "HTTP/1.1 200 OK\r\n%sContent-Length: %zu\r\n\r\n%s", headers,
		 sizeof(MANIFEST) - 1, MANIFEST);
	snprintf(url, sizeof(url), "http://127.0.0.1:%d/git/manifest.js.gz", peer.port);
	forge.from = UPSTREAM_GROKMIRROR;
	forge.page_at = 1;
	forge.answer = answer;
}

TEST(a_manifest_is_a_list_of_what_stands_beside_it)
{
	AUTO_FREE char *expected =
		xasprintf("http://127.0.0.1:%d/git/scm/a%%20b.git", peer.port);

	manifest_is("");
	assert_ok(read_list());
	assert_non_null(strstr(forge.head, "GET /git/manifest.js.gz HTTP/1.1\r\n"));
	assert_chosen("C scm/a b ");
	assert_found("c.git /../d.git ");
	const struct upstream_chosen *chosen = &list.chosen.items[1];
	assert_string_equal(chosen->url, expected);
	assert_string_equal(chosen->entry->fingerprint, PRINT);
	assert_int_equal(chosen->entry->pushed_at, 1700000000000);
	assert_null(list.chosen.items[0].entry->fingerprint);
	vec_add(&source.include, xstrdup("scm/*b"));
	assert_ok(read_list());
	assert_chosen("scm/a b ");
	forge.answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]";
	assert_list_fails(ERR_CORRUPT);
}

TEST(a_manifest_that_is_as_it_was_is_kept)
{
	manifest_is("Last-Modified: Sat, 21 Nov 2026 09:14:03 GMT\r\n"
		    "Date: Sat, 21 Nov 2026 09:14:04 GMT\r\n");
	assert_ok(read_list());
	for (int i = 0; i < 2; i++) {
		forge.answer = "HTTP/1.1 304 Not Modified\r\n\r\n";
		assert_ok(read_list());
		assert_non_null(strstr(forge.head, "If-Modified-Since: Sat, 21 Nov 2026 "
						   "09:14:03 GMT\r\n"));
		assert_chosen("C scm/a b ");
		assert_found("c.git /../d.git ");
	}
	manifest_is("ETag: \"7\"\r\nLast-Modified: Sat, 21 Nov 2026 09:14:03 GMT\r\n"
		    "Date: Sat, 21 Nov 2026 09:14:04 GMT\r\n");
	assert_ok(read_list());
	assert_ok(read_list());
	assert_non_null(strstr(forge.head, "If-None-Match: \"7\"\r\n"));
}

TEST(a_manifest_of_this_very_second_is_read_again)
{
	manifest_is("ETag: \"7\"\r\nLast-Modified: Sat, 21 Nov 2026 09:14:03 GMT\r\n"
		    "Date: Sat, 21 Nov 2026 09:14:03 GMT\r\n");
	assert_ok(read_list());
	assert_ok(read_list());
	assert_null(strstr(forge.head, "If-"));
}

TEST(a_manifest_on_this_machine_is_a_list_as_well)
{
	AUTO_FREE char *path = xasprintf("%s/manifest.js", root);
	AUTO_FREE char *expected = xasprintf("%s/scm/a b.git", root);

	source = (struct upstream_source){ .url = path };
	forge.from = UPSTREAM_GROKMIRROR;
	assert_list_fails(ERR_MISSING);
	assert_ok(file_replace(root_fd, "manifest.js", MANIFEST, sizeof(MANIFEST) - 1,
			       FILE_NO_SYNC, &err));
	assert_ok(read_list());
	assert_chosen("C scm/a b ");
	assert_string_equal(list.chosen.items[1].url, expected);
	assert_ok(file_replace(root_fd, "manifest.js", "{}", 2, FILE_NO_SYNC, &err));
	assert_list_fails(ERR_CONFLICT);
	upstream_list_clear(&list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		FORGE(all_pages_of_an_organisation_make_its_list),
		FORGE(what_is_told_of_a_repository_is_kept),
		FORGE(the_token_is_sent_in_a_header_and_the_url_is_completed),
		FORGE(an_organisation_without_repositories_is_an_empty_list),
		FORGE(a_list_that_is_cut_halfway_changes_nothing),
		FORGE(an_answer_that_does_not_say_where_it_ends_is_no_list),
		FORGE(what_is_no_array_of_repositories_is_refused),
		FORGE(pages_that_lead_in_circles_or_repeat_are_refused),
		FORGE(totals_that_do_not_agree_are_refused),
		FORGE(gitea_counts_what_the_token_may_not_read),
		FORGE(a_page_at_another_host_is_not_asked_for),
		FORGE(a_redirect_is_not_followed),
		FORGE(refusals_are_told_apart),
		FORGE(a_used_up_quota_says_when_to_ask_again),
		FORGE(pages_that_are_as_they_were_are_kept),
		FORGE(a_full_last_page_is_read_again_since_another_may_follow),
		FORGE(nothing_can_be_as_it_was_that_was_not_there),
		FORGE(patterns_forks_archives_and_sizes_choose),
		FORGE(hostile_names_are_left_out_and_told),
		FORGE(of_very_many_findings_the_rest_is_counted),
		FORGE(a_name_of_ten_thousand_bytes_is_left_out),
		cmocka_unit_test(urls_lead_by_https_or_ssh_to_the_host_of_the_list),
		FORGE(gitlab_tells_forks_and_sizes_in_its_own_way),
		FORGE(a_url_that_is_none_is_refused),
		FORGE(a_stop_ends_it),
		CASE(repositories_below_a_directory_are_a_list),
		CASE(a_directory_without_any_repository_is_no_list),
		CASE(nor_is_one_in_which_a_disk_is_mounted_no_more),
		CASE(unless_it_was_given_up),
		CASE(a_directory_that_cannot_be_read_whole_is_no_list),
		FORGE(a_manifest_is_a_list_of_what_stands_beside_it),
		FORGE(a_manifest_that_is_as_it_was_is_kept),
		FORGE(a_manifest_of_this_very_second_is_read_again),
		CASE(a_manifest_on_this_machine_is_a_list_as_well),
	};

	return cmocka_run_group_tests_name("upstream_list", tests, NULL, NULL);
}
