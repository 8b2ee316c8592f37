#include "mirror/lfs_lack.h"

#include "base/clock.h"
#include "base/hash.h"
#include "replicable/name.h"
#include "replicable/registry.h"

void lfs_lack_clear(struct lfs_lack *lack)
{
	free(lack->class);
	free(lack->message);
	free(lack->remedy);
	*lack = (struct lfs_lack){ 0 };
}

void lfs_lack_set_failure(struct lfs_lack *lack, const struct err *why)
{
	text_replace(&lack->class, err_class_name(why->class));
	text_replace(&lack->message, why->text);
	text_replace(&lack->remedy, why->remedy);
}

void lfs_lack_mark(const lfs_rows *rows, char mark[17])
{
	unsigned char digest[HASH_MAX_SIZE];
	AUTO_STR struct str text = STR_INIT;
	AUTO_HASH struct hash hash;

	hash_init(&hash, HASH_SHA256);
	for (size_t i = 0; i < rows->count; i++)
		hash_add(&hash, rows->items[i].oid, strlen(rows->items[i].oid));
	hash_end(&hash, digest);
	str_add_hex(&text, digest, 8);
	memcpy(mark, text.data, 17);
}

/* Of those without lfs nothing is known any more. */
int lfs_lack_begin_in(struct store_tx *tx, const struct mirrors *mirrors, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	text_list former = { 0 };
	int found, result = 0;

	if (query_open(tx, "SELECT mirror FROM mirror_lfs", &query, err) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0)
		vec_add(&former, query_copy_text(query, 0));
	for (size_t i = 0; found == 0 && result == 0 && i < former.count; i++) {
		const struct mirror *mirror = mirrors_find(mirrors, former.items[i]);
		if (!mirror || !mirror->has_lfs)
			result = query_write(tx, err,
					     "DELETE FROM mirror_lfs WHERE mirror = ?1",
					     QUERY_TEXT(former.items[i]));
	}
	for (const struct mirror *mirror = NULL;
	     found == 0 && result == 0 &&
	     (mirror = mirrors_next(mirrors, mirror)) != NULL;)
		if (mirror->has_lfs)
			result = query_write(tx, err,
					     "INSERT INTO mirror_lfs (mirror, next_at)"
					     " VALUES (?1, 0)"
					     " ON CONFLICT (mirror) DO NOTHING",
					     QUERY_TEXT(mirror->name));
	text_list_clear(&former);
	return found < 0 ? -1 : result;
}

struct lfs_lack_reading {
	const char *mirror;
	struct lfs_lack *lack;
	int found;
};

/* store_work; arg: struct lfs_lack_reading */
static int lfs_lack_read(struct store_tx *tx, void *arg, struct err *err)
{
	struct lfs_lack_reading *reading = arg;
	struct lfs_lack *lack = reading->lack;
	AUTO_QUERY struct query *query = NULL;
	const char *left_over;

	lfs_lack_clear(lack);
	if (query_ask(tx, &query, err,
		      "SELECT next_at, attempts, absent, missing, left_over, class,"
		      " message, remedy FROM mirror_lfs WHERE mirror = ?1",
		      QUERY_TEXT(reading->mirror)) != 0)
		return -1;
	reading->found = query_step(query, err);
	if (reading->found <= 0)
		return reading->found;
	*lack = (struct lfs_lack){
		.next_at = query_is_null(query, 0) ? -1 : query_int(query, 0),
		.attempts = query_int(query, 1),
		.absent = query_int(query, 2),
		.missing = query_int(query, 3),
		.class = query_copy_text(query, 5),
		.message = query_copy_text(query, 6),
		.remedy = query_copy_text(query, 7),
	};
	left_over = query_text(query, 4);
	snprintf(lack->left_over, sizeof(lack->left_over), "%s",
		 left_over ? left_over : "");
	return 0;
}

int lfs_lack_get(struct store *store, const char *mirror, struct lfs_lack *lack,
		 struct err *err)
{
	struct lfs_lack_reading reading = { .mirror = mirror, .lack = lack };

	*lack = (struct lfs_lack){ 0 };
	return store_read(store, lfs_lack_read, &reading, err) != 0 ? -1 : reading.found;
}

struct lfs_lack_writing {
	const char *mirror;
	uint64_t repository;
	const struct lfs_lack *lack;
};

static int lfs_lack_write_row(struct store_tx *tx, const struct lfs_lack_writing *writing,
			      struct err *err)
{
	const struct lfs_lack *lack = writing->lack;
	const struct query_value next = QUERY_INT(lack->next_at > 0 ? lack->next_at : 0);

	return query_write(tx, err,
			   "UPDATE mirror_lfs SET next_at = CASE WHEN ?9 = 1 THEN NULL"
			   " ELSE ?2 END, attempts = ?3, absent = ?4, missing = ?5,"
			   " left_over = ?6, class = ?7, message = ?8, remedy = ?10"
			   " WHERE mirror = ?1",
			   QUERY_TEXT(writing->mirror), next, QUERY_INT(lack->attempts),
			   QUERY_INT(lack->absent), QUERY_INT(lack->missing),
			   QUERY_TEXT(lack->left_over), QUERY_TEXT(lack->class),
			   QUERY_TEXT(lack->message), QUERY_INT(lack->next_at < 0),
			   QUERY_TEXT(lack->remedy));
}

/* store_work; arg: struct lfs_lack_writing */
static int lfs_lack_write(struct store_tx *tx, void *arg, struct err *err)
{
	const struct lfs_lack_writing *writing = arg;
	const struct lfs_scan scan = { .repository = writing->repository,
				       .absent = writing->lack->absent };

	return lfs_lack_write_row(tx, writing, err) != 0
		       ? -1
		       : lfs_scan_set_absent(tx, &scan, err);
}

int lfs_lack_put(struct store *store, const char *mirror, uint64_t repository,
		 const struct lfs_lack *lack, struct err *err)
{
	struct lfs_lack_writing writing = { mirror, repository, lack };

	return store_write(store, lfs_lack_write, &writing, err);
}

/* A row that is pending or started has a job that looks, too. */
static int lfs_lack_find_due(struct store_tx *tx, text_list *names, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_ask(tx, &query, err,
		      "SELECT m.mirror FROM mirror_lfs m JOIN registry r"
		      " ON r.kind = ?1 AND r.name = m.mirror"
		      " WHERE r.state = ?2 AND r.gone = 0 AND (m.next_at <= ?3"
		      " OR (m.next_at IS NULL AND EXISTS (SELECT 1 FROM lfs_scan s"
		      " WHERE s.name = m.mirror AND s.absent > 0)))",
		      QUERY_TEXT(KIND_MIRROR), QUERY_INT(REGISTRY_SYNCED),
		      QUERY_INT(clock_wall_ms())) != 0)
		return -1;
	while ((found = query_step(query, err)) > 0)
		vec_add(names, query_copy_text(query, 0));
	return found;
}

/* store_work; arg: bool */
static int lfs_lack_any_due(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_TEXT_LIST text_list names = { 0 };
	bool *any = arg;
	int result = lfs_lack_find_due(tx, &names, err);

	*any = names.count > 0;
	return result;
}

/* store_work; arg: bool */
static int lfs_lack_ask_due(struct store_tx *tx, void *arg, struct err *err)
{
	const struct registry_move asked = { .event = REGISTRY_ASKED,
					     .changed_at = clock_wall_ms() };
	AUTO_TEXT_LIST text_list names = { 0 };
	bool *any = arg;

	if (lfs_lack_find_due(tx, &names, err) != 0)
		return -1;
	*any = names.count > 0;
	for (size_t i = 0; i < names.count; i++)
		if (registry_ask_in(tx, KIND_MIRROR, names.items[i], &asked, err) != 0)
			return -1;
	return 0;
}

int lfs_lack_hurry(struct store *store, bool *any, struct err *err)
{
	if (store_read(store, lfs_lack_any_due, any, err) != 0)
		return -1;
	return *any ? store_write(store, lfs_lack_ask_due, any, err) : 0;
}
