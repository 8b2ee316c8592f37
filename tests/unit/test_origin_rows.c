#include "test.h"

#include "base/clock.h"
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

static struct registry_counts counts;

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

TEST(pages_are_in_byte_order)
{
	AUTO_ORIGIN_ROWS origin_rows rows = { 0 };
	static const char *const names[] = { "\xc3\xa4", "b", "a/b", "a", "B" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_ok(add(names[i], 0));
	assert_ok(origin_rows_read_page(store, KIND_REPOSITORY, "a", 2, &rows, &err));
	assert_int_equal(rows.count, 2);
	assert_string_equal(rows.items[0].name, "a/b");
	assert_string_equal(rows.items[1].name, "b");
}

struct looking {
	struct origin_filter filter;
	origin_rows rows;
};

static int find_work(struct store_tx *tx, void *arg, struct err *error)
{
	struct looking *looking = arg;

	return origin_rows_find(tx, &looking->filter, &looking->rows, error);
}

/* Names that were found, each with a blank behind it. */
static const char *found(const char *search, bool is_failing_only, const char *after)
{
	static struct str names = STR_INIT;
	struct looking looking = { .filter = { .kind = KIND_REPOSITORY,
					       .after = after,
					       .limit = 3,
					       .search = search,
					       .is_failing_only = is_failing_only } };

	assert_ok(store_read(store, find_work, &looking, &err));
	str_reset(&names);
	for (size_t i = 0; i < looking.rows.count; i++)
		str_addf(&names, "%s ", looking.rows.items[i].name);
	origin_rows_clear(&looking.rows);
	return names.data;
}

TEST(names_are_found_by_any_part_of_them)
{
	static const char *const names[] = { "team/app", "Team/web",    "a_b",  "axb",
					     "50%",      "back\\slash", "xxapp" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_ok(add(names[i], 0));
	assert_string_equal(found("app", false, NULL), "team/app xxapp ");
	assert_string_equal(found("TEAM", false, NULL), "Team/web team/app ");
	assert_string_equal(found("a_b", false, NULL), "a_b ");
	assert_string_equal(found("%", false, NULL), "50% ");
	assert_string_equal(found("\\", false, NULL), "back\\slash ");
	assert_string_equal(found("' OR 1", false, NULL), "");
	assert_string_equal(found("", false, "axb"), "back\\slash team/app xxapp ");
	AUTO_ORIGIN_ROW struct origin_row row = get("axb");
	row.verification = VERIFICATION_FAILED;
	assert_ok(update(&row, 1));
	assert_string_equal(found(NULL, true, NULL), "axb ");
	assert_string_equal(found("app", true, NULL), "");
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
	row.verification =
		verified_at > 0 ? VERIFICATION_SUCCEEDED : VERIFICATION_PENDING;
	row.verification_due_at = due_at;
	assert_ok(store_write(store, add_blob_work, &row, &err));
}

static void add_to(struct str *text, const origin_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		str_addf(text, "%s ", rows->items[i].name);
}

/* What is claimed at once, by name. */
static void assert_claimed(const char *kind, size_t new_limit, size_t known_limit,
			   const char *expected)
{
	AUTO_ORIGIN_ROWS origin_rows rows = { 0 };
	AUTO_STR struct str text = STR_INIT;

	assert_ok(origin_rows_claim(store, kind, new_limit, known_limit, &rows, &err));
	add_to(&text, &rows);
	assert_string_equal(text.data, expected);
}

static int set_claims_work(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_FREE char *sql = xasprintf("UPDATE origin SET claim_until = %" PRId64,
					*(const int64_t *)arg);

	return store_exec(tx, sql, error);
}

/* As if the claims had been made so long ago. */
static void set_claims(int64_t until)
{
	assert_ok(store_write(store, set_claims_work, &until, &err));
}

TEST(what_waited_longest_is_claimed_first_and_once)
{
	const int64_t later = clock_wall_ms() + 60000;

	assert_ok(add("a", 300));
	assert_ok(add("b", 100));
	assert_ok(add("c", later));
	assert_ok(add("never", 0));
	assert_claimed(KIND_REPOSITORY, 9, 1, "b ");
	assert_claimed(KIND_REPOSITORY, 9, 9, "a ");
	assert_claimed(KIND_REPOSITORY, 9, 9, "");
	set_claims(clock_wall_ms() - 1);
	assert_claimed(KIND_REPOSITORY, 9, 9, "b a ");
	set_claims(clock_wall_ms() + 3600000); /* by a clock that was wrong */
	assert_claimed(KIND_REPOSITORY, 9, 9, "b a ");
}

TEST(what_is_known_is_claimed_when_nothing_is_new)
{
	assert_ok(add("a", 200));
	add_blob("new", 1, 0, 250);
	add_blob("old", 1, 1000, 100);
	add_blob("older", 1, 1000, 50);
	add_blob("later", 1, 0, clock_wall_ms() + 60000);
	assert_claimed("lfs", 0, 0, "");
	assert_claimed("lfs", 9, 9, "new ");
	assert_claimed("lfs", 9, 9, "older old ");
	assert_claimed("lfs", 9, 9, "");
}

static int next_due_work(struct store_tx *tx, void *arg, struct err *error)
{
	return origin_next_due(tx, "lfs", arg, error);
}

TEST(what_is_due_next_is_what_nobody_has_or_whose_claim_ends)
{
	const int64_t later = clock_wall_ms() + 60000;
	struct origin_next next;

	assert_ok(store_read(store, next_due_work, &next, &err));
	assert_true(next.at == INT64_MAX && next.new_at == INT64_MAX);
	add_blob("new", 1, 0, 250);
	add_blob("later", 1, 0, later);
	add_blob("old", 1, 1000, 100);
	assert_ok(store_read(store, next_due_work, &next, &err));
	assert_int_equal(next.new_at, 250);
	assert_int_equal(next.known_at, 100);
	assert_int_equal(next.at, 100);
	assert_claimed("lfs", 9, 9, "new ");
	assert_claimed("lfs", 9, 9, "old ");
	assert_ok(store_read(store, next_due_work, &next, &err));
	assert_int_equal(next.at, later);
	assert_int_equal(next.known_at, INT64_MAX);
	set_claims(later - 1000);
	assert_ok(store_read(store, next_due_work, &next, &err));
	assert_int_equal(next.at, later - 1000);
}

static int get_lfs_work(struct store_tx *tx, void *arg, struct err *error)
{
	struct origin_row *row = arg;
	char name[] = "a";

	return origin_row_get(tx, "lfs", name, row, error) == 1 ? 0 : -1;
}

struct ending {
	const char *token;
	bool is_ended;
};

/* A result is written. */
static int end_work(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	struct ending *ending = arg;

	if (get_lfs_work(tx, &row, error) != 0)
		return -1;
	ending->is_ended = origin_row_end_claim(&row, ending->token);
	row.verified_at = 2000;
	return ending->is_ended ? origin_row_update(tx, &row, 1, error) : 0;
}

static bool end_with(const char *token)
{
	struct ending ending = { .token = token };

	assert_ok(store_write(store, end_work, &ending, &err));
	return ending.is_ended;
}

static void assert_token(const char *expected)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };

	assert_ok(store_read(store, get_lfs_work, &row, &err));
	assert_string_equal(row.claim_token, expected);
}

TEST(a_result_counts_while_the_claim_is_its_own)
{
	AUTO_ORIGIN_ROWS origin_rows late = { 0 }, rows = { 0 }, none = { 0 };

	add_blob("a", 1, 0, 250);
	assert_ok(origin_row_claim(store, "lfs", "a", &late, &err));
	assert_int_equal(late.count, 1);
	assert_int_equal(strlen(late.items[0].claim_token), CLAIM_TOKEN_SIZE - 1);
	assert_ok(origin_row_claim(store, "lfs", "a", &none, &err));
	assert_int_equal(none.count, 0);
	set_claims(1);
	assert_ok(origin_row_claim(store, "lfs", "a", &rows, &err));
	assert_false(end_with(late.items[0].claim_token));
	assert_token(rows.items[0].claim_token);
	assert_true(end_with(rows.items[0].claim_token));
	assert_token("");
	assert_false(end_with(rows.items[0].claim_token)); /* once */
}

TEST(claims_without_a_result_are_given_back_by_their_token)
{
	AUTO_ORIGIN_ROWS origin_rows rows = { 0 };
	const uint64_t id = replicable_id("lfs", "a");

	add_blob("a", 1, 0, 250);
	assert_ok(origin_rows_claim(store, "lfs", 1, 0, &rows, &err));
	assert_ok(origin_claims_end(store, "0123456789abcdef", &id, 1, &err));
	assert_token(rows.items[0].claim_token);
	assert_ok(origin_claims_end(store, rows.items[0].claim_token, &id, 1, &err));
	assert_token("");
	assert_claimed("lfs", 1, 0, "a ");
}

TEST(a_node_renews_and_gives_back_its_own_claims_only)
{
	add_blob("a", 1, 0, 250);
	add_blob("b", 1, 0, 251);
	store_set_node(store, "one");
	assert_claimed("lfs", 1, 0, "a ");
	store_set_node(store, "two");
	assert_claimed("lfs", 1, 0, "b ");
	set_claims(1);
	assert_ok(origin_claims_renew(store, &err));
	assert_claimed("lfs", 9, 0, "a ");
	store_set_node(store, "one"); /* it has nothing any more */
	assert_ok(origin_claims_give_back(store, &err));
	assert_claimed("lfs", 9, 0, "");
	store_set_node(store, "two");
	assert_ok(origin_claims_give_back(store, &err));
	assert_claimed("lfs", 9, 0, "a b ");
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
	assert_claimed("lfs", 9, 9, "new ");
	assert_claimed("lfs", 9, 9, "old ");
	assert_claimed(KIND_REPOSITORY, 9, 9, "a b ");
}

TEST(what_was_not_verified_again_in_time_is_pending)
{
	char kind[] = "lfs";
	int64_t aged = -1;

	const int64_t now = clock_wall_ms();
	const struct proofs_ageing proofs = { .interval_ms = 5000, .before = now - 5000 };

	add_blob("new", 1, 0, now - 6000); /* it was never verified */
	add_blob("old", 1, 1000, now - 6000);
	add_blob("young", 1, 1000, now - 1000);
	assert_ok(store_read(store, count_work, kind, &err));
	const int64_t pending = counts.verification[VERIFICATION_PENDING];
	const int64_t succeeded = counts.verification[VERIFICATION_SUCCEEDED];
	assert_ok(origin_rows_age_proofs(store, kind, &proofs, &aged, &err));
	assert_int_equal(aged, 1);
	assert_ok(store_read(store, count_work, kind, &err));
	assert_int_equal(counts.verification[VERIFICATION_PENDING], pending + 1);
	assert_int_equal(counts.verification[VERIFICATION_SUCCEEDED], succeeded - 1);
	assert_ok(origin_rows_age_proofs(store, kind, &proofs, &aged, &err));
	assert_int_equal(aged, 0);
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

static int draw_timelines_work(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return origin_rows_draw_timelines(tx, error);
}

TEST(all_rows_get_another_timeline_each_its_own)
{
	assert_ok(add("a", 0));
	assert_ok(add("b", 0));
	AUTO_ORIGIN_ROW struct origin_row before = get("a");
	assert_ok(store_write(store, draw_timelines_work, NULL, &err));
	AUTO_ORIGIN_ROW struct origin_row row = get("a");
	AUTO_ORIGIN_ROW struct origin_row other = get("b");
	assert_int_equal(strspn(row.timeline, "0123456789abcdef"), 16);
	assert_string_not_equal(row.timeline, before.timeline);
	assert_string_not_equal(row.timeline, other.timeline);
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

TEST(who_was_put_off_has_failed_no_more_often)
{
	AUTO_ORIGIN_ROW struct origin_row row = row_of("a");

	row.verification = VERIFICATION_PENDING;
	origin_row_defer(&row, 1000, 0);
	assert_int_equal(row.verification_retry_count, 1);
	row.verification = VERIFICATION_FAILED;
	origin_row_defer(&row, 1000, 0);
	assert_int_equal(row.verification_retry_count, 1);
	assert_true(row.verification_due_at > clock_wall_ms());
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
		STORE_CASE(names_are_found_by_any_part_of_them),
		STORE_CASE(what_waited_longest_is_claimed_first_and_once),
		STORE_CASE(what_is_due_next_is_what_nobody_has_or_whose_claim_ends),
		STORE_CASE(a_result_counts_while_the_claim_is_its_own),
		STORE_CASE(claims_without_a_result_are_given_back_by_their_token),
		STORE_CASE(a_node_renews_and_gives_back_its_own_claims_only),
		STORE_CASE(what_is_known_is_claimed_when_nothing_is_new),
		STORE_CASE(rows_of_all_kinds_that_are_due_too_late_are_due_now),
		STORE_CASE(who_was_put_off_has_failed_no_more_often),
		STORE_CASE(what_was_not_verified_again_in_time_is_pending),
		STORE_CASE(bytes_are_counted_by_kind),
		STORE_CASE(each_queue_is_read_by_its_own_index),
		STORE_CASE(all_rows_get_another_timeline_each_its_own),
		STORE_CASE(a_site_value_is_what_was_set_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
