#include "test.h"

#include "base/file.h"
#include "base/json.h"
#include "base/thread.h"
#include "git/repo.h"
#include "mirror/then_queue.h"
#include "replicable/name.h"

#define A "1111111111111111111111111111111111111111"
#define B "2222222222222222222222222222222222222222"
#define C "3333333333333333333333333333333333333333"

static const struct then_origin origin = { .job = "7",
					   .watcher = "app1",
					   .checked_at = 1795252443120 };
static struct then_queue *queue;
static char *data, *place;

static int begin(void **state)
{
	test_make_root(state);
	data = xasprintf("%s/data", root);
	place = xasprintf("%s/a.git", root);
	assert_ok(dir_make(AT_FDCWD, data, &err));
	queue = NULL;
	return 0;
}

static int end(void **state)
{
	then_queue_close(queue);
	free(data);
	free(place);
	return test_remove_root(state);
}

#define QUEUE(name) cmocka_unit_test_setup_teardown(name, begin, end)

static void open_queue(void)
{
	then_queue_close(queue);
	assert_ok(then_queue_open(data, "a", place, &queue, &err));
}

static void make_clone(void)
{
	assert_ok(repo_make(AT_FDCWD, place, 20, &err));
}

/* NULL: it goes. */
static void set_ref(const char *name, const char *oid)
{
	AUTO_FREE char *path = xasprintf("%s/refs/heads/%s", place, name);
	AUTO_FREE char *line = oid ? xasprintf("%s\n", oid) : NULL;

	if (oid)
		assert_ok(file_replace(AT_FDCWD, path, line, strlen(line), FILE_NO_SYNC,
				       &err));
	else
		assert_int_equal(unlink(path), 0);
}

static void bring(const char *name, const char *oid)
{
	set_ref(name, oid);
	assert_int_equal(then_queue_take(queue, &origin, &err), 1);
}

static void assert_next(const char *expected)
{
	AUTO_STR struct str document = STR_INIT;

	assert_int_equal(then_queue_next(queue, &document, &err), 1);
	if (!strstr(document.data, expected))
		fail_msg("%s is not in %s", expected, document.data);
}

static void assert_told(const char *expected)
{
	assert_next(expected);
	assert_ok(then_queue_end(queue, &err));
}

static void assert_nothing(void)
{
	AUTO_STR struct str document = STR_INIT;

	assert_int_equal(then_queue_next(queue, &document, &err), 0);
}

#define CHANGE(name, old, new)                                                           \
	"{\"ref\":\"refs/heads/" name "\",\"old\":" old ",\"new\":" new "}"
#define Q(oid) "\"" oid "\""

TEST(all_of_a_new_mirror_is_news_and_nothing_of_an_old_one)
{
	open_queue();
	assert_nothing();
	make_clone();
	bring("main", A);
	assert_told(
		"\"job\":\"7\",\"watcher\":\"app1\",\"branch\":\"main\",\"commit\":" Q(
			A) ",\"checked_at\":\"2026-11-21T09:14:03.120Z\",\"refs\":"
			   "[" CHANGE("main", "null", Q(A)) "],\"more\":0}");
	assert_nothing();
	then_queue_forget_others(data, NULL, 0);
	open_queue();
	assert_nothing();
	assert_int_equal(then_queue_take(queue, &origin, &err), 0);
	bring("main", B);
	assert_told("\"refs\":[" CHANGE("main", Q(A), Q(B)) "]");
}

TEST(what_was_not_told_is_told_after_a_restart_and_what_was_not_kept_is_found)
{
	make_clone();
	set_ref("main", A);
	open_queue();
	bring("main", B);
	assert_next(CHANGE("main", Q(A), Q(B)));
	open_queue();
	assert_next(CHANGE("main", Q(A), Q(B)));
	set_ref("main", C);
	open_queue();
	assert_told(CHANGE("main", Q(A), Q(B)));
	assert_told("\"job\":null,\"watcher\":null,\"branch\":\"main\",\"commit\":" Q(
		C) ",\"checked_at\":null,\"refs\":[" CHANGE("main", Q(B), Q(C)) "]");
	assert_nothing();
}

TEST(a_queue_that_had_no_place_at_the_start_begins_with_the_first_change_after_that)
{
	AUTO_FREE char *in_the_way = xasprintf("%s/then", data);

	assert_ok(file_replace(AT_FDCWD, in_the_way, "", 0, FILE_NO_SYNC, &err));
	make_clone();
	set_ref("main", A);
	assert_int_equal(then_queue_open(data, "a", place, &queue, &err), -1);
	assert_int_equal(then_queue_take(queue, &origin, &err), -1);
	assert_int_equal(unlink(in_the_way), 0);
	assert_int_equal(then_queue_take(queue, &origin, &err), 0);
	bring("main", B);
	assert_told(CHANGE("main", Q(A), Q(B)));
	assert_nothing();
}

TEST(what_a_kill_left_half_written_is_removed_at_the_start)
{
	AUTO_FREE char *left = xasprintf("%s/then/%" PRIu64 "/2.tmp-0123456789abcdef",
					 data, replicable_id(KIND_MIRROR, "a"));

	make_clone();
	set_ref("main", A);
	open_queue();
	bring("main", B);
	assert_ok(file_replace(AT_FDCWD, left, "", 0, FILE_NO_SYNC, &err));
	open_queue();
	assert_false(file_is_there(AT_FDCWD, left));
	assert_told(CHANGE("main", Q(A), Q(B)));
}

TEST(what_is_put_together_loses_no_old_value)
{
	make_clone();
	set_ref("main", A);
	open_queue();
	bring("one", A);
	bring("two", B);
	set_ref("main", NULL);
	bring("three", C);
	assert_told("\"refs\":[" CHANGE("main", Q(A), "null") "," CHANGE(
		"one", "null", Q(A)) "," CHANGE("three", "null",
						Q(C)) "," CHANGE("two", "null",
								 Q(B)) "]");
	bring("one", B);
	bring("one", C);
	bring("two", A);
	assert_told("\"refs\":[" CHANGE("one", Q(A), Q(B)) "],\"more\":0");
	assert_told(
		"\"refs\":[" CHANGE("one", Q(B), Q(C)) "," CHANGE("two", Q(B), Q(A)) "]");
	assert_nothing();
}

TEST(what_is_just_being_told_stays_as_it_is)
{
	make_clone();
	set_ref("main", A);
	open_queue();
	bring("one", A);
	assert_next(CHANGE("one", "null", Q(A)));
	bring("two", A);
	assert_ok(then_queue_end(queue, &err));
	assert_told("\"refs\":[" CHANGE("two", "null", Q(A)) "]");
	assert_nothing();
}

TEST(of_very_many_changes_the_values_between_are_counted)
{
	const size_t lost = 5;
	struct then_look look;

	make_clone();
	set_ref("main", A);
	open_queue();
	for (size_t i = 0; i < THEN_WAITING_MOST + lost; i++) {
		char oid[41];
		snprintf(oid, sizeof(oid), "%040zx", i + 1);
		bring("main", oid);
	}
	assert_ok(then_queue_look(data, "a", &look, &err));
	assert_int_equal(look.waiting, THEN_WAITING_MOST);
	then_look_clear(&look);
	for (size_t i = 0; i + 1 < THEN_WAITING_MOST; i++)
		assert_told("\"more\":0");
	assert_told("\"more\":5");
	assert_nothing();
}

TEST(what_fails_is_shown_until_it_was_taken)
{
	struct then_look look;
	struct err why;

	make_clone();
	set_ref("main", A);
	open_queue();
	bring("main", B);
	assert_next("main");
	err_set(&why, ERR_NETWORK, "it is away");
	err_remedy(&why, "wait");
	then_queue_fail(queue, &(struct then_failure){ 1, 2, 3, &why });
	assert_ok(then_queue_look(data, "a", &look, &err));
	assert_int_equal(look.since, 1);
	assert_int_equal(look.next_at, 3);
	assert_string_equal(look.class, "network");
	assert_string_equal(look.message, "it is away");
	assert_string_equal(look.remedy, "wait");
	then_look_clear(&look);
	assert_told("main");
	assert_ok(then_queue_look(data, "a", &look, &err));
	assert_null(look.message);
	assert_int_equal(look.waiting, 0);
	then_look_clear(&look);
}

#define CHANGES 150

/* Three refs by turns, so that some changes can be put together and others not. */
static void *change_all(void *arg)
{
	atomic_bool *is_good = arg;
	struct err why;

	for (size_t i = 0; i < CHANGES && *is_good; i++) {
		AUTO_FREE char *path = xasprintf("%s/refs/heads/b%zu", place, i / 2 % 3);
		AUTO_FREE char *line = xasprintf("%040zx\n", i + 1);
		*is_good = file_replace(AT_FDCWD, path, line, strlen(line), FILE_NO_SYNC,
					&why) == 0 &&
			   then_queue_take(queue, &origin, &why) == 1;
	}
	return NULL;
}

/* What the receiver knows of each ref, as the last digits of its value. */
static void follow(const struct str *document, int64_t *known, int64_t *more)
{
	json_auto_t *object =
		json_parse_object(document->data, document->len, SIZE_MAX, &err);
	size_t at;
	json_t *ref;

	assert_non_null(object);
	json_array_foreach(json_object_get(object, "refs"), at, ref)
	{
		const char *name = json_string_value(json_object_get(ref, "ref"));
		const char *old = json_string_value(json_object_get(ref, "old"));
		const char *new = json_string_value(json_object_get(ref, "new"));
		int64_t *one = &known[name[strlen(name) - 1] - '0'];
		assert_int_equal(*one, old ? strtoll(old, NULL, 16) : 0);
		*one = strtoll(new, NULL, 16);
	}
	*more += json_integer_value(json_object_get(object, "more"));
}

TEST(who_takes_and_who_tells_do_not_disturb_each_other)
{
	int64_t known[3] = { 0 }, more = 0;
	atomic_bool is_good = true;
	pthread_t thread;

	make_clone();
	open_queue();
	thread_start(&thread, "taker", change_all, &is_good);
	while (known[0] + known[1] + known[2] < 3 * CHANGES - 6 && is_good) {
		AUTO_STR struct str document = STR_INIT;
		int found = then_queue_next(queue, &document, &err);
		assert_true(found >= 0);
		if (found == 0)
			usleep(1000);
		if (found > 0) {
			follow(&document, known, &more);
			assert_ok(then_queue_end(queue, &err));
		}
	}
	thread_join(thread);
	assert_true(is_good);
	assert_nothing();
}

TEST(a_clone_that_is_away_is_no_change)
{
	make_clone();
	set_ref("main", A);
	open_queue();
	assert_ok(tree_remove(AT_FDCWD, place, &err));
	assert_int_equal(then_queue_take(queue, &origin, &err), 0);
	assert_nothing();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		QUEUE(all_of_a_new_mirror_is_news_and_nothing_of_an_old_one),
		QUEUE(what_was_not_told_is_told_after_a_restart_and_what_was_not_kept_is_found),
		QUEUE(a_queue_that_had_no_place_at_the_start_begins_with_the_first_change_after_that),
		QUEUE(what_a_kill_left_half_written_is_removed_at_the_start),
		QUEUE(what_is_put_together_loses_no_old_value),
		QUEUE(what_is_just_being_told_stays_as_it_is),
		QUEUE(of_very_many_changes_the_values_between_are_counted),
		QUEUE(what_fails_is_shown_until_it_was_taken),
		QUEUE(who_takes_and_who_tells_do_not_disturb_each_other),
		QUEUE(a_clone_that_is_away_is_no_change),
	};

	return cmocka_run_group_tests_name("then_queue", tests, NULL, NULL);
}
