/*
 * What both tests of store/ share: a disk under the test's control, a table of items,
 * writes from threads and from other processes.
 */
#ifndef UNIT_STORE_FIXTURE_H
#define UNIT_STORE_FIXTURE_H

#include "test.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <sqlite3.h>

#include "base/clock.h"
#include "base/thread.h"
#include "store/store.h"
#include "store/store_conn.h"

/* Stand in for libc's: a commit can be held up, made to fail, and counted. */
static atomic_bool disk_hangs, disk_fails;
static atomic_int disk_waiting, disk_syncs;

static inline void nap(void)
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

static inline int repair_disk(void **state)
{
	disk_hangs = disk_fails = false;
	return test_make_root(state);
}

#define STORE_CASE(name)                                                                 \
	cmocka_unit_test_setup_teardown(name, repair_disk, test_remove_root)

static inline const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static inline int open_at(const char *name, struct store **store)
{
	char url[160];

	snprintf(url, sizeof(url), "sqlite:%s", path_of(name));
	return store_open(url, store, &err);
}

static inline int make_table(struct store_tx *tx, void *arg, struct err *error)
{
	(void)arg;
	return store_exec(tx,
			  "CREATE TABLE IF NOT EXISTS item (id BIGINT PRIMARY KEY,"
			  " text TEXT, bytes BLOB)",
			  error);
}

static inline struct store *open_items(const char *name)
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

static inline int add_rows(struct store_tx *tx, struct add *add, struct err *error)
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

static inline int add_item(struct store_tx *tx, void *arg, struct err *error)
{
	struct add *add = arg;

	if (add_rows(tx, add, error) != 0)
		return -1;
	if (add->how == FAILS)
		return err_set(error, ERR_CONFLICT, "told to fail");
	return 0;
}

static inline int write_item(struct store *store, int64_t id)
{
	return store_write(store, add_item, &(struct add){ .id = id }, &err);
}

static inline int read_count(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, "SELECT COUNT(*) FROM item", &query, error) != 0 ||
	    query_step(query, error) < 0)
		return -1;
	*(int64_t *)arg = query_int(query, 0);
	return 0;
}

static inline int64_t count_items(struct store *store)
{
	int64_t count = -1;

	assert_ok(store_read(store, read_count, &count, &err));
	return count;
}

static inline int read_integrity(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;

	(void)arg;
	if (query_open(tx, "PRAGMA integrity_check(1)", &query, error) != 0 ||
	    query_step(query, error) < 0)
		return -1;
	if (strcmp(query_text(query, 0), "ok") == 0)
		return 0;
	return err_set(error, ERR_CORRUPT, "%s", query_text(query, 0));
}

/* Reads all of the database and compares indexes with tables. ERR_CORRUPT. */
static inline int store_check(struct store *store, struct err *error)
{
	return store_read(store, read_integrity, NULL, error);
}

static inline int has_item(struct store_tx *tx, void *arg, struct err *error)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, "SELECT 1 FROM item WHERE id = ?1", &query, error) != 0)
		return -1;
	query_bind_int(query, 1, *(int64_t *)arg);
	int found = query_step(query, error);
	return found == 1 ? 0 : -1;
}

static inline bool holds(struct store *store, int64_t id)
{
	return store_read(store, has_item, &id, ERR_IGNORED) == 0;
}

static atomic_int adds_begun;

static inline void *add_in_thread(void *arg)
{
	struct add *add = arg;

	atomic_fetch_add(&adds_begun, 1);
	add->result = store_write(add->store, add_item, add, &add->err);
	return NULL;
}

static inline void start(struct store *store, struct add *add)
{
	add->store = store;
	thread_start(&add->thread, "test-add", add_in_thread, add);
}

/* Lets the writer hang in the commit of a first write until all others are queued,
 * so that they make one batch; `before` runs just before it goes on. */
static inline void run_as_batch(struct store *store, struct add *adds, int count,
				void (*before)(void))
{
	struct add first = { .id = 1000000 };

	disk_hangs = true;
	start(store, &first);
	while (disk_waiting == 0)
		nap();
	atomic_store(&adds_begun, 0);
	for (int i = 0; i < count; i++)
		start(store, &adds[i]);
	while (adds_begun < count)
		nap();
	poll(NULL, 0, 50); /* they have nothing to do but to queue */
	if (before)
		before();
	disk_hangs = false;
	for (int i = 0; i < count; i++)
		thread_join(adds[i].thread);
	thread_join(first.thread);
}

static inline pid_t start_child(int (*body)(int), int arg)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(body(arg));
	}
	assert_true(pid > 0);
	return pid;
}

static inline int wait_child(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* In a child assertions of cmocka would go on with the parent's next test. */
static inline int complain(const struct err *error)
{
	fprintf(stderr, "# child: %s: %s\n", err_class_name(error->class), error->text);
	return 1;
}

#endif
