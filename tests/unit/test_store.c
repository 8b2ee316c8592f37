/*
 * The disk is under the test's control: fdatasync() and fsync() here stand in for
 * libc's, so that a commit can be held up, made to fail, or counted.
 */
#include "test.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <sqlite3.h>

#include "base/clock.h"
#include "base/thread.h"
#include "store/store.h"
#include "store/store_driver.h"

static atomic_bool disk_hangs, disk_fails;
static atomic_int disk_waiting, disk_syncs;

static void nap(void)
{
	poll(NULL, 0, 1);
}

int fdatasync(int fd)
{
	(void)fd;
	atomic_fetch_add(&disk_waiting, 1);
	while (disk_hangs)
		nap();
	atomic_fetch_sub(&disk_waiting, 1);
	atomic_fetch_add(&disk_syncs, 1);
	if (!disk_fails)
		return 0;
	errno = EIO;
	return -1;
}

int fsync(int fd)
{
	return fdatasync(fd);
}

static int repair_disk(void **state)
{
	disk_hangs = disk_fails = false;
	return test_make_root(state);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, repair_disk, test_remove_root)

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static int open_at(const char *name, struct store **store)
{
	char url[160];

	snprintf(url, sizeof(url), "sqlite:%s", path_of(name));
	return store_open(url, store, &err);
}

static int make_table(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx,
			  "CREATE TABLE IF NOT EXISTS item (id BIGINT PRIMARY KEY,"
			  " text TEXT, bytes BLOB)",
			  error);
}

static struct store *open_items(const char *name)
{
	struct store *store = NULL;

	assert_ok(open_at(name, &store));
	assert_ok(store_write(store, make_table, NULL, &err));
	return store;
}

/* One write: adds rows of `size` letters, then fails if it is told to. */
struct add {
	int64_t id;
	int rows; /* 0: one */
	size_t size;
	enum { SUCCEEDS, FAILS, OVERLOOKS_ERRORS } how;
	struct store *store; /* for a thread */
	pthread_t thread;
	int result;
	struct err err;
};

static int add_rows(struct store_tx *tx, struct add *add, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;
	AUTO_FREE char *text = xcalloc(1, add->size + 1);

	memset(text, 'x', add->size);
	if (query_open(tx, "INSERT INTO item (id, text) VALUES (?1, ?2)", &query,
		       error) != 0)
		return -1;
	query_bind_text(query, 2, text);
	for (int i = 0; i < (add->rows ? add->rows : 1); i++) {
		query_bind_int(query, 1, add->id + i);
		if (query_run(query, NULL, error) != 0 && add->how != OVERLOOKS_ERRORS)
			return -1;
	}
	return 0;
}

static int add_item(struct store_tx *tx, void *arg, struct err *error)
{
	struct add *add = arg;

	if (add_rows(tx, add, error) != 0)
		return -1;
	if (add->how == FAILS)
		return err_set(error, ERR_CONFLICT, "told to fail");
	return 0;
}

static int write_item(struct store *store, int64_t id)
{
	return store_write(store, add_item, &(struct add){ .id = id }, &err);
}

static int read_count(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, "SELECT COUNT(*) FROM item", &query, error) != 0 ||
	    query_step(query, error) < 0)
		return -1;
	*(int64_t *)arg = query_int(query, 0);
	return 0;
}

static int64_t count_items(struct store *store)
{
	int64_t count = -1;

	assert_ok(store_read(store, read_count, &count, &err));
	return count;
}

static int has_item(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, "SELECT 1 FROM item WHERE id = ?1", &query, error) != 0)
		return -1;
	query_bind_int(query, 1, *(int64_t *)arg);
	int found = query_step(query, error);
	return found == 1 ? 0 : -1;
}

static bool holds(struct store *store, int64_t id)
{
	return store_read(store, has_item, &id, ERR_IGNORED) == 0;
}

static void *add_in_thread(void *arg)
{
	struct add *add = arg;

	add->result = store_write(add->store, add_item, add, &add->err);
	return NULL;
}

static void start(struct store *store, struct add *add)
{
	add->store = store;
	thread_start(&add->thread, "test-add", add_in_thread, add);
}

/* Lets the writer hang in the commit of a first write until all others are queued,
 * so that they make one batch; `before` runs just before it goes on. */
static void run_as_batch(struct store *store, struct add *adds, int count,
			 void (*before)(void))
{
	struct add first = { .id = 1000000 };

	disk_hangs = true;
	start(store, &first);
	while (disk_waiting == 0)
		nap();
	for (int i = 0; i < count; i++)
		start(store, &adds[i]);
	poll(NULL, 0, 50); /* they have nothing to do but to queue */
	if (before)
		before();
	disk_hangs = false;
	for (int i = 0; i < count; i++)
		thread_join(adds[i].thread);
	thread_join(first.thread);
}

static pid_t start_child(int (*body)(int), int arg)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(body(arg));
	assert_true(pid > 0);
	return pid;
}

static int wait_child(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* In a child assertions of cmocka would go on with the parent's next test. */
static int complain(const struct err *error)
{
	fprintf(stderr, "# child: %s: %s\n", err_class_name(error->class), error->text);
	return 1;
}

static int round_trip(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *insert = NULL, *select = NULL;
	int64_t changed = 7;

	(void)arg;
	if (query_open(tx, "INSERT INTO item VALUES (?1, ?2, ?3)", &insert, error) != 0)
		return -1;
	query_bind_int(insert, 1, INT64_MIN);
	query_bind_text(insert, 2, "");
	query_bind_bytes(insert, 3, "a\0b", 3);
	assert_int_equal(query_run(insert, &changed, error), 0);
	assert_int_equal(changed, 1);
	query_bind_int(insert, 1, INT64_MAX); /* a bind starts it anew */
	query_bind_text(insert, 2, NULL);
	query_bind_bytes(insert, 3, "", 0);
	assert_int_equal(query_run(insert, NULL, error), 0);
	query_bind_int(insert, 1, 5);
	query_bind_text(insert, 2, "gr\xc3\xbc\xc3\x9f");
	query_bind_null(insert, 3);
	assert_int_equal(query_run(insert, NULL, error), 0);

	if (query_open(tx, "UPDATE item SET text = text WHERE id = -1", &select, error) ||
	    query_run(select, &changed, error) != 0)
		return -1;
	assert_int_equal(changed, 0);
	return 0;
}

static int round_trip_read(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;
	size_t len = 9;

	(void)arg;
	if (query_open(tx, "SELECT id, text, bytes FROM item ORDER BY id", &query, error))
		return -1;
	assert_int_equal(query_step(query, error), 1);
	assert_true(query_int(query, 0) == INT64_MIN);
	assert_string_equal(query_text(query, 1), "");
	assert_false(query_is_null(query, 1));
	assert_memory_equal(query_bytes(query, 2, &len), "a\0b", 3);
	assert_int_equal(len, 3);

	assert_int_equal(query_step(query, error), 1);
	assert_string_equal(query_text(query, 1), "gr\xc3\xbc\xc3\x9f");
	assert_null(query_bytes(query, 2, &len));
	assert_int_equal(len, 0);
	assert_true(query_is_null(query, 2));
	assert_int_equal(query_int(query, 2), 0);

	assert_int_equal(query_step(query, error), 1);
	assert_true(query_int(query, 0) == INT64_MAX);
	assert_null(query_text(query, 1));
	assert_non_null(query_bytes(query, 2, &len));
	assert_int_equal(len, 0);
	assert_false(query_is_null(query, 2));
	assert_int_equal(query_step(query, error), 0);
	assert_int_equal(query_step(query, error), 0); /* stays at its end */
	return 0;
}

TEST(values_come_back_as_they_went_in)
{
	struct store *store;

	/* in memory works run in the caller, so they may use cmocka */
	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(store_write(store, make_table, NULL, &err));
	assert_ok(store_write(store, round_trip, NULL, &err));
	assert_ok(store_read(store, round_trip_read, NULL, &err));
	store_close(store);
}

/* The same text is open twice at once: the inner one must not disturb the outer. */
static int nested_queries(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *outer = NULL;
	static const char sql[] = "SELECT id FROM item ORDER BY id";
	int64_t *rows = arg, count;
	int more;

	if (query_open(tx, sql, &outer, error) != 0)
		return -1;
	for (*rows = 0; (more = query_step(outer, error)) > 0; ++*rows) {
		AUTO_QUERY struct query *inner = NULL;
		if (query_int(outer, 0) != *rows || read_count(tx, &count, error) != 0 ||
		    query_open(tx, sql, &inner, error) != 0 ||
		    query_step(inner, error) != 1 || query_int(inner, 0) != 0)
			return -1;
	}
	return more;
}

TEST(a_query_may_run_inside_itself)
{
	struct store *store = open_items("db");
	int64_t rows = 0;

	for (int i = 0; i < 5; i++)
		assert_ok(write_item(store, i));
	for (int i = 0; i < 3; i++)
		assert_ok(store_read(store, nested_queries, &rows, &err));
	assert_int_equal(rows, 5);
	store_close(store);
}

TEST(what_is_queued_is_committed_at_once)
{
	struct add adds[16] = { 0 };
	struct store *store = open_items("db");
	uint64_t before = store_commits(store);
	int syncs = disk_syncs;

	for (int i = 0; i < 16; i++)
		adds[i].id = i;
	run_as_batch(store, adds, 16, NULL);
	for (int i = 0; i < 16; i++)
		assert_int_equal(adds[i].result, 0);
	assert_in_range(store_commits(store) - before, 2, 4);
	assert_in_range(disk_syncs - syncs, 2, 4);
	assert_int_equal(count_items(store), 17);
	store_close(store);
}

TEST(a_failed_work_is_undone_alone)
{
	struct add adds[5] = { { .id = 1 },
			       { .id = 2 },
			       { .id = 30, .rows = 10, .how = FAILS },
			       { .id = 4 },
			       { .id = 1 } }; /* there already */
	struct store *store = open_items("db");
	uint64_t before = store_commits(store);
	int failed = 0;

	run_as_batch(store, adds, 5, NULL);
	assert_in_range(store_commits(store) - before, 2, 4);
	for (int i = 0; i < 5; i++)
		failed += adds[i].result != 0;
	assert_int_equal(failed, 2);
	assert_int_equal(adds[2].err.class, ERR_CONFLICT);
	assert_int_equal(adds[1].result, 0);
	assert_int_equal(adds[3].result, 0);
	assert_int_equal(count_items(store), 4);
	assert_true(holds(store, 4));
	assert_false(holds(store, 30));
	store_close(store);
}

TEST(a_write_was_synced_before_it_returns)
{
	struct store *store = open_items("db");

	for (int i = 0; i < 20; i++) {
		int syncs = disk_syncs;
		assert_ok(write_item(store, i));
		assert_true(disk_syncs > syncs);
	}
	store_close(store);
}

static void break_disk(void)
{
	disk_fails = true;
}

TEST(a_failed_commit_fails_every_write_in_it)
{
	struct add adds[6] = { 0 };
	struct store *store = open_items("db");

	for (int i = 0; i < 6; i++)
		adds[i].id = i;
	adds[3].how = FAILS;
	run_as_batch(store, adds, 6, break_disk);
	for (int i = 0; i < 6; i++) {
		assert_int_equal(adds[i].result, -1);
		assert_int_equal(adds[i].err.class, i == 3 ? ERR_CONFLICT : ERR_DISK);
	}
	assert_non_null(strstr(adds[0].err.text, path_of("db")));
	disk_fails = false;
	assert_int_equal(count_items(store), 0);
	assert_ok(write_item(store, 1));
	assert_int_equal(count_items(store), 1);
	store_close(store);
}

static void limit_files(rlim_t bytes)
{
	struct rlimit limit;

	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = bytes;
	if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
		abort();
}

static void fill_disk(void)
{
	limit_files(2 * 1024 * 1024);
}

/* SQLite rolls the whole transaction back when the disk is full in its middle. */
TEST(a_work_too_big_for_the_disk_fails_alone)
{
	struct add adds[5] = {
		{ .id = 1 },
		{ .id = 100, .rows = 160, .size = 100000 },
		{ .id = 2 },
		{ .id = 300, .rows = 160, .size = 100000, .how = OVERLOOKS_ERRORS },
		{ .id = 3 },
	};
	struct store *store = open_items("db");

	signal(SIGXFSZ, SIG_IGN);
	run_as_batch(store, adds, 5, fill_disk);
	limit_files(RLIM_INFINITY);
	for (int i = 0; i < 5; i++)
		assert_int_equal(adds[i].result, i % 2 == 0 ? 0 : -1);
	assert_int_equal(adds[1].err.class, ERR_DISK);
	assert_int_equal(adds[3].err.class, ERR_DISK);
	assert_int_equal(count_items(store), 4);
	assert_ok(store_write(store, add_item, &adds[1], &err)); /* there is room again */
	assert_int_equal(count_items(store), 164);
	assert_ok(store_check(store, &err));
	store_close(store);
}

/* Opens the database when told to through the pipe, and looks for item 42. */
static int ask_pipe[2];

static int look_from_outside(int unused)
{
	struct store *store;
	char byte;

	(void)unused;
	if (read(ask_pipe[0], &byte, 1) != 1)
		return 2;
	if (open_at("db", &store) != 0)
		return complain(&err);
	return holds(store, 42) ? 0 : 3;
}

TEST(another_process_sees_a_write_as_soon_as_it_returned)
{
	assert_int_equal(pipe(ask_pipe), 0);
	pid_t pid = start_child(look_from_outside, 0);
	struct store *store = open_items("db");
	assert_ok(write_item(store, 42));
	assert_int_equal(write(ask_pipe[1], "", 1), 1);
	assert_int_equal(wait_child(pid), 0);
	store_close(store);
	close(ask_pipe[0]);
	close(ask_pipe[1]);
}

/* Reads, then writes what follows from it: as the first statement of a transaction, a
 * read would not lock the others out. */
static int add_next(struct store_tx *tx, void *arg, struct err *error)
{
	struct add add = { 0 };

	(void)arg;
	if (read_count(tx, &add.id, error) != 0)
		return -1;
	return add_rows(tx, &add, error);
}

static int write_200(int start_fd)
{
	struct store *store;
	char byte;

	close(ask_pipe[1]);
	if (read(start_fd, &byte, 1) != 0) /* all start at its end */
		return 2;
	if (open_at("db", &store) != 0 || store_write(store, make_table, NULL, &err) != 0)
		return complain(&err);
	for (int i = 0; i < 200; i++)
		if (store_write(store, add_next, NULL, &err) != 0)
			return complain(&err);
	store_close(store);
	return 0;
}

/* On a file that does not exist, so they race for making the schema as well. */
TEST(processes_write_side_by_side)
{
	pid_t pids[4];

	assert_int_equal(pipe(ask_pipe), 0);
	for (int i = 0; i < 4; i++)
		pids[i] = start_child(write_200, ask_pipe[0]);
	close(ask_pipe[0]);
	close(ask_pipe[1]);
	for (int i = 0; i < 4; i++)
		assert_int_equal(wait_child(pids[i]), 0);
	struct store *store = open_items("db");
	assert_int_equal(count_items(store), 800);
	assert_true(holds(store, 799));
	assert_ok(store_check(store, &err));
	store_close(store);
}

struct watch {
	struct store *store;
	int64_t before, after;
};

static int watch_while_writing(struct store_tx *tx, void *arg, struct err *error)
{
	struct watch *watch = arg;

	if (read_count(tx, &watch->before, error) != 0)
		return -1;
	for (int i = 0; i < 5; i++) {
		struct add add = { .id = 100 + i };
		start(watch->store, &add);
		thread_join(add.thread); /* would hang if a reader blocked the writer */
	}
	return read_count(tx, &watch->after, error);
}

TEST(a_reader_sees_one_picture_and_blocks_no_writer)
{
	struct watch watch = { .store = open_items("db") };

	assert_ok(write_item(watch.store, 1));
	assert_ok(store_read(watch.store, watch_while_writing, &watch, &err));
	assert_int_equal(watch.before, 1);
	assert_int_equal(watch.after, 1);
	assert_int_equal(count_items(watch.store), 6);
	store_close(watch.store);
}

static atomic_int inside, most_inside;

static int stay_for_a_while(struct store_tx *tx, void *arg, struct err *error)
{
	int64_t until = clock_boot_ms() + 2000;
	int now = atomic_fetch_add(&inside, 1) + 1;

	if (now > most_inside)
		most_inside = now;
	while (most_inside < 8 && clock_boot_ms() < until)
		nap();
	poll(NULL, 0, 20); /* a ninth would come in now */
	int result = read_count(tx, arg, error);
	atomic_fetch_sub(&inside, 1);
	return result;
}

static void *read_in_thread(void *arg)
{
	int64_t count = -1;

	store_read(arg, stay_for_a_while, &count, ERR_IGNORED);
	return count == 1 ? arg : NULL;
}

TEST(eight_read_at_once_and_others_wait)
{
	struct store *store = open_items("db");
	pthread_t threads[20];
	void *result;

	assert_ok(write_item(store, 1));
	for (int i = 0; i < 20; i++)
		thread_start(&threads[i], "test-read", read_in_thread, store);
	for (int i = 0; i < 20; i++) {
		pthread_join(threads[i], &result);
		assert_ptr_equal(result, store);
	}
	assert_int_equal(most_inside, 8);
	store_close(store);
}

static void *write_500(void *arg)
{
	struct add *add = arg;

	for (int i = 0; i < 500 && add->result == 0; i++) {
		struct add one = { .id = add->id + i };
		add->result = store_write(add->store, add_item, &one, &add->err);
	}
	return NULL;
}

static void assert_threads_write(struct store *store)
{
	struct add adds[8] = { 0 };

	for (int i = 0; i < 8; i++) {
		adds[i].id = 1000 * i;
		adds[i].store = store;
		thread_start(&adds[i].thread, "test-write", write_500, &adds[i]);
	}
	for (int i = 0; i < 8; i++)
		thread_join(adds[i].thread);
	for (int i = 0; i < 8; i++)
		if (adds[i].result != 0)
			fail_msg("%s", adds[i].err.text);
	assert_int_equal(count_items(store), 4000);
}

TEST(eight_threads_lose_nothing)
{
	struct store *store = open_items("db");

	assert_threads_write(store);
	assert_true(store_commits(store) < 4000);
	store_close(store);
}

TEST(a_store_in_memory_needs_no_file)
{
	struct add bad = { .id = 7, .rows = 3, .how = FAILS };
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(store_write(store, make_table, NULL, &err));
	assert_fails(store_write(store, add_item, &bad, &err), ERR_CONFLICT);
	assert_int_equal(count_items(store), 0);
	assert_threads_write(store);
	assert_ok(store_check(store, &err));
	store_close(store);
	assert_int_equal(access(":memory:", F_OK), -1);
}

static int register_item(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(
		tx,
		"INSERT INTO registry (kind, name, state, verification_state, created_at)"
		" VALUES ('repository', 'a', 0, 0, 1);"
		"INSERT INTO lease (key, fence) VALUES ('k', 1);"
		"INSERT INTO lease_waiter (key) VALUES ('k'); DELETE FROM lease_waiter;"
		"INSERT INTO lease_waiter (key) VALUES ('k');"
		"INSERT INTO counters VALUES ('repository', 'pending', 1)",
		error);
}

static int read_registered(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;

	(void)arg;
	if (query_open(tx,
		       "SELECT r.id, generation, due_at, ticket, version"
		       " FROM registry r, lease_waiter, schema_version",
		       &query, error) != 0 ||
	    query_step(query, error) != 1)
		return -1;
	assert_int_equal(query_int(query, 0), 1);
	assert_int_equal(query_int(query, 1), 0);
	assert_true(query_is_null(query, 2));
	assert_int_equal(query_int(query, 3), 2); /* no ticket is given twice */
	assert_int_equal(query_int(query, 4), 1);
	return 0;
}

TEST(the_schema_is_there)
{
	struct store *store;

	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(store_write(store, register_item, NULL, &err));
	assert_ok(store_read(store, read_registered, NULL, &err));
	assert_fails(store_write(store, register_item, NULL, &err), ERR_INTERNAL);
	store_close(store);
}

static int pretend_newer(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx, "INSERT INTO schema_version VALUES (99, 0)", error);
}

TEST(a_newer_schema_is_refused)
{
	struct store *store = open_items("db");

	assert_ok(store_write(store, pretend_newer, NULL, &err));
	store_close(store);
	assert_fails(open_at("db", &store), ERR_CONFIG);
	assert_null(store);
	assert_non_null(
		strstr(err.text, "made by a newer refrelay (schema 99, this one knows"));
	assert_non_null(strstr(err.text, path_of("db")));
	assert_true(err.remedy[0] != '\0');
}

static void overwrite(const char *name, off_t at, const char *bytes, size_t len)
{
	AUTO_CLOSE int fd = open(path_of(name), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_int_equal(pwrite(fd, bytes, len, at), len);
}

TEST(a_file_that_is_no_database_is_told_so)
{
	char garbage[8192];
	struct store *store;

	memset(garbage, 0xa5, sizeof(garbage));
	overwrite("short", 0, "hello", 5);
	assert_fails(open_at("short", &store), ERR_CORRUPT);
	overwrite("long", 0, garbage, sizeof(garbage));
	assert_fails(open_at("long", &store), ERR_CORRUPT);
	assert_non_null(strstr(err.text, path_of("long")));
	assert_non_null(strstr(err.remedy, "move the file"));
}

TEST(damage_inside_is_told)
{
	struct add add = { .id = 1, .rows = 100, .size = 1000 };
	char garbage[4096];
	struct store *store = open_items("db");
	int64_t count;

	assert_ok(store_write(store, add_item, &add, &err));
	store_close(store);
	memset(garbage, 0xa5, sizeof(garbage));
	for (off_t page = 10; page < 30; page++)
		overwrite("db", page * 4096, garbage, sizeof(garbage));
	assert_ok(open_at("db", &store));
	assert_fails(store_check(store, &err), ERR_CORRUPT);
	assert_fails(store_read(store, read_count, &count, &err), ERR_CORRUPT);
	assert_true(err.remedy[0] != '\0');
	store_close(store);
}

TEST(what_cannot_be_a_database_is_explained)
{
	static const char *const urls[] = { "", "sqlite", "sqlite:", "mysql:x",
					    "postgresql://me:s3cret@host/db" };
	struct store *store;

	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		assert_fails(store_open(urls[i], &store, &err), ERR_CONFIG);
		assert_null(strstr(err.text, "s3cret"));
		assert_true(err.remedy[0] != '\0');
	}
	overwrite("file", 0, "x", 1);
	assert_fails(open_at("file/db", &store), ERR_CONFIG);
	assert_fails(open_at("file/below/db", &store), ERR_CONFIG);
	assert_non_null(strstr(err.text, path_of("file")));
	assert_true(err.remedy[0] != '\0');
	assert_fails(store_open("sqlite:/tmp", &store, &err), ERR_CONFIG);
	assert_ok(open_at("made/when/missing/db", &store));
	store_close(store);
}

/* 0: refused, with what a person needs. */
static int open_without_rights(int unused)
{
	struct store *store;

	(void)unused;
	if (getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
		return 2;
	static const char *const names[] = { "new", "read-only", "writable" };
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		int result = open_at(names[i], &store);
		if (result == 0 || err.class != ERR_CONFIG || !err.remedy[0] ||
		    !strstr(err.text, "Permission denied"))
			return complain(&err);
	}
	return 0;
}

TEST(missing_rights_are_told)
{
	store_close(open_items("read-only"));
	store_close(open_items("writable"));
	assert_int_equal(chmod(path_of("read-only"), 0444), 0);
	assert_int_equal(chmod(path_of("writable"), 0666), 0);
	assert_int_equal(chmod(root, 0555), 0);
	assert_int_equal(wait_child(start_child(open_without_rights, 0)), 0);
	assert_int_equal(chmod(root, 0700), 0);
}

static void assert_private(const char *name)
{
	struct stat st;

	assert_int_equal(stat(path_of(name), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
}

TEST(files_are_private_and_not_inherited)
{
	mode_t before = umask(0);
	struct store *store = open_items("db");
	int seen = 0;

	umask(before);
	count_items(store); /* opens a reader */
	assert_private("db");
	assert_private("db-wal");
	assert_private("db-shm");
	for (int fd = 3; fd < 100; fd++) {
		char link[64], target[256] = "";
		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, target, sizeof(target) - 1) < 0 ||
		    !text_starts_with(target, path_of("db")))
			continue;
		assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
		seen++;
	}
	assert_true(seen >= 3);
	store_close(store);
}

static void *release_soon(void *arg)
{
	poll(NULL, 0, 50);
	sqlite3_exec(arg, "COMMIT", NULL, NULL, NULL);
	return NULL;
}

TEST(a_lock_of_another_process_is_waited_for_then_told)
{
	struct store *store = open_items("db");
	pthread_t thread;
	sqlite3 *other;

	assert_int_equal(sqlite3_open(path_of("db"), &other), SQLITE_OK);
	sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	thread_start(&thread, "test-release", release_soon, other);
	assert_ok(write_item(store, 1));
	thread_join(thread);
	store_close(store);

	store_busy_limit_ms = 30;
	sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL);
	assert_ok(
		open_at("db", &store)); /* an up-to-date one is opened without writing */
	assert_fails(write_item(store, 2), ERR_BUSY);
	assert_int_equal(count_items(store), 1);
	sqlite3_exec(other, "COMMIT", NULL, NULL, NULL);
	assert_ok(write_item(store, 2));
	store_close(store);
	store_busy_limit_ms = 10 * 1000;
	sqlite3_close(other);
}

/* Turning a file to WAL is the step at which SQLite does not wait by itself. */
TEST(a_lock_is_waited_for_when_a_new_file_is_opened)
{
	struct store *store;
	pthread_t thread;
	sqlite3 *other;

	assert_int_equal(sqlite3_open(path_of("db"), &other), SQLITE_OK);
	sqlite3_exec(other, "BEGIN IMMEDIATE; CREATE TABLE t (a)", NULL, NULL, NULL);
	thread_start(&thread, "test-release", release_soon, other);
	assert_ok(open_at("db", &store));
	thread_join(thread);
	sqlite3_close(other);
	store_close(store);
}

static int ack_pipe[2];

static void *write_and_tell(void *arg)
{
	struct add *add = arg;

	for (int64_t id = add->id;; id++) {
		struct add one = { .id = id };
		if (store_write(add->store, add_item, &one, &add->err) != 0 ||
		    write(ack_pipe[1], &id, sizeof(id)) != sizeof(id))
			_exit(complain(&add->err));
	}
	return NULL;
}

static int write_until_killed(int unused)
{
	static struct add adds[4];
	struct store *store;

	(void)unused;
	if (open_at("db", &store) != 0 || store_write(store, make_table, NULL, &err) != 0)
		return complain(&err);
	for (int i = 0; i < 4; i++) {
		adds[i] = (struct add){ .id = 1000000 * i, .store = store };
		thread_start(&adds[i].thread, "test-tell", write_and_tell, &adds[i]);
	}
	for (;;)
		pause();
}

TEST(a_killed_writer_has_lost_nothing_it_acknowledged)
{
	static int64_t told[100000];
	size_t count = 0;

	assert_int_equal(pipe(ack_pipe), 0);
	pid_t pid = start_child(write_until_killed, 0);
	close(ack_pipe[1]);
	while (count < ARRAY_SIZE(told) &&
	       read(ack_pipe[0], &told[count], sizeof(told[0])) == sizeof(told[0]))
		if (++count == 700)
			kill(pid, SIGKILL);
	close(ack_pipe[0]);
	assert_true(WIFSIGNALED(wait_child(pid)));
	assert_true(count >= 700);
	struct store *store = open_items("db");
	assert_ok(store_check(store, &err));
	for (size_t i = 0; i < count; i++)
		assert_true(holds(store, told[i]));
	store_close(store);
}

static int forget_query(struct store_tx *tx, void *arg, struct err *error)
{
	struct query *query;

	return query_open(tx, "SELECT 1", arg ? arg : &query, error);
}

static int write_inside(struct store_tx *tx, void *arg, struct err *error)
{
	(void)tx;
	return store_write(arg, make_table, NULL, error);
}

static int bind_beyond(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;

	(void)arg;
	if (query_open(tx, "SELECT ?1", &query, error) != 0)
		return -1;
	query_bind_int(query, 2, 0);
	return 0;
}

static int misuse(int which)
{
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct store *store;

	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
	dup2(null, STDERR_FILENO);
	if (open_at("db", &store) != 0)
		return 1;
	switch (which) {
	case 0:
		return store_write(store, forget_query, NULL, &err);
	case 1:
		return store_write(store, write_inside, store, &err);
	case 2:
		return store_read(store, write_inside, store, &err);
	case 3:
		return store_read(store, make_table, NULL, &err);
	case 4:
		return store_read(store, add_item, &(struct add){ .id = 1 }, &err);
	default:
		return store_read(store, bind_beyond, NULL, &err);
	}
}

TEST(our_own_mistakes_abort)
{
	store_close(open_items("db"));
	for (int which = 0; which <= 5; which++) {
		int status = wait_child(start_child(misuse, which));
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
			fail_msg("misuse %d: status %x", which, status);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(values_come_back_as_they_went_in),
		CASE(a_query_may_run_inside_itself),
		CASE(what_is_queued_is_committed_at_once),
		CASE(a_failed_work_is_undone_alone),
		CASE(a_write_was_synced_before_it_returns),
		CASE(a_failed_commit_fails_every_write_in_it),
		CASE(a_work_too_big_for_the_disk_fails_alone),
		CASE(another_process_sees_a_write_as_soon_as_it_returned),
		CASE(processes_write_side_by_side),
		CASE(a_reader_sees_one_picture_and_blocks_no_writer),
		CASE(eight_read_at_once_and_others_wait),
		CASE(eight_threads_lose_nothing),
		CASE(a_store_in_memory_needs_no_file),
		CASE(the_schema_is_there),
		CASE(a_newer_schema_is_refused),
		CASE(a_file_that_is_no_database_is_told_so),
		CASE(damage_inside_is_told),
		CASE(what_cannot_be_a_database_is_explained),
		CASE(missing_rights_are_told),
		CASE(files_are_private_and_not_inherited),
		CASE(a_lock_of_another_process_is_waited_for_then_told),
		CASE(a_lock_is_waited_for_when_a_new_file_is_opened),
		CASE(a_killed_writer_has_lost_nothing_it_acknowledged),
		CASE(our_own_mistakes_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
