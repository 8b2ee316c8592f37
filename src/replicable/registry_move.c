/*
 * An event is a function that changes a row in memory (registry_events.c); around it, the
 * row is read and written in one transaction of the only writer, so that reading and
 * writing are one step.
 */
#include "replicable/registry_move.h"

#include "base/clock.h"
#include "replicable/name.h"
#include "replicable/registry_events.h"
#include "replicable/registry_row.h"

/* An enum registry_result, or -1. */
static int move_row(struct store_tx *tx, const struct registry_move *move,
		    registry_function function, struct registry_shift *shift,
		    struct err *err)
{
	AUTO_STORED_ROW struct stored_row stored = { 0 };
	int found = stored_row_load(tx, move->id, &stored, err);

	if (found <= 0)
		return found < 0 ? -1 : REGISTRY_NO_ROW;
	enum outcome outcome = function(&stored, move, clock_wall_ms());
	if ((outcome == MOVE_DONE || outcome == MOVE_OVERTAKEN) &&
	    stored_row_save(tx, &stored, shift, err) != 0)
		return -1;
	return outcome == MOVE_REFUSED || outcome == MOVE_OVERTAKEN ? REGISTRY_CONFLICT
								    : REGISTRY_MOVED;
}

/* 1: a conflict. */
static int move_one(struct store_tx *tx, const struct registry_move *move,
		    registry_function function, struct err *err)
{
	AUTO_REGISTRY_SHIFT struct registry_shift shift = { 0 };
	int result = move_row(tx, move, function, &shift, err);

	if (result == REGISTRY_NO_ROW)
		return err_set(err, ERR_MISSING, "the registry has no row %" PRIu64,
			       move->id);
	if (result < 0 || registry_shift_apply(tx, &shift, err) != 0)
		return -1;
	return result == REGISTRY_CONFLICT;
}

int registry_move_in(struct store_tx *tx, const struct registry_move *move,
		     struct err *err)
{
	return move_one(tx, move, registry_functions[move->event], err);
}

int registry_complete_in(struct store_tx *tx, const struct registry_move *brought,
			 struct err *err)
{
	return move_one(tx, brought, registry_completed, err);
}

int registry_adopt_in(struct store_tx *tx, const struct registry_move *move,
		      struct err *err)
{
	return move_one(tx, move, registry_adopted, err);
}

static int registry_move_ask_row(struct store_tx *tx, const char *kind,
				 const struct registry_ask *ask,
				 struct registry_shift *shift, struct err *err)
{
	struct registry_move move = ask->move;
	registry_function function = registry_functions[REGISTRY_ASKED];
	int result;

	move.id = replicable_id(kind, ask->name);
	result = move_row(tx, &move, function, shift, err);
	if (result != REGISTRY_NO_ROW)
		return result;
	if (stored_row_add(tx, kind, ask->name, 0, shift, err) < 0)
		return -1;
	result = move_row(tx, &move, function, shift, err);
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
	registry_function function;
	bool is_conflict;
};

static int run_move(struct store_tx *tx, void *arg, struct err *err)
{
	struct moving *moving = arg;
	int result = move_one(tx, moving->move, moving->function, err);

	moving->is_conflict = result > 0;
	return result < 0 ? -1 : 0;
}

static int write_move(struct store *store, const struct registry_move *move,
		      registry_function function, struct err *err)
{
	struct moving moving = { .move = move, .function = function };

	if (store_write(store, run_move, &moving, err) != 0)
		return -1;
	if (moving.is_conflict)
		return err_set(err, ERR_CONFLICT,
			       "the registry's row %" PRIu64 " was changed meanwhile",
			       move->id);
	return 0;
}

int registry_move(struct store *store, const struct registry_move *move, struct err *err)
{
	return write_move(store, move, registry_functions[move->event], err);
}

int registry_complete(struct store *store, const struct registry_move *brought,
		      struct err *err)
{
	return write_move(store, brought, registry_completed, err);
}

/* function NULL: each by its event. */
struct many {
	const struct registry_move *moves;
	size_t count;
	registry_function function;
	enum registry_result *results;
};

static int run_many(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_REGISTRY_SHIFT struct registry_shift shift = { 0 };
	const struct many *many = arg;

	for (size_t i = 0; i < many->count; i++) {
		const struct registry_move *move = &many->moves[i];
		registry_function function =
			many->function ? many->function : registry_functions[move->event];
		int result = move_row(tx, move, function, &shift, err);
		if (result < 0)
			return -1;
		many->results[i] = (enum registry_result)result;
	}
	return registry_shift_apply(tx, &shift, err);
}

int registry_move_many_in(struct store_tx *tx, const struct registry_move *moves,
			  size_t count, enum registry_result *results, struct err *err)
{
	return run_many(tx, &(struct many){ moves, count, NULL, results }, err);
}

int registry_move_many(struct store *store, const struct registry_move *moves,
		       size_t count, enum registry_result *results, struct err *err)
{
	struct many many = { moves, count, NULL, results };

	return count == 0 ? 0 : store_write(store, run_many, &many, err);
}

int registry_complete_many(struct store *store, const struct registry_move *brought,
			   size_t count, enum registry_result *results, struct err *err)
{
	struct many many = { brought, count, registry_completed, results };

	return count == 0 ? 0 : store_write(store, run_many, &many, err);
}
