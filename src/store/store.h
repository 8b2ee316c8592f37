/*
 * The tracking database: one small SQL interface to SQLite. Parameters are ?1, ?2, ...
 *
 * Work is passed as functions. One thread writes at a time: it runs all requests that
 * wait, those of other threads, too, inside one transaction, with a savepoint each, and
 * commits once (group commit): a write that has returned 0 is on disk. Reads run
 * concurrently, each on its own connection. A struct store is safe from any thread; a
 * struct store_tx belongs to the call it was handed to.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/base.h"

struct store;
struct store_tx;
struct query;

/* Work inside a transaction; `arg` is the caller's. May run in another thread, without
 * the caller's log context. May run again from the start, so it must not keep results of
 * an earlier run. Must not call store_read or store_write. Returning -1 undoes only the
 * writes of this function. */
typedef int (*store_work)(struct store_tx *tx, void *arg, struct err *err);

/* Opens (creates) the database and brings its schema up to date. url: "sqlite:PATH", or
 * "sqlite::memory:" for one that ends with the process. ERR_CONFIG: not understood, or a
 * schema newer than this program; ERR_CORRUPT; ERR_DISK; ERR_BUSY: another process kept
 * it locked for 10 s. */
int store_open(const char *url, struct store **store, struct err *err);

/* The same beside a running node, for which the schema must stay as it is: ERR_CONFIG if
 * it is not that of this program after three seconds, in which a node that has just
 * started may bring it up to date. */
int store_open_beside(const char *url, struct store **store, struct err *err);

/* Opens an existing database only to read: does not create or write files, and so works
 * on a disk that is full or read-only. store_write() fails. Each read sees all earlier
 * commits. ERR_MISSING: the file does not exist; ERR_CONFIG: its schema is not that of
 * this program. */
int store_open_to_read(const char *path, struct store **store, struct err *err);

/* The schema version to which this program migrates databases. */
int store_schema_version(void);

/* Sets the node recorded in claims of rows made through this handle; "" at first. It must
 * be unique and the same after each start of the node: so a node recognizes its claims
 * from before a restart. Call it before other threads use the store. */
void store_set_node(struct store *store, const char *node);
const char *store_node(const struct store *store);

/* ERR_DISK: the database's file is no longer at its path, or another one is: what is
 * written will be missing after the next start. In any work. */
int store_check_place(struct store_tx *tx, struct err *err);

/* The database's file; NULL: in memory. */
const char *store_file(const struct store *store);

/* No call may be under way. NULL is allowed. */
void store_close(struct store *store);

/* Runs work, commits, notifies watchers of changes (base/bell.h), and returns when it is
 * durable. The error is the work's own, or the commit's (then nothing of it was
 * written). */
MUST_CHECK int store_write(struct store *store, store_work work, void *arg,
			   struct err *err);

/* The same, but when it returns, others see the change although a power cut may still
 * undo it. A durable write also makes earlier ones durable. */
MUST_CHECK int store_write_unsynced(struct store *store, store_work work, void *arg,
				    struct err *err);

/* As store_write(), but without notifying watchers of changes (base/bell.h): for periodic
 * writes while nothing happens. */
MUST_CHECK int store_write_quietly(struct store *store, store_work work, void *arg,
				   struct err *err);

/* Runs work in a read transaction: one constant snapshot of the committed data. */
int store_read(struct store *store, store_work work, void *arg, struct err *err);

/* For a store that is open to read: all reads follow immediately, in one thread, perhaps
 * thousands. They use one connection, and may miss commits after the first read. */
void store_read_at_once(struct store *store);

/* Identifies the last commit, by this process or another. The result of a read that began
 * after one stamp was taken is still valid if a later stamp is equal. From memory,
 * without a lock or system call; any thread. False: unknown now. */
struct store_stamp {
	uint64_t words[6];
};
bool store_stamp(const struct store *store, struct store_stamp *stamp);
bool store_stamp_equal(const struct store_stamp *a, const struct store_stamp *b);

/* Statements, prepared once per connection and kept. A query is open from query_open to
 * query_close and must be closed (AUTO_QUERY) before its transaction's work returns. */
#define AUTO_QUERY __attribute__((cleanup(query_close)))

int query_open(struct store_tx *tx, const char *sql, struct query **query,
	       struct err *err);
void query_close(struct query **query);

/* Parameters count from 1. Texts are copied. */
void query_bind_int(struct query *query, int at, int64_t value);
void query_bind_text(struct query *query, int at, const char *value); /* NULL: null */
void query_bind_null(struct query *query, int at);

/* Values of the parameters of a statement, in their order. */
struct query_value {
	const char *text; /* NULL and is_text: null */
	int64_t number;
	bool is_text;
};
#define QUERY_INT(value)                                                                 \
	{                                                                                \
		.number = (value)                                                        \
	}
#define QUERY_TEXT(value)                                                                \
	{                                                                                \
		.text = (value), .is_text = true                                         \
	}
#define QUERY_VALUES(...)                                                                \
	(const struct query_value[]){ __VA_ARGS__ },                                     \
		sizeof((const struct query_value[]){ __VA_ARGS__ }) /                    \
			sizeof(struct query_value)

/* Opens a query with its values: query_ask(tx, &query, err, SQL, QUERY_INT(id), ...). */
#define query_ask(tx, query, err, sql, ...)                                              \
	query_open_with(tx, query, err, sql, QUERY_VALUES(__VA_ARGS__))
int query_open_with(struct store_tx *tx, struct query **query, struct err *err,
		    const char *sql, const struct query_value *values, size_t count);

/* Runs a statement without result rows, with its values, as query_ask(). */
#define query_write(tx, err, sql, ...)                                                   \
	query_run_with(tx, err, sql, QUERY_VALUES(__VA_ARGS__))
int query_run_with(struct store_tx *tx, struct err *err, const char *sql,
		   const struct query_value *values, size_t count);

/* Whole questions, with their values as query_ask(). *number: the first column of the
 * first row; if there is none, or it is null, it stays as it is. */
#define query_number(tx, number, err, sql, ...)                                          \
	query_number_with(tx, number, err, sql, QUERY_VALUES(__VA_ARGS__))
int query_number_with(struct store_tx *tx, int64_t *number, struct err *err,
		      const char *sql, const struct query_value *values, size_t count);

/* Hands the first row to take(), which may be NULL. 1: there is one; 0: none. */
typedef void (*query_take)(struct query *query, void *arg);
#define query_one(tx, take, arg, err, sql, ...)                                          \
	query_one_with(tx, take, arg, err, sql, QUERY_VALUES(__VA_ARGS__))
int query_one_with(struct store_tx *tx, query_take take, void *arg, struct err *err,
		   const char *sql, const struct query_value *values, size_t count);

/* Hands all rows to take(). */
#define query_each(tx, take, arg, err, sql, ...)                                         \
	query_each_with(tx, take, arg, err, sql, QUERY_VALUES(__VA_ARGS__))
int query_each_with(struct store_tx *tx, query_take take, void *arg, struct err *err,
		    const char *sql, const struct query_value *values, size_t count);
int query_take_all(struct query *query, query_take take, void *arg, struct err *err);

/* Each a query_take of the first column: into an int64_t, unless it is null; or added to
 * a text_list. */
void query_take_number(struct query *query, void *number);
void query_add_text(struct query *query, void *texts);

/* Works of one statement: store_write() with query_write(), store_read() with
 * query_one(). */
#define store_run(store, err, sql, ...)                                                  \
	store_run_with(store, err, sql, QUERY_VALUES(__VA_ARGS__))
int store_run_with(struct store *store, struct err *err, const char *sql,
		   const struct query_value *values, size_t count);
#define store_one(store, take, arg, err, sql, ...)                                       \
	store_one_with(store, take, arg, err, sql, QUERY_VALUES(__VA_ARGS__))
int store_one_with(struct store *store, query_take take, void *arg, struct err *err,
		   const char *sql, const struct query_value *values, size_t count);

/* 1: a row; 0: the end; -1: *err. */
int query_step(struct query *query, struct err *err);

/* Runs it to its end; *changed (may be NULL) gets the number of rows it changed. */
int query_run(struct query *query, int64_t *changed, struct err *err);

/* Columns of the present row count from 0; text is borrowed until the next step. A null
 * reads as 0 and NULL. */
int64_t query_int(struct query *query, int column);
const char *query_text(struct query *query, int column);
char *query_copy_text(struct query *query, int column); /* the caller frees; NULL */
bool query_is_null(struct query *query, int column);

/* One statement (or several, separated by semicolons) without parameters or rows. */
int store_exec(struct store_tx *tx, const char *sql, struct err *err);

#endif
