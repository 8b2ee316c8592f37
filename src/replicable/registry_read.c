#include "replicable/name.h"
#include "replicable/registry.h"
#include "replicable/registry_row.h"
#include "store/site_value.h"

#define PAGE 500

static void take_row(struct query *query, struct registry_row *row)
{
	struct stored_row stored;

	stored_row_read(query, &stored);
	*row = stored.row;
}

int registry_get_in(struct store_tx *tx, const char *kind, const char *name,
		    struct registry_row *row, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	*row = (struct registry_row){ 0 };
	if (query_open(tx,
		       "SELECT " STORED_ROW_COLUMNS
		       " FROM registry WHERE kind = ?1 AND name = ?2",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, kind);
	query_bind_text(query, 2, name);
	found = query_step(query, err);
	if (found > 0)
		take_row(query, row);
	return found;
}

struct reading {
	const char *kind, *name;
	struct registry_row *row;
};

static int registry_read_row(struct store_tx *tx, void *arg, struct err *err)
{
	const struct reading *reading = arg;
	int found;

	registry_row_clear(reading->row); /* of a run before */
	found = registry_get_in(tx, reading->kind, reading->name, reading->row, err);
	if (found == 0 && strcmp(reading->kind, KIND_REPOSITORY) == 0)
		return err_set(err, ERR_MISSING,
			       "%s: the registry has no such repository", reading->name);
	if (found == 0)
		return err_set(err, ERR_MISSING,
			       "%s: the registry has no blob of kind %s "
			       "with this id",
			       reading->name, reading->kind);
	return found > 0 ? 0 : -1;
}

int registry_get(struct store *store, const char *kind, const char *name,
		 struct registry_row *row, struct err *err)
{
	struct reading reading = { kind, name, row };

	*row = (struct registry_row){ 0 };
	return store_read(store, registry_read_row, &reading, err);
}

/* `kind = 'repository'` is there for its index. */
int registry_twin_in(struct store_tx *tx, const struct registry_row *row,
		     struct registry_row *twin, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	*twin = (struct registry_row){ 0 };
	if (strcmp(row->kind, KIND_REPOSITORY) != 0 || !row->timeline[0])
		return 0;
	if (query_open(tx,
		       "SELECT " STORED_ROW_COLUMNS
		       " FROM registry WHERE kind = 'repository' AND timeline = ?1"
		       " AND id <> ?2 ORDER BY gone, last_success_at DESC LIMIT 1",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, row->timeline);
	query_bind_int(query, 2, (int64_t)row->id);
	found = query_step(query, err);
	if (found > 0)
		take_row(query, twin);
	return found;
}

int registry_was_renamed_in(struct store_tx *tx, const struct registry_row *row,
			    struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row twin = { 0 };
	int found = row->is_gone ? registry_twin_in(tx, row, &twin, err) : 0;

	return found > 0 ? !twin.is_gone : found;
}

/* With the words of the index registry_odd, so that it is used: what a person looks for
 * is rare among very many. */
#define ODD " AND (held_reason IS NOT NULL OR gone <> 0 OR state > 2)"

static void list_sql(const struct registry_filter *filter, struct str *sql)
{
	bool is_odd =
		filter->held_only || filter->gone_only || filter->state > REGISTRY_SYNCED;

	str_add(sql, "SELECT " STORED_ROW_COLUMNS
		     " FROM registry WHERE kind = ?1 AND name > ?2");
	if (is_odd)
		str_add(sql, ODD);
	if (filter->held_only)
		str_add(sql, " AND held_reason IS NOT NULL");
	if (filter->gone_only)
		str_add(sql, " AND gone <> 0");
	if (filter->state != REGISTRY_ANY)
		str_add(sql, " AND state = ?4");
	str_add(sql, " ORDER BY name LIMIT ?3");
}

int registry_list_in(struct store_tx *tx, const struct registry_filter *filter,
		     registry_rows *rows, struct err *err)
{
	AUTO_STR struct str sql = STR_INIT;
	AUTO_QUERY struct query *query = NULL;
	int found;

	list_sql(filter, &sql);
	if (query_open(tx, sql.data, &query, err) != 0)
		return -1;
	query_bind_text(query, 1, filter->kind);
	query_bind_text(query, 2, filter->after ? filter->after : "");
	query_bind_int(query, 3, (int64_t)filter->limit);
	if (filter->state != REGISTRY_ANY)
		query_bind_int(query, 4, filter->state);
	while ((found = query_step(query, err)) > 0) {
		struct registry_row row;
		take_row(query, &row);
		vec_add(rows, row);
	}
	return found;
}

static int visit_rows(struct store_tx *tx, const registry_rows *rows,
		      registry_visit visit, void *arg, struct err *err)
{
	int result = 0;

	for (size_t i = 0; i < rows->count && result == 0; i++)
		result = visit(tx, &rows->items[i], arg, err);
	return result;
}

int registry_each_in(struct store_tx *tx, const struct registry_filter *filter,
		     registry_visit visit, void *arg, struct err *err)
{
	AUTO_FREE char *after = filter->after ? xstrdup(filter->after) : NULL;
	size_t count = PAGE;

	while (count == PAGE) {
		AUTO_REGISTRY_ROWS registry_rows rows = { 0 };
		struct registry_filter page = *filter;
		page.after = after;
		page.limit = PAGE;
		if (registry_list_in(tx, &page, &rows, err) != 0)
			return -1;
		int result = visit_rows(tx, &rows, visit, arg, err);
		if (result != 0)
			return result;
		count = rows.count;
		free(TAKE(after));
		if (count > 0)
			after = TAKE(rows.items[count - 1].name);
	}
	return 0;
}

struct listing {
	const struct registry_filter *filter;
	registry_rows *rows;
	size_t before;
};

static int list_rows(struct store_tx *tx, void *arg, struct err *err)
{
	const struct listing *listing = arg;

	while (listing->rows->count > listing->before) /* of a run before */
		registry_row_clear(&listing->rows->items[--listing->rows->count]);
	return registry_list_in(tx, listing->filter, listing->rows, err);
}

int registry_list(struct store *store, const struct registry_filter *filter,
		  registry_rows *rows, struct err *err)
{
	struct listing listing = { filter, rows, rows->count };

	return store_read(store, list_rows, &listing, err);
}

struct counting {
	const char *kind;
	struct registry_counts *counts;
};

static int count_states(struct store_tx *tx, const char *kind, const char *what,
			int64_t *counts, size_t count, struct err *err)
{
	for (size_t i = 0; i < count; i++) {
		char name[32];
		snprintf(name, sizeof(name), "%s.%zu", what, i);
		if (counter_get(tx, kind, name, &counts[i], err) != 0)
			return -1;
	}
	return 0;
}

static int read_behind(struct store_tx *tx, const char *kind, int64_t *since,
		       struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx,
		       "SELECT behind_since FROM registry"
		       " WHERE behind_since IS NOT NULL AND kind = ?1"
		       " ORDER BY behind_since LIMIT 1",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, kind);
	found = query_step(query, err);
	*since = found > 0 ? query_int(query, 0) : 0;
	return found < 0 ? -1 : 0;
}

static int read_counts(struct store_tx *tx, void *arg, struct err *err)
{
	const struct counting *counting = arg;
	struct registry_counts *counts = counting->counts;

	if (counter_get(tx, counting->kind, "all", &counts->all, err) != 0 ||
	    counter_get(tx, counting->kind, "held", &counts->held, err) != 0 ||
	    counter_get(tx, counting->kind, "gone", &counts->gone, err) != 0 ||
	    counter_get(tx, counting->kind, "proved", &counts->proved, err) != 0 ||
	    counter_get(tx, counting->kind, "bytes", &counts->bytes, err) != 0 ||
	    counter_get(tx, counting->kind, "bytes_to_come", &counts->bytes_to_come,
			err) != 0 ||
	    count_states(tx, counting->kind, "state", counts->states, REGISTRY_STATES,
			 err) != 0 ||
	    count_states(tx, counting->kind, "verification", counts->verification,
			 VERIFICATION_STATES, err) != 0)
		return -1;
	return read_behind(tx, counting->kind, &counts->behind_since, err);
}

int registry_counts(struct store *store, const char *kind, struct registry_counts *counts,
		    struct err *err)
{
	struct counting counting = { kind, counts };

	*counts = (struct registry_counts){ 0 };
	return store_read(store, read_counts, &counting, err);
}

int registry_kinds_in(struct store_tx *tx, kind_names *kinds, struct err *err)
{
	return kind_names_read(
		tx, "SELECT kind FROM registry WHERE kind > ?1 ORDER BY kind LIMIT 1",
		kinds, err);
}

int registry_count(struct store *store, const char *kind, int64_t counts[REGISTRY_STATES],
		   struct err *err)
{
	struct registry_counts all;

	if (registry_counts(store, kind, &all, err) != 0)
		return -1;
	memcpy(counts, all.states, sizeof(all.states));
	return 0;
}

struct never_copied {
	const char *kind;
	int64_t count;
};

#define NEVER_SQL(where)                                                                 \
	"SELECT COUNT(*) FROM registry WHERE due_at IS NOT NULL AND due_at > 0"          \
	" AND " where " AND last_success_at IS NULL AND gone = 0"                        \
	" AND state IN (0, 1, 3) AND held_reason IS NULL AND kind = ?1"

/* Each by its own index, or all rows would be read: what is to be copied is due. */
static const char *const never_sql[] = {
	NEVER_SQL("last_attempt_at IS NULL"),
	NEVER_SQL("last_attempt_at IS NOT NULL AND state = 0"),
	NEVER_SQL("last_attempt_at IS NOT NULL AND state <> 0"),
};

static int count_by(struct store_tx *tx, const char *sql, struct never_copied *asked,
		    struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx, sql, &query, err) != 0)
		return -1;
	query_bind_text(query, 1, asked->kind);
	found = query_step(query, err);
	asked->count += found > 0 ? query_int(query, 0) : 0;
	return found < 0 ? -1 : 0;
}

static int count_never_copied(struct store_tx *tx, void *arg, struct err *err)
{
	struct never_copied *asked = arg;

	asked->count = 0;
	for (size_t i = 0; i < ARRAY_SIZE(never_sql); i++)
		if (count_by(tx, never_sql[i], asked, err) != 0)
			return -1;
	return 0;
}

int registry_never_copied(struct store *store, const char *kind, int64_t *count,
			  struct err *err)
{
	struct never_copied asked = { .kind = kind };

	if (store_read(store, count_never_copied, &asked, err) != 0)
		return -1;
	*count = asked.count;
	return 0;
}

int registry_count_here(struct store_tx *tx, const char *kind, int64_t *count,
			struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	const unsigned recheck = REGISTRY_WISH_RECHECK;
	int found;

	if (query_open(tx,
		       "SELECT count(*) FROM registry WHERE kind = ?1"
		       " AND generation > 0 AND gone = 0 AND wishes & ?2 = 0",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, kind);
	query_bind_int(query, 2, recheck | recheck << WISHES_LATER_SHIFT);
	found = query_step(query, err);
	*count = found > 0 ? query_int(query, 0) : 0;
	return found < 0 ? -1 : 0;
}
