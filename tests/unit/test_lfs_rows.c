#include "test.h"

#include "replicable/lfs_rows.h"
#include "replicable/name.h"
#include "replicable/origin_rows.h"
#include "replicable/registry.h"

#define TIMELINE "0123456789abcdef"
#define OID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define OID_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define OID_C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define ID_A "aa/aa/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_C "cc/cc/cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

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

struct row_to_add {
	const char *kind, *name;
};

static int add_origin(struct store_tx *tx, void *arg, struct err *error)
{
	const struct row_to_add *add = arg;
	struct origin_row row = { .id = replicable_id(add->kind, add->name),
				  .name = xstrdup(add->name),
				  .path = xstrdup(add->name),
				  .timeline = TIMELINE,
				  .generation = 1,
				  .checksum = xstrdup("1-aa"),
				  .changed_at = 1000 };
	int result = origin_row_add(tx, add->kind, &row, error);

	origin_row_clear(&row);
	return result;
}

static void add(const char *kind, const char *name)
{
	struct row_to_add one = { kind, name };

	assert_int_equal(store_write(store, add_origin, &one, &err), 0);
}

static uint64_t size_told = 5;

static struct lfs_row row_of(const char *oid)
{
	struct lfs_row row = { .size = size_told };

	snprintf(row.oid, sizeof(row.oid), "%s", oid);
	return row;
}

enum { UPLOADED = -1, PART, WHOLE, OTHER };

struct put {
	const char *name;
	const char *oids[3];
	int how;
};

static int put_work(struct store_tx *tx, void *arg, struct err *error)
{
	const struct put *put = arg;
	AUTO_LFS_SCAN struct lfs_scan scan;
	lfs_rows rows = { 0 };
	int result = -1;

	if (lfs_scan_now(tx, LFS_ORIGIN, put->name, &scan, error) != 1)
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(put->oids) && put->oids[i]; i++)
		vec_add(&rows, row_of(put->oids[i]));
	if (put->how == UPLOADED)
		result = lfs_rows_add_uploaded(tx, &scan, &rows.items[0], error);
	else
		result =
			lfs_rows_put(tx,
				     &(struct lfs_found){ .scan = &scan,
							  .rows = &rows,
							  .is_whole = put->how != PART,
							  .is_other = put->how == OTHER },
				     error);
	vec_clear(&rows);
	return result;
}

static void put_rows(struct put put)
{
	assert_int_equal(store_write(store, put_work, &put, &err), 0);
}

struct question {
	const char *name, *oid;
	int found;
};

static int has_work(struct store_tx *tx, void *arg, struct err *error)
{
	struct question *question = arg;
	uint64_t size;

	question->found = lfs_row_get(tx, replicable_id(KIND_REPOSITORY, question->name),
				      question->oid, &size, error);
	return question->found < 0 ? -1 : 0;
}

static bool has(const char *name, const char *oid)
{
	struct question question = { name, oid, 0 };

	assert_int_equal(store_read(store, has_work, &question, &err), 0);
	return question.found == 1;
}

static int due_work(struct store_tx *tx, void *arg, struct err *error)
{
	lfs_scans_clear(arg);
	return lfs_scans_due(tx, LFS_ORIGIN, "", 10, arg, error);
}

static size_t due(void)
{
	AUTO_LFS_SCANS lfs_scans scans = { 0 };

	assert_int_equal(store_read(store, due_work, &scans, &err), 0);
	return scans.count;
}

static int get_work(struct store_tx *tx, void *arg, struct err *error)
{
	struct lfs_scan *scan = arg;
	uint64_t id = scan->repository;

	lfs_scan_clear(scan);
	return lfs_scan_get(tx, id, scan, error) == 1 ? 0 : -1;
}

static int64_t absent(const char *name)
{
	AUTO_LFS_SCAN struct lfs_scan scan = { .repository = replicable_id(
						       KIND_REPOSITORY, name) };

	assert_int_equal(store_read(store, get_work, &scan, &err), 0);
	assert_int_equal(lfs_scan_count(store, LFS_ORIGIN, "lfs", &scan, &err), 0);
	return scan.absent;
}

static void what_history_names_belongs_to_the_repository(void **state)
{
	(void)state;
	add(KIND_REPOSITORY, "r");
	add(KIND_REPOSITORY, "other");
	assert_int_equal(due(), 2);
	put_rows((struct put){ "r", { OID_A, OID_B }, PART });
	assert_int_equal(due(), 1);
	assert_true(has("r", OID_A));
	assert_true(has("r", OID_B));
	assert_false(has("r", OID_C));
	assert_false(has("other", OID_A));
}

static void what_is_not_named_any_more_goes_when_all_was_looked_through(void **state)
{
	(void)state;
	add(KIND_REPOSITORY, "r");
	put_rows((struct put){ "r", { OID_A, OID_B }, WHOLE });
	put_rows((struct put){ "r", { OID_C }, PART });
	assert_true(has("r", OID_A));
	put_rows((struct put){ "r", { OID_B }, WHOLE });
	assert_false(has("r", OID_A));
	assert_true(has("r", OID_B));
	assert_false(has("r", OID_C));
}

static void what_was_uploaded_stays_until_it_is_another_repository(void **state)
{
	(void)state;
	add(KIND_REPOSITORY, "r");
	put_rows((struct put){ "r", { OID_A }, UPLOADED });
	assert_true(has("r", OID_A));
	assert_int_equal(due(), 1);
	put_rows((struct put){ "r", { OID_A, OID_B }, WHOLE });
	put_rows((struct put){ "r", { OID_B }, WHOLE });
	assert_true(has("r", OID_A));
	put_rows((struct put){ "r", { OID_B }, OTHER });
	assert_false(has("r", OID_A));
	assert_true(has("r", OID_B));
}

static int list_work(struct store_tx *tx, void *arg, struct err *error)
{
	lfs_rows *rows = arg;

	vec_clear(rows);
	return lfs_rows_absent(tx, LFS_ORIGIN, "lfs", replicable_id(KIND_REPOSITORY, "r"),
			       rows, error);
}

static void what_is_named_and_not_here_is_listed(void **state)
{
	lfs_rows rows = { 0 };

	(void)state;
	add(KIND_REPOSITORY, "r");
	add(KIND_REPOSITORY, "other");
	put_rows((struct put){ "r", { OID_C, OID_A, OID_B }, WHOLE });
	put_rows((struct put){ "other", { OID_A }, WHOLE });
	add("lfs", ID_A);
	assert_int_equal(store_read(store, list_work, &rows, &err), 0);
	assert_int_equal(rows.count, 2);
	assert_string_equal(rows.items[0].oid, OID_B);
	assert_string_equal(rows.items[1].oid, OID_C);
	assert_int_equal(rows.items[1].size, rows.items[0].size);
	vec_clear(&rows);
}

static int fail_work(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };

	if (origin_row_get(tx, "lfs", arg, &row, error) != 1)
		return -1;
	row.verification = VERIFICATION_FAILED;
	return origin_row_update(tx, &row, row.generation, error);
}

/* No clone gets it. */
static void what_is_damaged_is_not_here(void **state)
{
	static char id[] = ID_A;

	(void)state;
	add(KIND_REPOSITORY, "r");
	put_rows((struct put){ "r", { OID_A }, WHOLE });
	add("lfs", ID_A);
	assert_int_equal(absent("r"), 0);
	assert_int_equal(store_write(store, fail_work, id, &err), 0);
	assert_int_equal(absent("r"), 1);
}

static uint64_t size_absent(void)
{
	lfs_rows rows = { 0 };

	assert_int_equal(store_read(store, list_work, &rows, &err), 0);
	assert_int_equal(rows.count, 1);
	uint64_t size = rows.items[0].size;
	vec_clear(&rows);
	return size;
}

static void a_size_that_was_wrong_is_put_right_when_all_was_looked_through(void **state)
{
	(void)state;
	add(KIND_REPOSITORY, "r");
	size_told = (uint64_t)1 << 50;
	put_rows((struct put){ "r", { OID_A }, PART });
	size_told = 5;
	put_rows((struct put){ "r", { OID_A }, PART });
	assert_int_equal(size_absent(), (uint64_t)1 << 50);
	put_rows((struct put){ "r", { OID_A }, WHOLE });
	assert_int_equal(size_absent(), 5);
}

static void what_is_named_and_not_here_is_counted(void **state)
{
	(void)state;
	add(KIND_REPOSITORY, "r");
	put_rows((struct put){ "r", { OID_A, OID_B, OID_C }, WHOLE });
	assert_int_equal(absent("r"), 3);
	add("lfs", ID_A);
	assert_int_equal(absent("r"), 2);
	add("lfs", "bb/bb/" OID_B);
	assert_int_equal(absent("r"), 1);
	add("other", ID_C);
	assert_int_equal(absent("r"), 1);
}

static void what_was_only_uploaded_is_not_missed(void **state)
{
	(void)state;
	add(KIND_REPOSITORY, "r");
	put_rows((struct put){ "r", { OID_A }, UPLOADED });
	assert_int_equal(absent("r"), 0);
}

static int drop_repositories(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx, "DELETE FROM origin", error);
}

static int prune_work(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return lfs_rows_prune(tx, LFS_ORIGIN, error);
}

static void rows_go_with_their_repository(void **state)
{
	(void)state;
	add(KIND_REPOSITORY, "r");
	put_rows((struct put){ "r", { OID_A }, WHOLE });
	assert_int_equal(lfs_rows_have_orphans(store, LFS_ORIGIN, &err), 0);
	assert_int_equal(store_write(store, drop_repositories, NULL, &err), 0);
	assert_int_equal(lfs_rows_have_orphans(store, LFS_ORIGIN, &err), 1);
	assert_int_equal(store_write(store, prune_work, NULL, &err), 0);
	assert_false(has("r", OID_A));
	assert_int_equal(lfs_rows_have_orphans(store, LFS_ORIGIN, &err), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_CASE(what_history_names_belongs_to_the_repository),
		STORE_CASE(what_is_not_named_any_more_goes_when_all_was_looked_through),
		STORE_CASE(what_was_uploaded_stays_until_it_is_another_repository),
		STORE_CASE(
			a_size_that_was_wrong_is_put_right_when_all_was_looked_through),
		STORE_CASE(what_is_named_and_not_here_is_counted),
		STORE_CASE(what_is_named_and_not_here_is_listed),
		STORE_CASE(what_is_damaged_is_not_here),
		STORE_CASE(what_was_only_uploaded_is_not_missed),
		STORE_CASE(rows_go_with_their_repository),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
