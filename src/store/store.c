#include "store/store.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "base/bell.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/vec.h"
#include "store/schema.h"
#include "store/store_conn.h"

#define STORE_READERS 8
#define SCHEMA_WAIT_MS 3000
#define SCHEMA_POLL_US 50000
#define WRITE_ON_MS 5 /* one caller writes for others, after its own */

struct store_readers {
	pthread_mutex_t mutex;
	pthread_cond_t returned;
	const char *place;                      /* borrowed */
	struct store_conn *idle[STORE_READERS]; /* guarded by mutex */
	int idle_count;                         /* guarded by mutex */
	int open_count;                         /* guarded by mutex; idle or in use */
};

struct store_writer;

static _Thread_local bool in_work;

/* Whether this thread is inside a work just now. */
static bool store_conn_in_work(void)
{
	return in_work;
}

/* Ends it with its kept queries. NULL is allowed. */
static void store_conn_close(struct store_conn *conn)
{
	const struct map_entry *entry;
	size_t at = 0;

	if (!conn)
		return;
	while ((entry = map_next(&conn->queries, &at)) != NULL)
		query_free(entry->value);
	map_clear(&conn->queries);
	store_sqlite_close(conn);
}

static int store_conn_begin(struct store_conn *conn, enum store_role role,
			    struct err *err)
{
	conn->torn = false;
	return store_sqlite_control(
		conn, role == STORE_WRITER ? STORE_BEGIN_WRITE : STORE_BEGIN_READ, err);
}

static bool is_in_transaction(const struct store_conn *conn)
{
	return !sqlite3_get_autocommit(conn->db);
}

static void store_conn_rollback(struct store_conn *conn)
{
	if (is_in_transaction(conn))
		store_sqlite_control(conn, STORE_ROLLBACK, ERR_IGNORED);
}

/* If it fails, the transaction was rolled back. */
static int store_conn_commit(struct store_conn *conn, struct err *err)
{
	if (store_sqlite_control(conn, STORE_COMMIT, err) == 0)
		return 0;
	store_conn_rollback(conn);
	return -1;
}

static int tear(struct store_conn *conn, const struct err *err)
{
	store_conn_rollback(conn);
	conn->torn = true;
	conn->tear = *err;
	return -1;
}

int store_conn_failed(struct store_conn *conn, const struct err *err)
{
	if (!conn->torn && !is_in_transaction(conn))
		tear(conn, err);
	return -1;
}

int store_conn_must_hold(const struct store_conn *conn, struct err *err)
{
	if (!conn->torn)
		return 0;
	*err = conn->tear;
	return -1;
}

/* A work that overlooked the failure which tore its transaction has failed, too. */
static int store_conn_run_work(struct store_conn *conn, enum store_role role,
			       store_work work, void *arg, struct err *err)
{
	struct store_tx tx = { .conn = conn, .role = role };

	assert(!in_work);
	in_work = true;
	int result = work(&tx, arg, err);
	in_work = false;
	assert(tx.open_queries == 0);
	assert(result == 0 || result == -1);
	if (result == 0)
		return store_conn_must_hold(conn, err);
	return -1;
}

/* Runs work inside a savepoint of the open transaction; a failed work is undone alone.
 * When conn->torn is set afterwards, the whole transaction is gone. */
static int store_conn_run_nested(struct store_conn *conn, store_work work, void *arg,
				 struct err *err)
{
	struct err failure;

	if (store_sqlite_control(conn, STORE_SAVEPOINT, err) != 0)
		return tear(conn, err);
	int result = store_conn_run_work(conn, STORE_WRITER, work, arg, err);
	if (conn->torn)
		return -1;
	if ((result != 0 &&
	     store_sqlite_control(conn, STORE_ROLLBACK_TO, &failure) != 0) ||
	    store_sqlite_control(conn, STORE_RELEASE, &failure) != 0) {
		*err = failure;
		return tear(conn, err);
	}
	return result;
}

int store_conn_transaction(struct store_conn *conn, enum store_role role, store_work work,
			   void *arg, struct err *err)
{
	if (store_conn_begin(conn, role, err) != 0)
		return -1;
	if (store_conn_run_work(conn, role, work, arg, err) != 0) {
		store_conn_rollback(conn);
		return -1;
	}
	return store_conn_commit(conn, err);
}

int store_exec(struct store_tx *tx, const char *sql, struct err *err)
{
	struct store_conn *conn = tx->conn;

	assert(tx->role == STORE_WRITER);
	if (store_conn_must_hold(conn, err) != 0)
		return -1;
	if (store_sqlite_exec(conn, sql, err) != 0)
		return store_conn_failed(conn, err);
	return 0;
}

int store_check_place(struct store_tx *tx, struct err *err)
{
	return store_sqlite_check_place(tx->conn, err);
}

static void store_readers_init(struct store_readers *readers)
{
	mutex_init(&readers->mutex);
	cond_init(&readers->returned);
}

/* All connections must have been given back. */
static void store_readers_clear(struct store_readers *readers)
{
	assert(readers->idle_count == readers->open_count);
	while (readers->idle_count > 0)
		store_conn_close(readers->idle[--readers->idle_count]);
	pthread_cond_destroy(&readers->returned);
	pthread_mutex_destroy(&readers->mutex);
}

/* An idle connection, or NULL with a place reserved for a new one. */
static struct store_conn *take_idle(struct store_readers *readers)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&readers->mutex);

	while (readers->idle_count == 0 && readers->open_count == STORE_READERS)
		cond_wait_until(&readers->returned, &readers->mutex, INT64_MAX);
	if (readers->idle_count > 0)
		return readers->idle[--readers->idle_count];
	readers->open_count++;
	return NULL;
}

/* conn NULL: there is one less. */
static void store_readers_put_back(struct store_readers *readers, struct store_conn *conn)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&readers->mutex);

	if (conn)
		readers->idle[readers->idle_count++] = conn;
	else
		readers->open_count--;
	pthread_cond_signal(&readers->returned);
}

/* Waits while all are in use. */
static int store_readers_take(struct store_readers *readers, struct store_conn **conn,
			      struct err *err)
{
	*conn = take_idle(readers);
	if (*conn)
		return 0;
	if (store_sqlite_open(readers->place, STORE_READER, conn, err) == 0)
		return 0;
	store_readers_put_back(readers, NULL);
	return -1;
}

static void store_readers_give(struct store_readers *readers, struct store_conn *conn)
{
	if (is_in_transaction(conn)) {
		store_conn_close(conn); /* it could not even roll back */
		conn = NULL;
	}
	store_readers_put_back(readers, conn);
}

/*
 * Group commit without a timer, and without a thread: whoever comes while nobody writes
 * runs its request itself, and with it those of all who wait. While one commit waits for
 * the disk, the next requests gather, so batches grow with the load, and a write on an
 * idle store waits for nothing but its own commit, nor for another thread.
 *
 * A work that fails is undone alone (savepoint). Some failures, such as a full disk,
 * make the database roll back everything; then each request of the batch is run anew in
 * a transaction of its own, so that the work which is at fault fails alone.
 */

struct request {
	store_work work;
	void *arg;
	struct err *err; /* the caller's */
	bool is_unsynced;
	int result;          /* its batch's thread only until done */
	bool done;           /* guarded by the writer's mutex */
	pthread_cond_t turn; /* it is done, or nobody writes */
	TAILQ_ENTRY(request) link;
};

struct store_writer {
	pthread_mutex_t mutex;
	TAILQ_HEAD(, request) queue; /* guarded by mutex */
	bool is_busy;                /* guarded by mutex; one of the callers writes */
	struct store_conn *conn;     /* borrowed; of the thread that writes */
	VEC(struct request *) batch; /* of the thread that writes */
	atomic_uint_fast64_t commits;
};

static void store_writer_fail_all(struct request **requests, size_t count,
				  const struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		if (requests[i]->result == 0)
			*requests[i]->err = *err;
		requests[i]->result = -1;
	}
}

/* False: the transaction is gone and nothing of it was written. */
static bool run_all(struct store_conn *conn, struct request **requests, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct request *request = requests[i];
		request->result = store_conn_run_nested(conn, request->work, request->arg,
							request->err);
		if (conn->torn)
			return false;
	}
	return true;
}

/* Durable, if one of them is to be. */
static int set_sync(struct store_conn *conn, struct request **requests, size_t count,
		    struct err *err)
{
	bool is_unsynced = true;

	for (size_t i = 0; i < count; i++)
		is_unsynced &= requests[i]->is_unsynced;
	if (is_unsynced == conn->is_unsynced)
		return 0;
	if (store_sqlite_control(conn, is_unsynced ? STORE_UNSYNCED : STORE_SYNCED,
				 err) != 0)
		return -1;
	conn->is_unsynced = is_unsynced;
	return 0;
}

static void run_batch(struct store_writer *writer, struct request **requests,
		      size_t count)
{
	struct err err;

	for (size_t i = 0; i < count; i++)
		requests[i]->result = 0;
	if (set_sync(writer->conn, requests, count, &err) != 0 ||
	    store_conn_begin(writer->conn, STORE_WRITER, &err) != 0) {
		store_writer_fail_all(requests, count, &err);
		return;
	}
	if (!run_all(writer->conn, requests, count)) {
		for (size_t i = 0; count > 1 && i < count; i++)
			run_batch(writer, &requests[i], 1);
		return;
	}
	if (store_conn_commit(writer->conn, &err) != 0)
		store_writer_fail_all(requests, count, &err);
	else
		atomic_fetch_add(&writer->commits, 1);
}

static void store_writer_take_queue_locked(struct store_writer *writer)
{
	struct request *request;

	writer->batch.count = 0;
	while ((request = TAILQ_FIRST(&writer->queue)) != NULL) {
		TAILQ_REMOVE(&writer->queue, request, link);
		vec_add(&writer->batch, request);
	}
}

/* Waits until the request is done: false; or until nobody writes: then the caller does,
 * and what was queued is the batch. */
static bool store_writer_begin(struct store_writer *writer, struct request *request)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&writer->mutex);

	TAILQ_INSERT_TAIL(&writer->queue, request, link);
	while (!request->done && writer->is_busy)
		cond_wait_until(&request->turn, &writer->mutex, INT64_MAX);
	if (request->done)
		return false;
	writer->is_busy = true;
	store_writer_take_queue_locked(writer);
	return true;
}

/* The batch is done. True: there is another one, which the caller is to run as well:
 * under load the next one of those who wait may be long in waking up. Under the mutex to
 * the end: a request is gone as soon as its caller sees done. */
static bool store_writer_end(struct store_writer *writer, bool may_go_on)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&writer->mutex);
	struct request *first = TAILQ_FIRST(&writer->queue);

	for (size_t i = 0; i < writer->batch.count; i++) {
		writer->batch.items[i]->done = true;
		pthread_cond_signal(&writer->batch.items[i]->turn);
	}
	writer->is_busy = first && may_go_on;
	if (writer->is_busy)
		store_writer_take_queue_locked(writer);
	else if (first)
		pthread_cond_signal(&first->turn);
	return writer->is_busy;
}

static struct store_writer *store_writer_new(struct store_conn *conn)
{
	struct store_writer *writer = xcalloc(1, sizeof(*writer));

	mutex_init(&writer->mutex);
	TAILQ_INIT(&writer->queue);
	atomic_init(&writer->commits, 0);
	writer->conn = conn;
	return writer;
}

/* Nobody writes any more. */
static void store_writer_free(struct store_writer *writer)
{
	assert(TAILQ_EMPTY(&writer->queue) && !writer->is_busy);
	vec_clear(&writer->batch);
	pthread_mutex_destroy(&writer->mutex);
	free(writer);
}

/* As store_write(). Safe from any thread, except inside a work. */
static int store_writer_run(struct store_writer *writer, store_work work, void *arg,
			    bool is_unsynced, struct err *err)
{
	struct request request = {
		.work = work, .arg = arg, .err = err, .is_unsynced = is_unsynced
	};

	cond_init(&request.turn);
	if (store_writer_begin(writer, &request)) {
		/* What others log in it is not about the caller's work. */
		struct log_context before = log_set_context((struct log_context){ 0 });
		run_batch(writer, writer->batch.items, writer->batch.count);
		int64_t until = clock_boot_ms() + WRITE_ON_MS;
		/* A caller that does not wait for the disk has no time for those that do.
		 */
		while (store_writer_end(writer, !is_unsynced && clock_boot_ms() < until))
			run_batch(writer, writer->batch.items, writer->batch.count);
		log_set_context(before);
	}
	pthread_cond_destroy(&request.turn);
	return request.result;
}

static uint64_t store_writer_commits(struct store_writer *writer)
{
	return atomic_load(&writer->commits);
}

struct store {
	char *place;             /* owned */
	struct store_conn *conn; /* the writer's; in memory: everybody's, under mutex */
	struct store_writer *writer;  /* NULL: in memory, all runs in its caller */
	struct store_readers readers; /* unused in memory */
	pthread_mutex_t mutex;        /* only in memory */
	atomic_uint_fast64_t written; /* transactions; only in memory */
	const volatile void *header;  /* NULL: none */
	bool is_to_read;              /* a connection a read, and no other */
	bool is_at_once;              /* but conn for all, as one thread reads it */
	char *node;                   /* owned; NULL: none was set */
};

void store_set_node(struct store *store, const char *node)
{
	free(store->node);
	store->node = xstrdup(node);
}

const char *store_file(const struct store *store)
{
	return store->writer || store->is_to_read ? store->place : NULL;
}

const char *store_node(const struct store *store)
{
	return store->node ? store->node : "";
}

/* Only the scheme is quoted: a URL may hold a password. */
static int find_target(const char *url, const char **target, struct err *err)
{
	static const char prefix[] = "sqlite:";

	if (text_starts_with(url, prefix) && url[sizeof(prefix) - 1] != '\0') {
		*target = url + sizeof(prefix) - 1;
		return 0;
	}
	err_set(err, ERR_CONFIG, "database.url: \"%.*s\" is not understood",
		(int)strcspn(url, ":@/"), url);
	return err_remedy(err, "write it as sqlite:PATH; other databases are not "
			       "supported yet");
}

/* A node that has just started may be bringing it up to date. */
static int wait_for_schema(struct store_conn *conn, struct err *err)
{
	const int64_t until = clock_boot_ms() + SCHEMA_WAIT_MS;
	int result;

	while ((result = schema_check(conn, err)) != 0 && err->class == ERR_CONFIG &&
	       clock_boot_ms() < until)
		usleep(SCHEMA_POLL_US);
	return result;
}

static int connect_store(struct store *store, const char *target, bool may_migrate,
			 struct err *err)
{
	if (store_sqlite_locate(target, &store->place, err) != 0)
		return -1;
	if (store_sqlite_open(store->place, STORE_WRITER, &store->conn, err) != 0)
		return -1;
	return may_migrate ? schema_migrate(store->conn, err)
			   : wait_for_schema(store->conn, err);
}

static int open_store(const char *url, bool may_migrate, struct store **store,
		      struct err *err)
{
	struct store *opened = xcalloc(1, sizeof(*opened));
	const char *target = NULL;

	*store = NULL;
	mutex_init(&opened->mutex);
	store_readers_init(&opened->readers);
	if (find_target(url, &target, err) != 0 ||
	    connect_store(opened, target, may_migrate, err) != 0) {
		store_close(opened);
		return -1;
	}
	opened->readers.place = opened->place;
	if (strcmp(target, ":memory:") != 0) {
		opened->header = store_sqlite_header(opened->conn);
		opened->writer = store_writer_new(opened->conn);
	}
	*store = opened;
	return 0;
}

int store_open(const char *url, struct store **store, struct err *err)
{
	return open_store(url, true, store, err);
}

int store_open_beside(const char *url, struct store **store, struct err *err)
{
	return open_store(url, false, store, err);
}

int store_open_to_read(const char *path, struct store **store, struct err *err)
{
	struct store *opened;
	struct store_conn *conn;
	int result;

	*store = NULL;
	if (access(path, F_OK) != 0)
		return err_errno(err, "cannot find the database %s", path);
	if (store_sqlite_open(path, STORE_LOOKER, &conn, err) != 0)
		return -1;
	result = schema_check(conn, err);
	store_conn_close(conn);
	if (result != 0)
		return -1;
	opened = xcalloc(1, sizeof(*opened));
	mutex_init(&opened->mutex);
	opened->place = xstrdup(path);
	opened->is_to_read = true;
	store_readers_init(&opened->readers);
	*store = opened;
	return 0;
}

/* The writer's connection goes last: SQLite's last one folds the log into the file. */
void store_close(struct store *store)
{
	if (!store)
		return;
	if (store->writer)
		store_writer_free(store->writer);
	store_readers_clear(&store->readers);
	store_conn_close(store->conn);
	pthread_mutex_destroy(&store->mutex);
	free(store->place);
	free(store->node);
	free(store);
}

static int run_in_memory(struct store *store, enum store_role role, store_work work,
			 void *arg, struct err *err)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&store->mutex);
	int result = store_conn_transaction(store->conn, role, work, arg, err);

	if (role == STORE_WRITER)
		atomic_fetch_add(&store->written, 1);
	return result;
}

bool store_stamp(const struct store *store, struct store_stamp *stamp)
{
	*stamp = (struct store_stamp){ 0 };
	if (store->header)
		return store_sqlite_stamp(store->header, stamp);
	stamp->words[0] = atomic_load(&store->written);
	return !store->writer && !store->is_to_read;
}

bool store_stamp_equal(const struct store_stamp *a, const struct store_stamp *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static int write_in(struct store *store, store_work work, void *arg, bool is_unsynced,
		    struct err *err)
{
	assert(!store_conn_in_work());
	if (store->is_to_read)
		return err_set(err, ERR_INTERNAL, "database %s: it is open to be read",
			       store->place);
	if (!store->writer)
		return run_in_memory(store, STORE_WRITER, work, arg, err);
	return store_writer_run(store->writer, work, arg, is_unsynced, err);
}

static int write_and_ring(struct store *store, store_work work, void *arg,
			  bool is_unsynced, struct err *err)
{
	if (write_in(store, work, arg, is_unsynced, err) != 0)
		return -1;
	bell_ring();
	return 0;
}

int store_write(struct store *store, store_work work, void *arg, struct err *err)
{
	return write_and_ring(store, work, arg, false, err);
}

int store_write_unsynced(struct store *store, store_work work, void *arg, struct err *err)
{
	return write_and_ring(store, work, arg, true, err);
}

int store_write_quietly(struct store *store, store_work work, void *arg, struct err *err)
{
	return write_in(store, work, arg, false, err);
}

static int store_read_on(struct store *store, store_work work, void *arg, struct err *err)
{
	if (!store->conn &&
	    store_sqlite_open(store->place, STORE_LOOKER, &store->conn, err) != 0)
		return -1;
	return store_conn_transaction(store->conn, STORE_READER, work, arg, err);
}

static int read_anew(struct store *store, store_work work, void *arg, struct err *err)
{
	struct store_conn *conn;

	if (store->is_at_once)
		return store_read_on(store, work, arg, err);
	if (store_sqlite_open(store->place, STORE_LOOKER, &conn, err) != 0)
		return -1;
	int result = store_conn_transaction(conn, STORE_READER, work, arg, err);
	store_conn_close(conn);
	return result;
}

void store_read_at_once(struct store *store)
{
	store->is_at_once = true;
}

int store_read(struct store *store, store_work work, void *arg, struct err *err)
{
	struct store_conn *conn;

	assert(!store_conn_in_work());
	if (store->is_to_read)
		return read_anew(store, work, arg, err);
	if (!store->writer)
		return run_in_memory(store, STORE_READER, work, arg, err);
	if (store_readers_take(&store->readers, &conn, err) != 0)
		return -1;
	int result = store_conn_transaction(conn, STORE_READER, work, arg, err);
	store_readers_give(&store->readers, conn);
	return result;
}

uint64_t store_commits(struct store *store)
{
	return store->writer ? store_writer_commits(store->writer) : 0;
}
