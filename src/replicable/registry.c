#include "replicable/registry.h"

#include "base/clock.h"
#include "base/retry.h"
#include "replicable/name.h"

static const char *const state_names[] = { "pending", "started", "synced", "failed",
					   "missing_on_primary" };
static const char *const verification_names[] = { "pending", "started", "succeeded",
						  "failed", "disabled" };

const char *registry_state_name(enum registry_state state)
{
	return state_names[state];
}

const char *registry_verification_name(enum registry_verification state)
{
	return verification_names[state];
}

struct addition {
	const char *kind;
	const char *const *names;
	size_t count;
};

static int add_rows(struct store_tx *tx, void *arg, struct err *err)
{
	const struct addition *addition = arg;
	int64_t now = clock_wall_ms();

	for (size_t i = 0; i < addition->count; i++) {
		AUTO_QUERY struct query *query = NULL;
		const char *name = addition->names[i];
		if (query_open(tx,
			       "INSERT INTO registry (id, kind, name, state,"
			       " verification_state, generation_wanted, due_at,"
			       " created_at) VALUES (?1, ?2, ?3, 0, 4, 1, ?4, ?4)"
			       " ON CONFLICT (kind, name) DO NOTHING",
			       &query, err) != 0)
			return -1;
		query_bind_int(query, 1, (int64_t)replicable_id(addition->kind, name));
		query_bind_text(query, 2, addition->kind);
		query_bind_text(query, 3, name);
		query_bind_int(query, 4, now);
		if (query_run(query, NULL, err) != 0)
			return err_prefix(err, "%s", name);
	}
	return 0;
}

int registry_add(struct store *store, const char *kind, const char *const *names,
		 size_t count, struct err *err)
{
	struct addition addition = { kind, names, count };

	return store_write(store, add_rows, &addition, err);
}

/*
 * One conditional UPDATE an event: the state that it asks for in WHERE is the
 * transition table of the header. ?1 id, ?2 now, ?3 number, ?4 text, ?5 class,
 * ?6 remedy; each uses those it needs.
 */
static const char *const updates[] = {
	[REGISTRY_ASKED] =
		"UPDATE registry SET state = 0, verification_state = 4,"
		" verification_due_at = NULL, retry_count = 0, retry_at = NULL,"
		" held_reason = NULL, due_at = ?2, generation_wanted ="
		" CASE WHEN generation_wanted > ?3 THEN generation_wanted ELSE ?3 END"
		" WHERE id = ?1",
	[REGISTRY_BEGUN] = "UPDATE registry SET state = 1, last_attempt_at = ?2,"
			   " due_at = ?2 + ?3, held_reason = NULL WHERE id = ?1"
			   " AND (state <> 1 OR due_at <= ?2)",
	[REGISTRY_BROUGHT] =
		"UPDATE registry SET state = 2, retry_count = 0, retry_at = NULL,"
		" due_at = NULL, held_reason = NULL, failure_class = NULL,"
		" failure = NULL, remedy = NULL, verification_state = 0,"
		" verification_due_at = ?2 WHERE id = ?1 AND state = 1"
		" AND generation_wanted <= ?3",
	[REGISTRY_HELD] = "UPDATE registry SET state = 0, due_at = NULL,"
			  " held_reason = ?4 WHERE id = ?1 AND state = 1",
	[REGISTRY_ERRED] = "UPDATE registry SET state = 3, retry_count = retry_count + 1,"
			   " retry_at = ?2 + ?3, due_at = ?2 + ?3, failure = ?4,"
			   " failure_class = ?5, remedy = ?6 WHERE id = ?1 AND state = 1",
	[REGISTRY_ABSENT] = "UPDATE registry SET state = 4, due_at = NULL,"
			    " retry_at = NULL WHERE id = ?1 AND state = 1",
	[REGISTRY_PROVED] = "UPDATE registry SET verification_state = 2, checksum = ?4,"
			    " verified_at = ?2, verification_retry_count = 0,"
			    " verification_due_at = NULL WHERE id = ?1 AND state = 2",
	[REGISTRY_DISPROVED] =
		"UPDATE registry SET verification_state = 3, verified_at = ?2, state = 3,"
		" verification_retry_count = verification_retry_count + 1,"
		" retry_count = retry_count + 1, verification_due_at = NULL,"
		" retry_at = ?2 + ?3, due_at = ?2 + ?3, failure = ?4, failure_class = ?5,"
		" remedy = ?6 WHERE id = ?1 AND state = 2",
};

static int read_retry_count(struct store_tx *tx, uint64_t id, int64_t *count,
			    struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx, "SELECT retry_count FROM registry WHERE id = ?1", &query,
		       err) != 0)
		return -1;
	query_bind_int(query, 1, (int64_t)id);
	found = query_step(query, err);
	if (found < 0)
		return -1;
	if (found == 0)
		return err_set(err, ERR_MISSING, "the registry has no row %" PRIu64, id);
	*count = query_int(query, 0);
	return 0;
}

/* The number that the event's UPDATE wants. */
static int64_t number_of(const struct registry_move *move, int64_t retry_count)
{
	enum retry_cap cap = RETRY_CAP;

	switch (move->event) {
	case REGISTRY_BEGUN:
		return move->timeout_ms;
	case REGISTRY_ERRED:
	case REGISTRY_DISPROVED:
		if (move->err->class == ERR_MISSING)
			cap = RETRY_CAP_MISSING;
		return retry_random_delay_ms((uint64_t)retry_count + 1, cap);
	default:
		return (int64_t)move->generation;
	}
}

static const char *text_of(const struct registry_move *move)
{
	if (move->event == REGISTRY_HELD)
		return move->held_reason;
	return move->event == REGISTRY_PROVED ? move->checksum
	       : move->err                    ? move->err->text
					      : NULL;
}

/* What was brought is here, whether or not it is still what is wanted. */
static int record_generation(struct store_tx *tx, const struct registry_move *move,
			     int64_t now, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx,
		       "UPDATE registry SET generation = ?3, last_success_at = ?2"
		       " WHERE id = ?1 AND generation <= ?3",
		       &query, err) != 0)
		return -1;
	query_bind_int(query, 1, (int64_t)move->id);
	query_bind_int(query, 2, now);
	query_bind_int(query, 3, (int64_t)move->generation);
	return query_run(query, NULL, err);
}

/* A query has the parameters that its text names, and takes no others. */
static void bind(struct query *query, const struct registry_move *move, int64_t now,
		 int64_t number)
{
	const char *sql = updates[move->event];

	query_bind_int(query, 1, (int64_t)move->id);
	if (strstr(sql, "?2"))
		query_bind_int(query, 2, now);
	if (strstr(sql, "?3"))
		query_bind_int(query, 3, number);
	if (strstr(sql, "?4"))
		query_bind_text(query, 4, text_of(move));
	if (strstr(sql, "?5"))
		query_bind_text(query, 5, err_class_name(move->err->class));
	if (strstr(sql, "?6"))
		query_bind_text(query, 6, move->err->remedy);
}

struct moving {
	const struct registry_move *move;
	bool refused;
};

static int move_row(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct moving *moving = arg;
	const struct registry_move *move = moving->move;
	int64_t now = clock_wall_ms(), retry_count = 0, changed;

	if (read_retry_count(tx, move->id, &retry_count, err) != 0)
		return -1;
	if (move->event == REGISTRY_BROUGHT && record_generation(tx, move, now, err) != 0)
		return -1;
	if (query_open(tx, updates[move->event], &query, err) != 0)
		return -1;
	bind(query, move, now, number_of(move, retry_count));
	if (query_run(query, &changed, err) != 0)
		return -1;
	moving->refused = changed == 0;
	return 0;
}

int registry_move(struct store *store, const struct registry_move *move, struct err *err)
{
	struct moving moving = { .move = move };

	if (store_write(store, move_row, &moving, err) != 0)
		return -1;
	if (moving.refused)
		return err_set(err, ERR_CONFLICT,
			       "the registry's row %" PRIu64 " was changed meanwhile",
			       move->id);
	return 0;
}

struct reading {
	const char *kind, *name;
	struct registry_row *row;
};

static char *copy_text(struct query *query, int column)
{
	const char *text = query_text(query, column);

	return text ? xstrdup(text) : NULL;
}

static void fill_row(struct query *query, struct registry_row *row)
{
	*row = (struct registry_row){
		.id = (uint64_t)query_int(query, 0),
		.name = copy_text(query, 1),
		.state = (enum registry_state)query_int(query, 2),
		.verification = (enum registry_verification)query_int(query, 3),
		.generation_wanted = (uint64_t)query_int(query, 4),
		.generation = (uint64_t)query_int(query, 5),
		.checksum = copy_text(query, 6),
		.retry_count = query_int(query, 7),
		.retry_at = query_int(query, 8),
		.last_attempt_at = query_int(query, 9),
		.last_success_at = query_int(query, 10),
		.verified_at = query_int(query, 11),
		.held_reason = copy_text(query, 12),
		.failure_class = copy_text(query, 13),
		.failure = copy_text(query, 14),
		.remedy = copy_text(query, 15),
	};
}

static int read_row(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct reading *reading = arg;
	int found;

	if (query_open(tx,
		       "SELECT id, name, state, verification_state, generation_wanted,"
		       " generation, checksum, retry_count, retry_at, last_attempt_at,"
		       " last_success_at, verified_at, held_reason, failure_class,"
		       " failure, remedy FROM registry WHERE kind = ?1 AND name = ?2",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, reading->kind);
	query_bind_text(query, 2, reading->name);
	found = query_step(query, err);
	if (found == 0)
		return err_set(err, ERR_MISSING, "%s: the registry has no such %s",
			       reading->name, reading->kind);
	if (found > 0)
		fill_row(query, reading->row);
	return found > 0 ? 0 : -1;
}

int registry_get(struct store *store, const char *kind, const char *name,
		 struct registry_row *row, struct err *err)
{
	struct reading reading = { kind, name, row };

	*row = (struct registry_row){ 0 };
	return store_read(store, read_row, &reading, err);
}

void registry_row_clear(struct registry_row *row)
{
	free(row->name);
	free(row->checksum);
	free(row->held_reason);
	free(row->failure_class);
	free(row->failure);
	free(row->remedy);
	*row = (struct registry_row){ 0 };
}

struct counting {
	const char *kind;
	int64_t *counts;
};

static int count_rows(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct counting *counting = arg;
	int found;

	memset(counting->counts, 0, REGISTRY_STATES * sizeof(*counting->counts));
	if (query_open(tx,
		       "SELECT state, COUNT(*) FROM registry WHERE kind = ?1"
		       " GROUP BY state",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, counting->kind);
	while ((found = query_step(query, err)) > 0) {
		int64_t state = query_int(query, 0);
		if (state >= 0 && state < REGISTRY_STATES)
			counting->counts[state] = query_int(query, 1);
	}
	return found;
}

int registry_count(struct store *store, const char *kind, int64_t counts[REGISTRY_STATES],
		   struct err *err)
{
	struct counting counting = { kind, counts };

	return store_read(store, count_rows, &counting, err);
}
