#include "replicable/registry.h"

#include "base/clock.h"
#include "replicable/kind.h"
#include "replicable/lfs_rows.h"
#include "replicable/name.h"
#include "replicable/registry_row.h"
#include "store/site_value.h"

void registry_row_clear(struct registry_row *row)
{
	free(row->kind);
	free(row->name);
	free(row->checksum);
	free(row->primary_checksum);
	free(row->held_reason);
	free(row->failure_class);
	free(row->failure);
	free(row->remedy);
	*row = (struct registry_row){ 0 };
}

void registry_rows_clear(registry_rows *rows)
{
	vec_clear_each(rows, registry_row_clear);
}

void stored_row_clear(struct stored_row *stored)
{
	registry_row_clear(&stored->row);
	*stored = (struct stored_row){ 0 };
}

void registry_shift_clear(struct registry_shift *shift)
{
	free(shift->kind);
	*shift = (struct registry_shift){ 0 };
}

void registry_set_text(char **text, const char *value)
{
	char *copy = value ? xstrdup(value) : NULL;

	free(*text);
	*text = copy;
}

unsigned stored_row_wishes(const struct stored_row *stored)
{
	return (stored->wishes | stored->wishes >> WISHES_LATER_SHIFT) & WISHES_ALL;
}

static bool registry_row_was_never_copied(const struct registry_row *row)
{
	const bool is_to_copy = row->state == REGISTRY_PENDING ||
				row->state == REGISTRY_STARTED ||
				row->state == REGISTRY_FAILED;

	return is_to_copy && row->due_at > 0 && row->last_success_at == 0 &&
	       !row->is_gone && !row->held_reason;
}

static bool stored_row_is_here(const struct stored_row *stored)
{
	const struct registry_row *row = &stored->row;
	unsigned wish = REGISTRY_WISH_REPLACE;

	if (row->generation == 0 || row->is_gone)
		return false;
	/* no command asks for mirrors to be replaced */
	if (strcmp(row->kind, KIND_MIRROR) == 0)
		wish |= REGISTRY_WISH_RECHECK;
	return (stored->wishes & (wish | wish << WISHES_LATER_SHIFT)) == 0;
}

static void count_row(struct registry_counts *counts, const struct stored_row *stored,
		      int64_t by)
{
	const struct registry_row *row = &stored->row;
	int64_t bytes = by * replicable_counted_size(row->size);
	bool is_to_come = row->state != REGISTRY_SYNCED && !row->is_gone;

	counts->all += by;
	counts->states[row->state] += by;
	counts->verification[row->verification] += by;
	counts->held += row->held_reason ? by : 0;
	counts->gone += row->is_gone ? by : 0;
	counts->proved += row->is_proved && row->state == REGISTRY_SYNCED ? by : 0;
	counts->never_copied += registry_row_was_never_copied(row) ? by : 0;
	counts->here += stored_row_is_here(stored) ? by : 0;
	counts->bytes += bytes;
	counts->bytes_to_come += is_to_come ? bytes : 0;
}

#define COUNTER(what, field)                                                             \
	{                                                                                \
		what, offsetof(struct registry_counts, field)                            \
	}

static const struct counter {
	const char *what;
	size_t offset;
} counters[] = {
	COUNTER("all", all),
	COUNTER("bytes", bytes),
	COUNTER("verification.0", verification[0]),
	COUNTER("verification.1", verification[1]),
	COUNTER("verification.2", verification[2]),
	COUNTER("verification.3", verification[3]),
	COUNTER("verification.4", verification[4]),
	COUNTER("held", held),
	COUNTER("gone", gone),
	COUNTER("proved", proved),
	COUNTER("never_copied", never_copied),
	COUNTER("bytes_to_come", bytes_to_come),
	COUNTER("state.0", states[0]),
	COUNTER("state.1", states[1]),
	COUNTER("state.2", states[2]),
	COUNTER("state.3", states[3]),
	COUNTER("state.4", states[4]),
	COUNTER("here", here),
};

_Static_assert(ARRAY_SIZE(counters) ==
		       offsetof(struct registry_counts, behind_since) / sizeof(int64_t),
	       "each has a name in the database");

static int64_t counter_of(const struct registry_counts *counts, size_t at)
{
	return *(const int64_t *)((const char *)counts + counters[at].offset);
}

static int64_t *counter_at(struct registry_counts *counts, size_t at)
{
	return (int64_t *)((char *)counts + counters[at].offset);
}

void registry_counts_add(struct registry_counts *counts,
			 const struct registry_counts *other, int64_t by)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		*counter_at(counts, i) += by * counter_of(other, i);
}

int registry_counts_write(struct store_tx *tx, const char *kind,
			  const struct registry_counts *by, struct err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		if (counter_of(by, i) != 0 &&
		    counter_add(tx, kind, counters[i].what, counter_of(by, i), err) != 0)
			return -1;
	return 0;
}

int registry_counts_read(struct store_tx *tx, const char *kind, size_t count,
			 struct registry_counts *counts, struct err *err)
{
	*counts = (struct registry_counts){ 0 };
	for (size_t i = 0; i < count; i++)
		if (counter_get(tx, kind, counters[i].what, counter_at(counts, i), err) !=
		    0)
			return -1;
	return 0;
}

int registry_shift_apply(struct store_tx *tx, struct registry_shift *shift,
			 struct err *err)
{
	if (!shift->kind)
		return 0;
	if (registry_counts_write(tx, shift->kind, &shift->counts, err) != 0)
		return -1;
	shift->counts = (struct registry_counts){ 0 };
	return 0;
}

static int shift_of(struct store_tx *tx, struct registry_shift *shift, const char *kind,
		    struct err *err)
{
	if (shift->kind && strcmp(shift->kind, kind) == 0)
		return 0;
	if (registry_shift_apply(tx, shift, err) != 0)
		return -1;
	registry_set_text(&shift->kind, kind);
	return 0;
}

/* A newer program, or a damaged file, may have left numbers that are no states. */
static unsigned state_of(struct query *query, int column, unsigned count)
{
	int64_t value = query_int(query, column);

	return value >= 0 && value < (int64_t)count ? (unsigned)value : 0;
}

static void registry_row_read_columns(struct query *query, struct registry_row *row)
{
	const char *timeline = query_text(query, 5);
	const char *token = query_text(query, 29);

	*row = (struct registry_row){
		.id = (uint64_t)query_int(query, 0),
		.kind = query_copy_text(query, 1),
		.name = query_copy_text(query, 2),
		.state = state_of(query, 3, REGISTRY_STATES),
		.verification = state_of(query, 4, VERIFICATION_STATES),
		.generation_wanted = (uint64_t)query_int(query, 6),
		.generation = (uint64_t)query_int(query, 7),
		.checksum = query_copy_text(query, 8),
		.primary_checksum = query_copy_text(query, 9),
		.retry_count = query_int(query, 10),
		.retry_at = query_int(query, 11),
		.due_at = query_int(query, 12),
		.verification_retry_count = query_int(query, 13),
		.verification_due_at = query_int(query, 14),
		.last_attempt_at = query_int(query, 15),
		.last_success_at = query_int(query, 16),
		.verified_at = query_int(query, 17),
		.behind_since = query_int(query, 18),
		.is_gone = query_int(query, 20) != 0,
		.held_reason = query_copy_text(query, 22),
		.failure_class = query_copy_text(query, 23),
		.failure = query_copy_text(query, 24),
		.remedy = query_copy_text(query, 25),
		.size = (uint64_t)query_int(query, 26),
		.failure_reason = err_reason_of_name(query_text(query, 27)),
		.is_proved = query_int(query, 28) != 0,
		.verification_was_due_at = query_int(query, 30),
	};
	snprintf(row->timeline, sizeof(row->timeline), "%s", timeline ? timeline : "");
	snprintf(row->claim_token, sizeof(row->claim_token), "%s", token ? token : "");
}

void stored_row_read(struct query *query, void *arg)
{
	struct stored_row *stored = arg;

	*stored = (struct stored_row){
		.asked_at = query_int(query, 19),
		.wishes = (unsigned)query_int(query, 21),
	};
	registry_row_read_columns(query, &stored->row);
	stored->row.wishes = stored_row_wishes(stored);
	stored->row.wishes_later = stored->wishes >> WISHES_LATER_SHIFT & WISHES_ALL;
	count_row(&stored->before, stored, 1);
}

int stored_row_load(struct store_tx *tx, uint64_t id, struct stored_row *stored,
		    struct err *err)
{
	*stored = (struct stored_row){ 0 };
	return query_one(tx, stored_row_read, stored, err,
			 "SELECT " STORED_ROW_COLUMNS " FROM registry WHERE id = ?1",
			 QUERY_INT((int64_t)id));
}

static void registry_row_bind_time(struct query *query, int at, int64_t time)
{
	if (time == 0)
		query_bind_null(query, at);
	else
		query_bind_int(query, at, time);
}

static const char save_sql[] =
	"UPDATE registry SET state = ?2, verification_state = ?3, timeline = ?4,"
	" generation_wanted = ?5, generation = ?6, checksum = ?7, primary_checksum = ?8,"
	" retry_count = ?9, retry_at = ?10, due_at = ?11, verification_retry_count = ?12,"
	" verification_due_at = ?13, last_attempt_at = ?14, last_success_at = ?15,"
	" verified_at = ?16, behind_since = ?17, asked_at = ?18, gone = ?19,"
	" wishes = ?20, held_reason = ?21, failure_class = ?22, failure = ?23,"
	" remedy = ?24, size = ?25, failure_reason = ?26, proved = ?27,"
	" claim_token = ?28,"
	" claim_node = CASE WHEN ?28 IS NULL THEN NULL ELSE claim_node END,"
	" verification_was_due_at = ?29"
	" WHERE id = ?1";

static const char *claim_of(const struct registry_row *row)
{
	bool is_started = row->state == REGISTRY_STARTED ||
			  row->verification == VERIFICATION_STARTED;

	return is_started && row->claim_token[0] ? row->claim_token : NULL;
}

static void registry_row_bind_columns(struct query *query,
				      const struct stored_row *stored)
{
	const struct registry_row *row = &stored->row;

	query_bind_int(query, 1, (int64_t)row->id);
	query_bind_int(query, 2, row->state);
	query_bind_int(query, 3, row->verification);
	query_bind_text(query, 4, *row->timeline ? row->timeline : NULL);
	query_bind_int(query, 5, (int64_t)row->generation_wanted);
	query_bind_int(query, 6, (int64_t)row->generation);
	query_bind_text(query, 7, row->checksum);
	query_bind_text(query, 8, row->primary_checksum);
	query_bind_int(query, 9, row->retry_count);
	registry_row_bind_time(query, 10, row->retry_at);
	registry_row_bind_time(query, 11, row->due_at);
	query_bind_int(query, 12, row->verification_retry_count);
	registry_row_bind_time(query, 13, row->verification_due_at);
	registry_row_bind_time(query, 14, row->last_attempt_at);
	registry_row_bind_time(query, 15, row->last_success_at);
	registry_row_bind_time(query, 16, row->verified_at);
	registry_row_bind_time(query, 17, row->behind_since);
	registry_row_bind_time(query, 18, stored->asked_at);
	query_bind_int(query, 19, row->is_gone);
	query_bind_int(query, 20, stored->wishes);
	query_bind_text(query, 21, row->held_reason);
	query_bind_text(query, 22, row->failure_class);
	query_bind_text(query, 23, row->failure);
	query_bind_text(query, 24, row->remedy);
	query_bind_int(query, 25, (int64_t)row->size);
	query_bind_text(query, 26, err_reason_name(row->failure_reason));
	query_bind_int(query, 27, row->is_proved);
	query_bind_text(query, 28, claim_of(row));
	registry_row_bind_time(query, 29,
			       row->verification == VERIFICATION_STARTED
				       ? row->verification_was_due_at
				       : 0);
}

static int shift_by(struct store_tx *tx, struct registry_shift *shift,
		    const struct stored_row *stored, struct err *err)
{
	if (shift_of(tx, shift, stored->row.kind, err) != 0)
		return -1;
	registry_counts_add(&shift->counts, &stored->before, -1);
	count_row(&shift->counts, stored, 1);
	return 0;
}

int stored_row_save(struct store_tx *tx, const struct stored_row *stored,
		    struct registry_shift *shift, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, save_sql, &query, err) != 0)
		return -1;
	registry_row_bind_columns(query, stored);
	if (query_run(query, NULL, err) != 0)
		return -1;
	return shift_by(tx, shift, stored, err);
}

int stored_row_save_begun(struct store_tx *tx, const struct stored_row *stored,
			  struct registry_shift *shift, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	const struct registry_row *row = &stored->row;
	bool is_check = row->state == REGISTRY_SYNCED;

	if (query_ask(tx, &query, err,
		      is_check ? "UPDATE registry SET verification_state = ?2,"
				 " verification_due_at = ?3, claim_token = ?4,"
				 " claim_node = ?5, verification_was_due_at = ?6"
				 " WHERE id = ?1"
			       : "UPDATE registry SET state = ?2, due_at = ?3,"
				 " claim_token = ?4, claim_node = ?5,"
				 " last_attempt_at = ?6, wishes = ?7 WHERE id = ?1",
		      QUERY_INT((int64_t)row->id),
		      QUERY_INT(is_check ? (int64_t)row->verification
					 : (int64_t)row->state)) != 0)
		return -1;
	registry_row_bind_time(query, 3,
			       is_check ? row->verification_due_at : row->due_at);
	query_bind_text(query, 4, row->claim_token);
	query_bind_text(query, 5, stored->claim_node);
	registry_row_bind_time(
		query, 6, is_check ? row->verification_was_due_at : row->last_attempt_at);
	if (!is_check)
		query_bind_int(query, 7, stored->wishes);
	if (query_run(query, NULL, err) != 0)
		return -1;
	return shift_by(tx, shift, stored, err);
}

int stored_row_add(struct store_tx *tx, const char *kind, const char *name,
		   uint64_t generation_wanted, struct registry_shift *shift,
		   struct err *err)
{
	const struct stored_row added = { .row.verification = VERIFICATION_DISABLED,
					  .row.due_at = clock_wall_ms() };
	AUTO_QUERY struct query *query = NULL;
	int64_t changed = 0;

	if (query_ask(tx, &query, err,
		      "INSERT INTO registry (id, kind, name, state, verification_state,"
		      " generation_wanted, due_at, created_at)"
		      " VALUES (?1, ?2, ?3, 0, 4, ?4, ?5, ?5)"
		      " ON CONFLICT (kind, name) DO NOTHING",
		      QUERY_INT((int64_t)replicable_id(kind, name)), QUERY_TEXT(kind),
		      QUERY_TEXT(name), QUERY_INT((int64_t)generation_wanted),
		      QUERY_INT(added.row.due_at)) != 0)
		return -1;
	if (query_run(query, &changed, err) != 0)
		return err_prefix(err, "%s", name);
	if (changed == 0)
		return 1;
	if (shift_of(tx, shift, kind, err) != 0)
		return -1;
	count_row(&shift->counts, &added, 1);
	return 0;
}

int stored_row_remove(struct store_tx *tx, const struct stored_row *stored,
		      struct registry_shift *shift, struct err *err)
{
	if (query_write(tx, err, "DELETE FROM registry WHERE id = ?1",
			QUERY_INT((int64_t)stored->row.id)) != 0 ||
	    (kind_is_repository(stored->row.kind) &&
	     lfs_rows_forget(tx, stored->row.id, err) != 0))
		return -1;
	if (shift_of(tx, shift, stored->row.kind, err) != 0)
		return -1;
	registry_counts_add(&shift->counts, &stored->before, -1);
	return 0;
}

#define PAGE 500

static void take_row(struct query *query, void *arg)
{
	struct registry_row *row = arg;
	struct stored_row stored;

	stored_row_read(query, &stored);
	*row = stored.row;
}

static void add_row(struct query *query, void *arg)
{
	registry_rows *rows = arg;
	struct registry_row row;

	take_row(query, &row);
	vec_add(rows, row);
}

#define GET_SQL                                                                          \
	"SELECT " STORED_ROW_COLUMNS " FROM registry WHERE kind = ?1 AND name = ?2"

int registry_get_in(struct store_tx *tx, const char *kind, const char *name,
		    struct registry_row *row, struct err *err)
{
	*row = (struct registry_row){ 0 };
	return query_one(tx, take_row, row, err, GET_SQL, QUERY_TEXT(kind),
			 QUERY_TEXT(name));
}

int registry_get(struct store *store, const char *kind, const char *name,
		 struct registry_row *row, struct err *err)
{
	*row = (struct registry_row){ 0 };
	int found = store_one(store, take_row, row, err, GET_SQL, QUERY_TEXT(kind),
			      QUERY_TEXT(name));

	if (found == 0 && kind_is_repository(kind))
		return err_set(err, ERR_MISSING, "%s: no repository of this name", name);
	if (found == 0)
		return err_set(err, ERR_MISSING,
			       "%s: the registry has no blob of kind %s "
			       "with this id",
			       name, kind);
	return found > 0 ? 0 : -1;
}

/* `kind = 'repository'` is there for its index. */
int registry_twin_in(struct store_tx *tx, const struct registry_row *row,
		     struct registry_row *twin, struct err *err)
{
	*twin = (struct registry_row){ 0 };
	if (strcmp(row->kind, KIND_REPOSITORY) != 0 || !row->timeline[0])
		return 0;
	return query_one(tx, take_row, twin, err,
			 "SELECT " STORED_ROW_COLUMNS
			 " FROM registry WHERE kind = 'repository' AND timeline = ?1"
			 " AND id <> ?2 AND (SELECT COUNT(*) FROM (SELECT 1 FROM registry"
			 " WHERE kind = 'repository' AND timeline = ?1 LIMIT 4)) < 4"
			 " ORDER BY gone, last_success_at DESC LIMIT 1",
			 QUERY_TEXT(row->timeline), QUERY_INT((int64_t)row->id));
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
#define ODD                                                                              \
	" AND (held_reason IS NOT NULL OR gone <> 0 OR state > 2"                        \
	" OR failure_class IS NOT NULL)"

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
	if (filter->unheld_only)
		str_add(sql, " AND held_reason IS NULL");
	if (filter->gone_only)
		str_add(sql, " AND gone <> 0");
	if (filter->with_unverifiable)
		str_add(sql, " AND (state = ?4"
			     " OR (state = 2 AND failure_class IS NOT NULL))");
	else if (filter->state != REGISTRY_ANY)
		str_add(sql, " AND state = ?4");
	if (filter->search)
		str_add(sql, " AND name LIKE ?5 ESCAPE '\\'");
	str_add(sql, " ORDER BY name LIMIT ?3");
}

int registry_list_in(struct store_tx *tx, const struct registry_filter *filter,
		     registry_rows *rows, struct err *err)
{
	AUTO_STR struct str sql = STR_INIT;
	AUTO_STR struct str pattern = STR_INIT;
	AUTO_QUERY struct query *query = NULL;

	list_sql(filter, &sql);
	if (query_ask(tx, &query, err, sql.data, QUERY_TEXT(filter->kind),
		      QUERY_TEXT(filter->after ? filter->after : ""),
		      QUERY_INT((int64_t)filter->limit)) != 0)
		return -1;
	if (filter->state != REGISTRY_ANY)
		query_bind_int(query, 4, filter->state);
	if (filter->search) {
		name_search_pattern(filter->search, &pattern);
		query_bind_text(query, 5, pattern.data);
	}
	return query_take_all(query, add_row, rows, err);
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

static int read_counts(struct store_tx *tx, void *arg, struct err *err)
{
	const struct counting *counting = arg;
	struct registry_counts *counts = counting->counts;

	/* `here`, the last one, is read where it is needed. */
	if (registry_counts_read(tx, counting->kind, ARRAY_SIZE(counters) - 1, counts,
				 err) != 0)
		return -1;
	return query_number(tx, &counts->behind_since, err,
			    "SELECT behind_since FROM registry"
			    " WHERE behind_since IS NOT NULL AND kind = ?1"
			    " ORDER BY behind_since LIMIT 1",
			    QUERY_TEXT(counting->kind));
}

int registry_counts(struct store *store, const char *kind, struct registry_counts *counts,
		    struct err *err)
{
	struct counting counting = { kind, counts };

	*counts = (struct registry_counts){ 0 };
	return store_read(store, read_counts, &counting, err);
}

int registry_count_all_in(struct store_tx *tx, const char *kind, int64_t *all,
			  int64_t *gone, struct err *err)
{
	if (counter_get(tx, kind, "all", all, err) != 0)
		return -1;
	return counter_get(tx, kind, "gone", gone, err);
}

int registry_kinds_in(struct store_tx *tx, kind_names *kinds, struct err *err)
{
	return kind_names_read(
		tx, "SELECT kind FROM registry WHERE kind > ?1 ORDER BY kind LIMIT 1",
		kinds, err);
}

int registry_count_here(struct store_tx *tx, const char *kind, int64_t *count,
			struct err *err)
{
	return counter_get(tx, kind, "here", count, err);
}

/* Mirrors and repositories are in one tree. */
static const char *registry_kind_beside(const char *kind)
{
	if (!kind_is_repository(kind))
		return kind;
	return strcmp(kind, KIND_MIRROR) == 0 ? KIND_REPOSITORY : KIND_MIRROR;
}

int registry_has_copies_below(struct store *store, const char *kind, const char *folder,
			      struct err *err)
{
	AUTO_FREE char *first = xasprintf("%s/", folder);
	AUTO_FREE char *end = xasprintf("%s%c", folder, '/' + 1);

	return store_one(store, NULL, NULL, err,
			 "SELECT 1 FROM registry WHERE kind IN (?1, ?4) AND name > ?2"
			 " AND name < ?3 AND (last_success_at > 0 OR generation > 0)"
			 " UNION ALL SELECT 1 FROM origin WHERE kind IN (?1, ?4)"
			 " AND name > ?2 AND name < ?3 LIMIT 1",
			 QUERY_TEXT(kind), QUERY_TEXT(first), QUERY_TEXT(end),
			 QUERY_TEXT(registry_kind_beside(kind)));
}

/* In counters, of a kind. */
#define ORDERED "ordered_removals"

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

int registry_add_in(struct store_tx *tx, const char *kind, const char *const *names,
		    size_t count, struct err *err)
{
	AUTO_REGISTRY_SHIFT struct registry_shift shift = { 0 };

	for (size_t i = 0; i < count; i++)
		if (stored_row_add(tx, kind, names[i], 1, &shift, err) < 0)
			return -1;
	return registry_shift_apply(tx, &shift, err);
}

/* Its copy is in the trash already, but somebody wants it (again): from nothing. */
static int registry_begin_anew(struct store_tx *tx, struct stored_row *stored,
			       struct registry_shift *shift, struct err *err)
{
	struct registry_row *row = &stored->row;

	row->state = REGISTRY_PENDING;
	row->verification = VERIFICATION_DISABLED;
	row->is_proved = false;
	row->generation = 0;
	row->verification_due_at = row->retry_at = row->retry_count = 0;
	row->due_at = clock_wall_ms();
	registry_set_text(&row->checksum, NULL);
	registry_set_text(&row->held_reason, NULL);
	stored->wishes = stored_row_wishes(stored);
	return stored_row_save(tx, stored, shift, err);
}

int registry_remove_in(struct store_tx *tx, uint64_t id, struct err *err)
{
	AUTO_REGISTRY_SHIFT struct registry_shift shift = { 0 };
	AUTO_STORED_ROW struct stored_row stored = { 0 };
	int found = stored_row_load(tx, id, &stored, err);

	if (found <= 0)
		return found;
	if ((stored.row.is_gone ? stored_row_remove(tx, &stored, &shift, err)
				: registry_begin_anew(tx, &stored, &shift, err)) != 0 ||
	    registry_shift_apply(tx, &shift, err) != 0)
		return -1;
	return !stored.row.is_gone;
}

int registry_note_ordered(struct store_tx *tx, const char *kind, struct err *err)
{
	return counter_add(tx, kind, ORDERED, 1, err);
}

int registry_ordered_in(struct store_tx *tx, const char *kind, int64_t *count,
			struct err *err)
{
	return counter_get(tx, kind, ORDERED, count, err);
}

int registry_disown_blobs_in(struct store_tx *tx, struct err *err)
{
#define OF_BLOBS " kind NOT IN ('" KIND_REPOSITORY "', '" KIND_MIRROR "') "
	return store_exec(tx,
			  "UPDATE registry SET last_success_at = NULL WHERE" OF_BLOBS ";"
			  "DELETE FROM counters WHERE what = 'never_copied' AND" OF_BLOBS
			  ";"
			  "INSERT INTO counters (kind, what, value)"
			  " SELECT kind, 'never_copied', COUNT(*) FROM registry"
			  " WHERE due_at > 0 AND gone = 0 AND state IN (0, 1, 3)"
			  " AND held_reason IS NULL AND" OF_BLOBS "GROUP BY kind",
			  err);
#undef OF_BLOBS
}
