/*
 * What the registry's rows cost, for bench/lib/rows_registry.py.
 *
 * usage: registry_load FOLDER WHAT NUMBER [SECONDS]
 *
 *	fill ROWS		makes FOLDER/db of so many rows, all of them due
 *	move THREADS SECONDS	each thread moves rows, one at a time: a change is asked
 *				for, its work begins, it is brought and proved
 *	claim TIMES		takes CLAIM due rows, so often
 *	status TIMES		reads how many rows are in each state
 *	compare TIMES		compares all rows with an equal inventory in memory
 *
 * WHAT with `-plainly` does the same with SQLite alone, as one would write it down first:
 * a connection a thread and a commit a move, an OR of states that are due, count(*), one
 * SELECT of all rows, compared with nothing. The counters of the rows are wrong after it.
 *
 * Prints the microseconds of each, a line each.
 */
#include <sqlite3.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "base/thread.h"
#include "pull/decisions.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "replicable/registry_row.h"

#define CLAIM 1000
#define BATCH 1000
#define CHUNK 1000 /* as consistency.c */
#define TIMEOUT_MS ((int64_t)3600 * 1000)
#define TIMELINE "0123456789abcdef"
#define CHECKSUM "1-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

struct mover {
	pthread_t thread;
	size_t number;
	sqlite3 *db; /* of one that moves plainly */
	VEC(int64_t) took_us;
};

static char *database;
static struct store *store;
static int64_t row_count, until_us;
static size_t thread_count;
static VEC(struct inventory_item) inventory;

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void fail(const struct err *err)
{
	fprintf(stderr, "registry_load: %s\n", err->text);
	exit(1);
}

static void fail_plainly(sqlite3 *db)
{
	fprintf(stderr, "registry_load: %s\n", sqlite3_errmsg(db));
	exit(1);
}

static void open_store(void)
{
	AUTO_FREE char *url = xasprintf("sqlite:%s", database);
	struct registry_counts counts;
	struct err err;

	if (store_open(url, &store, &err) != 0 ||
	    registry_counts(store, KIND_REPOSITORY, &counts, &err) != 0)
		fail(&err);
	row_count = counts.all;
}

/* In byte order as the numbers are. */
static char *name_of(int64_t number)
{
	return xasprintf("group%04d/repository%07d", (int)(number / 1000), (int)number);
}

static uint64_t id_of(int64_t number)
{
	AUTO_FREE char *name = name_of(number);

	return replicable_id(KIND_REPOSITORY, name);
}

struct batch {
	struct registry_ask asks[BATCH];
	size_t count;
};

static int write_batch(struct store_tx *tx, void *arg, struct err *err)
{
	const struct batch *batch = arg;

	return registry_ask_many_in(tx, KIND_REPOSITORY, batch->asks, batch->count, err);
}

static void fill(int64_t rows)
{
	static struct batch batch;
	struct err err;

	for (int64_t number = 0; number < rows; number += BATCH) {
		for (batch.count = 0;
		     batch.count < BATCH && number + (int64_t)batch.count < rows;
		     batch.count++)
			batch.asks[batch.count] = (struct registry_ask){
				.name = name_of(number + (int64_t)batch.count),
				.move = { .generation = 1, .timeline = TIMELINE },
			};
		if (store_write_unsynced(store, write_batch, &batch, &err) != 0)
			fail(&err);
		for (size_t i = 0; i < batch.count; i++)
			free((char *)(uintptr_t)batch.asks[i].name);
	}
}

static void note(struct mover *mover, int64_t *before)
{
	int64_t now = now_us();

	vec_add(&mover->took_us, now - *before);
	*before = now;
}

/* A row of the second half, since the first is to be claimed. No two threads have the
 * same. */
static uint64_t choose_row(const struct mover *mover, unsigned *seed)
{
	int64_t count = row_count / 2 / (int64_t)thread_count;
	int64_t roll =
		((int64_t)rand_r(seed) << 16 ^ rand_r(seed)) % (count > 0 ? count : 1);

	return id_of(row_count / 2 + (int64_t)mover->number * count + roll);
}

static void move_row(struct mover *mover, uint64_t id, uint64_t generation)
{
	const struct registry_move asked = { .id = id,
					     .event = REGISTRY_ASKED,
					     .generation = generation,
					     .timeline = TIMELINE },
				   begun = { .id = id,
					     .event = REGISTRY_BEGUN,
					     .timeout_ms = TIMEOUT_MS },
				   brought = { .id = id,
					       .event = REGISTRY_COMPLETED,
					       .generation = generation,
					       .timeline = TIMELINE,
					       .checksum = CHECKSUM,
					       .timeout_ms = TIMEOUT_MS };
	int64_t before = now_us();
	struct err err;

	if (registry_move(store, &asked, &err) != 0)
		fail(&err);
	note(mover, &before);
	if (registry_move(store, &begun, &err) != 0)
		fail(&err);
	note(mover, &before);
	if (registry_move(store, &brought, &err) != 0)
		fail(&err);
	note(mover, &before);
}

static sqlite3 *open_plainly(void)
{
	sqlite3 *db = NULL;

	if (sqlite3_open_v2(database, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK ||
	    sqlite3_busy_timeout(db, 60000) != SQLITE_OK ||
	    sqlite3_exec(db, "PRAGMA synchronous = FULL", NULL, NULL, NULL) != SQLITE_OK)
		fail_plainly(db);
	return db;
}

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql)
{
	sqlite3_stmt *statement = NULL;

	if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement,
			       NULL) != SQLITE_OK)
		fail_plainly(db);
	return statement;
}

/* Runs a change of one row, and makes it ready to be run again. */
static void change_plainly(sqlite3 *db, sqlite3_stmt *statement, uint64_t id,
			   int64_t value)
{
	sqlite3_bind_int64(statement, 1, (int64_t)id);
	sqlite3_bind_int64(statement, 2, value);
	if (sqlite3_step(statement) != SQLITE_DONE || sqlite3_changes(db) != 1)
		fail_plainly(db);
	sqlite3_reset(statement);
}

static const char *const plain_moves[] = {
	"UPDATE registry SET state = 0, generation_wanted = generation_wanted + 1,"
	" due_at = ?2, asked_at = ?2 WHERE id = ?1",
	"UPDATE registry SET state = 1, last_attempt_at = ?2, due_at = ?2 + 3600000"
	" WHERE id = ?1",
	"UPDATE registry SET state = 2, generation = generation_wanted, due_at = NULL,"
	" last_success_at = ?2, verification_state = 2, checksum = '" CHECKSUM "',"
	" verified_at = ?2, verification_due_at = ?2 + 3600000 WHERE id = ?1",
};

static void *move_plainly(void *arg)
{
	struct mover *mover = arg;
	unsigned seed = (unsigned)mover->number;
	sqlite3_stmt *moves[3];

	mover->db = open_plainly();
	for (size_t i = 0; i < 3; i++)
		moves[i] = prepare(mover->db, plain_moves[i]);
	while (now_us() < until_us) {
		uint64_t id = choose_row(mover, &seed);
		int64_t before = now_us();
		for (size_t i = 0; i < 3; i++) {
			change_plainly(mover->db, moves[i], id, clock_wall_ms());
			note(mover, &before);
		}
	}
	for (size_t i = 0; i < 3; i++)
		sqlite3_finalize(moves[i]);
	sqlite3_close(mover->db);
	return NULL;
}

static void *move_rows(void *arg)
{
	struct mover *mover = arg;
	unsigned seed = (unsigned)mover->number;
	uint64_t generation = (uint64_t)clock_wall_ms(); /* more than in any run before */

	while (now_us() < until_us)
		move_row(mover, choose_row(mover, &seed), ++generation);
	return NULL;
}

static void move_all(void *(*run)(void *))
{
	struct mover *movers = xcalloc(thread_count, sizeof(*movers));

	for (size_t i = 0; i < thread_count; i++) {
		movers[i].number = i;
		thread_start(&movers[i].thread, "mover", run, &movers[i]);
	}
	for (size_t i = 0; i < thread_count; i++)
		thread_join(movers[i].thread);
	for (size_t i = 0; i < thread_count; i++) {
		for (size_t j = 0; j < movers[i].took_us.count; j++)
			printf("%" PRId64 "\n", movers[i].took_us.items[j]);
		vec_clear(&movers[i].took_us);
	}
	free(movers);
}

static void check_count(const char *what, int64_t count, int64_t wanted)
{
	if (count == wanted)
		return;
	fprintf(stderr, "registry_load: %s: %" PRId64 " rows instead of %" PRId64 "\n",
		what, count, wanted);
	exit(1);
}

static void claim(sqlite3 *db)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	struct err err;

	(void)db;
	if (registry_claim(store, KIND_REPOSITORY, CLAIM, TIMEOUT_MS, &rows, &err) != 0)
		fail(&err);
	check_count("claim", (int64_t)rows.count, CLAIM);
}

static void claim_plainly(sqlite3 *db)
{
	sqlite3_stmt *find = prepare(
		db,
		"SELECT id, name, generation_wanted, generation, checksum FROM registry"
		" WHERE kind = ?1 AND (state = 0 AND due_at <= ?2"
		" OR state = 1 AND due_at <= ?2 OR state = 3 AND retry_at <= ?2)"
		" ORDER BY due_at LIMIT ?3");
	sqlite3_stmt *begin = prepare(db, plain_moves[1]);
	VEC(uint64_t) ids = { 0 };

	sqlite3_bind_text(find, 1, KIND_REPOSITORY, -1, SQLITE_STATIC);
	sqlite3_bind_int64(find, 2, clock_wall_ms());
	sqlite3_bind_int64(find, 3, CLAIM);
	if (sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
		fail_plainly(db);
	while (sqlite3_step(find) == SQLITE_ROW)
		vec_add(&ids, (uint64_t)sqlite3_column_int64(find, 0));
	sqlite3_reset(find);
	for (size_t i = 0; i < ids.count; i++)
		change_plainly(db, begin, ids.items[i], clock_wall_ms());
	if (sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK)
		fail_plainly(db);
	sqlite3_finalize(find);
	sqlite3_finalize(begin);
	check_count("claim-plainly", (int64_t)ids.count, CLAIM);
	vec_clear(&ids);
}

static void status(sqlite3 *db)
{
	struct registry_counts counts;
	struct err err;

	(void)db;
	if (registry_counts(store, KIND_REPOSITORY, &counts, &err) != 0)
		fail(&err);
	check_count("status", counts.all, row_count);
}

static void status_plainly(sqlite3 *db)
{
	sqlite3_stmt *count =
		prepare(db, "SELECT state, verification_state, count(*) FROM registry"
			    " WHERE kind = '" KIND_REPOSITORY "' GROUP BY 1, 2");
	int64_t all = 0;

	while (sqlite3_step(count) == SQLITE_ROW)
		all += sqlite3_column_int64(count, 2);
	sqlite3_finalize(count);
	check_count("status-plainly", all, row_count);
}

static void take_inventory(void)
{
	struct registry_filter filter = { .kind = KIND_REPOSITORY,
					  .limit = CHUNK,
					  .state = REGISTRY_ANY };
	AUTO_FREE char *after = NULL;
	size_t count;
	struct err err;

	do {
		AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
		filter.after = after;
		if (registry_list(store, &filter, &rows, &err) != 0)
			fail(&err);
		count = rows.count;
		for (size_t i = 0; i < count; i++) {
			struct registry_row *row = &rows.items[i];
			struct inventory_item item = {
				.name = xstrdup(row->name),
				.generation = row->generation_wanted,
			};
			memcpy(item.timeline, row->timeline, sizeof(item.timeline));
			vec_add(&inventory, item);
		}
		if (count > 0) {
			free(after);
			after = xstrdup(rows.items[count - 1].name);
		}
	} while (count == CHUNK);
}

/* In chunks, each in a read of its own, as a secondary does it with each page. */
static size_t compare_chunk(size_t at)
{
	AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
	const struct registry_filter filter = {
		.kind = KIND_REPOSITORY,
		.after = at > 0 ? inventory.items[at - 1].name : NULL,
		.limit = CHUNK,
		.state = REGISTRY_ANY,
	};
	compare_steps steps = { 0 };
	struct compare_range range = { .items = inventory.items + at };
	struct err err;

	if (registry_list(store, &filter, &rows, &err) != 0)
		fail(&err);
	range.rows = rows.items;
	range.row_count = rows.count;
	range.item_count = count_items_until(
		range.items, inventory.count - at,
		rows.count == CHUNK ? rows.items[CHUNK - 1].name : NULL);
	compare_range(&range, &steps);
	check_count("compare: differences", (int64_t)steps.count, 0);
	vec_clear(&steps);
	return range.item_count;
}

static void compare(sqlite3 *db)
{
	size_t at = 0;

	(void)db;
	while (at < inventory.count)
		at += compare_chunk(at);
	check_count("compare", (int64_t)at, row_count);
}

static void compare_plainly(sqlite3 *db)
{
	sqlite3_stmt *all =
		prepare(db, "SELECT " STORED_ROW_COLUMNS " FROM registry"
			    " WHERE kind = '" KIND_REPOSITORY "' ORDER BY name");
	const int columns = sqlite3_column_count(all);
	int64_t count = 0;

	while (sqlite3_step(all) == SQLITE_ROW) {
		for (int i = 0; i < columns; i++)
			sqlite3_column_text(all, i);
		count++;
	}
	sqlite3_finalize(all);
	check_count("compare-plainly", count, row_count);
}

/* What is done again and again; an end of -plainly has a connection. */
static const struct work {
	const char *name;
	void (*once)(sqlite3 *db);
	bool is_plain;
} works[] = {
	{ "claim", claim, false },     { "claim-plainly", claim_plainly, true },
	{ "status", status, false },   { "status-plainly", status_plainly, true },
	{ "compare", compare, false }, { "compare-plainly", compare_plainly, true },
};

static bool repeat(const char *what, int64_t times)
{
	const struct work *work = NULL;

	for (size_t i = 0; i < sizeof(works) / sizeof(*works); i++)
		if (strcmp(what, works[i].name) == 0)
			work = &works[i];
	if (!work)
		return false;
	sqlite3 *db = work->is_plain ? open_plainly() : NULL;
	if (work->once == compare)
		take_inventory();
	for (int64_t i = 0; i < times; i++) {
		int64_t before = now_us();
		work->once(db);
		printf("%" PRId64 "\n", now_us() - before);
	}
	sqlite3_close(db);
	return true;
}

int main(int argc, char *argv[])
{
	if (argc < 4)
		return 2;
	const char *what = argv[2];
	int64_t number = atoll(argv[3]);
	int status = 0;

	log_set_level(LOG_LEVEL_NONE);
	database = xasprintf("%s/db", argv[1]);
	open_store();
	thread_count = (size_t)number;
	until_us = now_us() + (int64_t)(argc > 4 ? strtod(argv[4], NULL) * 1e6 : 0);
	if (strcmp(what, "fill") == 0)
		fill(number);
	else if (strcmp(what, "move") == 0)
		move_all(move_rows);
	else if (strcmp(what, "move-plainly") == 0)
		move_all(move_plainly);
	else if (!repeat(what, number))
		status = 2;
	for (size_t i = 0; i < inventory.count; i++)
		inventory_item_clear(&inventory.items[i]);
	vec_clear(&inventory);
	store_close(store);
	free(database);
	return status;
}
