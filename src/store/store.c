#include "store/store.h"

#include <assert.h>

#include "base/str.h"
#include "base/thread.h"
#include "store/schema.h"
#include "store/store_conn.h"
#include "store/store_readers.h"
#include "store/store_writer.h"

struct store {
	const struct store_driver *driver;
	char *place;             /* owned */
	struct store_conn *conn; /* the writer's; in memory: everybody's, under mutex */
	struct store_writer *writer;  /* NULL: in memory, all runs in its caller */
	struct store_readers readers; /* unused in memory */
	pthread_mutex_t mutex;        /* only in memory */
	atomic_uint_fast64_t written; /* transactions; only in memory */
	const volatile void *header;  /* the driver's; NULL: none */
	bool is_to_read;              /* a connection a read, and no other */
};

/* Only the scheme is quoted: a URL may hold a password. */
static int find_driver(const char *url, const struct store_driver **driver,
		       const char **target, struct err *err)
{
	static const char prefix[] = "sqlite:";

	if (text_starts_with(url, prefix) && url[sizeof(prefix) - 1] != '\0') {
		*driver = &store_sqlite;
		*target = url + sizeof(prefix) - 1;
		return 0;
	}
	err_set(err, ERR_CONFIG, "database.url: \"%.*s\" is not understood",
		(int)strcspn(url, ":@/"), url);
	return err_remedy(err, "write it as sqlite:PATH; other databases are not "
			       "supported yet");
}

static int connect_store(struct store *store, const char *target, struct err *err)
{
	const struct store_driver *driver = store->driver;

	if (driver->locate(target, &store->place, err) != 0)
		return -1;
	if (driver->open(store->place, STORE_WRITER, &store->conn, err) != 0)
		return -1;
	return schema_migrate(store->conn, err);
}

int store_open(const char *url, struct store **store, struct err *err)
{
	struct store *opened = xcalloc(1, sizeof(*opened));
	const char *target = NULL;

	*store = NULL;
	mutex_init(&opened->mutex);
	store_readers_init(&opened->readers, NULL, NULL);
	if (find_driver(url, &opened->driver, &target, err) != 0 ||
	    connect_store(opened, target, err) != 0) {
		store_close(opened);
		return -1;
	}
	opened->readers.driver = opened->driver;
	opened->readers.place = opened->place;
	if (strcmp(target, ":memory:") != 0) {
		opened->header = opened->driver->header(opened->conn);
		opened->writer = store_writer_start(opened->conn);
	}
	*store = opened;
	return 0;
}

int store_open_to_read(const char *path, struct store **store, struct err *err)
{
	struct store *opened;
	struct store_conn *conn;
	int result;

	*store = NULL;
	if (access(path, F_OK) != 0)
		return err_errno(err, "cannot find the database %s", path);
	if (store_sqlite.open(path, STORE_LOOKER, &conn, err) != 0)
		return -1;
	result = schema_check(conn, err);
	store_conn_close(conn);
	if (result != 0)
		return -1;
	opened = xcalloc(1, sizeof(*opened));
	mutex_init(&opened->mutex);
	opened->driver = &store_sqlite;
	opened->place = xstrdup(path);
	opened->is_to_read = true;
	store_readers_init(&opened->readers, NULL, NULL);
	*store = opened;
	return 0;
}

/* The writer's connection goes last: SQLite's last one folds the log into the file. */
void store_close(struct store *store)
{
	if (!store)
		return;
	if (store->writer)
		store_writer_stop(store->writer);
	store_readers_clear(&store->readers);
	store_conn_close(store->conn);
	pthread_mutex_destroy(&store->mutex);
	free(store->place);
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
		return store->driver->stamp(store->header, stamp);
	stamp->words[0] = atomic_load(&store->written);
	return !store->writer && !store->is_to_read;
}

bool store_stamp_equal(const struct store_stamp *a, const struct store_stamp *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

int store_write(struct store *store, store_work work, void *arg, struct err *err)
{
	assert(!store_conn_in_work());
	if (store->is_to_read)
		return err_set(err, ERR_INTERNAL, "database %s: it is open to be read",
			       store->place);
	if (!store->writer)
		return run_in_memory(store, STORE_WRITER, work, arg, err);
	return store_writer_run(store->writer, work, arg, err);
}

static int read_anew(struct store *store, store_work work, void *arg, struct err *err)
{
	struct store_conn *conn;

	if (store->driver->open(store->place, STORE_LOOKER, &conn, err) != 0)
		return -1;
	int result = store_conn_transaction(conn, STORE_READER, work, arg, err);
	store_conn_close(conn);
	return result;
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

static int store_check_work(struct store_tx *tx, void *arg, struct err *err)
{
	(void)arg;
	return tx->conn->driver->check(tx->conn, err);
}

int store_check(struct store *store, struct err *err)
{
	return store_read(store, store_check_work, NULL, err);
}
