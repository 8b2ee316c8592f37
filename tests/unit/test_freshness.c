/*
 * Whether copies are fresh, by rows of a real database. The log cursor's words come from
 * the test; with the real one: test_freshness_cursor.
 */
#include "test.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/thread.h"
#include "pull/freshness.h"
#include "pull/pull_parts.h"
#include "replicable/name.h"

#include "registry_write.h"

#define FRESH_FOR_MS 60000

static struct store *store;
static struct pull pull;
static struct freshness *freshness;

static struct store *open_store(void)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	struct store *opened;

	assert_ok(store_open(url, &opened, &err));
	return opened;
}

#define LOG "0123456789abcdef"

/* The cursor has taken over all events up to this one. */
static void hear(uint64_t event)
{
	uint64_t request = news_asked(&pull);

	lock(&pull.mutex);
	pull.state.has_cursor = true;
	pull.state.cursor = event;
	memcpy(pull.news.timeline, LOG, TIMELINE_SIZE);
	unlock(&pull.mutex);
	news_all(&pull, request, clock_boot_ms());
}

static void end_of(const char *name, const char *timeline, uint64_t event)
{
	struct event_ends ends = { .last = event };

	memcpy(ends.timeline, timeline, TIMELINE_SIZE);
	freshness_mark_ended(freshness, name, &ends);
}

static void end_at(const char *timeline, uint64_t event)
{
	end_of("a", timeline, event);
}

static void start(void)
{
	pull = (struct pull){ 0 };
	mutex_init(&pull.mutex);
	cond_init(&pull.changed);
	freshness = freshness_new(store, &pull, FRESH_FOR_MS);
}

static void stop(void)
{
	freshness_free(TAKE(freshness));
	pthread_cond_destroy(&pull.changed);
	pthread_mutex_destroy(&pull.mutex);
}

static int send(struct store *to, const char *name, struct registry_move move)
{
	move.id = replicable_id(KIND_REPOSITORY, name);
	return registry_move(to, &move, &err);
}

static int ask(struct store *to, const char *name, uint64_t generation)
{
	return send(to, name,
		    (struct registry_move){ .event = REGISTRY_ASKED,
					    .generation = generation,
					    .timeline = "t1" });
}

static int begin(const char *name)
{
	return send(
		store, name,
		(struct registry_move){ .event = REGISTRY_BEGUN, .timeout_ms = 60000 });
}

static int bring(const char *name, uint64_t generation)
{
	return send(store, name,
		    (struct registry_move){ .event = REGISTRY_BROUGHT,
					    .generation = generation,
					    .timeline = "t1" });
}

static void sync_to(const char *name, uint64_t generation)
{
	assert_ok(registry_add(store, KIND_REPOSITORY, &name, 1, &err));
	assert_ok(ask(store, name, generation));
	assert_ok(begin(name));
	assert_ok(bring(name, generation));
}

/* The primary was heard of, and "a" is synced. */
static int set_up(void **state)
{
	if (test_make_root(state) != 0)
		return -1;
	store = open_store();
	start();
	hear(1);
	sync_to("a", 3);
	return 0;
}

static int tear_down(void **state)
{
	stop();
	store_close(store);
	return test_remove_root(state);
}

/* As who serves a reader asks: from memory, else from the database. */
static enum fresh judge(const char *name)
{
	enum fresh fresh = FRESH_KINDS;

	if (!freshness_now(freshness, name, &fresh))
		assert_ok(freshness_look(freshness, name, &fresh, &err));
	return fresh;
}

static bool is_known(const char *name)
{
	enum fresh fresh;

	return freshness_now(freshness, name, &fresh);
}

#define assert_fresh(name, expected)                                                     \
	assert_string_equal(fresh_name(judge(name)), fresh_name(expected))

TEST(a_synced_copy_is_fresh_and_soon_known_to_be)
{
	assert_false(is_known("a"));
	assert_fresh("a", FRESH);
	assert_true(is_known("a"));
	assert_fresh("a", FRESH);
}

TEST(what_has_no_row_or_was_never_brought_is_not_copied)
{
	static const char *const names[] = { "new" };

	assert_fresh("nobody", FRESH_NOT_COPIED);
	assert_false(is_known("nobody"));
	assert_ok(registry_add(store, KIND_REPOSITORY, names, 1, &err));
	assert_fresh("new", FRESH_NOT_COPIED);
	assert_ok(begin("new"));
	assert_fresh("new", FRESH_NOT_COPIED);
}

TEST(a_copy_is_behind_from_the_news_until_it_is_brought)
{
	assert_fresh("a", FRESH);
	assert_ok(ask(store, "a", 4));
	assert_fresh("a", FRESH_BEHIND);
	assert_ok(begin("a"));
	assert_fresh("a", FRESH_BEHIND);
	assert_ok(ask(store, "a", 5));
	assert_fails(bring("a", 4), ERR_CONFLICT);
	assert_fresh("a", FRESH_BEHIND);
	assert_ok(begin("a"));
	assert_ok(bring("a", 5));
	assert_fresh("a", FRESH);
}

TEST(another_timeline_with_the_same_number_is_behind)
{
	assert_fresh("a", FRESH);
	assert_ok(send(store, "a",
		       (struct registry_move){ .event = REGISTRY_ASKED,
					       .generation = 3,
					       .timeline = "t2" }));
	assert_fresh("a", FRESH_BEHIND);
}

TEST(another_checksum_of_the_same_generation_is_behind)
{
	struct registry_move proved = { .event = REGISTRY_PROVED,
					.generation = 3,
					.checksum = "1-aa" };

	assert_ok(send(store, "a", proved));
	assert_fresh("a", FRESH);
	assert_ok(send(store, "a",
		       (struct registry_move){ .event = REGISTRY_ASKED,
					       .generation = 3,
					       .timeline = "t1",
					       .checksum = "1-bb" }));
	assert_fresh("a", FRESH_BEHIND);
}

TEST(a_verification_changes_nothing_unless_it_fails)
{
	const struct err broken = { .class = ERR_CORRUPT, .text = "other refs" };

	assert_ok(send(store, "a",
		       (struct registry_move){ .event = REGISTRY_CHECKING,
					       .timeout_ms = 60000 }));
	assert_fresh("a", FRESH);
	assert_ok(send(store, "a",
		       (struct registry_move){ .event = REGISTRY_DISPROVED,
					       .generation = 3,
					       .err = &broken }));
	assert_fresh("a", FRESH_BEHIND);
	assert_ok(begin("a")); /* the generation is the wanted one, and yet */
	assert_fresh("a", FRESH_BEHIND);
}

TEST(a_failed_sync_is_behind_a_held_one_held_a_deleted_one_gone)
{
	const struct err broken = { .class = ERR_NETWORK, .text = "it broke" };

	assert_ok(ask(store, "a", 4));
	assert_ok(begin("a"));
	assert_ok(
		send(store, "a",
		     (struct registry_move){ .event = REGISTRY_ERRED, .err = &broken }));
	assert_fresh("a", FRESH_BEHIND);
	assert_ok(begin("a"));
	assert_ok(send(store, "a",
		       (struct registry_move){ .event = REGISTRY_HELD,
					       .held_reason = "too many" }));
	assert_fresh("a", FRESH_HELD);
	assert_ok(send(store, "a", (struct registry_move){ .event = REGISTRY_GONE }));
	assert_fresh("a", FRESH_GONE);
}

TEST(what_a_person_asks_for_is_not_served_until_it_was_looked_at)
{
	assert_fresh("a", FRESH);
	assert_ok(send(store, "a",
		       (struct registry_move){ .event = REGISTRY_ASKED,
					       .wishes = REGISTRY_WISH_RECHECK }));
	assert_fresh("a", FRESH_BEHIND);
}

TEST(any_write_makes_unknown_what_was_known)
{
	assert_fresh("a", FRESH);
	sync_to("b", 1);
	assert_false(is_known("a"));
	assert_fresh("a", FRESH);
	assert_true(is_known("a"));
}

TEST(a_write_through_another_connection_is_seen_at_once)
{
	struct store *other = open_store();

	assert_fresh("a", FRESH);
	for (uint64_t generation = 4; generation < 54; generation++) {
		assert_ok(ask(other, "a", generation));
		assert_false(is_known("a"));
		assert_fresh("a", FRESH_BEHIND);
		assert_true(is_known("a"));
	}
	store_close(other);
	assert_fresh("a", FRESH_BEHIND);
}

/* Asks for one generation more each time it is told to, and tells when it is done. */
static int ask_as_told(int reported, int done)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	struct store *own;
	uint64_t generation = 4;
	char byte;

	if (store_open(url, &own, &err) != 0)
		return 1;
	while (read(reported, &byte, 1) == 1)
		if (ask(own, "a", generation++) != 0 || write(done, &byte, 1) != 1)
			return 1;
	store_close(own);
	return 0;
}

/* Forked while no store is open: SQLite's locks and threads must not be inherited. */
TEST(a_write_of_another_process_is_seen_at_once)
{
	int reported[2], done[2], status;
	pid_t pid;
	char byte = 0;

	stop();
	store_close(store);
	assert_int_equal(pipe(reported) | pipe(done), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(reported[1]);
		_exit(ask_as_told(reported[0], done[1]));
	}
	store = open_store();
	start();
	hear(1);
	assert_fresh("a", FRESH);
	for (int i = 0; i < 50; i++) {
		assert_true(is_known("a"));
		assert_int_equal(write(reported[1], &byte, 1), 1);
		assert_int_equal(read(done[0], &byte, 1), 1);
		assert_false(is_known("a"));
		assert_fresh("a", FRESH_BEHIND);
	}
	close(reported[0]);
	close(reported[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(done[0]);
	close(done[1]);
	assert_true(is_known("a")); /* its end was no write */
}

/* A long read keeps the log from beginning anew; without, it does in these writes. */
TEST(a_log_that_begins_anew_hides_no_write)
{
	for (uint64_t i = 0; i < 300; i++) {
		assert_ok(ask(store, "a", 4 + i));
		assert_false(is_known("a"));
		assert_fresh("a", FRESH_BEHIND);
	}
}

TEST(a_store_in_memory_has_stamps_too)
{
	struct store *memory;
	struct store_stamp before, after;

	assert_ok(store_open("sqlite::memory:", &memory, &err));
	assert_true(store_stamp(memory, &before));
	assert_true(store_stamp(memory, &after));
	assert_true(store_stamp_equal(&before, &after));
	assert_ok(
		registry_add(memory, KIND_REPOSITORY, (const char *[]){ "a" }, 1, &err));
	assert_true(store_stamp(memory, &after));
	assert_false(store_stamp_equal(&before, &after));
	store_close(memory);
}

TEST(the_cursor_waits_half_as_long_but_never_too_long)
{
	freshness_set(freshness, 2000);
	assert_int_equal(news_wait_s(&pull), 1);
	freshness_set(freshness, 60000);
	assert_int_equal(news_wait_s(&pull), 10);
	freshness_set(freshness, INT64_MAX);
	assert_int_equal(news_wait_s(&pull), 10);
}

TEST(nothing_is_fresh_before_the_primary_was_heard_of)
{
	stop();
	start();
	assert_fresh("a", FRESH_NOT_HEARD);
	assert_true(is_known("a"));
	hear(1);
	assert_true(is_known("a"));
	assert_fresh("a", FRESH);
	news_none(&pull, NEWS_LOST);
	assert_fresh("a", FRESH_NOT_HEARD);
}

TEST(a_silent_primary_makes_what_was_fresh_not_heard_and_nothing_else)
{
	assert_ok(registry_add(store, KIND_REPOSITORY, (const char *[]){ "b" }, 1, &err));
	news_all(&pull, news_asked(&pull), clock_boot_ms() - FRESH_FOR_MS - 1);
	assert_fresh("a", FRESH_NOT_HEARD);
	assert_fresh("b", FRESH_NOT_COPIED);
	freshness_set(freshness, FRESH_FOR_MS + 60000);
	assert_fresh("a", FRESH);
}

TEST(a_push_makes_behind_until_its_event_was_taken_over)
{
	assert_fresh("a", FRESH);
	freshness_mark_began(freshness, "a");
	assert_true(is_known("a"));
	assert_fresh("a", FRESH_PUSHED);
	hear(7); /* while it is under way nothing ends it */
	assert_fresh("a", FRESH_PUSHED);
	end_at(LOG, 9);
	assert_fresh("a", FRESH_PUSHED);
	lock(&pull.mutex);
	pull.state.cursor = 8;
	unlock(&pull.mutex);
	assert_fresh("a", FRESH_PUSHED);
	assert_ok(ask(store, "a", 4));
	lock(&pull.mutex);
	pull.state.cursor = 9;
	unlock(&pull.mutex);
	assert_fresh("a", FRESH_BEHIND);
	assert_ok(begin("a"));
	assert_ok(bring("a", 4));
	assert_fresh("a", FRESH);
}

TEST(a_push_without_a_number_waits_for_an_answer_asked_for_after_it)
{
	freshness_mark_began(freshness, "a");
	uint64_t before = news_asked(&pull);
	freshness_mark_ended(freshness, "a", NULL);
	news_all(&pull, before, clock_boot_ms());
	assert_fresh("a", FRESH_PUSHED);
	news_all(&pull, news_asked(&pull), clock_boot_ms());
	assert_fresh("a", FRESH);
}

TEST(a_number_of_a_log_that_is_no_more_is_not_waited_for)
{
	freshness_mark_began(freshness, "a");
	end_at(LOG, 1000);
	lock(&pull.mutex);
	pull.state.has_cursor = false;
	pull.state.cursor = 2000;
	unlock(&pull.mutex);
	news_none(&pull, NEWS_LOST);
	assert_fresh("a", FRESH_PUSHED); /* that is no position */
	hear(5);
	assert_fresh("a", FRESH);
}

TEST(a_number_of_another_log_says_nothing)
{
	hear(9);
	freshness_mark_began(freshness, "a");
	end_at("fedcba9876543210", 4);
	assert_fresh("a", FRESH_PUSHED);
	hear(9);
	assert_fresh("a", FRESH);
}

TEST(of_pushes_that_overlap_the_last_to_end_and_the_greatest_number_count)
{
	freshness_mark_began(freshness, "a");
	freshness_mark_began(freshness, "a");
	end_at(LOG, 20);
	hear(20);
	assert_fresh("a", FRESH_PUSHED);
	end_at(LOG, 19);
	assert_fresh("a", FRESH);

	freshness_mark_began(freshness, "a");
	freshness_mark_began(freshness, "a");
	freshness_mark_ended(freshness, "a", NULL);
	end_at(LOG, 19);
	assert_fresh("a", FRESH_PUSHED);
	hear(20);
	assert_fresh("a", FRESH);
}

TEST(a_push_that_was_refused_leaves_no_trace_but_that_of_others)
{
	freshness_mark_began(freshness, "a");
	freshness_mark_dropped(freshness, "a");
	assert_fresh("a", FRESH);
	freshness_mark_began(freshness, "a");
	freshness_mark_began(freshness, "a");
	end_at(LOG, 5);
	freshness_mark_dropped(freshness, "a");
	assert_fresh("a", FRESH_PUSHED);
	hear(5);
	assert_fresh("a", FRESH);
}

#define FLOOD 5000

static void each_of_flood(void (*what)(const char *name))
{
	for (int i = 0; i < FLOOD; i++) {
		AUTO_FREE char *name = xasprintf("flood/%d", i);
		what(name);
	}
}

static void push_begins(const char *name)
{
	freshness_mark_began(freshness, name);
}

static void push_ends(const char *name)
{
	end_of(name, LOG, 9);
}

/* More than there is place for: then rather too many are asked of the primary. */
TEST(a_flood_of_pushes_loses_none)
{
	each_of_flood(push_begins);
	assert_fresh("flood/0", FRESH_PUSHED);
	assert_fresh("flood/4999", FRESH_PUSHED);
	assert_fresh("a", FRESH_PUSHED);
	each_of_flood(push_ends);
	assert_fresh("a", FRESH_PUSHED);
	assert_fresh("flood/4999", FRESH_PUSHED);
	hear(9);
	assert_fresh("a", FRESH);
	assert_fresh("flood/0", FRESH_NOT_COPIED);
	assert_fresh("flood/4999", FRESH_NOT_COPIED);
	freshness_mark_began(freshness, "flood/5000"); /* there is place again */
	assert_fresh("a", FRESH);
	freshness_mark_dropped(freshness, "flood/5000");
}

static int count_work(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;
	int64_t *count = arg;

	if (query_open(tx, "SELECT COUNT(*) FROM passed_push", &query, error) != 0 ||
	    query_step(query, error) < 0)
		return -1;
	*count = query_int(query, 0);
	return 0;
}

static int64_t kept(void)
{
	int64_t count = -1;

	assert_ok(store_read(store, count_work, &count, &err));
	return count;
}

#define eventually_kept(expected)                                                        \
	do {                                                                             \
		int64_t until_ = clock_boot_ms() + 10000;                                \
		while (kept() != (expected) && clock_boot_ms() < until_)                 \
			usleep(1000);                                                    \
		assert_int_equal(kept(), expected);                                      \
	} while (0)

/* As after a crash: nothing is left but the database. */
static void start_again(void)
{
	stop();
	start();
}

TEST(a_push_outlives_the_process_until_the_first_answer)
{
	assert_ok(freshness_push_began(freshness, "a", &err));
	assert_int_equal(kept(), 1);
	start_again();
	assert_fresh("a", FRESH_PUSHED);
	assert_true(is_known("a"));
	start_again(); /* and once more */
	assert_fresh("a", FRESH_PUSHED);
	assert_fresh("b", FRESH_NOT_COPIED);
	hear(2);
	assert_fresh("a", FRESH);
	eventually_kept(0);
	start_again();
	assert_fresh("a", FRESH_NOT_HEARD);
}

TEST(a_push_that_has_ended_is_kept_until_the_copy_is_known_to_be_behind)
{
	assert_ok(freshness_push_began(freshness, "a", &err));
	end_at(LOG, 9);
	start_again();
	assert_fresh("a", FRESH_PUSHED);
	assert_ok(freshness_push_began(freshness, "a", &err));
	end_at(LOG, 9);
	assert_ok(ask(store, "a", 4));
	hear(9);
	eventually_kept(0);
	start_again();
	assert_fresh("a", FRESH_BEHIND);
}

TEST(what_is_over_at_its_end_or_changed_nothing_is_not_kept)
{
	hear(9);
	assert_ok(freshness_push_began(freshness, "a", &err));
	end_at(LOG, 9);
	assert_ok(freshness_push_began(freshness, "nobody", &err));
	freshness_mark_dropped(freshness, "nobody");
	eventually_kept(0);
	start_again();
	assert_fresh("a", FRESH_NOT_HEARD);
}

TEST(a_row_stays_until_the_last_push_of_its_name_is_over)
{
	assert_ok(freshness_push_began(freshness, "a", &err));
	assert_ok(freshness_push_began(freshness, "a", &err));
	assert_ok(freshness_push_began(freshness, "b", &err));
	assert_int_equal(kept(), 2);
	freshness_mark_dropped(freshness, "a");
	freshness_mark_dropped(freshness, "b");
	eventually_kept(1);
	hear(5);
	freshness_mark_began(freshness, "b"); /* a read */
	freshness_mark_dropped(freshness, "b");
	assert_ok(freshness_push_began(freshness, "b", &err));
	freshness_mark_dropped(freshness, "b");
	eventually_kept(1);
	end_at(LOG, 5);
	eventually_kept(0);
}

TEST(a_read_that_is_forwarded_writes_nothing)
{
	assert_fresh("a", FRESH);
	freshness_mark_began(freshness, "a");
	end_at(LOG, 1);
	assert_true(is_known("a"));
	assert_fresh("a", FRESH);
	assert_true(is_known("a")); /* the stamp is the same */
	assert_int_equal(kept(), 0);
}

/* While rows are being removed all the time. */
TEST(no_row_of_a_push_that_begins_is_taken_away)
{
	for (uint64_t i = 0; i < 200; i++) {
		assert_ok(freshness_push_began(freshness, "a", &err));
		assert_int_equal(kept(), 1);
		news_turn(&pull);
		freshness_mark_dropped(freshness, "a");
	}
	eventually_kept(0);
}

static int drop_work(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx, "DROP TABLE passed_push", error);
}

TEST(a_push_that_cannot_be_noted_is_not_begun_and_unread_rows_are_of_any_name)
{
	assert_ok(store_write(store, drop_work, NULL, &err));
	assert_fails(freshness_push_began(freshness, "a", &err), ERR_INTERNAL);
	assert_fresh("a", FRESH);
	start_again();
	assert_fresh("a", FRESH_PUSHED);
	hear(1);
	assert_fresh("a", FRESH);
}

static atomic_bool is_over;
static atomic_uint_fast64_t not_here; /* a generation that may not be overlooked */
static atomic_uint stale, judged;

static void *read_on(void *arg)
{
	(void)arg;
	while (!is_over) {
		uint64_t before = not_here;
		enum fresh fresh = judge("a");
		if (before != 0 && before == not_here && fresh == FRESH)
			stale++;
		judged++;
	}
	return NULL;
}

/* Known by its row, or first of all by a push through this site. */
static void change_a(uint64_t generation)
{
	bool is_pushed = generation % 2;

	if (is_pushed) {
		freshness_mark_began(freshness, "a");
		end_at(LOG, generation);
		not_here = generation;
	}
	assert_ok(ask(store, "a", generation));
	not_here = generation;
	hear(generation);
	assert_ok(begin("a"));
	not_here = 0;
	assert_ok(bring("a", generation));
}

TEST(readers_see_no_copy_fresh_that_was_behind_before_they_asked)
{
	pthread_t readers[3];

	is_over = false;
	stale = judged = 0;
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		thread_start(&readers[i], "test-read", read_on, NULL);
	for (uint64_t generation = 4; generation < 104; generation++)
		change_a(generation);
	is_over = true;
	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		thread_join(readers[i]);
	assert_true(judged > 0);
	assert_int_equal(stale, 0);
	assert_fresh("a", FRESH);
}

#define FRESH_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FRESH_CASE(a_synced_copy_is_fresh_and_soon_known_to_be),
		FRESH_CASE(what_has_no_row_or_was_never_brought_is_not_copied),
		FRESH_CASE(a_copy_is_behind_from_the_news_until_it_is_brought),
		FRESH_CASE(another_timeline_with_the_same_number_is_behind),
		FRESH_CASE(another_checksum_of_the_same_generation_is_behind),
		FRESH_CASE(a_verification_changes_nothing_unless_it_fails),
		FRESH_CASE(a_failed_sync_is_behind_a_held_one_held_a_deleted_one_gone),
		FRESH_CASE(what_a_person_asks_for_is_not_served_until_it_was_looked_at),
		FRESH_CASE(any_write_makes_unknown_what_was_known),
		FRESH_CASE(a_write_through_another_connection_is_seen_at_once),
		FRESH_CASE(a_write_of_another_process_is_seen_at_once),
		FRESH_CASE(a_log_that_begins_anew_hides_no_write),
		FRESH_CASE(a_store_in_memory_has_stamps_too),
		FRESH_CASE(the_cursor_waits_half_as_long_but_never_too_long),
		FRESH_CASE(nothing_is_fresh_before_the_primary_was_heard_of),
		FRESH_CASE(
			a_silent_primary_makes_what_was_fresh_not_heard_and_nothing_else),
		FRESH_CASE(a_push_makes_behind_until_its_event_was_taken_over),
		FRESH_CASE(
			a_push_without_a_number_waits_for_an_answer_asked_for_after_it),
		FRESH_CASE(a_number_of_a_log_that_is_no_more_is_not_waited_for),
		FRESH_CASE(a_number_of_another_log_says_nothing),
		FRESH_CASE(
			of_pushes_that_overlap_the_last_to_end_and_the_greatest_number_count),
		FRESH_CASE(a_push_that_was_refused_leaves_no_trace_but_that_of_others),
		FRESH_CASE(a_flood_of_pushes_loses_none),
		FRESH_CASE(a_push_outlives_the_process_until_the_first_answer),
		FRESH_CASE(
			a_push_that_has_ended_is_kept_until_the_copy_is_known_to_be_behind),
		FRESH_CASE(what_is_over_at_its_end_or_changed_nothing_is_not_kept),
		FRESH_CASE(a_row_stays_until_the_last_push_of_its_name_is_over),
		FRESH_CASE(a_read_that_is_forwarded_writes_nothing),
		FRESH_CASE(no_row_of_a_push_that_begins_is_taken_away),
		FRESH_CASE(
			a_push_that_cannot_be_noted_is_not_begun_and_unread_rows_are_of_any_name),
		FRESH_CASE(readers_see_no_copy_fresh_that_was_behind_before_they_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
