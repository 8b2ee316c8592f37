/*
 * Cache, ls-refs and children together, compared with what git itself says.
 */
#include "git_test.h"

#include "base/metrics.h"
#include "base/thread.h"
#include "git/git_child.h"
#include "serve/serve.h"

static struct serve *serve;
static struct serve_answer answer = SERVE_ANSWER_INIT;
static struct str body = STR_INIT;
static struct serve_request request;
static char directory[96];

static struct serve_settings settings(size_t packs)
{
	return (struct serve_settings){
		.directory = directory,
		.disk_cache = { .size = 1 << 20, .max_age_ms = CONF_HOUR },
		.memory = 1 << 20,
		.packs = { .running = packs, .waiting = 0, .wait_ms = 1000 },
		.fills = { .running = 2, .waiting = 8, .wait_ms = 10000 },
		.timeout_ms = 60000,
	};
}

static int setup(void **state)
{
	if (make_repo(state) != 0)
		return -1;
	snprintf(directory, sizeof(directory), "%s/cache", root);
	log_set_level(LOG_LEVEL_NONE);
	assert_ok(git_setup(root, &err));
	char text[OID_MAX_TEXT];
	must("git -C r.git update-ref refs/heads/main %s", oid_text(&commits[9], text));
	must("git -C r.git update-ref refs/tags/v1 %s", oid_text(&tags[0], text));
	must("git -C r.git symbolic-ref HEAD refs/heads/main");
	struct serve_settings own = settings(1);
	serve = serve_start(root, &own);
	request = (struct serve_request){ .name = "r", .body = &body, .body_fd = -1 };
	return 0;
}

static int teardown(void **state)
{
	serve_answer_clear(&answer);
	serve_stop(serve);
	str_clear(&body);
	return test_remove_root(state);
}

/* All bytes of the answer, which is put away; the caller frees. */
static char *take(void)
{
	struct str out = STR_INIT;
	char block[8192];
	ssize_t count = 0;

	if (answer.generation)
		str_add_bytes(&out, answer.shared.data, answer.shared.len);
	str_add_bytes(&out, answer.bytes.data, answer.bytes.len);
	while (answer.stream &&
	       (count = answer.read(answer.stream, block, sizeof(block))) > 0)
		str_add_bytes(&out, block, (size_t)count);
	assert_int_equal(count, 0);
	serve_answer_clear(&answer);
	return str_take(&out);
}

/* Asked until the answer is kept: where git takes long, its stream is handed on. */
static void ask_until_kept(const char *protocol)
{
	int64_t until = clock_boot_ms() + 60000;

	for (;;) {
		request.protocol = protocol;
		assert_ok(serve_info_refs(serve, &request, &answer, &err));
		if (answer.generation)
			return;
		free(take());
		assert_true(clock_boot_ms() < until);
	}
}

/* The refs are old enough for a tag soon. */
static void ask_until_tagged(const char *protocol)
{
	int64_t until = clock_boot_ms() + 60000;

	for (ask_until_kept(protocol); !*answer.etag; ask_until_kept(protocol)) {
		serve_answer_clear(&answer);
		assert_true(clock_boot_ms() < until);
		usleep(1000);
	}
}

static char *post(const char *text)
{
	str_reset(&body);
	str_add(&body, text);
	request.protocol = "version=2";
	assert_ok(serve_upload_pack(serve, &request, &answer, &err));
	return take();
}

#define SERVICE "001e# service=git-upload-pack\n0000"

static char *git_says(int protocol)
{
	AUTO_FREE char *said = output_of("GIT_PROTOCOL=version=%d git upload-pack "
					 "--http-backend-info-refs r.git | tr '\\0' '@'",
					 protocol);

	return xasprintf("%s%s", protocol < 2 ? SERVICE : "", said);
}

TEST(advertisements_are_gits_and_each_has_its_tag)
{
	static const char *const protocols[] = { "version=0", "version=1", "version=2" };
	char tags_seen[3][sizeof(answer.etag)];

	for (int i = 0; i < 2; i++) {
		ask_until_tagged(protocols[i]);
		memcpy(tags_seen[i], answer.etag, sizeof(answer.etag));
		AUTO_STR struct str own = STR_INIT;
		str_add_bytes(&own, answer.shared.data, answer.shared.len);
		for (size_t at = 0; at < own.len; at++)
			if (own.data[at] == '\0')
				own.data[at] = '@';
		AUTO_FREE char *gits = git_says(i);
		assert_string_equal(own.data, gits);
		serve_answer_clear(&answer);
	}
	ask_until_tagged(protocols[2]);
	memcpy(tags_seen[2], answer.etag, sizeof(answer.etag));
	AUTO_FREE char *second = take();
	assert_true(text_starts_with(second, "000eversion 2\n"));
	assert_string_not_equal(tags_seen[0], tags_seen[1]);
	assert_string_not_equal(tags_seen[1], tags_seen[2]);
	assert_string_not_equal(tags_seen[0], tags_seen[2]);
	assert_true(tags_seen[2][0] == '"' && text_ends_with(tags_seen[2], "-p2\""));
}

TEST(what_was_asked_before_is_known_at_once_until_it_changes)
{
	char text[OID_MAX_TEXT];

	assert_false(serve_info_refs_now(serve, &request, &answer));
	ask_until_kept(NULL);
	serve_answer_clear(&answer);
	assert_true(serve_info_refs_now(serve, &request, &answer));
	serve_answer_clear(&answer);
	must("git -C r.git update-ref refs/heads/new %s", oid_text(&commits[3], text));
	assert_false(serve_info_refs_now(serve, &request, &answer));
	assert_ok(serve_info_refs(serve, &request, &answer, &err));
	/* The first line has git's capabilities behind a NUL byte. */
	AUTO_FREE char *changed = take();
	assert_non_null(strstr(changed + strlen(changed) + 1, "refs/heads/new"));
}

/* Within a tick of the file system's clock there may be two states of the refs with the
 * same stamps, and so with the same name. */
TEST(what_was_changed_just_now_has_no_tag_yet)
{
	int64_t until = clock_boot_ms() + 60000;
	char text[OID_MAX_TEXT], line[OID_MAX_TEXT + 1];
	size_t i = 0;

	do { /* a busy machine lets time pass between the two */
		serve_answer_clear(&answer);
		int len = snprintf(line, sizeof(line), "%s\n",
				   oid_text(&commits[i++ % 9], text));
		ask_until_kept(NULL);
		serve_answer_clear(&answer);
		assert_ok(file_replace(root_fd, "r.git/refs/heads/main", line,
				       (size_t)len, FILE_NO_SYNC, &err));
		assert_ok(serve_info_refs(serve, &request, &answer, &err));
		assert_true(clock_boot_ms() < until);
	} while (!answer.generation || *answer.etag);
	while (!*answer.etag) {
		serve_answer_clear(&answer);
		ask_until_kept(NULL);
		assert_true(clock_boot_ms() < until);
	}
}

TEST(refs_are_listed_as_git_lists_them)
{
	static const char asked[] =
		"0014command=ls-refs\n"
		"0014agent=git/2.39.50001"
		"0009peel\n000csymrefs\n000bunborn\n"
		"001bref-prefix refs/heads/\n0014ref-prefix HEAD\n0000";
	AUTO_FREE char *ours = post(asked);

	assert_ok(
		file_replace(root_fd, "asked", asked, strlen(asked), FILE_NO_SYNC, &err));
	AUTO_FREE char *gits = output_of("GIT_PROTOCOL=version=2 git upload-pack "
					 "--stateless-rpc r.git <asked");
	assert_string_equal(ours, gits);
	assert_non_null(strstr(ours, "symref-target:refs/heads/main"));
}

TEST(what_git_must_answer_is_streamed_in_a_slot)
{
	char text[OID_MAX_TEXT];
	AUTO_FREE char *asked = xasprintf("0011command=fetch0001000fno-progress"
					  "0032want %s\n0009done\n0000",
					  oid_text(&commits[9], text));

	str_add(&body, asked);
	request.protocol = "version=2";
	assert_ok(serve_upload_pack(serve, &request, &answer, &err));
	assert_non_null(answer.stream);
	/* The only slot is taken: another fetch must come again, refs are listed. */
	struct serve_answer second = SERVE_ANSWER_INIT;
	assert_fails(serve_upload_pack(serve, &request, &second, &err), ERR_BUSY);
	assert_true(second.retry_after_s > 0);
	serve_answer_clear(&second);
	assert_ok(serve_info_refs(serve, &request, &second, &err));
	serve_answer_clear(&second);
	AUTO_FREE char *pack = take();
	assert_true(text_starts_with(pack, "000dpackfile\n"));
	assert_ok(serve_upload_pack(serve, &request, &answer, &err));
}

TEST(more_slots_are_there_after_a_reload)
{
	struct serve_settings more = settings(2);
	struct serve_answer second = SERVE_ANSWER_INIT;

	str_add(&body, "0000");
	assert_ok(serve_upload_pack(serve, &request, &answer, &err));
	assert_fails(serve_upload_pack(serve, &request, &second, &err), ERR_BUSY);
	serve_answer_clear(&second);
	serve_set(serve, &more);
	assert_ok(serve_upload_pack(serve, &request, &second, &err));
	serve_answer_clear(&second);
}

/* In r.git it waits as long as "slow" is there. */
static void use_slow_git(void)
{
	AUTO_FREE char *git = output_of("command -v git | tr -d '\\n'");
	AUTO_FREE char *path = xasprintf("%s/bin:%s", root, getenv("PATH"));
	AUTO_FREE char *text = xasprintf("#!/bin/sh\n"
					 "while test -e slow; do sleep 0.01; done\n"
					 "exec %s \"$@\"\n",
					 git);

	must("mkdir bin && cp -r r.git s.git && : >r.git/slow");
	assert_ok(
		file_replace(root_fd, "bin/git", text, strlen(text), FILE_NO_SYNC, &err));
	must("chmod +x bin/git");
	setenv("PATH", path, 1);
	assert_ok(git_setup(root, &err));
}

static bool is_filling(void)
{
	AUTO_STR struct str text = STR_INIT;

	metrics_render_as(METRICS_PROMETHEUS, &text);
	return strstr(text.data, "refrelay_upload_pack_running{kind=\"fills\"} 1\n");
}

static void *ask_for_r(void *arg)
{
	const struct serve_request asked = { .name = "r",
					     .client = arg,
					     .wants_whole = true };
	struct serve_answer own = SERVE_ANSWER_INIT;
	struct err error;

	int result = serve_info_refs(serve, &asked, &own, &error);
	serve_answer_clear(&own);
	return result == 0 ? arg : NULL;
}

TEST(one_client_does_not_have_all_generators)
{
	static struct fair_client one = { { "192.0.2.1" } }, other = { { "192.0.2.2" } };
	struct serve_settings own = settings(1);
	AUTO_FREE char *before = xstrdup(getenv("PATH"));
	pthread_t thread;
	void *result;

	own.fills.each = 1;
	own.fills.wait_ms = 1;
	serve_set(serve, &own);
	use_slow_git();
	thread_start(&thread, "asker", ask_for_r, &one);
	for (int i = 0; i < 20000 && !is_filling(); i++)
		usleep(1000);
	request = (struct serve_request){ .name = "s", .client = &one, .body_fd = -1 };
	assert_fails(serve_info_refs(serve, &request, &answer, &err), ERR_BUSY);
	serve_answer_clear(&answer);
	request.body = &body;
	request.protocol = "version=2";
	str_add(&body, "0014command=ls-refs\n0000");
	assert_fails(serve_upload_pack(serve, &request, &answer, &err), ERR_BUSY);
	serve_answer_clear(&answer);
	request.client = &other;
	AUTO_FREE char *listed = post("0014command=ls-refs\n0000");
	assert_non_null(strstr(listed, "refs/heads/main"));
	must("rm r.git/slow");
	pthread_join(thread, &result);
	assert_ptr_equal(result, &one);
	setenv("PATH", before, 1);
	assert_ok(git_setup(root, &err));
}

TEST(what_may_not_be_kept_is_gits_own_stream_without_a_tag)
{
	must("git -C r.git config include.path /dev/null");
	assert_ok(serve_info_refs(serve, &request, &answer, &err));
	assert_non_null(answer.stream);
	assert_string_equal(answer.etag, "");
	AUTO_FREE char *refs = take();
	assert_true(text_starts_with(refs, SERVICE));
	AUTO_FREE char *listed = post("0014command=ls-refs\n0000");
	assert_non_null(strstr(listed, " refs/tags/v1\n"));
}

TEST(no_repository_is_missing_for_all)
{
	request.name = "nothing";
	assert_fails(serve_info_refs(serve, &request, &answer, &err), ERR_MISSING);
	serve_answer_clear(&answer);
	assert_false(serve_info_refs_now(serve, &request, &answer));
	str_add(&body, "0000");
	assert_fails(serve_upload_pack(serve, &request, &answer, &err), ERR_MISSING);
	serve_answer_clear(&answer);
	str_reset(&body);
	str_add(&body, "0014command=ls-refs\n0000");
	request.protocol = "version=2";
	assert_fails(serve_upload_pack(serve, &request, &answer, &err), ERR_MISSING);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(advertisements_are_gits_and_each_has_its_tag),
		CASE(what_was_asked_before_is_known_at_once_until_it_changes),
		CASE(what_was_changed_just_now_has_no_tag_yet),
		CASE(refs_are_listed_as_git_lists_them),
		CASE(what_git_must_answer_is_streamed_in_a_slot),
		CASE(more_slots_are_there_after_a_reload),
		CASE(one_client_does_not_have_all_generators),
		CASE(what_may_not_be_kept_is_gits_own_stream_without_a_tag),
		CASE(no_repository_is_missing_for_all),
	};

	return cmocka_run_group_tests(tests, make_objects, remove_objects);
}
