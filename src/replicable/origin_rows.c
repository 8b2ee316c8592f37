/*
 * Counters have the kind "origin.<kind>" and stand for "all" and for
 * "verification.<state>". A row's id is replicable_id(), so that its row is found by
 * number everywhere.
 */
#include "replicable/origin_rows.h"

#include "replicable/name.h"
#include "store/site_value.h"

#define COLUMNS                                                                          \
	"id, name, path, timeline, generation, checksum, description, print,"            \
	" is_settled, changed_at, verification_state, verified_at,"                      \
	" verification_due_at, verification_retry_count, failure_class, failure, remedy"

static void fill_row(struct query *query, struct origin_row *row)
{
	*row = (struct origin_row){
		.id = (uint64_t)query_int(query, 0),
		.name = query_copy_text(query, 1),
		.path = query_copy_text(query, 2),
		.generation = (uint64_t)query_int(query, 4),
		.checksum = query_copy_text(query, 5),
		.description = query_copy_text(query, 6),
		.print = query_copy_text(query, 7),
		.is_settled = query_int(query, 8) != 0,
		.changed_at = query_int(query, 9),
		.verification = (enum registry_verification)query_int(query, 10),
		.verified_at = query_int(query, 11),
		.verification_due_at = query_int(query, 12),
		.verification_retry_count = query_int(query, 13),
		.failure_class = query_copy_text(query, 14),
		.failure = query_copy_text(query, 15),
		.remedy = query_copy_text(query, 16),
	};
	snprintf(row->timeline, sizeof(row->timeline), "%s", query_text(query, 3));
}

void origin_row_clear(struct origin_row *row)
{
	free(row->name);
	free(row->path);
	free(row->checksum);
	free(row->description);
	free(row->print);
	free(row->failure_class);
	free(row->failure);
	free(row->remedy);
	*row = (struct origin_row){ 0 };
}

void origin_rows_clear(origin_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		origin_row_clear(&rows->items[i]);
	vec_clear(rows);
}

int origin_row_get(struct store_tx *tx, const char *kind, const char *name,
		   struct origin_row *row, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	*row = (struct origin_row){ 0 };
	if (query_open(tx, "SELECT " COLUMNS " FROM origin WHERE kind = ?1 AND name = ?2",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, kind);
	query_bind_text(query, 2, name);
	found = query_step(query, err);
	if (found > 0)
		fill_row(query, row);
	return found;
}

static int add_rows(struct query *query, origin_rows *rows, struct err *err)
{
	struct origin_row row;
	int found;

	while ((found = query_step(query, err)) > 0) {
		fill_row(query, &row);
		vec_add(rows, row);
	}
	if (found < 0)
		origin_rows_clear(rows);
	return found;
}

int origin_rows_list(struct store_tx *tx, const char *kind, const char *after,
		     size_t limit, origin_rows *rows, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	*rows = (origin_rows){ 0 };
	if (query_open(tx,
		       "SELECT " COLUMNS " FROM origin WHERE kind = ?1 AND name > ?2"
		       " ORDER BY name LIMIT ?3",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, kind);
	query_bind_text(query, 2, after ? after : "");
	query_bind_int(query, 3, (int64_t)limit);
	return add_rows(query, rows, err);
}

int origin_rows_due(struct store_tx *tx, const char *kind, int64_t now, size_t limit,
		    origin_rows *rows, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	*rows = (origin_rows){ 0 };
	if (query_open(tx,
		       "SELECT " COLUMNS " FROM origin"
		       " WHERE verification_due_at IS NOT NULL"
		       " AND verification_due_at <= ?2 AND kind = ?1"
		       " ORDER BY verification_due_at LIMIT ?3",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, kind);
	query_bind_int(query, 2, now);
	query_bind_int(query, 3, (int64_t)limit);
	return add_rows(query, rows, err);
}

int origin_rows_heal_due(struct store_tx *tx, int64_t now, int64_t latest,
			 int64_t *healed, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx,
		       "UPDATE origin SET verification_due_at = ?1"
		       " WHERE verification_due_at IS NOT NULL"
		       " AND verification_due_at > ?2",
		       &query, err) != 0)
		return -1;
	query_bind_int(query, 1, now);
	query_bind_int(query, 2, latest);
	return query_run(query, healed, err);
}

/* by: +1 or -1, to the number of rows whose verification is in this state. */
static int count(struct store_tx *tx, const char *kind,
		 enum registry_verification verification, int64_t by, struct err *err)
{
	AUTO_FREE char *counted = xasprintf("origin.%s", kind);
	char what[32];

	snprintf(what, sizeof(what), "verification.%d", (int)verification);
	return counter_add(tx, counted, what, by, err);
}

static int count_all(struct store_tx *tx, const char *kind, int64_t by, struct err *err)
{
	AUTO_FREE char *counted = xasprintf("origin.%s", kind);

	return counter_add(tx, counted, "all", by, err);
}

static void bind_time(struct query *query, int at, int64_t value)
{
	if (value == 0)
		query_bind_null(query, at);
	else
		query_bind_int(query, at, value);
}

/* ?1 to ?16: all columns but the kind and what never changes. */
static void bind_row(struct query *query, const struct origin_row *row)
{
	query_bind_int(query, 1, (int64_t)row->id);
	query_bind_text(query, 2, row->path);
	query_bind_text(query, 3, row->timeline);
	query_bind_int(query, 4, (int64_t)row->generation);
	query_bind_text(query, 5, row->checksum);
	query_bind_text(query, 6, row->description);
	query_bind_text(query, 7, row->print);
	query_bind_int(query, 8, row->is_settled);
	query_bind_int(query, 9, row->changed_at);
	query_bind_int(query, 10, row->verification);
	bind_time(query, 11, row->verified_at);
	bind_time(query, 12, row->verification_due_at);
	query_bind_int(query, 13, row->verification_retry_count);
	query_bind_text(query, 14, row->failure_class);
	query_bind_text(query, 15, row->failure);
	query_bind_text(query, 16, row->remedy);
}

int origin_row_add(struct store_tx *tx, const char *kind, const struct origin_row *row,
		   struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int64_t added;

	if (query_open(tx,
		       "INSERT INTO origin (id, path, timeline, generation, checksum,"
		       " description, print, is_settled, changed_at, verification_state,"
		       " verified_at, verification_due_at, verification_retry_count,"
		       " failure_class, failure, remedy, kind, name) VALUES (?1, ?2, ?3,"
		       " ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17,"
		       " ?18) ON CONFLICT DO NOTHING",
		       &query, err) != 0)
		return -1;
	bind_row(query, row);
	query_bind_text(query, 17, kind);
	query_bind_text(query, 18, row->name);
	if (query_run(query, &added, err) != 0)
		return -1;
	if (added == 0)
		return err_set(err, ERR_CONFLICT, "%s: it has been recorded meanwhile",
			       row->name);
	if (count_all(tx, kind, 1, err) != 0)
		return -1;
	return count(tx, kind, row->verification, 1, err);
}

static int conflict(const struct origin_row *row, struct err *err)
{
	return err_set(err, ERR_CONFLICT, "%s: its record was changed meanwhile",
		       row->name);
}

/* What the counters know of the row as it stands; the caller frees *kind. */
static int read_counted(struct store_tx *tx, const struct origin_row *row,
			uint64_t generation, char **kind,
			enum registry_verification *verification, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx,
		       "SELECT kind, verification_state FROM origin WHERE id = ?1"
		       " AND generation = ?2 AND timeline = ?3",
		       &query, err) != 0)
		return -1;
	query_bind_int(query, 1, (int64_t)row->id);
	query_bind_int(query, 2, (int64_t)generation);
	query_bind_text(query, 3, row->timeline);
	found = query_step(query, err);
	if (found < 0)
		return -1;
	if (found == 0)
		return conflict(row, err);
	*kind = query_copy_text(query, 0);
	*verification = (enum registry_verification)query_int(query, 1);
	return 0;
}

static int write_row(struct store_tx *tx, const struct origin_row *row, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx,
		       "UPDATE origin SET path = ?2, timeline = ?3, generation = ?4,"
		       " checksum = ?5, description = ?6, print = ?7, is_settled = ?8,"
		       " changed_at = ?9, verification_state = ?10, verified_at = ?11,"
		       " verification_due_at = ?12, verification_retry_count = ?13,"
		       " failure_class = ?14, failure = ?15, remedy = ?16 WHERE id = ?1",
		       &query, err) != 0)
		return -1;
	bind_row(query, row);
	return query_run(query, NULL, err);
}

int origin_row_update(struct store_tx *tx, const struct origin_row *row,
		      uint64_t generation, struct err *err)
{
	AUTO_FREE char *kind = NULL;
	enum registry_verification before;

	if (read_counted(tx, row, generation, &kind, &before, err) != 0 ||
	    write_row(tx, row, err) != 0)
		return -1;
	if (before == row->verification)
		return 0;
	if (count(tx, kind, before, -1, err) != 0)
		return -1;
	return count(tx, kind, row->verification, 1, err);
}

int origin_row_remove(struct store_tx *tx, const struct origin_row *row, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	AUTO_FREE char *kind = NULL;
	enum registry_verification before;

	if (read_counted(tx, row, row->generation, &kind, &before, err) != 0 ||
	    query_open(tx, "DELETE FROM origin WHERE id = ?1", &query, err) != 0)
		return -1;
	query_bind_int(query, 1, (int64_t)row->id);
	if (query_run(query, NULL, err) != 0 || count_all(tx, kind, -1, err) != 0)
		return -1;
	return count(tx, kind, before, -1, err);
}

int origin_rows_set_timeline(struct store_tx *tx, const char *timeline, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, "UPDATE origin SET timeline = ?1", &query, err) != 0)
		return -1;
	query_bind_text(query, 1, timeline);
	return query_run(query, NULL, err);
}

int origin_count(struct store_tx *tx, const char *kind, int64_t *all,
		 int64_t counts[VERIFICATION_STATES], struct err *err)
{
	AUTO_FREE char *counted = xasprintf("origin.%s", kind);
	char what[32];

	for (int i = 0; i < VERIFICATION_STATES; i++) {
		snprintf(what, sizeof(what), "verification.%d", i);
		if (counter_get(tx, counted, what, &counts[i], err) != 0)
			return -1;
	}
	return counter_get(tx, counted, "all", all, err);
}
