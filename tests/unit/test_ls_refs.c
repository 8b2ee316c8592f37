#include "git_test.h"

#include "git/pkt_line.h"
#include "serve/ref_list.h"

#define AGENT "agent=git/2.39.5"

/* One request: its pkt-lines, each ended by "|"; "#" alone is a delimiter, "." a flush.
 * No line is given a newline. */
static void write_request(const char *text, struct str *out)
{
	str_reset(out);
	while (*text) {
		size_t len = strcspn(text, "|");
		if (len == 1 && *text == '#')
			str_add(out, "0001");
		else if (len == 1 && *text == '.')
			pkt_add_flush(out);
		else
			pkt_add(out, text, len);
		text += len + (text[len] == '|');
	}
}

static bool parses(const char *text, size_t oid_digits, struct ls_refs *request)
{
	AUTO_STR struct str body = STR_INIT;

	write_request(text, &body);
	return ls_refs_parse(body.data, body.len, oid_digits, request);
}

static void assert_prefixes(const struct ls_refs *request, const char *expected)
{
	AUTO_STR struct str text = STR_INIT;

	for (size_t i = 0; i < request->prefixes.count; i++)
		str_addf(&text, "%s ", request->prefixes.items[i]);
	assert_string_equal(text.data, expected);
}

TEST(what_a_client_sends_for_a_clone_is_read)
{
	AUTO_LS_REFS struct ls_refs request;

	assert_true(parses("command=ls-refs\n|" AGENT "|object-format=sha1|#|peel\n|"
			   "symrefs\n|unborn\n|ref-prefix refs/heads/\n|"
			   "ref-prefix refs/tags/\n|ref-prefix HEAD\n|.",
			   40, &request));
	assert_true(request.wants_peeled && request.wants_symrefs &&
		    request.wants_unborn);
	assert_prefixes(&request, "HEAD refs/heads/ refs/tags/ ");
}

TEST(what_an_older_client_sends_without_arguments_is_read)
{
	AUTO_LS_REFS struct ls_refs request;

	assert_true(parses("command=ls-refs|.", 40, &request));
	assert_false(request.wants_peeled || request.wants_symrefs ||
		     request.wants_unborn);
	assert_int_equal(request.prefixes.count, 0);
}

TEST(prefixes_are_sorted_and_those_that_others_cover_are_left_out)
{
	AUTO_LS_REFS struct ls_refs request, all;

	assert_true(parses("command=ls-refs|#|ref-prefix refs/tags/v|ref-prefix HEAD|"
			   "ref-prefix refs/tags/|ref-prefix refs/heads/a|"
			   "ref-prefix refs/heads/a|ref-prefix refs/heads/a-b|"
			   "ref-prefix refs/heads/b|.",
			   40, &request));
	assert_prefixes(&request, "HEAD refs/heads/a refs/heads/b refs/tags/ ");
	assert_true(parses("command=ls-refs|#|ref-prefix refs/|ref-prefix |.", 40, &all));
	assert_prefixes(&all, " ");
}

static void write_prefixes(size_t count, struct str *out)
{
	write_request("command=ls-refs|#", out);
	for (size_t i = 0; i < count; i++)
		pkt_addf(out, "ref-prefix %zx\n", i % 16);
	pkt_add_flush(out);
}

TEST(from_65536_prefixes_on_all_are_forgotten_as_git_does)
{
	AUTO_STR struct str body = STR_INIT;
	AUTO_LS_REFS struct ls_refs few, many;

	write_prefixes(65535, &body);
	assert_true(ls_refs_parse(body.data, body.len, 40, &few));
	assert_int_equal(few.prefixes.count, 16);
	write_prefixes(65536, &body);
	assert_true(ls_refs_parse(body.data, body.len, 40, &many));
	assert_int_equal(many.prefixes.count, 0);
}

TEST(the_object_format_must_be_that_of_the_repository)
{
	static const char sha256[] = "command=ls-refs|object-format=sha256|#|peel|.";
	AUTO_LS_REFS struct ls_refs request;

	assert_false(parses(sha256, 40, &request));
	assert_false(parses("command=ls-refs|object-format=sha1|.", 64, &request));
	assert_false(parses("command=ls-refs|.", 64, &request));
	assert_true(parses(sha256, 64, &request));
}

TEST(whatever_git_refuses_or_we_do_not_know_is_left_to_git)
{
	static const char *const requests[] = {
		"",
		".",
		"#|.",
		AGENT "|.",
		"command=ls-refs",
		"command=ls-refs|#",
		"command=ls-refs|#|peel",
		"command=ls-refs|#|peel|#|.",
		"command=ls-refs|#|peel|.|.",
		"command=ls-refs|.|command=ls-refs|.",
		"command=ls-refs|command=ls-refs|.",
		"command=ls-refs|command=fetch|.",
		"command=fetch|#|peel|.",
		"command=ls-refs2|.",
		"command=ls-refs=|.",
		"command=|.",
		"command=ls-refs|" AGENT "|" AGENT "|.",
		"command=ls-refs|object-format=sha1|object-format=sha1|.",
		"command=ls-refs|object-format=sha1|object-format=sha256|.",
		"command=ls-refs|object-format=md5|.",
		"command=ls-refs|agent|.",
		"command=ls-refs|server-option=x|.",
		"command=ls-refs|peel|.",
		"command=ls-refs||.",
		"command=ls-refs|#|" AGENT "|.",
		"command=ls-refs|#||.",
		"command=ls-refs|#|peel\n\n|.",
		"command=ls-refs|#|peeled|.",
		"command=ls-refs|#|ref-prefix|.",
		"command=ls-refs|#|Peel|.",
		"command=ls-refs|#|want-ref refs/heads/main|.",
	};
	struct ls_refs request;

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		if (parses(requests[i], 40, &request))
			fail_msg("it was taken: %s", requests[i]);
		assert_null(request.prefixes.items);
		assert_false(request.wants_peeled);
	}
}

TEST(what_is_no_pkt_line_or_hides_a_nul_is_left_to_git)
{
	static const char nul[] = "0014command=ls-refs\n0001000apeel\0\n0000";
	static const char hidden[] =
		"0014command=ls-refs\n0001001bref-prefix refs/\0eads/a0000";
	static const char *const broken[] = {
		"0014command=ls-refs\n000",
		"0014command=ls-refs\n0003",
		"0014command=ls-refs\n0002",
		"0014command=ls-refs\n00000",
		"0014command=ls-refs\n0001fff1",
		"0014command=ls-refs\n00010009peel",
		"0x14command=ls-refs\n0000",
		"+014command=ls-refs\n0000",
		"-001",
		"\n0000",
	};
	struct ls_refs request;

	assert_false(ls_refs_parse(nul, sizeof(nul) - 1, 40, &request));
	assert_false(ls_refs_parse(hidden, sizeof(hidden) - 1, 40, &request));
	for (size_t i = 0; i < ARRAY_SIZE(broken); i++)
		assert_false(ls_refs_parse(broken[i], strlen(broken[i]), 40, &request));
}

TEST(a_line_longer_than_git_takes_is_left_to_git)
{
	AUTO_STR struct str body = STR_INIT;
	struct ls_refs request;

	write_request("command=ls-refs|#", &body);
	str_add(&body, "fff1ref-prefix ");
	while (body.len < 23 + PKT_LINE_MAX + 1)
		str_add_char(&body, 'a');
	pkt_add_flush(&body);
	assert_false(ls_refs_parse(body.data, body.len, 40, &request));
	memcpy(body.data + 23, "fff0", 4);
	memmove(body.data + body.len - 5, "0000", 4);
	assert_true(ls_refs_parse(body.data, body.len - 1, 40, &request));
	ls_refs_clear(&request);
}

static int version_by_git(const char *header)
{
	AUTO_FREE char *bytes = NULL;

	setenv("GIT_PROTOCOL", header, 1);
	bytes = output_of("git upload-pack --http-backend-info-refs r.git");
	unsetenv("GIT_PROTOCOL");
	return strncmp(bytes + 4, "version ", 8) == 0 ? bytes[12] - '0' : 0;
}

TEST(the_header_git_protocol_means_what_it_means_to_git)
{
	static const char *const headers[] = {
		"",
		"version=0",
		"version=1",
		"version=2",
		"version=3",
		"version=",
		"version",
		"version=22",
		"version=2 ",
		" version=2",
		"VERSION=2",
		"version=02",
		":::version=1:",
		"version=2:version=1",
		"version=1:foo:version=2",
		"version=1:xversion=2",
		"version=9:version=1",
	};

	assert_int_equal(git_protocol_version(NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		if (git_protocol_version(headers[i]) != version_by_git(headers[i]))
			fail_msg("%s: %d", headers[i], git_protocol_version(headers[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_client_sends_for_a_clone_is_read),
		cmocka_unit_test(what_an_older_client_sends_without_arguments_is_read),
		cmocka_unit_test(
			prefixes_are_sorted_and_those_that_others_cover_are_left_out),
		cmocka_unit_test(from_65536_prefixes_on_all_are_forgotten_as_git_does),
		cmocka_unit_test(the_object_format_must_be_that_of_the_repository),
		cmocka_unit_test(whatever_git_refuses_or_we_do_not_know_is_left_to_git),
		cmocka_unit_test(what_is_no_pkt_line_or_hides_a_nul_is_left_to_git),
		cmocka_unit_test(a_line_longer_than_git_takes_is_left_to_git),
		GIT_CASE(the_header_git_protocol_means_what_it_means_to_git),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
