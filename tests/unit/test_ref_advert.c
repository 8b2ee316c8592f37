/*
 * Lists of refs of another git: as real ones have them, and broken in each way.
 */
#include "git_test.h"

#include "git/pkt_line.h"
#include "git/ref_advert.h"

#define A "1111111111111111111111111111111111111111"
#define B "2222222222222222222222222222222222222222"
#define NULLS "0000000000000000000000000000000000000000"

static struct ref_snapshot refs;
static size_t oid_len;

static int advert_of(const char *const *lines, size_t count)
{
	AUTO_STR struct str text = STR_INIT;

	ref_snapshot_clear(&refs);
	pkt_addf(&text, "# service=git-upload-pack\n");
	pkt_add_flush(&text);
	for (size_t i = 0; i < count; i++) {
		/* "|" stands for the NUL byte */
		AUTO_FREE char *line = xstrdup(lines[i]);
		size_t len = strlen(line);
		char *bar = strchr(line, '|');
		if (bar)
			*bar = '\0';
		pkt_add(&text, line, len);
	}
	pkt_add_flush(&text);
	return ref_advert_read(text.data, text.len, &refs, &oid_len, &err);
}

#define ADVERT(...)                                                                      \
	advert_of((const char *const[]){ __VA_ARGS__ },                                  \
		  sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static int forget(void **state)
{
	(void)state;
	ref_snapshot_clear(&refs);
	return 0;
}

#define CUT(c)                                                                           \
	c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c c

TEST(a_server_that_is_shallow_says_so)
{
	assert_ok(ADVERT(CUT("1") " refs/heads/main|x\n", "shallow " CUT("3") "\n",
			 "shallow " CUT("2")));
	assert_int_equal(refs.refs.count, 1);
	assert_int_equal(refs.cuts.count, 2);
	assert_int_equal(refs.cuts.items[0].bytes[0], 0x22);
	assert_fails(ADVERT(CUT("1") " refs/heads/main|x\n", "shallow 33\n"),
		     ERR_CORRUPT);
	assert_fails(ADVERT(CUT("1") " refs/heads/main|x\n",
			    "shallow " CUT("3") " refs/heads/x\n"),
		     ERR_CORRUPT);
}

TEST(what_git_says_is_what_its_files_say)
{
	char text[OID_MAX_TEXT];

	must("git -C r.git update-ref refs/heads/main %s", oid_text(&commits[9], text));
	must("git -C r.git update-ref refs/heads/a %s", oid_text(&commits[3], text));
	must("git -C r.git update-ref refs/tags/v1 %s", oid_text(&tags[0], text));
	must("git -C r.git update-ref refs/tags/v2 %s", oid_text(&tags[5], text));
	must("git -C r.git symbolic-ref HEAD refs/heads/main");
	AUTO_SNAPSHOT struct ref_snapshot own = REF_SNAPSHOT_INIT;
	assert_ok(ref_snapshot_read(repo_fd, 20, &own, &err));

	for (int i = 0; i < 2; i++) {
		AUTO_STR struct str said = STR_INIT;
		must(i ? "git ls-remote --symref ./r.git >said"
		       : "{ printf '001e# service=git-upload-pack\\n0000'; "
			 "git upload-pack --http-backend-info-refs r.git; } >said");
		assert_ok(file_read(root_fd, "said", 1 << 20, &said, &err));
		ref_snapshot_clear(&refs);
		assert_ok((i ? ref_advert_read_listing : ref_advert_read)(
			said.data, said.len, &refs, &oid_len, &err));
		assert_int_equal(oid_len, 20);
		assert_int_equal(refs.refs.count, 4);
		assert_string_equal(refs.head_target, "refs/heads/main");
		AUTO_DIFF struct ref_diff diff = { 0 };
		ref_diff_compute(&own, &refs, &diff);
		assert_true(ref_diff_is_empty(&diff));
		const struct ref *tag = ref_snapshot_find(&refs, "refs/tags/v1");
		assert_int_equal(tag->peel, REF_PEEL_TAG);
		assert_true(oid_equal(&tag->peeled, &tagged[0]));
		assert_int_equal(ref_snapshot_find(&refs, "refs/heads/a")->peel,
				 REF_PEEL_SELF);
	}
}

TEST(head_is_what_is_told_or_guessed_always_in_the_same_way)
{
	assert_ok(ADVERT(A " HEAD|multi_ack symref=HEAD:refs/heads/x agent=git/2\n",
			 A " refs/heads/x\n"));
	assert_string_equal(refs.head_target, "refs/heads/x");
	assert_ok(ADVERT(A " HEAD|multi_ack\n", B " refs/heads/x\n"));
	assert_null(refs.head_target);
	assert_int_equal(refs.head_oid.bytes[0], 0x11);
	assert_ok(ADVERT(A " refs/heads/b|multi_ack\n", A " refs/heads/master\n"));
	assert_string_equal(refs.head_target, "refs/heads/master");
	assert_ok(ADVERT(A " refs/heads/b|multi_ack\n", A " refs/heads/c\n"));
	assert_string_equal(refs.head_target, "refs/heads/b");
	assert_ok(ADVERT(NULLS " capabilities^{}|multi_ack\n"));
	assert_int_equal(refs.refs.count, 0);
	assert_string_equal(refs.head_target, "refs/heads/main");
	ref_snapshot_clear(&refs);
	assert_ok(ref_advert_read_listing("", 0, &refs, &oid_len, &err));
	assert_int_equal(refs.refs.count, 0);
}

TEST(refs_come_in_order_whatever_the_server_does)
{
	assert_ok(ADVERT(A " refs/heads/b|x\n", B " refs/heads/a\n"));
	assert_string_equal(refs.refs.items[0].name, "refs/heads/a");
	assert_string_equal(refs.refs.items[1].name, "refs/heads/b");
}

TEST(sha256_is_told_by_its_length)
{
	assert_ok(ADVERT(A "111111111111111111111111 refs/heads/b|x\n"));
	assert_int_equal(oid_len, 32);
	assert_fails(ADVERT(A "111111111111111111111111 refs/heads/a|x\n",
			    A " refs/heads/b\n"),
		     ERR_CORRUPT);
}

TEST(what_is_no_list_of_refs_is_refused)
{
	static const char *const wholes[] = {
		"",
		"<html>",
		"0000",
		"001e# service=git-upload-pack\n",
		"001e# service=git-upload-pack\n0000",
		"001e# service=git-upload-pack\n0000zzzz",
		"001f# service=git-receive-pack\n00000000",
		"001e# service=git-upload-pack\n0000000eversion 2\n0000",
	};

	for (size_t i = 0; i < ARRAY_SIZE(wholes); i++)
		assert_fails(ref_advert_read(wholes[i], strlen(wholes[i]), &refs,
					     &oid_len, &err),
			     ERR_CORRUPT);
	assert_fails(ADVERT(A " refs/heads/a|x\n", A " refs/heads/a\n"), ERR_CORRUPT);
	assert_fails(ADVERT(A " refs/heads/../a|x\n"), ERR_CORRUPT);
	assert_fails(ADVERT(A " main|x\n"), ERR_CORRUPT);
	assert_fails(ADVERT(A " refs/heads/a|x\n", A " refs/heads/b|y\n"), ERR_CORRUPT);
	assert_fails(ADVERT("1234 refs/heads/a|x\n"), ERR_CORRUPT);
	assert_fails(ADVERT(A " refs/tags/v^{}|x\n"), ERR_CORRUPT);
	assert_fails(ADVERT(A " HEAD|symref=HEAD:../x\n"), ERR_CORRUPT);
	assert_int_equal(refs.refs.count, 0);
}

#undef CASE
#define CASE(name) cmocka_unit_test_teardown(name, forget)

static int push_advert_of(const char *lines, size_t len, struct push_advert *push)
{
	AUTO_STR struct str text = STR_INIT;

	pkt_addf(&text, "# service=git-receive-pack\n");
	pkt_add_flush(&text);
	pkt_add(&text, lines, len);
	pkt_add_flush(&text);
	push_advert_clear(push);
	return push_advert_read(text.data, text.len, push, &err);
}

#define PUSH_ADVERT(line) push_advert_of(line, sizeof(line) - 1, &push)

TEST(what_a_push_may_change_comes_with_what_it_may_ask_for)
{
	struct push_advert push = { 0 };

	assert_ok(PUSH_ADVERT(
		A " refs/heads/main\0report-status delete-refs push-cert=1-2 agent=a"));
	assert_int_equal(push.refs.refs.count, 1);
	assert_int_equal(push.oid_len, 20);
	assert_true(push_advert_has(&push, "report-status"));
	assert_true(push_advert_has(&push, "push-cert"));
	assert_true(push_advert_has(&push, "agent"));
	assert_false(push_advert_has(&push, "report"));
	assert_false(push_advert_has(&push, "status"));
	assert_false(push_advert_has(&push, "1-2"));
	assert_ok(PUSH_ADVERT(NULLS " capabilities^{}\0x report-status\n"));
	assert_int_equal(push.refs.refs.count, 0);
	assert_true(push_advert_has(&push, "x"));
	assert_true(push_advert_has(&push, "report-status"));
	assert_ok(PUSH_ADVERT(A " refs/heads/main\n"));
	assert_false(push_advert_has(&push, "report-status"));
	assert_fails(PUSH_ADVERT(A " refs/heads/../main\0report-status\n"), ERR_CORRUPT);
	assert_false(push_advert_has(&push, "report-status"));
	push_advert_clear(&push);
	assert_fails(push_advert_read("001e# service=git-upload-pack\n00000000", 38,
				      &push, &err),
		     ERR_CORRUPT);
	push_advert_clear(&push);
}

TEST(what_git_says_to_who_pushes_has_no_refs_of_others)
{
	struct push_advert push = { 0 };
	AUTO_STR struct str said = STR_INIT;
	char text[OID_MAX_TEXT];

	must("git init -q --bare dst.git && "
	     "echo ../../r.git/objects >dst.git/objects/info/alternates");
	must("git -C r.git update-ref refs/heads/main %s", oid_text(&commits[9], text));
	for (int i = 0; i < 3; i++) {
		must("{ printf '001f# service=git-receive-pack\n0000'; "
		     "git receive-pack --http-backend-info-refs dst.git; } >said");
		str_reset(&said);
		assert_ok(file_read(root_fd, "said", 1 << 20, &said, &err));
		push_advert_clear(&push);
		assert_ok(push_advert_read(said.data, said.len, &push, &err));
		assert_int_equal(push.refs.refs.count, i);
		assert_true(push_advert_has(&push, "report-status"));
		assert_true(push_advert_has(&push, "side-band-64k"));
		assert_false(push_advert_has(&push, "push-cert"));
		must("cd dst.git && git config receive.hideRefs refs/hidden && "
		     "git update-ref refs/tags/t%d %s && "
		     "git update-ref refs/hidden/x %s",
		     i, oid_text(&tags[0], text), text);
	}
	push_advert_clear(&push);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_server_that_is_shallow_says_so),
		GIT_CASE(what_git_says_is_what_its_files_say),
		CASE(head_is_what_is_told_or_guessed_always_in_the_same_way),
		CASE(refs_come_in_order_whatever_the_server_does),
		CASE(sha256_is_told_by_its_length),
		CASE(what_is_no_list_of_refs_is_refused),
		CASE(what_a_push_may_change_comes_with_what_it_may_ask_for),
		GIT_CASE(what_git_says_to_who_pushes_has_no_refs_of_others),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
