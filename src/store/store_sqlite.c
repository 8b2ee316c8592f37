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
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/clock.h"
#include "base/file.h"
#include "store/store_conn.h"

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

const volatile void *store_sqlite_header(struct store_conn *conn)
{
	sqlite3_file *file = NULL;
	volatile void *region = NULL;

	if (sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_FILE_POINTER, &file) !=
		    SQLITE_OK ||
	    !file || !file->pMethods || file->pMethods->iVersion < 2 ||
	    file->pMethods->xShmMap(file, 0, REGION, 0, &region) != SQLITE_OK)
		return NULL;
	return region;
}

bool store_sqlite_stamp(const volatile void *header, struct store_stamp *stamp)
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

#define SPACE_LEAST 65536 /* what the log's index grows by */

static int fail_full(const struct store_conn *conn, const char *what, struct err *err)
{
	err_set(err, ERR_DISK, "database %s: %s", conn->place, what);
	return err_remedy(err, "free some space on that file system; the work goes on by "
			       "itself at the next try");
}

/* A file of its own that has to be made longer is an input/output error to SQLite. */
static bool has_no_space(const struct store_conn *conn)
{
	struct statvfs room;

	return statvfs(conn->place, &room) == 0 &&
	       (uint64_t)room.f_bavail * room.f_frsize < SPACE_LEAST;
}

static int fail_disk(const struct store_conn *conn, const char *what, struct err *err)
{
	if (has_no_space(conn))
		return fail_full(conn, "no space left on its file system", err);
	err_set(err, ERR_DISK, "database %s: %s", conn->place, what);
	return err_remedy(err, "see that its file system has space, is mounted for "
			       "writing and is healthy; work goes on by itself");
}

/* False: errno says what is lacking. Never the database itself: to close it would drop
 * this process's locks. */
static bool can_open(const char *directory)
{
	AUTO_CLOSE int fd = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 || (errno != EMFILE && errno != ENFILE && errno != ENOMEM);
}

/* SQLite keeps an errno, but often of a later call; so the reason is looked for anew,
 * in the file and in its directory, where the log has to be made. */
static int fail_rights(const struct store_conn *conn, const char *what, struct err *err)
{
	const char *place = conn->place;
	const char *slash = strrchr(place, '/');
	AUTO_FREE char *directory =
		xstrndup(place, slash && slash > place ? (size_t)(slash - place) : 1);

	if (access(directory, W_OK | X_OK) == 0 && access(place, R_OK | W_OK) == 0 &&
	    can_open(directory))
		return fail_disk(conn, what, err);
	err_errno(err, "database %s: %s", place, what);
	if (err->class == ERR_INTERNAL) /* no descriptors: it passes, too */
		err->class = ERR_DISK;
	if (err->class == ERR_MISSING) {
		err->class = ERR_CONFIG;
		err_remedy(err, "make that directory, or name another one");
	}
	return -1;
}

static int fail_corrupt(const struct store_conn *conn, const char *what, struct err *err)
{
	const char *place = conn->place;

	err_set(err, ERR_CORRUPT, "database %s is damaged, or not one: %s", place, what);
	return err_remedy(err, "stop refrelay and move the file away with its -wal and "
			       "-shm; it is recreated, and no repository is touched");
}

/* SQLite compares the file's number only. */
int store_sqlite_check_place(struct store_conn *conn, struct err *err)
{
	int has_moved = 0;

	sqlite3_file_control(conn->db, "main", SQLITE_FCNTL_HAS_MOVED, &has_moved);
	if (!has_moved)
		return 0;
	if (access(conn->place, F_OK) != 0 && errno != ENOENT)
		return err_errno(err, "database %s", conn->place);
	err_set(err, ERR_DISK,
		"database %s: the file was removed or replaced while in use",
		conn->place);
	/* SQLite leaves the log of a file that was moved, and would play it into any. */
	return err_remedy(err, "stop refrelay, put the right file back with its own -wal "
			       "and -shm, and start it; those left here belong to the "
			       "file that was in use: remove them if you restore a "
			       "backup");
}

int store_sqlite_fail(const struct store_conn *conn, int code, const char *sql,
		      struct err *err)
{
	const char *place = conn->place;
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
		return fail_full(conn, what, err);
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

int store_sqlite_locate(const char *target, char **place, struct err *err)
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
	struct store_conn *conn = arg;

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

static int store_sqlite_ask(struct store_conn *conn, const char *sql, char answer[256])
{
	answer[0] = '\0';
	return sqlite3_exec(conn->db, sql, keep_answer, answer, NULL);
}

/* When several processes open a new file at once, SQLite does not call the busy handler
 * (each waits for the others to let go), so the wait is here. */
static int enter_wal(struct store_conn *conn, struct err *err)
{
	static const char sql[] = "PRAGMA journal_mode=WAL";
	int64_t until = clock_boot_ms() + store_busy_limit_ms;
	char answer[256];
	int code;

	while ((code = store_sqlite_ask(conn, sql, answer)) != SQLITE_OK) {
		if ((code & 0xff) != SQLITE_BUSY || clock_boot_ms() >= until)
			return store_sqlite_fail(conn, code, sql, err);
		nap(5000);
	}
	if (strcmp(answer, "wal") == 0)
		return 0;
	err_set(err, ERR_CONFIG, "database %s: its file system cannot share memory",
		conn->place);
	return err_remedy(err, "a plain file on a local disk must be there, or nothing");
}

static int store_sqlite_set_up(struct store_conn *conn, enum store_role role,
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
		return store_sqlite_fail(conn, SQLITE_READONLY, NULL, err);
	if (role == STORE_WRITER && !in_memory(conn->place) && enter_wal(conn, err) != 0)
		return -1;
	code = sqlite3_exec(conn->db, pragmas, NULL, NULL, NULL);
	if (code == SQLITE_OK)
		code = sqlite3_exec(conn->db, of_role[role], NULL, NULL, NULL);
	return code == SQLITE_OK ? 0 : store_sqlite_fail(conn, code, NULL, err);
}

void store_sqlite_close(struct store_conn *conn)
{
	for (size_t i = 0; i < STORE_CONTROLS; i++)
		sqlite3_finalize(conn->controls[i]);
	int code = sqlite3_close(conn->db);
	assert(code == SQLITE_OK); /* else a statement was forgotten */
	free(conn->place);
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

int store_sqlite_open(const char *place, enum store_role role, struct store_conn **opened,
		      struct err *err)
{
	struct store_conn *conn = xcalloc(1, sizeof(*conn));
	int code = store_sqlite_open_file(place, role, &conn->db);

	if (!conn->db)
		abort(); /* out of memory */
	conn->place = xstrdup(place);
	if (code != SQLITE_OK) {
		store_sqlite_fail(conn, sqlite3_extended_errcode(conn->db), NULL, err);
		store_sqlite_close(conn);
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
		store_sqlite_close(conn);
		return -1;
	}
	*opened = conn;
	return 0;
}

int store_sqlite_prepare(struct store_conn *conn, const char *sql,
			 sqlite3_stmt **statement, struct err *err)
{
	int code = sqlite3_prepare_v3(conn->db, sql, -1, SQLITE_PREPARE_PERSISTENT,
				      statement, NULL);

	return code == SQLITE_OK ? 0 : store_sqlite_fail(conn, code, sql, err);
}

int store_sqlite_exec(struct store_conn *conn, const char *sql, struct err *err)
{
	int code = sqlite3_exec(conn->db, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : store_sqlite_fail(conn, code, sql, err);
}

int store_sqlite_control(struct store_conn *conn, enum store_control what,
			 struct err *err)
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

	/* These act when they are prepared, not when they are run. */
	if (what == STORE_SYNCED || what == STORE_UNSYNCED)
		return store_sqlite_exec(conn, texts[what], err);
	sqlite3_stmt **statement = &conn->controls[what];

	if (!*statement && store_sqlite_prepare(conn, texts[what], statement, err) != 0)
		return -1;
	int code = sqlite3_step(*statement);
	int result =
		code == SQLITE_DONE ? 0 : store_sqlite_fail(conn, code, texts[what], err);
	sqlite3_reset(*statement);
	return result;
}
