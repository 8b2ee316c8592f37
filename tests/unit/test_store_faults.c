#include "store_fixture.h"

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

/* Not by an index. */
static int read_texts(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, "SELECT SUM(LENGTH(text)) FROM item", &query, error) != 0 ||
	    query_step(query, error) < 0)
		return -1;
	*(int64_t *)arg = query_int(query, 0);
	return 0;
}

TEST(damage_inside_is_told)
{
	struct add add = { .id = 1, .rows = 400, .size = 1000 };
	char garbage[4096];
	struct store *store = open_items("db");
	int64_t size;

	assert_ok(store_write(store, add_item, &add, &err));
	assert_ok(store_read(store, read_texts, &size, &err));
	assert_int_equal(size, 400 * 1000);
	store_close(store);
	memset(garbage, 0xa5, sizeof(garbage));
	for (off_t page = 60; page < 90; page++) /* behind the schema */
		overwrite("db", page * 4096, garbage, sizeof(garbage));
	assert_ok(open_at("db", &store));
	assert_fails(store_check(store, &err), ERR_CORRUPT);
	assert_fails(store_read(store, read_texts, &size, &err), ERR_CORRUPT);
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

static rlim_t limit_descriptors(rlim_t count)
{
	struct rlimit limit;
	rlim_t before;

	assert_return_code(getrlimit(RLIMIT_NOFILE, &limit), errno);
	before = limit.rlim_cur;
	limit.rlim_cur = count;
	assert_return_code(setrlimit(RLIMIT_NOFILE, &limit), errno);
	return before;
}

TEST(a_lack_of_descriptors_is_not_told_as_a_broken_disk)
{
	struct store *store = open_items("db");
	rlim_t before = limit_descriptors(0);

	int result = store_read(store, read_count, &(int64_t){ 0 }, &err);
	limit_descriptors(before);
	assert_int_equal(result, -1);
	assert_int_equal(err.class, ERR_DISK);
	assert_int_equal(err.sys_errno, EMFILE);
	assert_non_null(strstr(err.remedy, "open files"));
	assert_int_equal(count_items(store), 0);
	store_close(store);
}

static void *release_soon(void *arg)
{
	poll(NULL, 0, 50);
	/* Busy as long as another reads. */
	while (sqlite3_exec(arg, "COMMIT", NULL, NULL, NULL) == SQLITE_BUSY)
		poll(NULL, 0, 1);
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
	static int64_t reported[100000];
	size_t count = 0;

	assert_int_equal(pipe(ack_pipe), 0);
	pid_t pid = start_child(write_until_killed, 0);
	close(ack_pipe[1]);
	while (count < ARRAY_SIZE(reported) &&
	       read(ack_pipe[0], &reported[count], sizeof(reported[0])) ==
		       sizeof(reported[0]))
		if (++count == 700)
			kill(pid, SIGKILL);
	close(ack_pipe[0]);
	assert_true(WIFSIGNALED(wait_child(pid)));
	assert_true(count >= 700);
	struct store *store = open_items("db");
	assert_ok(store_check(store, &err));
	for (size_t i = 0; i < count; i++)
		assert_true(holds(store, reported[i]));
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
		STORE_CASE(a_write_was_synced_before_it_returns),
		STORE_CASE(a_failed_commit_fails_every_write_in_it),
		STORE_CASE(a_work_too_big_for_the_disk_fails_alone),
		STORE_CASE(a_newer_schema_is_refused),
		STORE_CASE(a_file_that_is_no_database_is_told_so),
		STORE_CASE(damage_inside_is_told),
		STORE_CASE(what_cannot_be_a_database_is_explained),
		STORE_CASE(missing_rights_are_told),
		STORE_CASE(a_lack_of_descriptors_is_not_told_as_a_broken_disk),
		STORE_CASE(a_lock_of_another_process_is_waited_for_then_told),
		STORE_CASE(a_lock_is_waited_for_when_a_new_file_is_opened),
		STORE_CASE(a_killed_writer_has_lost_nothing_it_acknowledged),
		STORE_CASE(our_own_mistakes_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
