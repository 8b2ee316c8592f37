#include "test.h"

#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "store/site_value.h"

#define TIMELINE "0123456789abcdef"

static struct store *store;

static int open_store(void **state)
{
	(void)state;
	return store_open("sqlite::memory:", &store, &err);
}

static int close_store(void **state)
{
	(void)state;
	store_close(store);
	return 0;
}

#define STORE_CASE(name) cmocka_unit_test_setup_teardown(name, open_store, close_store)

static struct origin_row row_of(const char *name)
{
	struct origin_row row = {
		.id = replicable_id(KIND_REPOSITORY, name),
		.name = xstrdup(name),
		.path = xasprintf("%s.git", name),
		.timeline = TIMELINE,
		.generation = 1,
		.checksum = xstrdup("1-aa"),
		.fingerprint = xstrdup("print"),
		.is_settled = true,
		.changed_at = 1000,
		.verification = VERIFICATION_SUCCEEDED,
		.verified_at = 1000,
		.verification_due_at = 5000,
	};

	return row;
}

static int add_work(struct store_tx *tx, void *arg, struct err *error)
{
	return origin_row_add(tx, KIND_REPOSITORY, arg, error);
}

static int add(const char *name, int64_t due_at)
{
	AUTO_ORIGIN_ROW struct origin_row row = row_of(name);

	row.verification_due_at = due_at;
	return store_write(store, add_work, &row, &err);
}

struct update {
	struct origin_row *row;
	uint64_t generation;
};

static int update_work(struct store_tx *tx, void *arg, struct err *error)
{
	const struct update *update = arg;

	return origin_row_update(tx, update->row, update->generation, error);
}

static int update(struct origin_row *row, uint64_t generation)
{
	return store_write(store, update_work, &(struct update){ row, generation }, &err);
}

static int remove_work(struct store_tx *tx, void *arg, struct err *error)
{
	return origin_row_remove(tx, arg, error);
}

struct get {
	const char *name;
	struct origin_row row;
	int found;
};

static int get_work(struct store_tx *tx, void *arg, struct err *error)
{
	struct get *get = arg;

	get->found = origin_row_get(tx, KIND_REPOSITORY, get->name, &get->row, error);
	return get->found < 0 ? -1 : 0;
}

/* Zeroes if there is none; the caller clears. */
static struct origin_row get(const char *name)
{
	struct get get = { .name = name };

	assert_ok(store_read(store, get_work, &get, &err));
	return get.row;
}

static struct origin_counts counts;

static int count_work(struct store_tx *tx, void *arg, struct err *error)
{
	return origin_count(tx, arg, &counts, error);
}

static int64_t count_all(void)
{
	char kind[] = KIND_REPOSITORY;

	assert_ok(store_read(store, count_work, kind, &err));
	return counts.all;
}

TEST(a_row_comes_back_as_it_was_put_in)
{
	assert_ok(add("group/a", 5000));
	AUTO_ORIGIN_ROW struct origin_row row = get("group/a");
	assert_int_equal(row.id, replicable_id(KIND_REPOSITORY, "group/a"));
	assert_string_equal(row.path, "group/a.git");
	assert_string_equal(row.timeline, TIMELINE);
	assert_string_equal(row.checksum, "1-aa");
	assert_string_equal(row.fingerprint, "print");
	assert_true(row.is_settled);
	assert_null(row.description);
	assert_null(row.failure);
	assert_int_equal(row.verification_due_at, 5000);
	AUTO_ORIGIN_ROW struct origin_row none = get("group/b");
	assert_null(none.name);
}

TEST(a_name_is_there_once)
{
	assert_ok(add("a", 0));
	assert_fails(add("a", 0), ERR_CONFLICT);
	assert_int_equal(count_all(), 1);
}

TEST(only_the_row_that_was_compared_with_is_written)
{
	assert_ok(add("a", 0));
	AUTO_ORIGIN_ROW struct origin_row row = get("a");
	row.generation = 2;
	assert_ok(update(&row, 1));
	assert_fails(update(&row, 1), ERR_CONFLICT);
	row.timeline[0] = 'f';
	assert_fails(update(&row, 2), ERR_CONFLICT);
	AUTO_ORIGIN_ROW struct origin_row after = get("a");
	assert_int_equal(after.generation, 2);
	assert_string_equal(after.timeline, TIMELINE);
}

TEST(only_the_row_that_was_compared_with_is_removed)
{
	assert_ok(add("a", 0));
	AUTO_ORIGIN_ROW struct origin_row row = get("a");
	row.generation = 2;
	assert_fails(store_write(store, remove_work, &row, &err), ERR_CONFLICT);
	row.generation = 1;
	assert_ok(store_write(store, remove_work, &row, &err));
	assert_int_equal(count_all(), 0);
	assert_int_equal(counts.verification[VERIFICATION_SUCCEEDED], 0);
}

TEST(counts_follow_the_states)
{
	assert_ok(add("a", 0));
	assert_ok(add("b", 0));
	AUTO_ORIGIN_ROW struct origin_row row = get("a");
	row.verification = VERIFICATION_FAILED;
	assert_ok(update(&row, 1));
	assert_int_equal(count_all(), 2);
	assert_int_equal(counts.verification[VERIFICATION_SUCCEEDED], 1);
	assert_int_equal(counts.verification[VERIFICATION_FAILED], 1);
}

static int list_work(struct store_tx *tx, void *arg, struct err *error)
{
	origin_rows *rows = arg;

	return origin_rows_list(tx, KIND_REPOSITORY, "a", 2, rows, error);
}

TEST(pages_are_in_byte_order)
{
	AUTO_ORIGIN_ROWS origin_rows rows = { 0 };
	static const char *const names[] = { "\xc3\xa4", "b", "a/b", "a", "B" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_ok(add(names[i], 0));
	assert_ok(store_read(store, list_work, &rows, &err));
	assert_int_equal(rows.count, 2);
	assert_string_equal(rows.items[0].name, "a/b");
	assert_string_equal(rows.items[1].name, "b");
}

static int due_work(struct store_tx *tx, void *arg, struct err *error)
{
	return origin_rows_due(tx, KIND_REPOSITORY, 300, 10, arg, error);
}

TEST(what_waited_longest_is_due_first)
{
	AUTO_ORIGIN_ROWS origin_rows rows = { 0 };

	assert_ok(add("a", 300));
	assert_ok(add("b", 100));
	assert_ok(add("c", 301));
	assert_ok(add("never", 0));
	assert_ok(store_read(store, due_work, &rows, &err));
	assert_int_equal(rows.count, 2);
	assert_string_equal(rows.items[0].name, "b");
	assert_string_equal(rows.items[1].name, "a");
}

static int add_blob_work(struct store_tx *tx, void *arg, struct err *error)
{
	return origin_row_add(tx, "lfs", arg, error);
}

static void add_blob(const char *name, uint64_t size, int64_t verified_at, int64_t due_at)
{
	AUTO_ORIGIN_ROW struct origin_row row = row_of(name);

	row.id = replicable_id("lfs", name);
	row.size = size;
	row.verified_at = verified_at;
	row.verification_due_at = due_at;
	assert_ok(store_write(store, add_blob_work, &row, &err));
}

static int due_new_first_work(struct store_tx *tx, void *arg, struct err *error)
{
	return origin_rows_due_new_first(tx, NULL, 300, 3, arg, error);
}

static int due_of_all_work(struct store_tx *tx, void *arg, struct err *error)
{
	return origin_rows_due(tx, NULL, 300, 3, arg, error);
}

static void assert_due(store_work work, const char *expected)
{
	AUTO_ORIGIN_ROWS origin_rows rows = { 0 };
	AUTO_STR struct str text = STR_INIT;

	assert_ok(store_read(store, work, &rows, &err));
	for (size_t i = 0; i < rows.count; i++)
		str_addf(&text, "%s:%s ", rows.items[i].kind, rows.items[i].name);
	assert_string_equal(text.data, expected);
}

TEST(what_is_due_is_told_of_all_kinds_and_what_is_new_may_come_first)
{
	assert_ok(add("a", 200));
	add_blob("new", 1, 0, 250);
	add_blob("old", 1, 1000, 100);
	add_blob("older", 1, 1000, 50);
	add_blob("later", 1, 0, 301);
	assert_due(due_of_all_work, "lfs:older lfs:old repository:a ");
	assert_due(due_new_first_work, "lfs:new lfs:older lfs:old ");
}

static int heal_work(struct store_tx *tx, void *arg, struct err *error)
{
	return origin_rows_heal_due(tx, 10, 300, arg, error);
}

TEST(rows_of_all_kinds_that_are_due_too_late_are_due_now)
{
	int64_t healed = -1;

	assert_ok(add("a", 301));
	assert_ok(add("b", 300));
	add_blob("new", 1, 0, 1000);
	add_blob("old", 1, 1000, 1000);
	assert_ok(store_write(store, heal_work, &healed, &err));
	assert_int_equal(healed, 3);
	assert_due(due_new_first_work, "lfs:new lfs:old repository:a ");
}

TEST(bytes_are_counted_by_kind)
{
	char kind[] = "lfs";
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");

	assert_ok(add("a", 0));
	add_blob("a", 100, 0, 1);
	add_blob("b", 20, 0, 1);
	row.id = replicable_id("lfs", "a");
	row.size = 150;
	assert_ok(update(&row, 1));
	assert_ok(store_read(store, count_work, kind, &err));
	assert_int_equal(counts.all, 2);
	assert_int_equal(counts.bytes, 170);
	assert_ok(store_write(store, remove_work, &row, &err));
	assert_ok(store_read(store, count_work, kind, &err));
	assert_int_equal(counts.all, 1);
	assert_int_equal(counts.bytes, 20);
	assert_int_equal(count_all(), 1);
	assert_int_equal(counts.bytes, 0);
}

static int check_plan(struct store_tx *tx, const char *sql, const char *index,
		      struct err *error)
{
	AUTO_FREE char *explain = xasprintf("EXPLAIN QUERY PLAN %s", sql);
	AUTO_STR struct str plan = STR_INIT;
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx, explain, &query, error) != 0)
		return -1;
	while ((found = query_step(query, error)) > 0)
		str_addf(&plan, "%s;", query_text(query, 3));
	if (!strstr(plan.data, index) || strstr(plan.data, "TEMP B-TREE"))
		return err_set(error, ERR_INTERNAL, "%s", plan.data);
	return found;
}

static int check_plans(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	if (check_plan(tx, origin_queue_sql[ORIGIN_NEW],
		       "INDEX origin_verification_new (kind=?", error) != 0)
		return -1;
	return check_plan(tx, origin_queue_sql[ORIGIN_KNOWN],
			  "INDEX origin_verification_due (kind=?", error);
}

TEST(each_queue_is_read_by_its_own_index)
{
	assert_ok(store_read(store, check_plans, NULL, &err));
}

static int set_timeline_work(struct store_tx *tx, void *arg, struct err *error)
{
	return origin_rows_set_timeline(tx, arg, error);
}

TEST(all_rows_get_another_timeline)
{
	char timeline[] = "ffffffffffffffff";

	assert_ok(add("a", 0));
	AUTO_ORIGIN_ROW struct origin_row before = get("a");
	assert_ok(store_write(store, set_timeline_work, timeline, &err));
	AUTO_ORIGIN_ROW struct origin_row row = get("a");
	assert_string_equal(row.timeline, timeline);
	assert_fails(update(&before, 1), ERR_CONFLICT);
}

static int values_work(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_STR struct str text = STR_INIT;

	(void)arg;
	if (site_value_get(tx, "x", &text, error) != 0 ||
	    site_value_set(tx, "x", "1", error) != 0 ||
	    site_value_set(tx, "x", "2", error) != 0 ||
	    site_value_get(tx, "x", &text, error) != 1 || strcmp(text.data, "2") != 0 ||
	    site_value_remove(tx, "x", error) != 0)
		return err_set(error, ERR_INTERNAL, "not as expected");
	return site_value_get(tx, "x", &text, error);
}

TEST(a_site_value_is_what_was_set_last)
{
	assert_ok(store_write(store, values_work, NULL, &err));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_CASE(a_row_comes_back_as_it_was_put_in),
		STORE_CASE(a_name_is_there_once),
		STORE_CASE(only_the_row_that_was_compared_with_is_written),
		STORE_CASE(only_the_row_that_was_compared_with_is_removed),
		STORE_CASE(counts_follow_the_states),
		STORE_CASE(pages_are_in_byte_order),
		STORE_CASE(what_waited_longest_is_due_first),
		STORE_CASE(
			what_is_due_is_told_of_all_kinds_and_what_is_new_may_come_first),
		STORE_CASE(rows_of_all_kinds_that_are_due_too_late_are_due_now),
		STORE_CASE(bytes_are_counted_by_kind),
		STORE_CASE(each_queue_is_read_by_its_own_index),
		STORE_CASE(all_rows_get_another_timeline),
		STORE_CASE(a_site_value_is_what_was_set_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
