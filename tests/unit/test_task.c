#include "test.h"

#include "push/destination.h"
#include "push/task.h"

static struct task make(const char *project, const char *refs, const char *uri,
			const char *remote)
{
	struct task task = { xstrdup(project), xstrdup(uri), xstrdup(remote), { 0 } };
	AUTO_FREE char *copy = xstrdup(refs);
	char *rest = copy, *ref;

	while ((ref = strsep(&rest, " ")) != NULL)
		vec_add(&task.refs, xstrdup(ref));
	return task;
}

static char *joined(const text_list *refs)
{
	struct str text = STR_INIT;

	for (size_t i = 0; i < refs->count; i++)
		str_addf(&text, "%s%s", i ? " " : "", refs->items[i]);
	return str_take(&text);
}

#define BUILD "platform/build"
#define MIRROR "git://mirror1.example.com/git/platform/build.git"
#define PAIR "refs/changes/01/1/1 refs/changes/01/1/meta"

static const struct {
	const char *project, *refs, *uri, *remote, *key;
	size_t bytes;
} examples[] = {
	{ BUILD, "refs/heads/main", MIRROR, "mirror1",
	  "0be164775d9516690de16e9194d9acdd645dec07", 132 },
	{ BUILD, "..all..", MIRROR, "mirror1", "0b232039690df6344fc8a8d48fb9a4b809592f15",
	  124 },
	{ BUILD, PAIR, MIRROR, "mirror1", "42f66d1f0b1d8330d1ab4561719b76d30b097aac",
	  161 },
	{ "tools/a=b c", "refs/heads/main", "https://m.example.com/tools/a=b%20c.git",
	  "pub", "05a944dcc1dad4eca80e7fc30fbaa9b2bed98a19", 126 },
	{ "tools/a=b c", "refs/heads/main", "git@m.example.com:/srv/tools/a=b c.git",
	  "scp", "caa54599a9bd11e686b5b46b91f395801c4e3d76", 0 },
};

TEST(keys_and_sizes_are_those_of_the_plugin)
{
	for (size_t i = 0; i < ARRAY_SIZE(examples); i++) {
		AUTO_TASK struct task task = make(examples[i].project, examples[i].refs,
						  examples[i].uri, examples[i].remote);
		AUTO_STR struct str text = STR_INIT;
		char key[TASK_KEY_SIZE];
		task_order(&task);
		task_key(&task, key);
		task_write(&task, &text);
		assert_string_equal(key, examples[i].key);
		if (examples[i].bytes > 0)
			assert_int_equal(text.len, examples[i].bytes);
	}
}

TEST(a_uri_has_the_key_of_the_design)
{
	char key[URI_KEY_SIZE];

	uri_key_of(MIRROR, key);
	assert_string_equal(key, "58d014b480dc263311c04ee6f1eef3053296109b");
}

TEST(a_file_is_byte_for_byte_that_of_the_plugin)
{
	AUTO_TASK struct task task = make(BUILD, "refs/heads/main", MIRROR, "mirror1");
	AUTO_STR struct str text = STR_INIT;

	task_write(&task, &text);
	assert_string_equal(text.data,
			    "{\"project\":\"platform/build\","
			    "\"refs\":[\"refs/heads/main\"],\"uri\":\"" MIRROR "\","
			    "\"remote\":\"mirror1\"}\n");
}

TEST(texts_are_escaped_as_gson_does)
{
	AUTO_TASK struct task task = make("<>&='/\"\\", "a\tb\bc\nd\re\ff\x01\x1f",
					  "\x7f\u00fc\u2028\u2029", "\u6f22\U0001f600");
	AUTO_STR struct str text = STR_INIT;

	task_write(&task, &text);
	assert_string_equal(
		text.data,
		"{\"project\":\"\\u003c\\u003e\\u0026\\u003d\\u0027/\\\"\\\\\","
		"\"refs\":[\"a\\tb\\bc\\nd\\re\\ff\\u0001\\u001f\"],"
		"\"uri\":\"\x7f\u00fc\\u2028\\u2029\",\"remote\":\"\u6f22\U0001f600\"}"
		"\n");
}

TEST(what_was_written_reads_the_same)
{
	AUTO_TASK struct task task =
		make("<>&='\"\\\x01\u2028\U0001f600", "r/a r/b", "\u2029", "\u6f22");
	AUTO_TASK struct task again = { 0 };
	AUTO_STR struct str text = STR_INIT;

	task_write(&task, &text);
	assert_ok(task_read(text.data, text.len, &again, &err));
	assert_string_equal(again.project, task.project);
	assert_string_equal(again.uri, task.uri);
	assert_string_equal(again.remote, task.remote);
	assert_int_equal(again.refs.count, 2);
	assert_string_equal(again.refs.items[1], "r/b");
}

/* Input, and the order that OpenJDK 17 gives. */
static const struct {
	const char *given, *ordered;
} orders[] = {
	{ "refs/changes/01/1/1 refs/changes/01/1/meta",
	  "refs/changes/01/1/meta refs/changes/01/1/1" },
	{ "refs/changes/01/1/meta refs/changes/01/1/1",
	  "refs/changes/01/1/meta refs/changes/01/1/1" },
	{ "refs/changes/14/14/1 refs/changes/14/14/meta",
	  "refs/changes/14/14/1 refs/changes/14/14/meta" },
	{ "refs/changes/14/14/meta refs/changes/14/14/1",
	  "refs/changes/14/14/meta refs/changes/14/14/1" },
	{ "refs/changes/14/14/meta refs/changes/14/14/1 refs/changes/14/14/meta",
	  "refs/changes/14/14/meta refs/changes/14/14/1" },
	{ "refs/heads/a😀 refs/heads/ü refs/heads/b refs/heads/漢",
	  "refs/heads/漢 refs/heads/b refs/heads/ü refs/heads/a😀" },
	{ "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11",
	  "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11" },
	{ "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n11 n12",
	  "n0 n1 n2 n3 n4 n5 n6 n7 n8 n9 n10 n12 n11" },
};

TEST(refs_stand_in_the_order_of_a_java_hash_set)
{
	for (size_t i = 0; i < ARRAY_SIZE(orders); i++) {
		AUTO_TASK struct task task = make("p", orders[i].given, "u", "r");
		task_order(&task);
		AUTO_FREE char *refs = joined(&task.refs);
		assert_string_equal(refs, orders[i].ordered);
	}
}

TEST(fields_stand_in_any_order_and_one_ref_may_be_a_text)
{
	static const char old[] = " { \"remote\":\"r\", \"ref\" : \"refs/heads/x\",\n"
				  "\"uri\":\"u\", \"project\":\"p\" } ";
	AUTO_TASK struct task task = { 0 };

	assert_ok(task_read(old, strlen(old), &task, &err));
	assert_string_equal(task.project, "p");
	assert_int_equal(task.refs.count, 1);
	assert_true(text_list_has(&task.refs, "refs/heads/x"));
	assert_false(task_is_all(&task));
}

#define REST "\"project\":\"p\",\"uri\":\"u\",\"remote\":\"r\""

static const struct {
	const char *text, *said;
} bad[] = {
	{ "", "empty" },
	{ "{", "line 1" },
	{ "{" REST ",\"refs\":[\"a\"]", "line 1" },
	{ "[]", "not an object" },
	{ "null", "not an object" },
	{ "{}", "\"project\"" },
	{ "{" REST "}", "no refs" },
	{ "{" REST ",\"refs\":[]}", "no refs" },
	{ "{" REST ",\"refs\":[1]}", "no text" },
	{ "{" REST ",\"refs\":[\"\"]}", "empty" },
	{ "{" REST ",\"refs\":\"a\"}", "no list" },
	{ "{" REST ",\"ref\":[\"a\"]}", "no text" },
	{ "{" REST ",\"ref\":null}", "no text" },
	{ "{" REST ",\"ref\":\"a\",\"refs\":[\"a\"]}", "both" },
	{ "{" REST ",\"refs\":[\"a\"],\"odd\\u001b\":1}", "\"odd\\x1b\"" },
	{ "{" REST ",\"uri\":\"v\",\"refs\":[\"a\"]}", "duplicate" },
	{ "{\"project\":\"p\",\"uri\":7,\"remote\":\"r\",\"refs\":[\"a\"]}", "\"uri\"" },
	{ "{" REST ",\"refs\":[\"a\\u0000b\"]}", "line 1" },
	{ "{" REST ",\"refs\":[\"\xff\"]}", "line 1" },
	{ "{" REST ",\"refs\":[\"a\"]} x", "line 1" },
};

TEST(what_is_no_task_is_said_to_be_damaged)
{
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct task task;
		assert_fails(task_read(bad[i].text, strlen(bad[i].text), &task, &err),
			     ERR_CORRUPT);
		if (!strstr(err.text, bad[i].said))
			fail_msg("%s: %s", bad[i].text, err.text);
		assert_null(task.project);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_and_sizes_are_those_of_the_plugin),
		cmocka_unit_test(a_uri_has_the_key_of_the_design),
		cmocka_unit_test(a_file_is_byte_for_byte_that_of_the_plugin),
		cmocka_unit_test(texts_are_escaped_as_gson_does),
		cmocka_unit_test(what_was_written_reads_the_same),
		cmocka_unit_test(refs_stand_in_the_order_of_a_java_hash_set),
		cmocka_unit_test(fields_stand_in_any_order_and_one_ref_may_be_a_text),
		cmocka_unit_test(what_is_no_task_is_said_to_be_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
