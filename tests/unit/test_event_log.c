#include "git_test.h"

#include <poll.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "change/event_log.h"
#include "change/origin_root.h"
#include "replicable/name.h"
#include "store/site_value.h"

static struct store *store;
static struct event_log *event_log;

/* In a data directory of that name. */
static void open_at(const char *name)
{
	AUTO_FREE char *data = xasprintf("%s/%s", root, name);
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", data);

	assert_ok(dir_make(AT_FDCWD, data, &err));
	assert_ok(store_open(url, &store, &err));
	assert_ok(event_log_open(store, data, &event_log, &err));
}

static void close_all(void)
{
	event_log_close(event_log);
	store_close(store);
}

static int make_log(void **state)
{
	log_set_level(LOG_LEVEL_NONE);
	if (test_make_root(state) != 0)
		return -1;
	open_at("data");
	return 0;
}

static int remove_log(void **state)
{
	close_all();
	return test_remove_root(state);
}

#define LOG_CASE(name) cmocka_unit_test_setup_teardown(name, make_log, remove_log)

static int append_work(struct store_tx *tx, void *arg, struct err *error)
{
	return event_log_append(tx, arg, error);
}

static int append_and_fail(struct store_tx *tx, void *arg, struct err *error)
{
	if (event_log_append(tx, arg, error) != 0)
		return -1;
	return err_set(error, ERR_CONFLICT, "told to");
}

static struct event sample(void)
{
	struct event event = {
		.kind = xstrdup(KIND_REPOSITORY),
		.name = xstrdup("group/a"),
		.what = EVENT_UPDATED,
		.timeline = "0123456789abcdef",
		.generation = 7,
		.checksum = xstrdup("1-aa"),
		.changes = xstrdup("[{\"ref\":\"refs/heads/m\",\"new\":\"aa\"}]"),
	};

	return event;
}

/* The event's id. */
static uint64_t append(void)
{
	struct event event = sample();
	uint64_t id;

	assert_ok(store_write(store, append_work, &event, &err));
	id = event.id;
	struct event_mark newest = { .id = id };
	memcpy(newest.mark, event.mark, sizeof(newest.mark));
	event_clear(&event);
	event_log_wake(event_log, &newest);
	return id;
}

static event_list events;
static struct event_ends ends;

static enum event_read look(uint64_t after, const char *mark)
{
	struct event_question question = { .after = after, .mark = mark, .limit = 1000 };
	enum event_read how;

	event_list_clear(&events);
	assert_ok(event_log_read_once(store, &question, &how, &events, &ends, &err));
	return how;
}

static void mark_of(uint64_t id, char mark[EVENT_MARK_SIZE])
{
	assert_int_equal(look(id - 1, NULL), EVENTS_READ);
	memcpy(mark, events.items[0].mark, EVENT_MARK_SIZE);
	event_list_clear(&events);
}

static uint64_t prune(int64_t keep_ms, uint64_t keep_count)
{
	uint64_t dropped;

	assert_ok(event_log_prune(store, keep_ms, keep_count, &dropped, &err));
	return dropped;
}

TEST(an_event_comes_back_as_it_was_appended)
{
	assert_int_equal(append(), 1);
	assert_int_equal(look(EVENTS_FROM_OLDEST, NULL), EVENTS_READ);
	assert_int_equal(events.count, 1);
	const struct event *event = &events.items[0];
	assert_string_equal(event->name, "group/a");
	assert_int_equal(event->what, EVENT_UPDATED);
	assert_int_equal(event->generation, 7);
	assert_string_equal(event->mark, ends.mark);
	assert_int_equal(strlen(ends.mark), 16);
	assert_int_equal(strlen(ends.timeline), 16);
	assert_int_equal(ends.last, 1);
	assert_true(event->at > 0 && event->at == ends.last_at);
	event_list_clear(&events);
}

static uint64_t append_generation(uint64_t generation, const char *changes)
{
	struct event event = sample();

	event.generation = generation;
	free(event.changes);
	event.changes = changes ? xstrdup(changes) : NULL;
	assert_ok(store_write(store, append_work, &event, &err));
	event_clear(&event);
	return event.id;
}

/* One that was deleted and created anew begins again with generation 1. */
TEST(the_newest_events_of_a_name_are_those_that_came_last)
{
	append_generation(8, "[8]");
	append_generation(9, "[9]");
	append_generation(1, "[1]");
	append_generation(2, NULL);
	event_list_clear(&events);
	assert_ok(event_log_latest(store, "group/a", 2, &events, &err));
	assert_int_equal(events.count, 2);
	assert_int_equal(events.items[0].generation, 1);
	assert_int_equal(events.items[1].generation, 9);
	event_list_clear(&events);
}

static int changes_between(uint64_t after, uint64_t until, text_list *changes)
{
	const struct event_span span = { .name = "group/a",
					 .timeline = "0123456789abcdef",
					 .after = after,
					 .until = until,
					 .most = 3 };

	text_list_clear(changes);
	return event_log_changes(store, &span, changes, &err);
}

TEST(changes_between_generations_are_all_or_none)
{
	AUTO_TEXT_LIST text_list changes = { 0 };

	append_generation(2, "[2]");
	append_generation(3, "[3]");
	append_generation(4, NULL);
	append_generation(5, "[5]");
	append_generation(6, "[6]");
	assert_int_equal(changes_between(1, 3, &changes), 1);
	assert_int_equal(changes.count, 2);
	assert_string_equal(changes.items[0], "[2]");
	assert_string_equal(changes.items[1], "[3]");
	assert_int_equal(changes_between(3, 3, &changes), 1);
	assert_int_equal(changes.count, 0);
	assert_int_equal(changes_between(2, 4, &changes), 0); /* it was not known */
	assert_int_equal(changes_between(4, 6, &changes), 1);
	assert_int_equal(changes_between(0, 2, &changes), 0); /* it is gone */
	assert_int_equal(changes_between(6, 7, &changes), 0);
	assert_int_equal(changes_between(6, 5, &changes), 0);
	assert_int_equal(changes_between(2, 6, &changes), 0); /* too many */
	prune(0, 2);
	assert_int_equal(changes_between(1, 3, &changes), 0);
}

TEST(an_event_travels_as_the_protocol_says)
{
	AUTO_STR struct str text = STR_INIT;
	struct event event = sample();

	event.id = 42;
	event.at = 1;
	snprintf(event.mark, sizeof(event.mark), "5f0c9a0b1d2e3f40");
	json_auto_t *object = wire_event_json(&event);
	json_render(object, &text);
	assert_string_equal(text.data,
			    "{\"id\":42,\"mark\":\"5f0c9a0b1d2e3f40\","
			    "\"at\":\"1970-01-01T00:00:00.001Z\",\"kind\":\"repository\","
			    "\"name\":\"group/a\",\"event\":\"updated\","
			    "\"timeline\":\"0123456789abcdef\",\"generation\":7,"
			    "\"checksum\":\"1-aa\","
			    "\"changes\":[{\"ref\":\"refs/heads/m\",\"new\":\"aa\"}]}");
	event_clear(&event);
}

TEST(an_event_of_a_blob_tells_its_size)
{
	AUTO_STR struct str text = STR_INIT;
	struct event event = { .kind = xstrdup("lfs"),
			       .name = xstrdup("aa/bb/cc"),
			       .what = EVENT_CHECKSUMMED,
			       .timeline = "0123456789abcdef",
			       .generation = 2,
			       .size = 5000000000,
			       .checksum = xstrdup("aa") };

	assert_ok(store_write(store, append_work, &event, &err));
	event_clear(&event);
	assert_int_equal(look(EVENTS_FROM_OLDEST, NULL), EVENTS_READ);
	assert_int_equal(events.items[0].what, EVENT_CHECKSUMMED);
	json_auto_t *object = wire_event_json(&events.items[0]);
	json_render(object, &text);
	assert_non_null(strstr(text.data, "\"event\":\"checksum_succeeded\""));
	assert_non_null(strstr(text.data, "\"size\":5000000000"));
	event_list_clear(&events);
}

#define THREADS 8
#define EACH 25

static void *append_many(void *arg)
{
	struct event event = sample();
	struct err error;

	(void)arg;
	for (int i = 0; i < EACH; i++) {
		/* What is undone leaves no hole. */
		if (store_write(store, append_and_fail, &event, &error) == 0 ||
		    store_write(store, append_work, &event, &error) != 0)
			abort();
	}
	event_clear(&event);
	return NULL;
}

TEST(ids_are_dense_whoever_appends)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		thread_start(&threads[i], "test", append_many, NULL);
	for (int i = 0; i < THREADS; i++)
		thread_join(threads[i]);
	assert_int_equal(look(0, NULL), EVENTS_READ);
	assert_int_equal(events.count, THREADS * EACH);
	for (size_t i = 0; i < events.count; i++)
		assert_int_equal(events.items[i].id, i + 1);
	event_list_clear(&events);
}

TEST(positions_are_proved_by_their_marks)
{
	char mark[EVENT_MARK_SIZE];

	append();
	append();
	mark_of(1, mark);
	assert_int_equal(look(1, mark), EVENTS_READ);
	assert_int_equal(events.count, 1);
	assert_int_equal(look(2, mark), EVENTS_OTHER_TIMELINE);
	assert_int_equal(events.count, 0);
	assert_int_equal(look(3, NULL), EVENTS_OTHER_TIMELINE);
	assert_int_equal(ends.last, 2); /* filled all the same */
	assert_int_equal(look(0, ""), EVENTS_READ);
	event_list_clear(&events);
}

TEST(what_was_pruned_is_gone_and_the_position_just_behind_it_still_good)
{
	char mark[EVENT_MARK_SIZE], last[EVENT_MARK_SIZE];

	for (int i = 0; i < 5; i++)
		append();
	mark_of(3, mark);
	mark_of(5, last);
	assert_int_equal(prune(1000000, 2), 3);
	assert_int_equal(look(2, NULL), EVENTS_GONE);
	assert_int_equal(ends.first, 4);
	assert_int_equal(look(3, mark), EVENTS_READ);
	assert_int_equal(events.count, 2);
	assert_int_equal(look(3, last), EVENTS_OTHER_TIMELINE);
	assert_int_equal(look(0, NULL), EVENTS_GONE);
}

TEST(an_emptied_log_goes_on_where_it_was)
{
	char last[EVENT_MARK_SIZE];

	append();
	append();
	mark_of(2, last);
	assert_int_equal(prune(-1000, 100), 2); /* all are older than that */
	assert_int_equal(look(2, last), EVENTS_READ);
	assert_int_equal(events.count, 0);
	assert_int_equal(ends.first, 3);
	assert_string_equal(ends.mark, last);
	assert_int_equal(look(2, "0000000000000000"), EVENTS_OTHER_TIMELINE);
	assert_int_equal(look(1, NULL), EVENTS_GONE);
	assert_int_equal(append(), 3);
	assert_int_equal(look(2, last), EVENTS_READ);
	assert_int_equal(events.count, 1);
	event_list_clear(&events);
}

TEST(what_is_young_is_kept)
{
	append();
	assert_int_equal(prune(1000000, 100), 0);
	assert_int_equal(look(0, NULL), EVENTS_READ);
	assert_int_equal(events.count, 1);
	event_list_clear(&events);
}

static int add_row(struct store_tx *tx, void *arg, struct err *error)
{
	char name[] = "a", file[] = "a.git";
	const struct origin_row row = { .id = 1,
					.name = name,
					.path = file,
					.timeline = "0123456789abcdef",
					.generation = 1 };

	(void)arg;
	return origin_row_add(tx, KIND_REPOSITORY, &row, error);
}

static int get_row(struct store_tx *tx, void *arg, struct err *error)
{
	return origin_row_get(tx, KIND_REPOSITORY, "a", arg, error) == 1 ? 0 : -1;
}

static void reopen(const char *name)
{
	close_all();
	open_at(name);
	look(0, NULL);
	event_list_clear(&events);
}

static enum event_scanned scanned(void)
{
	enum event_scanned answer;

	assert_ok(event_log_scanned(store, KIND_REPOSITORY, &answer, &err));
	return answer;
}

static struct event_ends ends_now(void)
{
	look(0, NULL);
	event_list_clear(&events);
	return ends;
}

static bool is_renewed(const struct event_ends *before)
{
	return strcmp(ends_now().timeline, before->timeline) != 0;
}

TEST(the_same_database_keeps_its_timeline)
{
	append();
	const struct event_ends before = ends_now();
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_PART, &err));
	assert_int_equal(scanned(), SCANNED_PART);
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_ALL, &err));
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_PART, &err));
	reopen("data");
	assert_false(is_renewed(&before));
	assert_int_equal(scanned(), SCANNED_ALL);
	append();
	assert_int_equal(prune(1000000, 0), 2); /* what was seen is kept no more */
	reopen("data");
	assert_false(is_renewed(&before));
	must("mv data elsewhere"); /* its files are the same */
	reopen("elsewhere");
	assert_false(is_renewed(&before));
}

/* It may have been killed between the commit and that. */
TEST(events_that_the_node_did_not_see_any_more_are_no_sign)
{
	struct event event = sample();

	append();
	const struct event_ends before = ends_now();
	assert_ok(store_write(store, append_work, &event, &err)); /* nobody is woken */
	event_clear(&event);
	reopen("data");
	assert_false(is_renewed(&before));
}

TEST(a_copy_of_the_data_directory_gets_another_timeline)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };

	append();
	assert_ok(store_write(store, add_row, NULL, &err));
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_ALL, &err));
	const struct event_ends before = ends_now();
	close_all();
	must("cp -a data copy");
	open_at("copy");
	assert_true(is_renewed(&before));
	assert_int_equal(scanned(),
			 SCANNED_NOTHING); /* it may be older than what is there */
	assert_string_equal(ends.mark, before.mark);
	assert_ok(store_read(store, get_row, &row, &err));
	assert_string_not_equal(row.timeline, "0123456789abcdef");
	const struct event_ends copied = ends_now();
	reopen("copy");
	assert_false(is_renewed(&copied)); /* told once */
	reopen("data");
	assert_false(is_renewed(&before)); /* the original is what it was */

	close_all();
	must("cat copy/db >data/db"); /* of one length, and with the same events */
	open_at("data");
	assert_true(is_renewed(&copied) && is_renewed(&before));
}

static void append_unseen(void)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/data/db", root);
	struct event event = sample();

	assert_ok(store_open(url, &store, &err));
	assert_ok(store_write(store, append_work, &event, &err));
	event_clear(&event);
	store_close(store);
}

TEST(an_older_state_in_the_same_file_gets_another_timeline)
{
	append();
	close_all();
	must("cp data/db backup");
	open_at("data");
	append();
	const struct event_ends before = ends_now();
	close_all();
	must("rm -f data/db-* && cat backup >data/db");
	open_at("data");
	assert_true(is_renewed(&before));
	assert_int_equal(ends.last, 1);

	/* It has grown as far as it was by other events. */
	close_all();
	must("cp data/db backup");
	open_at("data");
	append();
	const struct event_ends grown = ends_now();
	close_all();
	must("rm -f data/db-* && cat backup >data/db");
	append_unseen();
	open_at("data");
	assert_int_equal(ends_now().last, grown.last);
	assert_true(is_renewed(&grown));
}

TEST(a_database_without_what_was_seen_of_it_comes_from_elsewhere)
{
	append();
	struct event_ends before = ends_now();
	close_all();
	must("rm data/log.seen");
	open_at("data");
	assert_true(is_renewed(&before));

	before = ends_now();
	close_all();
	must("echo garbage >data/log.seen");
	open_at("data");
	assert_true(is_renewed(&before));
	before = ends_now();
	reopen("data");
	assert_false(is_renewed(&before));
}

TEST(a_new_database_beside_what_was_seen_of_another_is_new)
{
	append();
	const struct event_ends before = ends_now();
	close_all();
	must("rm data/db*");
	open_at("data");
	assert_true(is_renewed(&before));
	const struct event_ends new = ends_now();
	assert_int_equal(new.last, 0);
	reopen("data");
	assert_false(is_renewed(&new));
}

static int make_former(struct store_tx *tx, void *file, struct err *error)
{
	return site_value_remove(tx, "log.identity", error) != 0
		       ? -1
		       : site_value_set(tx, "log.file", file, error);
}

/* As a version did that knew the log by the file that it is in. */
static void reopen_former(const char *file)
{
	assert_ok(store_write(store, make_former, (void *)(uintptr_t)file, &err));
	must("rm data/log.seen");
	reopen("data");
}

TEST(the_log_of_a_former_version_is_known_by_its_file)
{
	AUTO_FREE char *path = xasprintf("%s/data/db", root);
	AUTO_FREE char *file = identity_of(AT_FDCWD, path);

	append();
	struct event_ends before = ends_now();
	reopen_former(file);
	assert_false(is_renewed(&before));
	reopen("data"); /* from now on as any */
	assert_false(is_renewed(&before));
	reopen_former("1 2.000000003");
	assert_true(is_renewed(&before));
	before = ends_now();
	reopen("data");
	assert_false(is_renewed(&before));
}

TEST(a_log_that_went_back_in_its_file_gets_another_timeline_once)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };

	append();
	look(0, NULL);
	event_list_clear(&events);
	struct event_ends before = ends;
	assert_ok(store_write(store, add_row, NULL, &err));
	assert_ok(event_log_set_scanned(store, KIND_REPOSITORY, SCANNED_ALL, &err));
	assert_ok(event_log_went_back(event_log, "fedcba9876543210", &err));
	look(0, NULL);
	event_list_clear(&events);
	assert_string_equal(ends.timeline, before.timeline); /* that was another */

	assert_ok(event_log_went_back(event_log, before.timeline, &err));
	look(0, NULL);
	event_list_clear(&events);
	assert_string_not_equal(ends.timeline, before.timeline);
	assert_int_equal(scanned(), SCANNED_NOTHING);
	assert_ok(store_read(store, get_row, &row, &err));
	assert_string_not_equal(row.timeline, "0123456789abcdef");

	struct event_ends after = ends;
	assert_ok(event_log_went_back(event_log, before.timeline, &err));
	look(0, NULL);
	event_list_clear(&events);
	assert_string_equal(ends.timeline, after.timeline);

	/* A liar is not believed again and again. */
	assert_fails(event_log_went_back(event_log, after.timeline, &err), ERR_BUSY);
	look(0, NULL);
	event_list_clear(&events);
	assert_string_equal(ends.timeline, after.timeline);
}

struct reader {
	pthread_t thread;
	struct stop stop;
	uint64_t after;
	atomic_bool is_done;
	event_list events;
	int64_t took_ms;
};

static void *read_and_wait(void *arg)
{
	struct reader *reader = arg;
	struct event_question question = {
		.after = reader->after,
		.limit = 10,
		.wait_ms = 20000,
		.stop = &reader->stop,
	};
	struct event_ends own;
	struct err error;
	enum event_read how;
	int64_t begin = clock_boot_ms();

	if (event_log_read(event_log, &question, &how, &reader->events, &own, &error) !=
		    0 ||
	    how != EVENTS_READ)
		abort();
	reader->took_ms = clock_boot_ms() - begin;
	reader->is_done = true;
	return NULL;
}

static void start_reader(struct reader *reader)
{
	stop_init(&reader->stop);
	thread_start(&reader->thread, "test", read_and_wait, reader);
	poll(NULL, 0, 50);
	assert_false(reader->is_done);
}

static void end_reader(struct reader *reader)
{
	thread_join(reader->thread);
	stop_clear(&reader->stop);
	event_list_clear(&reader->events);
	assert_in_range(reader->took_ms, 0, 5000);
}

TEST(who_waits_is_woken_at_once)
{
	struct reader one = { .after = 1 }, other = { .after = 1 };

	append();
	start_reader(&one);
	start_reader(&other);
	event_log_wake(event_log, NULL); /* for nothing */
	poll(NULL, 0, 20);
	assert_false(one.is_done);
	append();
	thread_join(one.thread);
	assert_int_equal(one.events.count, 1);
	assert_int_equal(one.events.items[0].id, 2);
	event_list_clear(&one.events);
	stop_clear(&one.stop);
	end_reader(&other);
}

TEST(who_waits_is_stopped_at_once)
{
	struct reader reader = { .after = 0 };

	start_reader(&reader);
	stop_request(&reader.stop);
	end_reader(&reader);
}

TEST(who_waits_in_vain_gets_nothing)
{
	struct event_question question = { .limit = 10, .wait_ms = 30 };
	enum event_read how;
	int64_t begin = clock_boot_ms();

	assert_ok(event_log_read(event_log, &question, &how, &events, &ends, &err));
	assert_int_equal(how, EVENTS_READ);
	assert_int_equal(events.count, 0);
	assert_in_range(clock_boot_ms() - begin, 30, 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOG_CASE(an_event_comes_back_as_it_was_appended),
		LOG_CASE(the_newest_events_of_a_name_are_those_that_came_last),
		LOG_CASE(changes_between_generations_are_all_or_none),
		LOG_CASE(an_event_travels_as_the_protocol_says),
		LOG_CASE(an_event_of_a_blob_tells_its_size),
		LOG_CASE(ids_are_dense_whoever_appends),
		LOG_CASE(positions_are_proved_by_their_marks),
		LOG_CASE(
			what_was_pruned_is_gone_and_the_position_just_behind_it_still_good),
		LOG_CASE(an_emptied_log_goes_on_where_it_was),
		LOG_CASE(what_is_young_is_kept),
		LOG_CASE(the_same_database_keeps_its_timeline),
		LOG_CASE(events_that_the_node_did_not_see_any_more_are_no_sign),
		LOG_CASE(a_copy_of_the_data_directory_gets_another_timeline),
		LOG_CASE(an_older_state_in_the_same_file_gets_another_timeline),
		LOG_CASE(a_database_without_what_was_seen_of_it_comes_from_elsewhere),
		LOG_CASE(a_new_database_beside_what_was_seen_of_another_is_new),
		LOG_CASE(the_log_of_a_former_version_is_known_by_its_file),
		LOG_CASE(a_log_that_went_back_in_its_file_gets_another_timeline_once),
		LOG_CASE(who_waits_is_woken_at_once),
		LOG_CASE(who_waits_is_stopped_at_once),
		LOG_CASE(who_waits_in_vain_gets_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
