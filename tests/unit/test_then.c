#include "test.h"

#include "base/json.h"
#include "mirror/then.h"

#define A "1111111111111111111111111111111111111111"
#define B "2222222222222222222222222222222222222222"

static struct ref_snapshot before, after;
static struct ref_diff diff;

static void add(struct ref_snapshot *refs, const char *name, const char *oid)
{
	struct ref ref = { .name = ref_snapshot_keep(refs, name, strlen(name)) };

	assert_true(oid_parse(oid, 20, &ref.oid));
	vec_add(&refs->refs, ref);
}

static int begin(void **state)
{
	(void)state;
	before = after = (struct ref_snapshot)REF_SNAPSHOT_INIT;
	after.head_target = xstrdup("refs/heads/main");
	return 0;
}

static int end(void **state)
{
	(void)state;
	ref_diff_clear(&diff);
	ref_snapshot_clear(&before);
	ref_snapshot_clear(&after);
	return 0;
}

#define REFS(name) cmocka_unit_test_setup_teardown(name, begin, end)

static char *render(const char *watcher)
{
	AUTO_STR struct str out = STR_INIT;

	ref_diff_compute(&before, &after, &diff);
	then_render(&(struct then_change){ .mirror = "a/b",
					   .job = "7",
					   .watcher = watcher,
					   .diff = &diff,
					   .refs = &after,
					   .checked_at = 1795252443120 },
		    &out);
	return str_take(&out);
}

TEST(refs_that_were_made_moved_and_deleted_are_told)
{
	add(&before, "refs/heads/gone", A);
	add(&before, "refs/heads/main", A);
	add(&before, "refs/heads/same", A);
	add(&after, "refs/heads/main", B);
	add(&after, "refs/heads/same", A);
	add(&after, "refs/tags/\xff", B);
	AUTO_FREE char *text = render("app1");
	assert_string_equal(
		text, "{\"mirror\":\"a/b\",\"job\":\"7\",\"watcher\":\"app1\","
		      "\"branch\":\"main\",\"commit\":\"" B
		      "\",\"checked_at\":\"2026-11-21T09:14:03.120Z\",\"refs\":["
		      "{\"ref\":\"refs/heads/gone\",\"old\":\"" A "\",\"new\":null},"
		      "{\"ref\":\"refs/heads/main\",\"old\":\"" A "\",\"new\":\"" B "\"},"
		      "{\"ref_base64\":\"cmVmcy90YWdzL/8=\",\"old\":null,\"new\":\"" B
		      "\"}],\"more\":0}\n");
}

TEST(an_unborn_or_detached_head_has_no_branch)
{
	AUTO_FREE char *unborn = render(NULL);
	assert_non_null(
		strstr(unborn, "\"watcher\":null,\"branch\":null,\"commit\":null"));
	free(TAKE(after.head_target));
	assert_true(oid_parse(A, 20, &after.head_oid));
	ref_diff_clear(&diff);
	AUTO_FREE char *detached = render(NULL);
	assert_non_null(strstr(detached, "\"branch\":null,\"commit\":\"" A "\""));
}

TEST(of_very_many_refs_the_rest_is_counted)
{
	for (size_t i = 0; i < THEN_REFS_MAX + 3; i++) {
		char name[32];
		snprintf(name, sizeof(name), "refs/heads/b%06zu", i);
		add(&after, name, A);
	}
	AUTO_FREE char *text = render(NULL);
	json_auto_t *document = json_parse_object(text, strlen(text), SIZE_MAX, &err);
	assert_non_null(document);
	assert_int_equal(json_array_size(json_object_get(document, "refs")),
			 THEN_REFS_MAX);
	assert_int_equal(json_integer_value(json_object_get(document, "more")), 3);
}

/* GitHub's own example of a signature. */
TEST(a_document_is_signed_as_webhooks_are)
{
	AUTO_STR struct str secret = STR_INIT, document = STR_INIT;

	str_add(&document, "Hello, World!");
	assert_null(then_sign(&secret, &document));
	str_add(&secret, "It's a Secret to Everybody");
	AUTO_FREE char *text = then_sign(&secret, &document);
	assert_string_equal(text, "sha256=757107ea0eb2509fc211221cce984b8a"
				  "37570b6d7586c22c46f4379c8b043e17");
}

TEST(a_command_is_words_and_no_shell_sees_them)
{
	static const char *const wrong[] = { "", "tell", "'/bin/cat", "\"", "$HOME/x" };
	text_list words = { 0 };

	assert_ok(then_split(" /bin/cat  'a b'\"$c\" \t\"\" d;e", &words, &err));
	assert_int_equal(words.count, 4);
	assert_string_equal(words.items[0], "/bin/cat");
	assert_string_equal(words.items[1], "a b$c");
	assert_string_equal(words.items[2], "");
	assert_string_equal(words.items[3], "d;e");
	text_list_clear(&words);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		assert_fails(then_split(wrong[i], &words, &err), ERR_CONFIG);
		assert_true(err.remedy[0]);
		text_list_clear(&words);
	}
}

TEST(a_url_is_told_apart_from_a_command)
{
	assert_true(then_is_webhook("https://ci.example.com/hook"));
	assert_true(then_is_webhook("HTTP://ci.example.com"));
	assert_false(then_is_webhook("/usr/local/bin/build https://x"));
	assert_false(then_is_webhook("https"));
	assert_false(then_is_webhook(""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		REFS(refs_that_were_made_moved_and_deleted_are_told),
		REFS(an_unborn_or_detached_head_has_no_branch),
		REFS(of_very_many_refs_the_rest_is_counted),
		cmocka_unit_test(a_document_is_signed_as_webhooks_are),
		cmocka_unit_test(a_command_is_words_and_no_shell_sees_them),
		cmocka_unit_test(a_url_is_told_apart_from_a_command),
	};

	return cmocka_run_group_tests_name("then", tests, NULL, NULL);
}
