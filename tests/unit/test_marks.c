/*
 * Credentials that an upstream has refused: not shown again before their file is another.
 */
#include "mirror/marks.h"

#include "mirror/upstream.h"
#include "test.h"

static struct store *store;
static struct credential_marks *marks;
static struct mirrors mirrors;
static const struct mirror *a, *b;
static const struct watcher *one, *two;
static const struct err refused = { .class = ERR_AUTH,
				    .text = "it refuses",
				    .remedy = "mend it" };

static void write_secret(const char *name, const char *text)
{
	assert_ok(file_replace_private(root_fd, name, text, strlen(text), FILE_NO_SYNC,
				       &err));
}

static int set_up(void **state)
{
	AUTO_CONF struct conf *conf = NULL;
	int result = test_make_root(state);
	AUTO_FREE char *text =
		xasprintf("[mirror \"a\"]\nurl = /a\n[mirror \"b\"]\nurl = /b\n"
			  "[watcher \"one\"]\nmirror = *\ntokenFile = %s/one\n"
			  "[watcher \"two\"]\nmirror = a\nuserName = u\n"
			  "passwordFile = %s/two\nsshKeyFile = %s/key\n"
			  "knownHostsFile = %s/hosts\n",
			  root, root, root, root);

	write_secret("one", "1");
	write_secret("two", "2");
	assert_ok(conf_load_text("t.conf", text, strlen(text), &conf, &err));
	assert_ok(mirrors_read(conf, &mirrors, &err));
	a = mirrors_find(&mirrors, "a");
	b = mirrors_find(&mirrors, "b");
	one = &mirrors.watchers.items[0];
	two = &mirrors.watchers.items[1];
	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(credential_marks_open(store, &marks, &err));
	return result;
}

static int tear_down(void **state)
{
	credential_marks_close(marks);
	store_close(store);
	mirrors_clear(&mirrors);
	return test_remove_root(state);
}

#define MARKS_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static bool is_refused(const struct mirror *mirror, const struct watcher *watcher)
{
	return credential_is_refused(marks, mirror, watcher, &err);
}

static void mark(const struct mirror *mirror, const struct watcher *watcher,
		 const struct err *why)
{
	char stamp[CREDENTIAL_STAMP_SIZE];

	credential_take_stamp(mirror, watcher, stamp);
	credential_mark(marks, mirror, watcher, stamp, why);
}

static bool is_told(const char *mirror, const char *watcher)
{
	AUTO_FREE char *message = NULL;
	int64_t refused_at;

	assert_ok(credential_mark_read(store, mirror, watcher, &refused_at, &message,
				       &err));
	assert_int_equal(refused_at != 0, message != NULL);
	return refused_at != 0;
}

TEST(one_that_was_refused_is_marked_for_that_mirror_alone)
{
	mark(a, one, &refused);
	assert_true(is_refused(a, one));
	assert_int_equal(err.class, ERR_AUTH);
	assert_string_equal(err.text, "it refuses");
	assert_string_equal(err.remedy, "mend it");
	assert_false(is_refused(b, one));
	assert_false(is_refused(a, two));
	assert_true(is_told("a", "one"));
	assert_false(is_told("b", "one"));
	assert_false(is_told("a", "two"));
}

TEST(another_file_is_tried)
{
	mark(a, one, &refused);
	mark(a, two, &refused);
	assert_false(credential_was_replaced(marks, &mirrors, a));
	write_secret("two", "2"); /* the same text, put there again */
	assert_true(credential_was_replaced(marks, &mirrors, a));
	assert_false(credential_was_replaced(marks, &mirrors, b));
	assert_false(is_refused(a, two));
	assert_true(is_refused(a, one));
	mark(a, two, &refused);
	assert_true(is_refused(a, two));
	assert_false(credential_was_replaced(marks, &mirrors, a));
}

TEST(any_of_its_files_makes_it_another)
{
	static const char *const files[] = { "two", "key", "hosts" };

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		mark(a, two, &refused);
		assert_true(is_refused(a, two));
		AUTO_FREE char *before = credentials_stamp(&mirrors, a);
		write_secret(files[i], "another");
		AUTO_FREE char *now = credentials_stamp(&mirrors, a);
		assert_string_not_equal(before, now);
		assert_true(credential_was_replaced(marks, &mirrors, a));
		assert_false(is_refused(a, two));
	}
}

/* As when a list is at another host from now on. */
TEST(another_upstream_of_the_name_may_accept_it)
{
	struct mirror moved = *a;

	mark(a, one, &refused);
	moved.url = (char[]){ "https://other.example/a.git" };
	assert_false(is_refused(&moved, one));
	assert_true(credential_was_replaced(marks, &mirrors, &moved));
	mark(&moved, one, NULL);
	assert_false(is_told("a", "one"));
}

TEST(what_was_put_there_while_another_was_refused_is_tried)
{
	char stamp[CREDENTIAL_STAMP_SIZE];

	credential_take_stamp(a, one, stamp);
	write_secret("one", "new");
	credential_mark(marks, a, one, stamp, &refused);
	assert_true(is_told("a", "one"));
	assert_false(is_refused(a, one));
	assert_true(credential_was_replaced(marks, &mirrors, a));
}

TEST(a_file_that_is_gone_or_comes_back_is_another)
{
	AUTO_FREE char *path = xasprintf("%s/one", root);

	mark(a, one, &refused);
	assert_int_equal(unlink(path), 0);
	assert_true(credential_was_replaced(marks, &mirrors, a));
	assert_false(is_refused(a, one));
	mark(a, one, &refused);
	assert_true(is_refused(a, one));
	write_secret("one", "1");
	assert_false(is_refused(a, one));
}

TEST(one_that_is_taken_is_marked_no_more)
{
	mark(a, one, &refused);
	mark(a, one, NULL);
	assert_false(is_refused(a, one));
	assert_false(is_told("a", "one"));
	assert_false(credential_was_replaced(marks, &mirrors, a));
}

TEST(only_a_refusal_marks)
{
	static const enum err_class others[] = { ERR_NETWORK, ERR_TIMEOUT, ERR_CORRUPT,
						 ERR_CANCELED };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		const struct err why = { .class = others[i], .text = "no" };
		mark(a, one, &why);
		assert_false(is_refused(a, one));
		assert_false(is_told("a", "one"));
	}
	mark(a, one, &refused);
	mark(a, one, &(const struct err){ .class = ERR_NETWORK });
	assert_true(is_refused(a, one));
}

TEST(a_new_node_tries_all)
{
	mark(a, one, &refused);
	credential_marks_close(marks);
	assert_ok(credential_marks_open(store, &marks, &err));
	assert_false(is_refused(a, one));
	assert_false(is_told("a", "one"));
}

/* Nothing is asked of the upstream, which is a path that is not there. */
TEST(a_marked_one_is_passed_over_but_for_a_persons_word)
{
	AUTO_UPSTREAM struct upstream_view view = { 0 };
	struct upstream_call call = {
		.mirrors = &mirrors, .mirror = b, .marks = marks, .timeout_ms = 1000
	};

	mark(b, one, &refused);
	assert_fails(upstream_read(&call, &view, &err), ERR_AUTH);
	assert_string_equal(err.text, "it refuses");
	call.is_asked = true;
	assert_int_equal(upstream_read(&call, &view, &err), -1);
	assert_string_not_equal(err.text, "it refuses");
}

/* Answers to questions that were under way at once come in any order. */
TEST(a_shorter_rest_does_not_end_a_longer_one)
{
	struct mirror there = *a;

	there.uri.host = (char[]){ "example.com" };
	credential_rest(marks, &there, one, 60000);
	credential_rest(marks, &there, one, 5000);
	assert_in_range(credential_rest_ms(marks, &there, one), 50000, 60000);
	credential_rest(marks, &there, one, 90000);
	assert_in_range(credential_rest_ms(marks, &there, one), 80000, 90000);
	credential_rest(marks, &there, one, 0);
	assert_int_equal(credential_rest_ms(marks, &there, one), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		MARKS_CASE(one_that_was_refused_is_marked_for_that_mirror_alone),
		MARKS_CASE(another_file_is_tried),
		MARKS_CASE(any_of_its_files_makes_it_another),
		MARKS_CASE(another_upstream_of_the_name_may_accept_it),
		MARKS_CASE(what_was_put_there_while_another_was_refused_is_tried),
		MARKS_CASE(a_file_that_is_gone_or_comes_back_is_another),
		MARKS_CASE(one_that_is_taken_is_marked_no_more),
		MARKS_CASE(only_a_refusal_marks),
		MARKS_CASE(a_new_node_tries_all),
		MARKS_CASE(a_marked_one_is_passed_over_but_for_a_persons_word),
		MARKS_CASE(a_shorter_rest_does_not_end_a_longer_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
