/*
 * Three queues, each in the order of a partial index (store/schema.c): never attempted,
 * changed, and everything else that is due: failed, missing, started by somebody who is
 * no more. Failed ones have a share of their own, because in a long backfill they would
 * otherwise wait for its end.
 */
#include "replicable/registry_claim.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/file.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "replicable/registry_events.h"
#include "replicable/registry_move.h"
#include "replicable/registry_row.h"
#include "store/site_value.h"

/*
 * An event is a function that changes a row in memory (registry_events.c); around it, the
 * row is read and written in one transaction of the only writer, so that reading and
 * writing are one step.
 */

/* An enum registry_result, or -1. */
static int move_row(struct store_tx *tx, const struct registry_move *move,
		    struct registry_shift *shift, struct err *err)
{
	AUTO_STORED_ROW struct stored_row stored = { 0 };
	int found = stored_row_load(tx, move->id, &stored, err);

	if (found <= 0)
		return found < 0 ? -1 : REGISTRY_NO_ROW;
	enum outcome outcome =
		registry_functions[move->event](&stored, move, clock_wall_ms());
	if ((outcome == MOVE_DONE || outcome == MOVE_OVERTAKEN) &&
	    stored_row_save(tx, &stored, shift, err) != 0)
		return -1;
	if (outcome == MOVE_LOST)
		return REGISTRY_LOST;
	return outcome == MOVE_REFUSED || outcome == MOVE_OVERTAKEN ? REGISTRY_CONFLICT
								    : REGISTRY_MOVED;
}

int registry_move_fail(uint64_t id, enum registry_result result, struct err *err)
{
	if (result == REGISTRY_NO_ROW)
		return err_set(err, ERR_MISSING, "the registry has no row %" PRIu64, id);
	return err_set(err, ERR_CONFLICT,
		       "the registry's row %" PRIu64 " was changed meanwhile", id);
}

int registry_move_in(struct store_tx *tx, const struct registry_move *move,
		     struct err *err)
{
	AUTO_REGISTRY_SHIFT struct registry_shift shift = { 0 };
	int result = move_row(tx, move, &shift, err);

	if (result == REGISTRY_NO_ROW)
		return registry_move_fail(move->id, REGISTRY_NO_ROW, err);
	if (result < 0 || registry_shift_apply(tx, &shift, err) != 0)
		return -1;
	return result == REGISTRY_CONFLICT || result == REGISTRY_LOST;
}

static int registry_move_ask_row(struct store_tx *tx, const char *kind,
				 const struct registry_ask *ask,
				 struct registry_shift *shift, struct err *err)
{
	struct registry_move move = ask->move;
	int result;

	move.event = REGISTRY_ASKED;
	move.id = replicable_id(kind, ask->name);
	result = move_row(tx, &move, shift, err);
	if (result != REGISTRY_NO_ROW)
		return result;
	if (stored_row_add(tx, kind, ask->name, 0, shift, err) < 0)
		return -1;
	result = move_row(tx, &move, shift, err);
	if (result == REGISTRY_NO_ROW)
		return err_set(err, ERR_CORRUPT,
			       "the registry's row of %s has no right id", ask->name);
	return result;
}

int registry_ask_many_in(struct store_tx *tx, const char *kind,
			 const struct registry_ask *asks, size_t count, struct err *err)
{
	AUTO_REGISTRY_SHIFT struct registry_shift shift = { 0 };

	for (size_t i = 0; i < count; i++)
		if (registry_move_ask_row(tx, kind, &asks[i], &shift, err) < 0)
			return -1;
	return registry_shift_apply(tx, &shift, err);
}

int registry_ask_in(struct store_tx *tx, const char *kind, const char *name,
		    const struct registry_move *move, struct err *err)
{
	const struct registry_ask ask = { name, *move };

	return registry_ask_many_in(tx, kind, &ask, 1, err);
}

struct moving {
	const struct registry_move *move;
	bool is_conflict;
};

static int run_move(struct store_tx *tx, void *arg, struct err *err)
{
	struct moving *moving = arg;
	int result = registry_move_in(tx, moving->move, err);

	moving->is_conflict = result > 0;
	return result < 0 ? -1 : 0;
}

int registry_move(struct store *store, const struct registry_move *move, struct err *err)
{
	struct moving moving = { .move = move };

	if (store_write(store, run_move, &moving, err) != 0)
		return -1;
	return moving.is_conflict ? registry_move_fail(move->id, REGISTRY_CONFLICT, err)
				  : 0;
}

struct many {
	const struct registry_move *moves;
	size_t count;
	enum registry_result *results;
};

static int run_many(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_REGISTRY_SHIFT struct registry_shift shift = { 0 };
	const struct many *many = arg;

	for (size_t i = 0; i < many->count; i++) {
		int result = move_row(tx, &many->moves[i], &shift, err);
		if (result < 0)
			return -1;
		many->results[i] = (enum registry_result)result;
	}
	return registry_shift_apply(tx, &shift, err);
}

int registry_move_many(struct store *store, const struct registry_move *moves,
		       size_t count, enum registry_result *results, struct err *err)
{
	struct many many = { moves, count, results };

	return count == 0 ? 0 : store_write(store, run_many, &many, err);
}

enum { QUEUE_NEW, QUEUE_CHANGED, QUEUE_FAILED, QUEUES };

/* In the words of the indexes, or they are not used. */
#define QUEUE_SQL(where, time)                                                           \
	"SELECT " STORED_ROW_COLUMNS " FROM registry WHERE " where " AND " time          \
	" IS NOT NULL AND " time " <= ?2 AND kind = ?1 ORDER BY " time " LIMIT ?3"

const char *const registry_queue_sql[REGISTRY_QUEUES] = {
	[QUEUE_NEW] = QUEUE_SQL("last_attempt_at IS NULL", "due_at"),
	[QUEUE_CHANGED] =
		QUEUE_SQL("last_attempt_at IS NOT NULL AND state = 0", "due_at"),
	[QUEUE_FAILED] =
		QUEUE_SQL("last_attempt_at IS NOT NULL AND state <> 0", "due_at"),
	[QUEUES] = QUEUE_SQL("state = 2", "verification_due_at"),
};

typedef VEC(struct stored_row) stored_rows;
#define AUTO_STORED_ROWS __attribute__((cleanup(stored_rows_clear)))

static void stored_rows_clear(stored_rows *rows)
{
	vec_clear_each(rows, stored_row_clear);
}

struct claim {
	const char *kind;
	size_t limit;
	int64_t timeout_ms, now;
	const char *node;
	char token[CLAIM_TOKEN_SIZE];
	unsigned turn;
	struct registry_shift shift;
	registry_rows *rows;
	size_t rows_before; /* what the caller had in there */
};

static void stored_rows_add(struct query *query, void *arg)
{
	stored_rows *rows = arg;
	struct stored_row stored;

	stored_row_read(query, &stored);
	vec_add(rows, stored);
}

static int registry_claim_read_queue(struct store_tx *tx, const struct claim *claim,
				     const char *sql, stored_rows *rows, struct err *err)
{
	return query_each(tx, stored_rows_add, rows, err, sql, QUERY_TEXT(claim->kind),
			  QUERY_INT(claim->now), QUERY_INT((int64_t)claim->limit));
}

/* How many of each queue. A quarter of a small limit is less than one row: four turns
 * make up for it, and never more than the limit is kept in one. */
static void share_out(const struct claim *claim, const size_t there[QUEUES],
		      size_t take[QUEUES])
{
	size_t changed =
		size_min(there[QUEUE_CHANGED], (claim->limit + claim->turn % 4) / 4);
	size_t failed =
		size_min(there[QUEUE_FAILED], (claim->limit + (claim->turn + 2) % 4) / 4);

	take[QUEUE_NEW] = size_min(there[QUEUE_NEW], claim->limit - changed - failed);
	take[QUEUE_CHANGED] =
		size_min(there[QUEUE_CHANGED], claim->limit - take[QUEUE_NEW] - failed);
	take[QUEUE_FAILED] =
		size_min(there[QUEUE_FAILED],
			 claim->limit - take[QUEUE_NEW] - take[QUEUE_CHANGED]);
}

static void registry_claim_begin_sync(struct stored_row *stored,
				      const struct claim *claim)
{
	struct registry_row *row = &stored->row;

	row->state = REGISTRY_STARTED;
	row->last_attempt_at = claim->now;
	row->due_at = claim->now + claim->timeout_ms;
	stored->wishes = stored_row_wishes(stored);
}

static void begin_check(struct stored_row *stored, const struct claim *claim)
{
	registry_begin_verification(&stored->row, claim->now + claim->timeout_ms);
}

static int take_rows(struct store_tx *tx, struct claim *claim, stored_rows *rows,
		     size_t count,
		     void (*change)(struct stored_row *, const struct claim *),
		     struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		struct stored_row *stored = &rows->items[i];
		change(stored, claim);
		memcpy(stored->row.claim_token, claim->token, CLAIM_TOKEN_SIZE);
		stored->claim_node = claim->node;
		if (stored_row_save_begun(tx, stored, &claim->shift, err) != 0)
			return -1;
		vec_add(claim->rows, stored->row);
		stored->row = (struct registry_row){ 0 }; /* given away */
	}
	return 0;
}

/* A work may run again. */
static void forget_run(struct claim *claim)
{
	registry_shift_clear(&claim->shift);
	while (claim->rows->count > claim->rows_before)
		registry_row_clear(&claim->rows->items[--claim->rows->count]);
}

static int claim_queues(struct store_tx *tx, struct claim *claim,
			stored_rows queues[QUEUES], struct err *err)
{
	size_t there[QUEUES], take[QUEUES];

	for (size_t i = 0; i < QUEUES; i++) {
		if (registry_claim_read_queue(tx, claim, registry_queue_sql[i],
					      &queues[i], err) != 0)
			return -1;
		there[i] = queues[i].count;
	}
	share_out(claim, there, take);
	for (size_t i = 0; i < QUEUES; i++)
		if (take_rows(tx, claim, &queues[i], take[i], registry_claim_begin_sync,
			      err) != 0)
			return -1;
	return registry_shift_apply(tx, &claim->shift, err);
}

static int claim_sync(struct store_tx *tx, void *arg, struct err *err)
{
	stored_rows queues[QUEUES] = { 0 };
	int result;

	forget_run(arg);
	result = claim_queues(tx, arg, queues, err);
	for (size_t i = 0; i < QUEUES; i++)
		stored_rows_clear(&queues[i]);
	return result;
}

static int claim_verification(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_STORED_ROWS stored_rows rows = { 0 };
	struct claim *claim = arg;

	forget_run(claim);
	if (registry_claim_read_queue(tx, claim, registry_queue_sql[QUEUES], &rows,
				      err) != 0 ||
	    take_rows(tx, claim, &rows, rows.count, begin_check, err) != 0)
		return -1;
	return registry_shift_apply(tx, &claim->shift, err);
}

static int run_claim(struct store *store, store_work work, struct claim *claim,
		     struct err *err)
{
	int result;

	claim->now = clock_wall_ms();
	claim->node = store_node(store);
	random_hex(claim->token, (CLAIM_TOKEN_SIZE - 1) / 2);
	claim->rows_before = claim->rows->count;
	if (claim->limit == 0)
		return 0;
	/* A claim that a loss of power undoes is made again: its worker died, too. */
	result = store_write_unsynced(store, work, claim, err);
	if (result != 0)
		forget_run(claim);
	registry_shift_clear(&claim->shift);
	return result;
}

int registry_claim(struct store *store, const char *kind, size_t limit,
		   int64_t timeout_ms, registry_rows *rows, struct err *err)
{
	static atomic_uint turns;
	struct claim claim = { .kind = kind,
			       .limit = limit,
			       .timeout_ms = timeout_ms,
			       .turn = atomic_fetch_add(&turns, 1),
			       .rows = rows };

	return run_claim(store, claim_sync, &claim, err);
}

int registry_claim_verification(struct store *store, const char *kind, size_t limit,
				int64_t timeout_ms, registry_rows *rows, struct err *err)
{
	struct claim claim = {
		.kind = kind, .limit = limit, .timeout_ms = timeout_ms, .rows = rows
	};

	return run_claim(store, claim_verification, &claim, err);
}

struct next_due {
	const char *kind;
	int64_t sync_at, verification_at;
};

static int read_least(struct store_tx *tx, const char *sql, const char *kind, int64_t *at,
		      struct err *err)
{
	int64_t due_at = INT64_MAX;

	if (query_number(tx, &due_at, err, sql, QUERY_TEXT(kind)) != 0)
		return -1;
	*at = due_at < *at ? due_at : *at;
	return 0;
}

#define NEXT_SQL(where, time)                                                            \
	"SELECT " time " FROM registry WHERE " where " AND " time " IS NOT NULL"         \
	" AND kind = ?1 ORDER BY " time " LIMIT 1"

/* One search for each index: a common one would read all rows. */
const char *const registry_next_sql[REGISTRY_QUEUES] = {
	[QUEUE_NEW] = NEXT_SQL("last_attempt_at IS NULL", "due_at"),
	[QUEUE_CHANGED] = NEXT_SQL("last_attempt_at IS NOT NULL AND state = 0", "due_at"),
	[QUEUE_FAILED] = NEXT_SQL("last_attempt_at IS NOT NULL AND state <> 0", "due_at"),
	[QUEUES] = NEXT_SQL("state = 2", "verification_due_at"),
};

static int read_next_due(struct store_tx *tx, void *arg, struct err *err)
{
	struct next_due *next = arg;

	next->sync_at = next->verification_at = INT64_MAX;
	for (size_t i = 0; i < QUEUES; i++)
		if (read_least(tx, registry_next_sql[i], next->kind, &next->sync_at,
			       err) != 0)
			return -1;
	return read_least(tx, registry_next_sql[QUEUES], next->kind,
			  &next->verification_at, err);
}

int registry_next_due(struct store *store, const char *kind, int64_t *sync_at,
		      int64_t *verification_at, struct err *err)
{
	struct next_due next = { .kind = kind };

	if (store_read(store, read_next_due, &next, err) != 0)
		return -1;
	*sync_at = next.sync_at;
	*verification_at = next.verification_at;
	return 0;
}

struct resetting {
	const struct store *store;
	int64_t proof_ms, now;
};

/* That a verification was cut disproves nothing; but its proof gets no younger. Without a
 * proof it is behind all that is due, as it may be what ends the node. */
static void reset_verification(const struct resetting *resetting,
			       struct registry_row *row)
{
	const int64_t due_at = registry_verification_due(row, resetting->now);
	const bool can_age =
		resetting->proof_ms > 0 && strcmp(row->kind, KIND_MIRROR) != 0;

	row->is_proved &= !can_age || resetting->now - due_at <= resetting->proof_ms;
	row->verification =
		row->is_proved ? VERIFICATION_SUCCEEDED : VERIFICATION_PENDING;
	row->verification_due_at = row->is_proved ? due_at : resetting->now;
	if (row->state != REGISTRY_SYNCED)
		row->verification_due_at = 0;
}

static void reset(const struct resetting *resetting, struct stored_row *stored)
{
	struct registry_row *row = &stored->row;

	if (row->verification == VERIFICATION_STARTED)
		reset_verification(resetting, row);
	if (row->state == REGISTRY_STARTED) {
		row->state = REGISTRY_PENDING;
		row->due_at = resetting->now;
		stored->wishes = stored_row_wishes(stored);
	}
}

static int reset_started(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_REGISTRY_SHIFT struct registry_shift shift = { 0 };
	AUTO_STORED_ROWS stored_rows rows = { 0 };
	struct resetting *resetting = arg;
	/* No index has the states; but the counters know whether there is anything to
	 * find. */
	int found = query_one(tx, NULL, NULL, err,
			      "SELECT 1 FROM counters WHERE value > 0"
			      " AND what IN ('state.1', 'verification.1') LIMIT 1");

	if (found <= 0)
		return found;
	/* Rows of before claims named a node are those of the only one there was. */
	if (query_each(tx, stored_rows_add, &rows, err,
		       "SELECT " STORED_ROW_COLUMNS " FROM registry"
		       " WHERE (state = 1 OR verification_state = 1)"
		       " AND (claim_node IS NULL OR claim_node = ?1)",
		       QUERY_TEXT(store_node(resetting->store))) != 0)
		return -1;
	resetting->now = clock_wall_ms();
	for (size_t i = 0; i < rows.count; i++) {
		reset(resetting, &rows.items[i]);
		if (stored_row_save(tx, &rows.items[i], &shift, err) != 0)
			return -1;
	}
	return registry_shift_apply(tx, &shift, err);
}

int registry_reset_started(struct store *store, int64_t proof_ms, struct err *err)
{
	struct resetting resetting = { .store = store, .proof_ms = proof_ms };

	return store_write(store, reset_started, &resetting, err);
}

/* Nothing that is counted changes. `state > 2` is there for its index. What the other
 * site said of itself may be that it is no primary, as before it becomes one. */
int registry_retry_unreached(struct store *store, struct err *err)
{
	return store_run(store, err,
			 "UPDATE registry SET due_at = ?1, retry_at = ?1"
			 " WHERE state > 2 AND state = 3 AND due_at > ?1"
			 " AND (failure_class IN ('network', 'timeout', 'auth')"
			 " OR (failure_class = 'config' AND failure_reason = 'at_peer'))",
			 QUERY_INT(clock_wall_ms()));
}

struct healing {
	const struct registry_delays *longest;
	int64_t healed;
};

/* A worker that lives keeps its row. */
#define HEAL_SQL(where, time, started)                                                   \
	"UPDATE registry SET " time " = CASE WHEN " started " THEN ?2 ELSE ?1 END"       \
	" WHERE " where " AND " time " IS NOT NULL AND " time " > ?2 AND kind = ?3"

static const char *const heal_sql[REGISTRY_QUEUES] = {
	[QUEUE_NEW] = HEAL_SQL("last_attempt_at IS NULL", "due_at", "state = 1"),
	[QUEUE_CHANGED] = HEAL_SQL("last_attempt_at IS NOT NULL AND state = 0", "due_at",
				   "state = 1"),
	[QUEUE_FAILED] = HEAL_SQL("last_attempt_at IS NOT NULL AND state <> 0", "due_at",
				  "state = 1"),
	[QUEUES] = HEAL_SQL("state = 2", "verification_due_at", "verification_state = 1"),
};

static int heal_queue(struct store_tx *tx, struct healing *healing, int queue,
		      const char *kind, struct err *err)
{
	const struct registry_delays *longest = healing->longest;
	AUTO_QUERY struct query *query = NULL;
	int64_t now = clock_wall_ms(), count;

	if (query_ask(tx, &query, err, heal_sql[queue], QUERY_INT(now),
		      QUERY_INT(now + (queue < QUEUES ? longest->sync_ms
						      : longest->verification_ms)),
		      QUERY_TEXT(kind)) != 0 ||
	    query_run(query, &count, err) != 0)
		return -1;
	healing->healed += count;
	return 0;
}

static int registry_claim_heal_due(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_KIND_NAMES kind_names kinds = { 0 };
	struct healing *healing = arg;

	healing->healed = 0;
	if (registry_kinds_in(tx, &kinds, err) != 0)
		return -1;
	for (size_t i = 0; i < kinds.count; i++)
		for (int queue = 0; queue < REGISTRY_QUEUES; queue++)
			if (heal_queue(tx, healing, queue, kinds.items[i], err) != 0)
				return -1;
	return 0;
}

int registry_heal_due(struct store *store, const struct registry_delays *longest,
		      int64_t *healed, struct err *err)
{
	struct healing healing = { .longest = longest };

	if (store_write(store, registry_claim_heal_due, &healing, err) != 0)
		return -1;
	*healed = healing.healed;
	return 0;
}

#define AGED                                                                             \
	" FROM registry WHERE kind = ?1 AND verification_due_at IS NOT NULL"             \
	" AND verification_due_at >= ?2 AND verification_due_at < ?3"                    \
	" AND state = 2 AND verification_state = 2 AND proved = 1"

/* What is at work may never end, or again and again without a result: it stays at work,
 * but counts no longer; and if it is given back, it goes before what is due later, as
 * the others that age. */
#define AGED_AT_WORK                                                                     \
	" FROM registry WHERE kind = ?1 AND verification_was_due_at IS NOT NULL"         \
	" AND verification_was_due_at < ?2 AND state = 2 AND verification_state = 1"     \
	" AND proved = 1"

const char registry_aged_at_work_sql[] = "SELECT 1" AGED_AT_WORK " LIMIT 1";

struct ageing_at_work {
	const char *kind;
	int64_t before, interval_ms, aged;
};

static int find_aged_at_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct ageing_at_work *ageing = arg;

	ageing->aged = 0;
	return query_number(tx, &ageing->aged, err, registry_aged_at_work_sql,
			    QUERY_TEXT(ageing->kind), QUERY_INT(ageing->before));
}

static int age_at_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct ageing_at_work *ageing = arg;

	if (query_write(tx, err,
			"UPDATE registry SET proved = 0,"
			" verification_was_due_at = verification_was_due_at - ?3"
			" WHERE id IN (SELECT id" AGED_AT_WORK ")",
			QUERY_TEXT(ageing->kind), QUERY_INT(ageing->before),
			QUERY_INT(ageing->interval_ms)) != 0 ||
	    query_number(tx, &ageing->aged, err, "SELECT changes()") != 0)
		return -1;
	return counter_add(tx, ageing->kind, "proved", -ageing->aged, err);
}

static int age_proofs_at_work(struct store *store, const char *kind,
			      const struct proofs_ageing *proofs, int64_t *aged,
			      struct err *err)
{
	struct ageing_at_work ageing = { .kind = kind,
					 .before = proofs->before,
					 .interval_ms = proofs->interval_ms };

	if (store_read(store, find_aged_at_work, &ageing, err) != 0 ||
	    (ageing.aged > 0 && store_write(store, age_at_work, &ageing, err) != 0))
		return -1;
	*aged += ageing.aged;
	return 0;
}

int registry_age_proofs(struct store *store, const char *kind,
			const struct proofs_ageing *proofs, int64_t *aged,
			struct err *err)
{
	static const struct ageing_table table = {
		.counters = "",
		.counts_proved = true,
		AGEING_SQL("registry", AGED, "proved = 0, verification_state = 0")
	};

	return proofs_age(store, &table, kind, proofs, aged, err) == 0
		       ? age_proofs_at_work(store, kind, proofs, aged, err)
		       : -1;
}
