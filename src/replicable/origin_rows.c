/*
 * Counters have the kind "origin.<kind>" and stand for "all", "bytes" and
 * "verification.<state>". A row's id is replicable_id(), so that its row is found by
 * number everywhere.
 *
 * What is due stands in two queues a kind, each in the order of a partial index
 * (store/schema.c): never verified, and verified before. A row stays due while it is
 * verified; whose it is meanwhile, its claim says, so that a crash costs nothing but the
 * work. Claims are short, and their node renews them as long as it lives.
 */
#include "replicable/origin_rows.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/retry.h"
#include "replicable/kind.h"
#include "replicable/lfs_rows.h"
#include "replicable/name.h"
#include "replicable/registry_row.h"
#include "store/site_value.h"

#define COLUMNS                                                                          \
	"id, name, path, timeline, generation, checksum, description, print,"            \
	" is_settled, changed_at, verification_state, verified_at,"                      \
	" verification_due_at, verification_retry_count, failure_class, failure, "       \
	"remedy,"                                                                        \
	" kind, size, failure_reason, identity, claim_token"

static void fill_row(struct query *query, void *arg)
{
	struct origin_row *row = arg;
	const char *token = query_text(query, 21);

	*row = (struct origin_row){
		.id = (uint64_t)query_int(query, 0),
		.name = query_copy_text(query, 1),
		.path = query_copy_text(query, 2),
		.generation = (uint64_t)query_int(query, 4),
		.checksum = query_copy_text(query, 5),
		.description = query_copy_text(query, 6),
		.fingerprint = query_copy_text(query, 7),
		.is_settled = query_int(query, 8) != 0,
		.changed_at = query_int(query, 9),
		.verification = (enum registry_verification)query_int(query, 10),
		.verified_at = query_int(query, 11),
		.verification_due_at = query_int(query, 12),
		.verification_retry_count = query_int(query, 13),
		.failure_class = query_copy_text(query, 14),
		.failure = query_copy_text(query, 15),
		.remedy = query_copy_text(query, 16),
		.kind = query_copy_text(query, 17),
		.size = (uint64_t)query_int(query, 18),
		.failure_reason = err_reason_of_name(query_text(query, 19)),
		.identity = query_copy_text(query, 20),
	};
	snprintf(row->timeline, sizeof(row->timeline), "%s", query_text(query, 3));
	snprintf(row->claim_token, sizeof(row->claim_token), "%s", token ? token : "");
}

void origin_row_clear(struct origin_row *row)
{
	free(row->kind);
	free(row->name);
	free(row->path);
	free(row->checksum);
	free(row->description);
	free(row->identity);
	free(row->fingerprint);
	free(row->failure_class);
	free(row->failure);
	free(row->remedy);
	*row = (struct origin_row){ 0 };
}

void origin_row_defer(struct origin_row *row, int64_t least_ms, int64_t reverify_ms)
{
	const int64_t now = clock_wall_ms();
	const uint64_t before = (uint64_t)row->verification_retry_count;
	const int64_t wait_ms =
		before == 0 ? 0 : retry_random_delay_ms(before, RETRY_CAP);

	if (row->verification != VERIFICATION_FAILED)
		row->verification_retry_count++;
	row->verification_due_at = now + (wait_ms > least_ms ? wait_ms : least_ms);
	if (row->verification == VERIFICATION_SUCCEEDED && reverify_ms > 0 &&
	    now - row->verified_at > 2 * reverify_ms)
		row->verification = VERIFICATION_PENDING;
}

void origin_row_set_failure(struct origin_row *row, const struct err *why)
{
	text_replace(&row->failure_class, why ? err_class_name(why->class) : NULL);
	text_replace(&row->failure, why ? why->text : NULL);
	text_replace(&row->remedy, why ? why->remedy : NULL);
	row->failure_reason = why ? why->reason : REASON_NONE;
}

void origin_rows_clear(origin_rows *rows)
{
	vec_clear_each(rows, origin_row_clear);
}

#define GET_SQL "SELECT " COLUMNS " FROM origin WHERE kind = ?1 AND name = ?2"

int origin_row_get(struct store_tx *tx, const char *kind, const char *name,
		   struct origin_row *row, struct err *err)
{
	*row = (struct origin_row){ 0 };
	return query_one(tx, fill_row, row, err, GET_SQL, QUERY_TEXT(kind),
			 QUERY_TEXT(name));
}

int origin_row_read(struct store *store, const char *kind, const char *name,
		    struct origin_row *row, struct err *err)
{
	*row = (struct origin_row){ 0 };
	return store_one(store, fill_row, row, err, GET_SQL, QUERY_TEXT(kind),
			 QUERY_TEXT(name));
}

static void origin_rows_add(struct query *query, void *arg)
{
	origin_rows *rows = arg;
	struct origin_row row;

	fill_row(query, &row);
	vec_add(rows, row);
}

static int origin_rows_add_found(struct query *query, origin_rows *rows, struct err *err)
{
	if (query_take_all(query, origin_rows_add, rows, err) == 0)
		return 0;
	origin_rows_clear(rows);
	return -1;
}

int origin_row_of_identity(struct store *store, const char *identity,
			   struct origin_row *row, struct err *err)
{
	*row = (struct origin_row){ 0 };
	return store_one(store, fill_row, row, err,
			 "SELECT " COLUMNS " FROM origin WHERE identity = ?1 LIMIT 1",
			 QUERY_TEXT(identity));
}

int origin_rows_find(struct store_tx *tx, const struct origin_filter *filter,
		     origin_rows *rows, struct err *err)
{
	AUTO_STR struct str sql = STR_INIT;
	AUTO_STR struct str pattern = STR_INIT;
	AUTO_QUERY struct query *query = NULL;

	*rows = (origin_rows){ 0 };
	str_add(&sql, "SELECT " COLUMNS " FROM origin WHERE kind = ?1 AND name > ?2");
	if (filter->is_failing_only)
		str_addf(&sql, " AND verification_state = %d", VERIFICATION_FAILED);
	if (filter->search)
		str_add(&sql, " AND name LIKE ?4 ESCAPE '\\'");
	str_add(&sql, " ORDER BY name LIMIT ?3");
	if (query_ask(tx, &query, err, sql.data, QUERY_TEXT(filter->kind),
		      QUERY_TEXT(filter->after ? filter->after : ""),
		      QUERY_INT((int64_t)filter->limit)) != 0)
		return -1;
	if (filter->search) {
		name_search_pattern(filter->search, &pattern);
		query_bind_text(query, 4, pattern.data);
	}
	return origin_rows_add_found(query, rows, err);
}

struct origin_page {
	struct origin_filter filter;
	origin_rows *rows;
};

static int origin_page_find(struct store_tx *tx, void *arg, struct err *err)
{
	const struct origin_page *page = arg;

	return origin_rows_find(tx, &page->filter, page->rows, err);
}

int origin_rows_read_page(struct store *store, const char *kind, const char *after,
			  size_t limit, origin_rows *rows, struct err *err)
{
	struct origin_page page = { { .kind = kind, .after = after, .limit = limit },
				    rows };

	origin_rows_clear(rows);
	return store_read(store, origin_page_find, &page, err);
}

int origin_kinds(struct store_tx *tx, kind_names *kinds, struct err *err)
{
	return kind_names_read(
		tx, "SELECT kind FROM origin WHERE kind > ?1 ORDER BY kind LIMIT 1",
		kinds, err);
}

/* ?2: now; ?3: later than any claim lasts, but for those of a clock that was wrong. */
#define UNCLAIMED "(claim_until IS NULL OR claim_until <= ?2 OR claim_until > ?3)"

/* In the words of the indexes, or they are not used. */
#define DUE_SQL(where)                                                                   \
	"SELECT " COLUMNS " FROM origin WHERE " where                                    \
	" AND verification_due_at IS NOT NULL AND verification_due_at <= ?4"             \
	" AND kind = ?1 AND " UNCLAIMED " ORDER BY verification_due_at LIMIT ?5"

const char *const origin_queue_sql[ORIGIN_QUEUES] = {
	[ORIGIN_NEW] = DUE_SQL("verified_at IS NULL"),
	[ORIGIN_KNOWN] = DUE_SQL("verified_at IS NOT NULL"),
};

static void bind_unclaimed(struct query *query, const char *kind)
{
	int64_t now = clock_wall_ms();

	query_bind_text(query, 1, kind);
	query_bind_int(query, 2, now);
	query_bind_int(query, 3, now + 2 * ORIGIN_CLAIM_MS);
}

/* The first that are due by then, and that nobody has now. */
static int origin_rows_read_queue(struct store_tx *tx, const char *kind,
				  enum origin_queue queue, int64_t due_by, size_t limit,
				  origin_rows *rows, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, origin_queue_sql[queue], &query, err) != 0)
		return -1;
	bind_unclaimed(query, kind);
	query_bind_int(query, 4, due_by);
	query_bind_int(query, 5, (int64_t)limit);
	return origin_rows_add_found(query, rows, err);
}

struct origin_claiming {
	const char *kind,
		*name; /* name: that row, due or not; NULL: those that are due */
	const char *node;
	size_t limits[ORIGIN_QUEUES];
	char token[CLAIM_TOKEN_SIZE];
	origin_rows *rows;
};

static int put_claim(struct store_tx *tx, const struct origin_claiming *claiming,
		     struct origin_row *row, struct err *err)
{
	memcpy(row->claim_token, claiming->token, CLAIM_TOKEN_SIZE);
	return query_write(tx, err,
			   "UPDATE origin SET claim_token = ?2, claim_node = ?3,"
			   " claim_until = ?4 WHERE id = ?1",
			   QUERY_INT((int64_t)row->id), QUERY_TEXT(claiming->token),
			   QUERY_TEXT(claiming->node),
			   QUERY_INT(clock_wall_ms() + ORIGIN_CLAIM_MS));
}

/* Known ones only where there is nothing new. */
static int find_due(struct store_tx *tx, const struct origin_claiming *claiming,
		    struct err *err)
{
	for (int queue = 0; queue < ORIGIN_QUEUES && claiming->rows->count == 0; queue++)
		if (claiming->limits[queue] > 0 &&
		    origin_rows_read_queue(tx, claiming->kind, (enum origin_queue)queue,
					   clock_wall_ms(), claiming->limits[queue],
					   claiming->rows, err) != 0)
			return -1;
	return 0;
}

static int find_named(struct store_tx *tx, const struct origin_claiming *claiming,
		      struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx,
		       "SELECT " COLUMNS " FROM origin WHERE kind = ?1 AND name = ?4"
		       " AND " UNCLAIMED,
		       &query, err) != 0)
		return -1;
	bind_unclaimed(query, claiming->kind);
	query_bind_text(query, 4, claiming->name);
	return origin_rows_add_found(query, claiming->rows, err);
}

static int origin_rows_claim_work(struct store_tx *tx, void *arg, struct err *err)
{
	struct origin_claiming *claiming = arg;

	origin_rows_clear(claiming->rows); /* of a run before */
	if ((claiming->name ? find_named(tx, claiming, err)
			    : find_due(tx, claiming, err)) != 0)
		return -1;
	for (size_t i = 0; i < claiming->rows->count; i++)
		if (put_claim(tx, claiming, &claiming->rows->items[i], err) != 0)
			return -1;
	return 0;
}

static int run_claim(struct store *store, struct origin_claiming *claiming,
		     struct err *err)
{
	*claiming->rows = (origin_rows){ 0 };
	claiming->node = store_node(store);
	random_hex(claiming->token, (CLAIM_TOKEN_SIZE - 1) / 2);
	if (store_write(store, origin_rows_claim_work, claiming, err) == 0)
		return 0;
	origin_rows_clear(claiming->rows);
	return -1;
}

int origin_rows_claim(struct store *store, const char *kind, size_t new_limit,
		      size_t known_limit, origin_rows *rows, struct err *err)
{
	struct origin_claiming claiming = {
		.kind = kind,
		.limits = { [ORIGIN_NEW] = new_limit, [ORIGIN_KNOWN] = known_limit },
		.rows = rows
	};

	return run_claim(store, &claiming, err);
}

int origin_row_claim(struct store *store, const char *kind, const char *name,
		     origin_rows *rows, struct err *err)
{
	struct origin_claiming claiming = { .kind = kind, .name = name, .rows = rows };

	return run_claim(store, &claiming, err);
}

bool origin_row_end_claim(struct origin_row *row, const char *token)
{
	if (strcmp(row->claim_token, token) != 0)
		return false;
	row->claim_token[0] = '\0';
	return true;
}

struct origin_claim {
	const uint64_t *ids;
	size_t count;
	const char *token;
};

#define END_CLAIM_SQL(where)                                                             \
	"UPDATE origin SET claim_until = NULL, claim_token = NULL, claim_node = NULL"    \
	" WHERE claim_token IS NOT NULL AND " where

int origin_claims_renew(struct store *store, struct err *err)
{
	return store_run(store, err,
			 "UPDATE origin SET claim_until = ?1"
			 " WHERE claim_token IS NOT NULL AND claim_node = ?2",
			 QUERY_INT(clock_wall_ms() + ORIGIN_CLAIM_MS),
			 QUERY_TEXT(store_node(store)));
}

int origin_claims_give_back(struct store *store, struct err *err)
{
	return store_run(store, err, END_CLAIM_SQL("claim_node = ?1"),
			 QUERY_TEXT(store_node(store)));
}

/* Mostly their results were written, and the claims ended with that. */
static int end_claims(struct store_tx *tx, void *arg, struct err *err)
{
	const struct origin_claim *claim = arg;

	for (size_t i = 0; i < claim->count; i++)
		if (query_write(tx, err, END_CLAIM_SQL("id = ?1 AND claim_token = ?2"),
				QUERY_INT((int64_t)claim->ids[i]),
				QUERY_TEXT(claim->token)) != 0)
			return -1;
	return 0;
}

int origin_claims_end(struct store *store, const char *token, const uint64_t *ids,
		      size_t count, struct err *err)
{
	struct origin_claim claim = { .ids = ids, .count = count, .token = token };

	return store_write(store, end_claims, &claim, err);
}

static int read_claimed_until(struct store_tx *tx, int64_t *at, struct err *err)
{
	int64_t until = INT64_MAX;

	if (query_number(tx, &until, err,
			 "SELECT MIN(claim_until) FROM origin"
			 " WHERE claim_token IS NOT NULL") != 0)
		return -1;
	*at = until < *at ? until : *at;
	return 0;
}

int origin_next_due(struct store_tx *tx, const char *kind, struct origin_next *next,
		    struct err *err)
{
	*next = (struct origin_next){ .new_at = INT64_MAX, .known_at = INT64_MAX };
	for (int queue = 0; queue < ORIGIN_QUEUES; queue++) {
		AUTO_ORIGIN_ROWS origin_rows rows = { 0 };
		if (origin_rows_read_queue(tx, kind, (enum origin_queue)queue, INT64_MAX,
					   1, &rows, err) != 0)
			return -1;
		if (rows.count > 0)
			*(queue == ORIGIN_NEW ? &next->new_at : &next->known_at) =
				rows.items[0].verification_due_at;
	}
	next->at = next->new_at < next->known_at ? next->new_at : next->known_at;
	return read_claimed_until(tx, &next->at, err);
}

#define HEAL_SQL(where)                                                                  \
	"UPDATE origin SET verification_due_at = ?1 WHERE " where                        \
	" AND verification_due_at IS NOT NULL AND verification_due_at > ?2"              \
	" AND kind = ?3"

struct healing {
	int64_t now, latest;
};

static int heal_kind(struct store_tx *tx, const struct healing *healing, const char *kind,
		     int64_t *healed, struct err *err)
{
	static const char *const sql[ORIGIN_QUEUES] = {
		[ORIGIN_NEW] = HEAL_SQL("verified_at IS NULL"),
		[ORIGIN_KNOWN] = HEAL_SQL("verified_at IS NOT NULL"),
	};

	for (int queue = 0; queue < ORIGIN_QUEUES; queue++) {
		AUTO_QUERY struct query *query = NULL;
		int64_t count;
		if (query_ask(tx, &query, err, sql[queue], QUERY_INT(healing->now),
			      QUERY_INT(healing->latest), QUERY_TEXT(kind)) != 0 ||
		    query_run(query, &count, err) != 0)
			return -1;
		*healed += count;
	}
	return 0;
}

int origin_rows_heal_due(struct store_tx *tx, int64_t now, int64_t latest,
			 int64_t *healed, struct err *err)
{
	const struct healing healing = { now, latest };
	AUTO_KIND_NAMES kind_names kinds = { 0 };

	*healed = 0;
	if (origin_kinds(tx, &kinds, err) != 0)
		return -1;
	for (size_t i = 0; i < kinds.count; i++)
		if (heal_kind(tx, &healing, kinds.items[i], healed, err) != 0)
			return -1;
	return 0;
}

/* A row comes (+1) or goes (-1). A damaged file may have numbers that are no states. */
static void origin_rows_count(struct registry_counts *counts,
			      enum registry_verification verification, uint64_t size,
			      int64_t by)
{
	counts->all += by;
	counts->bytes += by * replicable_counted_size(size);
	if ((unsigned)verification < VERIFICATION_STATES)
		counts->verification[verification] += by;
}

static int origin_counts_write(struct store_tx *tx, const char *kind,
			       const struct registry_counts *by, struct err *err)
{
	AUTO_FREE char *counted = xasprintf("origin.%s", kind);

	return registry_counts_write(tx, counted, by, err);
}

static void origin_rows_bind_time(struct query *query, int at, int64_t value)
{
	if (value == 0)
		query_bind_null(query, at);
	else
		query_bind_int(query, at, value);
}

/* ?1 to ?17: all columns but the kind and what never changes. */
static void origin_rows_bind_row(struct query *query, const struct origin_row *row)
{
	query_bind_int(query, 1, (int64_t)row->id);
	query_bind_text(query, 2, row->path);
	query_bind_text(query, 3, row->timeline);
	query_bind_int(query, 4, (int64_t)row->generation);
	query_bind_text(query, 5, row->checksum);
	query_bind_text(query, 6, row->description);
	query_bind_text(query, 7, row->fingerprint);
	query_bind_int(query, 8, row->is_settled);
	query_bind_int(query, 9, row->changed_at);
	query_bind_int(query, 10, row->verification);
	origin_rows_bind_time(query, 11, row->verified_at);
	origin_rows_bind_time(query, 12, row->verification_due_at);
	query_bind_int(query, 13, row->verification_retry_count);
	query_bind_text(query, 14, row->failure_class);
	query_bind_text(query, 15, row->failure);
	query_bind_text(query, 16, row->remedy);
	query_bind_int(query, 17, (int64_t)row->size);
	query_bind_text(query, 18, err_reason_name(row->failure_reason));
	query_bind_text(query, 19, row->identity);
}

int origin_row_add(struct store_tx *tx, const char *kind, const struct origin_row *row,
		   struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	struct registry_counts counts = { 0 };
	int64_t added;

	if (query_open(tx,
		       "INSERT INTO origin (id, path, timeline, generation, checksum,"
		       " description, print, is_settled, changed_at, verification_state,"
		       " verified_at, verification_due_at, verification_retry_count,"
		       " failure_class, failure, remedy, size, failure_reason,"
		       " identity, kind, name) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8,"
		       " ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20,"
		       " ?21)"
		       " ON CONFLICT DO NOTHING",
		       &query, err) != 0)
		return -1;
	origin_rows_bind_row(query, row);
	query_bind_text(query, 20, kind);
	query_bind_text(query, 21, row->name);
	if (query_run(query, &added, err) != 0)
		return -1;
	if (added == 0)
		return err_set(err, ERR_CONFLICT, "%s: it has been recorded meanwhile",
			       row->name);
	origin_rows_count(&counts, row->verification, row->size, 1);
	return origin_counts_write(tx, kind, &counts, err);
}

static int conflict(const struct origin_row *row, struct err *err)
{
	return err_set(err, ERR_CONFLICT, "%s: its record was changed meanwhile",
		       row->name);
}

/* Its share as it stands, and its kind, which the caller frees. */
static int discount(struct store_tx *tx, const struct origin_row *row, char **kind,
		    struct registry_counts *counts, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_ask(tx, &query, err,
		      "SELECT kind, verification_state, size FROM origin WHERE id = ?1"
		      " AND generation = ?2 AND timeline = ?3",
		      QUERY_INT((int64_t)row->id), QUERY_INT((int64_t)row->generation),
		      QUERY_TEXT(row->timeline)) != 0)
		return -1;
	found = query_step(query, err);
	if (found < 0)
		return -1;
	if (found == 0)
		return conflict(row, err);
	*kind = query_copy_text(query, 0);
	origin_rows_count(counts, (enum registry_verification)query_int(query, 1),
			  (uint64_t)query_int(query, 2), -1);
	return 0;
}

static int origin_rows_write_row(struct store_tx *tx, const struct origin_row *row,
				 struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx,
		       "UPDATE origin SET path = ?2, timeline = ?3, generation = ?4,"
		       " checksum = ?5, description = ?6, print = ?7, is_settled = ?8,"
		       " changed_at = ?9, verification_state = ?10, verified_at = ?11,"
		       " verification_due_at = ?12, verification_retry_count = ?13,"
		       " failure_class = ?14, failure = ?15, remedy = ?16, size = ?17,"
		       " failure_reason = ?18, identity = ?19, claim_token = ?20,"
		       " claim_node = CASE WHEN ?20 IS NULL THEN NULL ELSE claim_node "
		       "END,"
		       " claim_until = CASE WHEN ?20 IS NULL THEN NULL"
		       " ELSE claim_until END WHERE id = ?1",
		       &query, err) != 0)
		return -1;
	origin_rows_bind_row(query, row);
	query_bind_text(query, 20, row->claim_token[0] ? row->claim_token : NULL);
	return query_run(query, NULL, err);
}

int origin_row_replace(struct store_tx *tx, const struct origin_row *before,
		       const struct origin_row *row, struct err *err)
{
	AUTO_FREE char *kind = NULL;
	struct registry_counts counts = { 0 };

	if (discount(tx, before, &kind, &counts, err) != 0 ||
	    origin_rows_write_row(tx, row, err) != 0)
		return -1;
	origin_rows_count(&counts, row->verification, row->size, 1);
	return origin_counts_write(tx, kind, &counts, err);
}

int origin_row_update(struct store_tx *tx, const struct origin_row *row,
		      uint64_t generation, struct err *err)
{
	struct origin_row before = *row;

	before.generation = generation;
	return origin_row_replace(tx, &before, row, err);
}

int origin_row_remove(struct store_tx *tx, const struct origin_row *row, struct err *err)
{
	AUTO_FREE char *kind = NULL;
	struct registry_counts counts = { 0 };

	if (discount(tx, row, &kind, &counts, err) != 0 ||
	    query_write(tx, err, "DELETE FROM origin WHERE id = ?1",
			QUERY_INT((int64_t)row->id)) != 0 ||
	    (kind_is_repository(kind) && lfs_rows_forget(tx, row->id, err) != 0))
		return -1;
	return origin_counts_write(tx, kind, &counts, err);
}

int origin_rows_draw_timelines(struct store_tx *tx, struct err *err)
{
	return store_exec(tx, "UPDATE origin SET timeline = lower(hex(randomblob(8)))",
			  err);
}

int origin_count(struct store_tx *tx, const char *kind, struct registry_counts *counts,
		 struct err *err)
{
	AUTO_FREE char *counted = xasprintf("origin.%s", kind);

	return registry_counts_read(tx, counted, ORIGIN_COUNTERS, counts, err);
}

#define AGED                                                                             \
	" FROM origin WHERE kind = ?1 AND verification_due_at IS NOT NULL"               \
	" AND verification_due_at >= ?2 AND verification_due_at < ?3"                    \
	" AND verified_at IS NOT NULL AND verification_state = 2"

int origin_rows_age_proofs(struct store *store, const char *kind,
			   const struct proofs_ageing *proofs, int64_t *aged,
			   struct err *err)
{
	static const struct ageing_table table = { .counters = "origin.",
						   AGEING_SQL("origin", AGED,
							      "verification_state = 0") };

	return proofs_age(store, &table, kind, proofs, aged, err);
}

/* Blobs are read as originals in that role only, so a row without an attempt since then
 * tells of no copy. */
static int origin_rows_doubt_copies_of(struct store_tx *tx, const char *kind,
				       struct err *err)
{
	struct registry_counts counts = { 0 };
	int64_t doubted;

	if (query_write(
		    tx, err,
		    "UPDATE origin SET verification_state = 0, verification_due_at ="
		    " ?1 WHERE kind = ?2 AND verification_state = 2"
		    " AND EXISTS (SELECT 1 FROM registry WHERE registry.id = origin.id"
		    " AND NOT (state = 2 AND proved <> 0)"
		    " AND (?2 = '" KIND_REPOSITORY "' OR origin.verified_at IS NULL"
		    " OR origin.verified_at <= registry.last_attempt_at))",
		    QUERY_INT(clock_wall_ms()), QUERY_TEXT(kind)) != 0 ||
	    query_number(tx, &doubted, err, "SELECT changes()") != 0)
		return -1;
	counts.verification[VERIFICATION_SUCCEEDED] = -doubted;
	counts.verification[VERIFICATION_PENDING] = doubted;
	return origin_counts_write(tx, kind, &counts, err);
}

int origin_rows_doubt_copies_in(struct store_tx *tx, struct err *err)
{
	AUTO_KIND_NAMES kind_names kinds = { 0 };

	if (origin_kinds(tx, &kinds, err) != 0)
		return -1;
	for (size_t i = 0; i < kinds.count; i++)
		if (origin_rows_doubt_copies_of(tx, kinds.items[i], err) != 0)
			return -1;
	return 0;
}
