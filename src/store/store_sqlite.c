/*
 * SQLite in WAL mode: readers see the last commit before they began and never wait for
 * the writer. synchronous=FULL syncs the log at each commit: that is the promise of
 * store_write(), and not of store_write_unsynced().
 *
 * A transaction that is going to write begins IMMEDIATE: one that starts as a reader
 * and writes later fails at once when another process has written meanwhile, however
 * long it was ready to wait.
 */
#include <assert.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "store/store_driver.h"

struct sqlite_conn {
	struct store_conn base;
	sqlite3 *db;
	sqlite3_stmt *controls[STORE_CONTROLS]; /* prepared when first needed */
	int64_t busy_until;
};

/* The one place where SQLite's errors become ours. code: SQLite's extended one; sql may
 * be NULL. Returns -1. */
static int sqlite_fail(const struct sqlite_conn *conn, int code, const char *sql,
		       struct err *err);

static int sqlite_prepare(struct sqlite_conn *conn, const char *sql,
			  sqlite3_stmt **statement, struct err *err);

struct sqlite_query {
	struct query base;
	sqlite3_stmt *statement;
	int bound; /* the first failure of a bind */
};

static struct sqlite_query *query_of(struct query *query)
{
	return (struct sqlite_query *)query;
}

static struct sqlite_conn *store_sqlite_query_conn_of(const struct query *query)
{
	return (struct sqlite_conn *)query->conn;
}

static int sqlite_query_prepare(struct store_conn *base, const char *sql,
				struct query **query, struct err *err)
{
	sqlite3_stmt *statement;

	if (sqlite_prepare((struct sqlite_conn *)base, sql, &statement, err) != 0)
		return -1;
	struct sqlite_query *made = xcalloc(1, sizeof(*made));
	made->statement = statement;
	*query = &made->base;
	return 0;
}

static void sqlite_query_finalize(struct query *query)
{
	sqlite3_finalize(query_of(query)->statement);
	free(query_of(query));
}

static bool sqlite_query_is_read_only(struct query *query)
{
	return sqlite3_stmt_readonly(query_of(query)->statement);
}

static void sqlite_query_rewind(struct query *query)
{
	sqlite3_reset(query_of(query)->statement); /* tells the last step's error again */
}

static void sqlite_query_forget(struct query *query)
{
	sqlite_query_rewind(query);
	sqlite3_clear_bindings(query_of(query)->statement);
	query_of(query)->bound = SQLITE_OK;
}

/* Only a value that is too big is not our own mistake. */
static void note_bound(struct query *query, int code)
{
	assert(code == SQLITE_OK || code == SQLITE_TOOBIG);
	if (query_of(query)->bound == SQLITE_OK)
		query_of(query)->bound = code;
}

static void sqlite_query_bind_int(struct query *query, int at, int64_t value)
{
	note_bound(query, sqlite3_bind_int64(query_of(query)->statement, at, value));
}

static void sqlite_query_bind_text(struct query *query, int at, const char *value)
{
	note_bound(query,
		   sqlite3_bind_text64(query_of(query)->statement, at, value,
				       strlen(value), SQLITE_TRANSIENT, SQLITE_UTF8));
}

static void sqlite_query_bind_null(struct query *query, int at)
{
	note_bound(query, sqlite3_bind_null(query_of(query)->statement, at));
}

static int sqlite_query_step(struct query *query, struct err *err)
{
	sqlite3_stmt *statement = query_of(query)->statement;
	int code = query_of(query)->bound;

	if (code == SQLITE_OK)
		code = sqlite3_step(statement);
	if (code == SQLITE_ROW)
		return 1;
	if (code == SQLITE_DONE)
		return 0;
	return sqlite_fail(store_sqlite_query_conn_of(query), code,
			   sqlite3_sql(statement), err);
}

/* SQLite remembers the count of the last statement that could have changed any. */
static int64_t sqlite_query_changes(struct query *query)
{
	return sqlite_query_is_read_only(query)
		       ? 0
		       : sqlite3_changes(store_sqlite_query_conn_of(query)->db);
}

static int64_t sqlite_query_column_int(struct query *query, int column)
{
	return sqlite3_column_int64(query_of(query)->statement, column);
}

static bool sqlite_query_column_is_null(struct query *query, int column)
{
	return sqlite3_column_type(query_of(query)->statement, column) == SQLITE_NULL;
}

static const char *sqlite_query_column_text(struct query *query, int column)
{
	return (const char *)sqlite3_column_text(query_of(query)->statement, column);
}

/*
 * In WAL mode a commit is what the header of the WAL index says: all processes map that
 * file (-shm), a writer sets the header as the last thing of its commit, and each reader
 * takes its picture from there. So the same header is the same picture, and one that
 * differs says no more than that somebody committed, or began the log anew. (SQLite's
 * PRAGMA data_version asks the same, but takes a connection and locks of files.)
 *
 * The header is 48 bytes: a counter of commits, the last frame with its checksum, the
 * salts of this log, a checksum of it all. It is there twice; the second is written
 * first. Copies that differ are a commit that is half told, or one whose process died,
 * which the next reader mends: nothing is known then.
 *
 * The mapping is SQLite's own, kept as long as any connection of this process is open. To
 * open the file once more would be dangerous: to close it drops this process's locks.
 *
 * Source: https://www.sqlite.org/walformat.html, 2.1 "The WAL-Index Header".
 */

/* Of the mapping: SQLite asks for as much, and insists on it. */
#define REGION 32768

static const volatile void *sqlite_stamp_header(struct store_conn *base)
{
	struct sqlite_conn *conn = (struct sqlite_conn *)base;
	sqlite3_file *file = NULL;
	volatile void *region = NULL;

	if (sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) !=
		    SQLITE_OK ||
	    !file || !file->pMethods || file->pMethods->iVersion < 2 ||
	    file->pMethods->xShmMap(file, 0, REGION, 0, &region) != SQLITE_OK)
		return NULL;
	return region;
}

/* Members of the driver's table. */
static bool sqlite_stamp_read(const volatile void *header, struct store_stamp *stamp)
{
	const volatile uint64_t *first = header;
	const volatile uint64_t *second = first + ARRAY_SIZE(stamp->words);
	bool is_same = true;

	for (size_t i = 0; i < ARRAY_SIZE(stamp->words); i++)
		stamp->words[i] = __atomic_load_n(&first[i], __ATOMIC_ACQUIRE);
	for (size_t i = 0; i < ARRAY_SIZE(stamp->words); i++)
		is_same &=
			__atomic_load_n(&second[i], __ATOMIC_ACQUIRE) == stamp->words[i];
	return is_same;
}

int64_t store_busy_limit_ms = 10 * 1000;

static struct sqlite_conn *store_sqlite_conn_of(struct store_conn *conn)
{
	return (struct sqlite_conn *)conn;
}

static int fail_disk(const struct sqlite_conn *conn, const char *what, struct err *err)
{
	err_set(err, ERR_DISK, "database %s: %s", conn->base.place, what);
	return err_remedy(err, "see that its file system has space, is mounted for "
			       "writing and is healthy; work goes on by itself");
}

/* SQLite keeps an errno, but often of a later call; so the reason is looked for anew,
 * in the file and in its directory, where the log has to be made. */
static int fail_rights(const struct sqlite_conn *conn, const char *what, struct err *err)
{
	const char *place = conn->base.place;
	const char *slash = strrchr(place, '/');
	AUTO_FREE char *directory =
		xstrndup(place, slash && slash > place ? (size_t)(slash - place) : 1);

	if (access(directory, W_OK | X_OK) == 0 && access(place, R_OK | W_OK) == 0)
		return fail_disk(conn, what, err);
	err_errno(err, "database %s: %s", place, what);
	if (err->class == ERR_MISSING) {
		err->class = ERR_CONFIG;
		err_remedy(err, "make that directory, or name another one");
	}
	return -1;
}

static int fail_corrupt(const struct sqlite_conn *conn, const char *what, struct err *err)
{
	const char *place = conn->base.place;

	err_set(err, ERR_CORRUPT, "database %s is damaged, or not one: %s", place, what);
	return err_remedy(err, "stop refrelay and move the file away with its -wal and "
			       "-shm; it is recreated, and no repository is touched");
}

static int sqlite_fail(const struct sqlite_conn *conn, int code, const char *sql,
		       struct err *err)
{
	const char *place = conn->base.place;
	const char *what = sqlite3_extended_errcode(conn->db) == code
				   ? sqlite3_errmsg(conn->db)
				   : sqlite3_errstr(code);

	switch (code & 0xff) {
	case SQLITE_NOMEM:
		abort();
	case SQLITE_BUSY:
	case SQLITE_PROTOCOL: /* lost too many races for the log's locks */
		err_set(err, ERR_BUSY, "database %s: locked by another process for %d s",
			place, (int)(store_busy_limit_ms / 1000));
		return err_remedy(err, "find out which process uses it: fuser -v %s",
				  place);
	case SQLITE_IOERR:
		return fail_disk(conn, what, err);
	case SQLITE_CANTOPEN:
	case SQLITE_READONLY:
		return fail_rights(conn, what, err);
	case SQLITE_FULL:
		err_set(err, ERR_DISK, "database %s: %s", place, what);
		return err_remedy(err, "free some space on that file system; the work "
				       "goes on by itself at the next try");
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return fail_corrupt(conn, what, err);
	default:
		return err_set(err, ERR_INTERNAL, "database %s: %s (%d)%s%.200s", place,
			       what, code, sql ? ": " : "", sql ? sql : "");
	}
}

static bool in_memory(const char *place)
{
	return strcmp(place, ":memory:") == 0;
}

/* SQLite would take some relative names for a URI, and each connection opens anew. */
static char *absolute(const char *path)
{
	AUTO_FREE char *directory = NULL;

	if (path[0] == '/' || in_memory(path))
		return xstrdup(path);
	directory = getcwd(NULL, 0);
	return xasprintf("%s/%s", directory ? directory : ".", path);
}

/* The file is made here, empty, because SQLite would leave its mode to the umask; it
 * gives the log the same mode. mknod, since to open and close a file that another
 * thread has just begun to use would drop all of this process's locks on it. */
static int make_file(const char *path, struct err *err)
{
	struct stat st;

	if (dir_make_parents(AT_FDCWD, path, err) != 0)
		return err_prefix(err, "database %s", path);
	if (mknod(path, S_IFREG | 0600, 0) == 0)
		return 0;
	if (errno != EEXIST || stat(path, &st) != 0)
		return err_errno(err, "database %s: cannot create it", path);
	if (S_ISREG(st.st_mode))
		return 0;
	return err_set(err, ERR_CONFIG,
		       "database %s: something else than a file is there", path);
}

static int store_sqlite_locate(const char *target, char **place, struct err *err)
{
	*place = absolute(target);
	if (in_memory(*place) || make_file(*place, err) == 0)
		return 0;
	if (err->class == ERR_MISSING)
		err->class = ERR_CONFIG;
	if (err->class == ERR_CONFIG && err->remedy[0] == '\0')
		err_remedy(err, "a plain file on a local disk must be there, or nothing");
	return -1;
}

static void nap(int64_t us)
{
	nanosleep(&(struct timespec){ .tv_nsec = us * 1000 }, NULL);
}

/* SQLite's own handler sleeps up to 100 ms at a time; a busy writer of another process
 * leaves shorter gaps than that. */
static int on_busy(void *arg, int count)
{
	struct sqlite_conn *conn = arg;

	if (count == 0)
		conn->busy_until = clock_boot_ms() + store_busy_limit_ms;
	if (clock_boot_ms() >= conn->busy_until)
		return 0;
	nap(count < 10 ? 100 : count < 20 ? 1000 : 5000);
	return 1;
}

static int keep_answer(void *arg, int columns, char **values, char **names)
{
	(void)names;
	snprintf(arg, 256, "%s", columns > 0 && values[0] ? values[0] : "");
	return 0;
}

static int store_sqlite_ask(struct sqlite_conn *conn, const char *sql, char answer[256])
{
	answer[0] = '\0';
	return sqlite3_exec(conn->db, sql, keep_answer, answer, NULL);
}

/* When several processes open a new file at once, SQLite does not call the busy handler
 * (each waits for the others to let go), so the wait is here. */
static int enter_wal(struct sqlite_conn *conn, struct err *err)
{
	static const char sql[] = "PRAGMA journal_mode=WAL";
	int64_t until = clock_boot_ms() + store_busy_limit_ms;
	char answer[256];
	int code;

	while ((code = store_sqlite_ask(conn, sql, answer)) != SQLITE_OK) {
		if ((code & 0xff) != SQLITE_BUSY || clock_boot_ms() >= until)
			return sqlite_fail(conn, code, sql, err);
		nap(5000);
	}
	if (strcmp(answer, "wal") == 0)
		return 0;
	err_set(err, ERR_CONFIG, "database %s: its file system cannot share memory",
		conn->base.place);
	return err_remedy(err, "a plain file on a local disk must be there, or nothing");
}

static int store_sqlite_set_up(struct sqlite_conn *conn, enum store_role role,
			       struct err *err)
{
	/* At 1000 pages the log is folded into the file: more makes commits of 24-44 ms
	 * among fast ones. A long read stops that, so the log is cut back after it. */
	static const char pragmas[] = "PRAGMA synchronous=FULL;"
				      "PRAGMA foreign_keys=ON;"
				      "PRAGMA temp_store=MEMORY;"
				      "PRAGMA wal_autocheckpoint=1000;"
				      "PRAGMA journal_size_limit=67108864;";
	/* The writer holds what it changes until commit, and the hot part of indexes. */
	static const char *const of_role[] = {
		[STORE_READER] = "PRAGMA query_only=ON",
		[STORE_WRITER] = "PRAGMA cache_size=-8192",
		[STORE_LOOKER] = "PRAGMA query_only=ON",
	};
	int code;

	/* Queries name partial indexes in their own words. Else SQLite tries each value
	 * that is bound against these, and prepares the statement anew for the next. */
	sqlite3_db_config(conn->db, SQLITE_DBCONFIG_ENABLE_QPSG, 1, NULL);
	if (role != STORE_LOOKER &&
	    sqlite3_db_readonly(conn->db, "main") == 1) /* SQLite makes do with that */
		return sqlite_fail(conn, SQLITE_READONLY, NULL, err);
	if (role == STORE_WRITER && !in_memory(conn->base.place) &&
	    enter_wal(conn, err) != 0)
		return -1;
	code = sqlite3_exec(conn->db, pragmas, NULL, NULL, NULL);
	if (code == SQLITE_OK)
		code = sqlite3_exec(conn->db, of_role[role], NULL, NULL, NULL);
	return code == SQLITE_OK ? 0 : sqlite_fail(conn, code, NULL, err);
}

static void close_conn(struct store_conn *base)
{
	struct sqlite_conn *conn = store_sqlite_conn_of(base);

	for (size_t i = 0; i < STORE_CONTROLS; i++)
		sqlite3_finalize(conn->controls[i]);
	int code = sqlite3_close(conn->db);
	assert(code == SQLITE_OK); /* else a statement was forgotten */
	free(conn->base.place);
	free(conn);
}

static bool store_sqlite_is_file_there(const char *place, const char *suffix, off_t least)
{
	AUTO_FREE char *path = xasprintf("%s%s", place, suffix);
	struct stat st;

	return stat(path, &st) == 0 && st.st_size >= least;
}

static void store_sqlite_add_encoded(struct str *uri, const char *path)
{
	for (; *path; path++)
		if (strchr("%?#", *path))
			str_addf(uri, "%%%02X", (unsigned char)*path);
		else
			str_add_char(uri, *path);
}

/* While anybody has it open there is a -shm, which exists already and is no more than
 * locked; after a crash the log has what the file has not. Else the file is all there is,
 * and SQLite is told so: it would make a log and an index to look at it, for which there
 * may be no room. */
static int open_to_look(const char *place, sqlite3 **db)
{
	AUTO_STR struct str uri = STR_INIT;
	bool is_alone = !store_sqlite_is_file_there(place, "-shm", 0) &&
			!store_sqlite_is_file_there(place, "-wal", 1);

	str_add(&uri, "file:");
	store_sqlite_add_encoded(&uri, place);
	str_add(&uri, is_alone ? "?immutable=1" : "?mode=ro");
	return sqlite3_open_v2(
		uri.data, db,
		SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, NULL);
}

static int store_sqlite_open_file(const char *place, enum store_role role, sqlite3 **db)
{
	if (role == STORE_LOOKER)
		return open_to_look(place, db);
	/* Without CREATE: a file that vanished is not replaced by an empty one. */
	return sqlite3_open_v2(place, db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
			       NULL);
}

static int open_conn(const char *place, enum store_role role, struct store_conn **opened,
		     struct err *err)
{
	struct sqlite_conn *conn = xcalloc(1, sizeof(*conn));
	int code = store_sqlite_open_file(place, role, &conn->db);

	if (!conn->db)
		abort(); /* out of memory */
	conn->base.driver = &store_sqlite;
	conn->base.place = xstrdup(place);
	if (code != SQLITE_OK) {
		sqlite_fail(conn, sqlite3_extended_errcode(conn->db), NULL, err);
		close_conn(&conn->base);
		return -1;
	}
	sqlite3_extended_result_codes(conn->db, 1);
	/* A misspelt column in double quotes is an error, not a text. */
	sqlite3_db_config(conn->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
	sqlite3_db_config(conn->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
	if (role == STORE_LOOKER)
		sqlite3_db_config(conn->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
	sqlite3_busy_handler(conn->db, on_busy, conn);
	if (store_sqlite_set_up(conn, role, err) != 0) {
		close_conn(&conn->base);
		return -1;
	}
	*opened = &conn->base;
	return 0;
}

static int sqlite_prepare(struct sqlite_conn *conn, const char *sql,
			  sqlite3_stmt **statement, struct err *err)
{
	int code = sqlite3_prepare_v3(conn->db, sql, -1, SQLITE_PREPARE_PERSISTENT,
				      statement, NULL);

	return code == SQLITE_OK ? 0 : sqlite_fail(conn, code, sql, err);
}

static int exec(struct store_conn *base, const char *sql, struct err *err)
{
	struct sqlite_conn *conn = store_sqlite_conn_of(base);
	int code = sqlite3_exec(conn->db, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : sqlite_fail(conn, code, sql, err);
}

static int control(struct store_conn *base, enum store_control what, struct err *err)
{
	static const char *const texts[STORE_CONTROLS] = {
		[STORE_BEGIN_READ] = "BEGIN",
		[STORE_BEGIN_WRITE] = "BEGIN IMMEDIATE",
		[STORE_COMMIT] = "COMMIT",
		[STORE_ROLLBACK] = "ROLLBACK",
		[STORE_SAVEPOINT] = "SAVEPOINT work",
		[STORE_RELEASE] = "RELEASE work",
		[STORE_ROLLBACK_TO] = "ROLLBACK TO work",
		[STORE_SYNCED] = "PRAGMA synchronous=FULL",
		[STORE_UNSYNCED] = "PRAGMA synchronous=NORMAL",
	};
	struct sqlite_conn *conn = store_sqlite_conn_of(base);

	/* These act when they are prepared, not when they are run. */
	if (what == STORE_SYNCED || what == STORE_UNSYNCED)
		return exec(base, texts[what], err);
	sqlite3_stmt **statement = &conn->controls[what];

	if (!*statement && sqlite_prepare(conn, texts[what], statement, err) != 0)
		return -1;
	int code = sqlite3_step(*statement);
	int result = code == SQLITE_DONE ? 0 : sqlite_fail(conn, code, texts[what], err);
	sqlite3_reset(*statement);
	return result;
}

static bool in_transaction(struct store_conn *base)
{
	return !sqlite3_get_autocommit(store_sqlite_conn_of(base)->db);
}

static int store_sqlite_check(struct store_conn *base, struct err *err)
{
	static const char sql[] = "PRAGMA integrity_check(1)";
	struct sqlite_conn *conn = store_sqlite_conn_of(base);
	char answer[256];
	int code = store_sqlite_ask(conn, sql, answer);

	if (code != SQLITE_OK)
		return sqlite_fail(conn, code, sql, err);
	return strcmp(answer, "ok") == 0 ? 0 : fail_corrupt(conn, answer, err);
}

const struct store_driver store_sqlite = {
	.identity = "INTEGER PRIMARY KEY AUTOINCREMENT",
	.has_table = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1",
	.is_file = true,
	.locate = store_sqlite_locate,
	.open = open_conn,
	.close = close_conn,
	.header = sqlite_stamp_header,
	.stamp = sqlite_stamp_read,
	.control = control,
	.in_transaction = in_transaction,
	.exec = exec,
	.check = store_sqlite_check,
	.prepare = sqlite_query_prepare,
	.finalize = sqlite_query_finalize,
	.is_read_only = sqlite_query_is_read_only,
	.rewind = sqlite_query_rewind,
	.forget = sqlite_query_forget,
	.bind_int = sqlite_query_bind_int,
	.bind_text = sqlite_query_bind_text,
	.bind_null = sqlite_query_bind_null,
	.step = sqlite_query_step,
	.changes = sqlite_query_changes,
	.column_int = sqlite_query_column_int,
	.column_text = sqlite_query_column_text,
	.column_is_null = sqlite_query_column_is_null,
};
