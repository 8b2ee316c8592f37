/*
 * What a data directory that was used in another role before must go through.
 */
#include "test.h"

#include "base/clock.h"
#include "base/log.h"
#include "change/event_log.h"
#include "node/role.h"
#include "pull/followed.h"
#include "pull/pull.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "store/site_value.h"

#include "registry_write.h"

static struct store *store;

static int set_up(void **state)
{
	struct event_log *event_log;

	if (test_make_root(state) != 0)
		return -1;
	log_set_level(LOG_LEVEL_NONE);
	AUTO_FREE char *url = xasprintf("sqlite:%s/db", root);
	assert_ok(store_open(url, &store, &err));
	assert_ok(event_log_open(store, root, &event_log, &err));
	event_log_close(event_log);
	return 0;
}

static int tear_down(void **state)
{
	store_close(store);
	return test_remove_root(state);
}

static void begin(enum site_role role)
{
	assert_ok(role_begin(store, role, &err));
}

static bool is_on_timeline_of(const struct event_ends *before)
{
	struct event_ends now;

	assert_ok(event_log_look(store, &now, &err));
	return strcmp(now.timeline, before->timeline) == 0;
}

static bool has_cursor(void)
{
	AUTO_STR struct str text = STR_INIT;
	int found = site_value_read(store, PULL_CURSOR, &text, &err);

	assert_true(found >= 0);
	return found > 0;
}

TEST(a_primary_that_was_none_meanwhile_begins_another_log)
{
	static const enum site_role ways[][2] = { { SITE_SECONDARY, SITE_SECONDARY },
						  { SITE_STANDALONE, SITE_STANDALONE },
						  { SITE_SECONDARY, SITE_STANDALONE } };
	struct event_ends before;

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		begin(SITE_PRIMARY);
		assert_ok(event_log_look(store, &before, &err));
		begin(SITE_PRIMARY);
		assert_true(is_on_timeline_of(&before));
		begin(ways[i][0]);
		begin(ways[i][1]);
		assert_true(is_on_timeline_of(&before));
		begin(SITE_PRIMARY);
		assert_false(is_on_timeline_of(&before));
	}
}

TEST(a_secondary_that_was_none_meanwhile_forgets_its_position)
{
	static const enum site_role ways[][2] = { { SITE_PRIMARY, SITE_PRIMARY },
						  { SITE_STANDALONE, SITE_STANDALONE },
						  { SITE_PRIMARY, SITE_STANDALONE } };

	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		begin(SITE_SECONDARY);
		assert_ok(site_value_write(store, PULL_CURSOR, "1 a b", &err));
		begin(SITE_SECONDARY);
		begin(ways[i][0]);
		begin(ways[i][1]);
		assert_true(has_cursor());
		begin(SITE_SECONDARY);
		assert_false(has_cursor());
	}
}

/* What it lacks may be what this site had as the primary. */
TEST(whom_a_former_primary_follows_is_another_one)
{
	const char *const names[] = { "a" };

	begin(SITE_SECONDARY);
	assert_ok(registry_add(store, KIND_REPOSITORY, names, 1, &err));
	assert_ok(followed_keep(store, KIND_REPOSITORY, "t2", false, &err));
	begin(SITE_PRIMARY);
	begin(SITE_SECONDARY);
	assert_int_equal(followed_was_another(store, KIND_REPOSITORY, "t2", &err), 1);
	assert_ok(followed_keep(store, KIND_REPOSITORY, "t2", false, &err));
	assert_int_equal(followed_was_another(store, KIND_REPOSITORY, "t2", &err), 0);
}

static int delete_row(struct store_tx *tx, void *arg, struct err *error)
{
	const char *kind = arg;
	const struct registry_move gone = { .id = replicable_id(kind, "a"),
					    .event = REGISTRY_GONE };

	return registry_move_in(tx, &gone, error) < 0 ? -1 : 0;
}

static bool is_to_be_deleted(const char *kind)
{
	struct registry_counts counted;

	assert_ok(registry_counts(store, kind, &counted, &err));
	assert_int_equal(counted.all, 1 + counted.gone);
	return counted.gone > 0;
}

/* By the time it is a secondary again, they have been originals, and may have changed.
 * What is a mirror was this site's own decision. */
TEST(a_former_primary_carries_out_no_deletions_of_before)
{
	char kinds[][16] = { KIND_REPOSITORY, "uploads", KIND_MIRROR };
	const char *const names[] = { "a", "b" };

	begin(SITE_SECONDARY);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		assert_ok(registry_add(store, kinds[i], names, 2, &err));
		assert_ok(store_write(store, delete_row, kinds[i], &err));
	}
	begin(SITE_SECONDARY);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		assert_true(is_to_be_deleted(kinds[i]));
	begin(SITE_PRIMARY);
	begin(SITE_SECONDARY);
	assert_false(is_to_be_deleted(KIND_REPOSITORY) || is_to_be_deleted("uploads"));
	assert_true(is_to_be_deleted(KIND_MIRROR));
}

static const char *kind_here; /* of the originals */

static int add_original(struct store_tx *tx, void *arg, struct err *error)
{
	char *name = arg;
	const struct origin_row added = { .id = replicable_id(kind_here, name),
					  .name = name,
					  .path = name,
					  .timeline = "1111111111111111",
					  .generation = 1,
					  .changed_at = 1,
					  .verification = VERIFICATION_SUCCEEDED,
					  .verified_at = 2,
					  .verification_due_at = INT64_MAX };

	return origin_row_add(tx, kind_here, &added, error);
}

static int prove_rows(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(
		tx,
		"UPDATE registry SET state = 2, proved = 1 WHERE name = 'proved';"
		"UPDATE registry SET state = 3, verification_state = 3, last_attempt_at ="
		" 2 WHERE name = 'damaged';"
		"UPDATE registry SET state = 3, verification_state = 3, last_attempt_at ="
		" 1 WHERE name = 'former'",
		error);
}

static struct origin_row row;
static struct registry_counts counts;

static int read_original(struct store_tx *tx, void *arg, struct err *error)
{
	if (origin_row_get(tx, kind_here, arg, &row, error) < 0)
		return -1;
	return origin_count(tx, kind_here, &counts, error);
}

/* ... and then it is due. */
static bool is_pending(const char *name)
{
	AUTO_FREE char *copy = xstrdup(name);
	bool is_due;

	assert_ok(store_read(store, read_original, copy, &err));
	is_due = row.verification_due_at <= clock_wall_ms();
	assert_int_equal(row.verification,
			 is_due ? VERIFICATION_PENDING : VERIFICATION_SUCCEEDED);
	origin_row_clear(&row);
	return is_due;
}

static void add_copies_and_originals(const char *kind)
{
	const char *const copies[] = { "proved", "damaged", "former" };
	char names[][8] = { "proved", "damaged", "never", "former" };

	kind_here = kind;
	assert_ok(registry_add(store, kind, copies, ARRAY_SIZE(copies), &err));
	assert_ok(store_write(store, prove_rows, NULL, &err));
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_ok(store_write(store, add_original, names[i], &err));
}

/* A secondary that pushes knows its repositories before it is a primary; one that was the
 * primary before knows its blobs, too. */
TEST(what_was_not_proved_as_a_copy_is_not_verified_by_a_promotion)
{
	static const char *const kinds[] = { KIND_REPOSITORY, "uploads" };

	begin(SITE_SECONDARY);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		add_copies_and_originals(kinds[i]);
	begin(SITE_PRIMARY);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		kind_here = kinds[i];
		assert_true(is_pending("damaged"));
		assert_false(is_pending("proved") || is_pending("never"));
		/* read as an original since the site was that secondary */
		assert_int_equal(is_pending("former"), i == 0);
		assert_int_equal(counts.verification[VERIFICATION_PENDING], 2 - i);
		assert_int_equal(counts.verification[VERIFICATION_SUCCEEDED], 2 + i);
	}
}

#define ROLE_CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ROLE_CASE(a_primary_that_was_none_meanwhile_begins_another_log),
		ROLE_CASE(a_secondary_that_was_none_meanwhile_forgets_its_position),
		ROLE_CASE(whom_a_former_primary_follows_is_another_one),
		ROLE_CASE(a_former_primary_carries_out_no_deletions_of_before),
		ROLE_CASE(what_was_not_proved_as_a_copy_is_not_verified_by_a_promotion),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
