#include "test.h"

#include "base/clock.h"
#include "base/log.h"
#include "pull/log_cursor.h"
#include "replicable/name.h"

#define T1 "1111111111111111"
#define T2 "2222222222222222"
#define T3 "3333333333333333"
#define SUM "0000000000000000000000000000000000000000000000000000000000000001"

static struct store *store;
static struct pull pull;
static const struct blob_kind files = { .type = (char[]){ "files" },
					.path = (char[]){ "/files" } };
static struct kinds_here kinds;
static event_list events;

static int set_up(void **state)
{
	(void)state;
	log_set_level(LOG_LEVEL_NONE);
	blob_kinds_add(&kinds.blobs, &files);
	kinds_fill(&kinds, root);
	pull = (struct pull){ .options = { .here = &kinds } };
	mutex_init(&pull.mutex);
	cond_init(&pull.changed);
	assert_ok(store_open("sqlite::memory:", &store, &err));
	pull.options.store = store;
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	event_list_clear(&events);
	kinds_clear(&kinds);
	map_clear(&pull.unknown_kinds);
	pthread_cond_destroy(&pull.changed);
	pthread_mutex_destroy(&pull.mutex);
	store_close(store);
	return 0;
}

static void add(const char *kind, const char *name, enum event_what what,
		uint64_t generation)
{
	struct event event = { .id = events.count + 1,
			       .at = clock_wall_ms(),
			       .kind = xstrdup(kind),
			       .name = xstrdup(name),
			       .what = what,
			       .timeline = T1,
			       .generation = generation,
			       .size = 7,
			       .checksum =
				       what == EVENT_CHECKSUMMED ? xstrdup(SUM) : NULL };

	vec_add(&events, event);
}

static void add_deletion(const char *timeline)
{
	add("files", "a", EVENT_DELETED, 1);
	struct event *event = &events.items[events.count - 1];
	memcpy(event->timeline, timeline, sizeof(event->timeline));
}

static bool has_doubtful; /* of the last answer */

/* As one answer of the primary. */
static void take(void)
{
	folded_events folded = { 0 };
	const struct pull_cursor to = { .id = events.count, .timeline = T1 };
	struct events_taking taking = { .folded = &folded, .to = &to, .pull = &pull };

	fold_events(&events, &folded);
	assert_ok(events_judge(&pull, &folded, &err));
	assert_ok(store_write(store, events_take, &taking, &err));
	has_doubtful = taking.has_doubtful;
	vec_clear(&folded);
	event_list_clear(&events);
}

static struct registry_row row_of(const char *kind, const char *name)
{
	struct registry_row row;

	if (registry_get(store, kind, name, &row, &err) != 0)
		row = (struct registry_row){ .state = REGISTRY_STATES };
	return row;
}

static void finish(const char *name, uint64_t generation)
{
	struct registry_move move = { .id = replicable_id("files", name),
				      .event = REGISTRY_BEGUN,
				      .timeout_ms = 1000 };

	assert_ok(registry_move(store, &move, &err));
	move.event = REGISTRY_BROUGHT;
	move.generation = generation;
	move.timeline = T1;
	assert_ok(registry_move(store, &move, &err));
}

TEST(only_configured_kinds_and_good_names_become_rows)
{
	add("files", "a", EVENT_CREATED, 1);
	add("uploads", "a", EVENT_CREATED, 1);
	add("files", "../a", EVENT_CREATED, 1);
	add("files", ".refrelay/x", EVENT_CREATED, 1);
	add("repository", "a", EVENT_CREATED, 1);
	take();
	AUTO_REGISTRY_ROW struct registry_row file = row_of("files", "a");
	AUTO_REGISTRY_ROW struct registry_row repository = row_of("repository", "a");
	assert_int_equal(file.state, REGISTRY_PENDING);
	assert_int_equal(file.size, 7);
	assert_int_equal(repository.state, REGISTRY_PENDING);
	assert_int_equal(row_of("uploads", "a").state, REGISTRY_STATES);
	assert_int_equal(row_of("files", "../a").state, REGISTRY_STATES);
	assert_int_equal(row_of("files", ".refrelay/x").state, REGISTRY_STATES);
}

/* The comparison that counts them comes later, and takes its time. */
TEST(a_site_knows_at_once_that_an_event_was_left_out)
{
	struct scan_record skipped;

	add("files", "a", EVENT_CREATED, 1);
	take();
	assert_ok(pull_skipped_read(store, "files", &skipped, &err));
	assert_int_equal(skipped.left_out, 0);
	uint64_t asked = pull.asked;
	add("files", "../a", EVENT_CREATED, 1);
	take();
	assert_ok(pull_skipped_read(store, "files", &skipped, &err));
	assert_int_equal(skipped.left_out, 1);
	assert_true(pull.asked > asked);
	assert_ok(pull_skipped_read(store, "repository", &skipped, &err));
	assert_int_equal(skipped.left_out, 0);
}

TEST(a_checksum_alone_lets_verify_what_is_here_and_brings_nothing)
{
	add("files", "a", EVENT_CREATED, 1);
	take();
	finish("a", 1);
	add("files", "a", EVENT_CHECKSUMMED, 1);
	take();
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "a");
	assert_int_equal(row.state, REGISTRY_SYNCED);
	assert_int_equal(row.verification, VERIFICATION_PENDING);
	assert_string_equal(row.primary_checksum, SUM);
}

/* Its first event may be no longer kept. */
TEST(a_checksum_of_what_is_not_known_here_is_a_change)
{
	add("files", "new", EVENT_CHECKSUMMED, 1);
	add("files", "a", EVENT_CREATED, 1);
	take();
	finish("a", 1);
	add("files", "a", EVENT_CHECKSUMMED, 4);
	take();
	AUTO_REGISTRY_ROW struct registry_row new = row_of("files", "new");
	AUTO_REGISTRY_ROW struct registry_row old = row_of("files", "a");
	assert_int_equal(new.state, REGISTRY_PENDING);
	assert_string_equal(new.primary_checksum, SUM);
	assert_int_equal(old.state, REGISTRY_PENDING);
	assert_int_equal(old.generation_wanted, 4);
}

TEST(a_deletion_is_of_its_kind_only)
{
	add("files", "a", EVENT_CREATED, 1);
	add("repository", "a", EVENT_CREATED, 1);
	take();
	add("files", "a", EVENT_DELETED, 1);
	take();
	AUTO_REGISTRY_ROW struct registry_row file = row_of("files", "a");
	AUTO_REGISTRY_ROW struct registry_row repository = row_of("repository", "a");
	assert_true(file.is_gone);
	assert_false(repository.is_gone);
}

static bool is_gone_now(void)
{
	AUTO_REGISTRY_ROW struct registry_row row = row_of("files", "a");

	return row.is_gone;
}

TEST(what_was_deleted_created_and_deleted_again_in_one_answer_is_gone)
{
	add("files", "a", EVENT_CREATED, 1);
	take();
	add_deletion(T1);
	add_deletion(T2); /* its creation is between */
	take();
	assert_true(is_gone_now());
	assert_false(has_doubtful);
}

TEST(a_deletion_of_another_than_is_known_here_is_left_to_a_comparison)
{
	add("files", "a", EVENT_CREATED, 1);
	take();
	add_deletion(T2);
	add_deletion(T3);
	take();
	assert_false(is_gone_now());
	assert_true(has_doubtful);
	add_deletion(T1);
	take();
	assert_true(is_gone_now());
	assert_false(has_doubtful);
	add_deletion(T2);
	take();
	assert_false(has_doubtful);
}

#define TAKE_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TAKE_CASE(only_configured_kinds_and_good_names_become_rows),
		TAKE_CASE(a_site_knows_at_once_that_an_event_was_left_out),
		TAKE_CASE(a_checksum_alone_lets_verify_what_is_here_and_brings_nothing),
		TAKE_CASE(a_checksum_of_what_is_not_known_here_is_a_change),
		TAKE_CASE(a_deletion_is_of_its_kind_only),
		TAKE_CASE(
			what_was_deleted_created_and_deleted_again_in_one_answer_is_gone),
		TAKE_CASE(
			a_deletion_of_another_than_is_known_here_is_left_to_a_comparison),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
