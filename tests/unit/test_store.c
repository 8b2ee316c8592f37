#include "store_fixture.h"

static int round_trip(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *insert = NULL, *select = NULL;
	int64_t changed = 7;

	(void)arg;
	if (query_open(tx, "INSERT INTO item VALUES (?1, ?2, ?3)", &insert, error) != 0)
		return -1;
	query_bind_int(insert, 1, INT64_MIN);
	query_bind_text(insert, 2, "");
	query_bind_null(insert, 3);
	assert_int_equal(query_run(insert, &changed, error), 0);
	assert_int_equal(changed, 1);
	query_bind_int(insert, 1, INT64_MAX); /* a bind starts it anew */
	query_bind_text(insert, 2, NULL);
	query_bind_null(insert, 3);
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

	(void)arg;
	if (query_open(tx, "SELECT id, text, bytes FROM item ORDER BY id", &query, error))
		return -1;
	assert_int_equal(query_step(query, error), 1);
	assert_true(query_int(query, 0) == INT64_MIN);
	assert_string_equal(query_text(query, 1), "");

	assert_int_equal(query_step(query, error), 1);
	assert_string_equal(query_text(query, 1), "gr\xc3\xbc\xc3\x9f");
	assert_null(query_text(query, 2));
	assert_int_equal(query_int(query, 2), 0);

	assert_int_equal(query_step(query, error), 1);
	assert_true(query_int(query, 0) == INT64_MAX);
	assert_null(query_text(query, 1));
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

static atomic_bool work_runs, work_hangs;

static int hang_in_work(struct store_tx *tx, void *arg, struct err *error)
{
	(void)tx;
	(void)arg;
	(void)error;
	work_runs = true;
	while (work_hangs)
		nap();
	return 0;
}

static void *write_unsynced(void *store)
{
	return store_write_unsynced(store, hang_in_work, NULL, ERR_IGNORED) == 0 ? store
										 : NULL;
}

/* A write that does not wait for the disk does not go on with what was queued meanwhile:
 * one of those that wait does. */
TEST(those_who_wait_take_over_from_one_who_stops)
{
	struct add adds[3] = { { .id = 1 }, { .id = 2 }, { .id = 3 } };
	struct store *store = open_items("db");
	pthread_t thread;
	void *done;

	work_hangs = true;
	thread_start(&thread, "test-hang", write_unsynced, store);
	while (!work_runs)
		nap();
	atomic_store(&adds_begun, 0);
	for (int i = 0; i < 3; i++)
		start(store, &adds[i]);
	while (adds_begun < 3)
		nap();
	poll(NULL, 0, 50); /* they have nothing to do but to queue */
	work_hangs = false;
	pthread_join(thread, &done);
	assert_non_null(done);
	for (int i = 0; i < 3; i++)
		thread_join(adds[i].thread);
	assert_int_equal(count_items(store), 3);
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

TEST(only_what_is_to_be_durable_waits_for_the_disk)
{
	struct store *store = open_items("db");
	struct add add = { .id = 7 };
	int syncs = disk_syncs;

	for (int i = 0; i < 5; i++, add.id++)
		assert_ok(store_write_unsynced(store, add_item, &add, &err));
	assert_int_equal(disk_syncs, syncs);
	assert_true(holds(store, 7));
	assert_ok(store_write(store, add_item, &add, &err));
	assert_true(disk_syncs > syncs);
	syncs = disk_syncs;
	add.id++;
	assert_ok(store_write_unsynced(store, add_item, &add, &err));
	assert_int_equal(disk_syncs, syncs);
	store_close(store);
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
	int64_t until = clock_boot_ms() + 20000;
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

static int check_place(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_check_place(tx, error);
}

/* Another process may work on it, too. */
TEST(a_file_that_is_replaced_while_it_is_used_is_noticed)
{
	struct store *store = open_items("db");
	sqlite3 *other;

	assert_int_equal(sqlite3_open(path_of("db"), &other), SQLITE_OK);
	assert_int_equal(sqlite3_exec(other, "VACUUM", NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(other);
	assert_ok(store_write(store, check_place, NULL, &err));
	assert_return_code(renameat(root_fd, "db", root_fd, "away"), errno);
	assert_fails(store_write(store, check_place, NULL, &err), ERR_DISK);
	assert_non_null(strstr(err.remedy, "put the right file back"));
	assert_non_null(strstr(err.remedy, "remove them if you restore a backup"));
	assert_ok(file_replace(root_fd, "db", "another", 7, FILE_NO_SYNC, &err));
	assert_fails(store_write(store, check_place, NULL, &err), ERR_DISK);
	assert_return_code(renameat(root_fd, "away", root_fd, "db"), errno);
	assert_ok(store_write(store, check_place, NULL, &err));
	store_close(store);
	assert_ok(store_open("sqlite::memory:", &store, &err));
	assert_ok(store_write(store, check_place, NULL, &err));
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
		"INSERT INTO registry (id, kind, name, state, verification_state,"
		" created_at) VALUES (1, 'repository', 'a', 0, 0, 1);"
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
	assert_null(query_text(query, 2));
	assert_int_equal(query_int(query, 3), 2); /* no ticket is given twice */
	assert_int_equal(query_int(query, 4), 6);
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

static size_t count_files(void)
{
	AUTO_CLOSEDIR DIR *dir = opendir(root);
	size_t count = 0;

	assert_non_null(dir);
	while (readdir(dir))
		count++;
	return count;
}

static void assert_reads(size_t items, size_t files)
{
	struct store *store;

	assert_ok(store_open_to_read(path_of("db"), &store, &err));
	assert_int_equal(count_items(store), items);
	assert_int_equal(write_item(store, 99), -1);
	store_close(store);
	assert_int_equal(count_files(), files);
}

static int open_and_die(int arg)
{
	struct store *store = NULL;

	(void)arg;
	if (open_at("db", &store) != 0 ||
	    store_write(store, add_item, &(struct add){ .id = 3 }, &err) != 0)
		return complain(&err);
	raise(SIGKILL);
	return 1;
}

TEST(who_only_reads_makes_no_file_and_sees_what_was_committed)
{
	struct store *store, *reading;

	assert_fails(store_open_to_read(path_of("db"), &store, &err), ERR_MISSING);
	assert_int_equal(count_files(), 2);
	store = open_items("db");
	assert_ok(write_item(store, 1));
	store_close(store);
	assert_reads(1, 3); /* nobody has it open: the file is alone */
	store = open_items("db");
	assert_ok(write_item(store, 2));
	assert_reads(2, 5); /* and now with its log and index */
	assert_ok(store_open_to_read(path_of("db"), &reading, &err));
	assert_ok(write_item(store, 4));
	assert_int_equal(count_items(reading), 3);
	store_close(store);
	assert_int_equal(count_items(reading), 3); /* also when the log is gone */
	store_close(reading);
	wait_child(start_child(open_and_die, 0));
	assert_reads(4, 5); /* what a crash left in the log */
}

TEST(reads_at_once_go_on_one_connection)
{
	struct store *store = open_items("db");

	assert_ok(write_item(store, 1));
	store_close(store);
	assert_ok(store_open_to_read(path_of("db"), &store, &err));
	store_read_at_once(store);
	assert_int_equal(count_items(store), 1);
	assert_int_equal(unlink(path_of("db")), 0);
	assert_int_equal(count_items(store), 1); /* else it would be opened anew */
	store_close(store);
}

static int set_version(struct store_tx *tx, void *arg, struct err *error)
{
	return query_write(tx, error,
			   "UPDATE schema_version SET version = ?1"
			   " WHERE version = (SELECT MAX(version) FROM schema_version)",
			   QUERY_INT(*(int *)arg));
}

static int forget_later(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx, "DELETE FROM schema_version WHERE version > 6", error);
}

TEST(a_database_of_another_version_is_not_read)
{
	struct store *store = open_items("db");

	assert_ok(store_write(store, forget_later, NULL, &err));
	store_close(store);
	assert_fails(store_open_to_read(path_of("db"), &store, &err), ERR_CONFIG);
	assert_non_null(strstr(err.text, "last used by an older refrelay (schema 6"));
}

static int forget_last(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return query_write(tx, error, "DELETE FROM schema_version WHERE version = ?1",
			   QUERY_INT(store_schema_version()));
}

static int note_last(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return query_write(tx, error, "INSERT INTO schema_version VALUES (?1, 1)",
			   QUERY_INT(store_schema_version()));
}

static void *bring_up_to_date(void *arg)
{
	struct err why;

	usleep(300000); /* either order must do; in this one it is waited for */
	return store_write(arg, note_last, NULL, &why) == 0 ? NULL : arg;
}

/* The node of this version has just started. */
TEST(a_migration_under_way_is_waited_for)
{
	struct store *store = open_items("db"), *beside;
	AUTO_FREE char *url = xasprintf("sqlite:%s", path_of("db"));
	pthread_t thread;
	void *failed;

	assert_ok(store_write(store, forget_last, NULL, &err));
	thread_start(&thread, "test-migrate", bring_up_to_date, store);
	assert_ok(store_open_beside(url, &beside, &err));
	pthread_join(thread, &failed);
	assert_null(failed);
	store_close(beside);
	store_close(store);
}

static void assert_refused(int version, const char *text)
{
	struct store *store = open_items("db");

	assert_ok(store_write(store, forget_later, NULL, &err));
	assert_ok(store_write(store, set_version, &version, &err));
	store_close(store);
	assert_fails(store_open_to_read(path_of("db"), &store, &err), ERR_CONFIG);
	assert_non_null(strstr(err.text, text));
	assert_int_equal(open_at("db", &store), -1);
	assert_int_equal(err.class, ERR_CONFIG);
	assert_non_null(strstr(err.text, text));
}

TEST(a_database_of_before_the_first_release_is_refused)
{
	assert_refused(5, "made by a refrelay before 0.1.0 (schema 5");
}

TEST(a_database_of_a_newer_program_is_refused)
{
	assert_refused(store_schema_version() + 1, "made by a newer refrelay");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORE_CASE(values_come_back_as_they_went_in),
		STORE_CASE(a_query_may_run_inside_itself),
		STORE_CASE(what_is_queued_is_committed_at_once),
		STORE_CASE(those_who_wait_take_over_from_one_who_stops),
		STORE_CASE(a_failed_work_is_undone_alone),
		STORE_CASE(another_process_sees_a_write_as_soon_as_it_returned),
		STORE_CASE(only_what_is_to_be_durable_waits_for_the_disk),
		STORE_CASE(processes_write_side_by_side),
		STORE_CASE(a_reader_sees_one_picture_and_blocks_no_writer),
		STORE_CASE(eight_read_at_once_and_others_wait),
		STORE_CASE(eight_threads_lose_nothing),
		STORE_CASE(a_file_that_is_replaced_while_it_is_used_is_noticed),
		STORE_CASE(a_store_in_memory_needs_no_file),
		STORE_CASE(the_schema_is_there),
		STORE_CASE(files_are_private_and_not_inherited),
		STORE_CASE(who_only_reads_makes_no_file_and_sees_what_was_committed),
		STORE_CASE(reads_at_once_go_on_one_connection),
		STORE_CASE(a_database_of_another_version_is_not_read),
		STORE_CASE(a_migration_under_way_is_waited_for),
		STORE_CASE(a_database_of_before_the_first_release_is_refused),
		STORE_CASE(a_database_of_a_newer_program_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
