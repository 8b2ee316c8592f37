/*
 * mirror_listed has a row for each name of each list. What a reading changes in it, and
 * in the registry, is one transaction. That lists leave a name out by an accident, as
 * GitHub's pages may when something is deleted while they are read, is why one is not
 * enough: missing_at is written by the first, and obeyed by the second.
 */
#include "mirror/listed.h"

#include "base/clock.h"
#include "base/json.h"
#include "mirror/requests.h"
#include "replicable/name.h"
#include "replicable/registry.h"
#include "store/site_value.h"

struct listed_row {
	char *name, *url; /* owned */
	int64_t missing_at;
};

typedef VEC(struct listed_row) listed_rows;
#define AUTO_LISTED_ROWS __attribute__((cleanup(listed_rows_clear)))

static void listed_rows_clear(listed_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		free(rows->items[i].name);
		free(rows->items[i].url);
	}
	vec_clear(rows);
}

ORDER_BY_TEXT(listed_order, struct listed_row, name);

static void listed_rows_add(struct query *query, void *arg)
{
	listed_rows *rows = arg;
	struct listed_row row = { .name = query_copy_text(query, 0),
				  .url = query_copy_text(query, 1),
				  .missing_at = query_int(query, 2) };

	vec_add(rows, row);
}

/* In byte order of their names, whatever the database takes for order. */
static int listed_read_rows(struct store_tx *tx, const char *list, listed_rows *rows,
			    struct err *err)
{
	int result = query_each(
		tx, listed_rows_add, rows, err,
		"SELECT name, url, missing_at FROM mirror_listed WHERE list = ?1",
		QUERY_TEXT(list));

	vec_sort(rows, listed_order);
	return result;
}

static int listed_write_lists(struct store_tx *tx, void *arg, struct err *err)
{
	const struct mirrors *mirrors = arg;

	if (store_exec(tx, "UPDATE mirror_list SET interval_ms = 0", err) != 0)
		return -1;
	for (size_t i = 0; i < mirrors->lists.count; i++) {
		const struct mirror_list *list = mirrors->lists.items[i];
		if (query_write(tx, err,
				"INSERT INTO mirror_list (list, interval_ms)"
				" VALUES (?1, ?2) ON CONFLICT (list)"
				" DO UPDATE SET interval_ms = ?2",
				QUERY_TEXT(list->name),
				QUERY_INT(list->interval_ms)) != 0)
			return -1;
	}
	return 0;
}

int listed_begin(struct store *store, const struct mirrors *mirrors, struct err *err)
{
	struct mirrors written = *mirrors; /* a work's argument is not const */

	return store_write(store, listed_write_lists, &written, err);
}

static int listed_read_told(struct store_tx *tx, const struct mirrors *mirrors,
			    mirrors_told *told, struct err *err)
{
	for (size_t i = 0; i < mirrors->lists.count; i++) {
		const struct mirror_list *list = mirrors->lists.items[i];
		AUTO_LISTED_ROWS listed_rows rows = { 0 };
		if (listed_read_rows(tx, list->name, &rows, err) != 0)
			return -1;
		for (size_t at = 0; at < rows.count; at++) {
			struct mirror_told one = { .list = list,
						   .name = TAKE(rows.items[at].name),
						   .url = TAKE(rows.items[at].url) };
			vec_add(told, one);
		}
	}
	return 0;
}

int listed_load_in(struct store_tx *tx, const struct mirrors *mirrors, listed_taken taken,
		   struct err *err)
{
	AUTO_MIRRORS_TOLD mirrors_told told = { 0 };

	if (listed_read_told(tx, mirrors, &told, err) != 0)
		return -1;
	mirrors_replace_told(mirrors, &told, taken, NULL);
	return 0;
}

static int listed_load_alone(struct store_tx *tx, void *arg, struct err *err)
{
	return listed_load_in(tx, arg, NULL, err);
}

int listed_load(struct store *store, const struct mirrors *mirrors, struct err *err)
{
	struct mirrors read = *mirrors; /* a work's argument is not const */

	return mirrors->lists.count == 0
		       ? 0
		       : store_read(store, listed_load_alone, &read, err);
}

/*
 * A whole list.
 */

struct listed_taking {
	const struct mirrors *mirrors;
	const struct mirror_list *list;
	const struct upstream_list *said;
	char *question;
	int64_t now;
	bool is_same_question; /* the last whole list was read by these settings */
	struct listed_change *change;
};

static int listed_compare_question(struct store_tx *tx, struct listed_taking *taking,
				   struct err *err)
{
	int found =
		query_one(tx, NULL, NULL, err,
			  "SELECT 1 FROM mirror_list WHERE list = ?1"
			  " AND question = ?2",
			  QUERY_TEXT(taking->list->name), QUERY_TEXT(taking->question));

	taking->is_same_question = found > 0;
	return found < 0 ? -1 : 0;
}

/* One that waits to be removed is wanted again; of others the poll makes rows. */
static int listed_want(struct store_tx *tx, const char *name, int64_t now,
		       struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	const struct registry_move asked = { .event = REGISTRY_ASKED, .changed_at = now };
	int found = registry_get_in(tx, KIND_MIRROR, name, &row, err);

	if (found <= 0 || !row.is_gone)
		return found < 0 ? -1 : 0;
	return registry_ask_in(tx, KIND_MIRROR, name, &asked, err);
}

static int listed_add(struct store_tx *tx, const struct listed_taking *taking,
		      const struct upstream_chosen *one, struct err *err)
{
	taking->change->added++;
	if (query_write(tx, err,
			"INSERT INTO mirror_listed (list, name, url)"
			" VALUES (?1, ?2, ?3)",
			QUERY_TEXT(taking->list->name), QUERY_TEXT(one->name),
			QUERY_TEXT(one->url)) != 0)
		return -1;
	return listed_want(tx, one->name, taking->now, err);
}

static int listed_keep(struct store_tx *tx, const struct listed_taking *taking,
		       const struct listed_row *row, const struct upstream_chosen *one,
		       struct err *err)
{
	bool is_moved = strcmp(row->url, one->url) != 0;

	taking->change->moved += is_moved;
	if (!is_moved && row->missing_at == 0)
		return 0;
	return query_write(tx, err,
			   "UPDATE mirror_listed SET url = ?3, missing_at = 0"
			   " WHERE list = ?1 AND name = ?2",
			   QUERY_TEXT(taking->list->name), QUERY_TEXT(row->name),
			   QUERY_TEXT(one->url));
}

/* 1: another configured list tells of it, too. */
static int listed_by_another(struct store_tx *tx, const struct listed_taking *taking,
			     const char *name, struct err *err)
{
	return query_one(tx, NULL, NULL, err,
			 "SELECT 1 FROM mirror_listed JOIN mirror_list"
			 " ON mirror_list.list = mirror_listed.list"
			 " WHERE mirror_listed.name = ?1 AND mirror_listed.list <> ?2"
			 " AND mirror_list.interval_ms > 0",
			 QUERY_TEXT(name), QUERY_TEXT(taking->list->name));
}

/* A section, or another list, keeps it. */
static int listed_let_go(struct store_tx *tx, const struct listed_taking *taking,
			 const char *name, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	int found = listed_by_another(tx, taking, name, err);

	if (found != 0 || mirrors_find_section(taking->mirrors, name))
		return found < 0 ? -1 : 0;
	found = registry_get_in(tx, KIND_MIRROR, name, &row, err);
	if (found <= 0)
		return found;
	struct err why;
	err_set(&why, ERR_MISSING, "the list %s has %s no more", taking->list->name,
		name);
	if (mirror_requests_refuse_in(tx, name, &why, err) != 0)
		return -1;
	const struct registry_move gone = { .id = row.id,
					    .event = REGISTRY_GONE,
					    .changed_at = taking->now };
	return registry_move_in(tx, &gone, err) < 0 ? -1 : 0;
}

static int listed_miss(struct store_tx *tx, const struct listed_taking *taking,
		       const struct listed_row *row, struct err *err)
{
	if (row->missing_at == 0 || !taking->is_same_question) {
		taking->change->missing++;
		return query_write(tx, err,
				   "UPDATE mirror_listed SET missing_at = ?3"
				   " WHERE list = ?1 AND name = ?2",
				   QUERY_TEXT(taking->list->name), QUERY_TEXT(row->name),
				   QUERY_INT(taking->now));
	}
	taking->change->gone++;
	if (query_write(tx, err,
			"DELETE FROM mirror_listed WHERE list = ?1 AND name = ?2",
			QUERY_TEXT(taking->list->name), QUERY_TEXT(row->name)) != 0)
		return -1;
	return listed_let_go(tx, taking, row->name, err);
}

/* Both are in byte order. */
static int listed_merge(struct store_tx *tx, const struct listed_taking *taking,
			const listed_rows *rows, struct err *err)
{
	const struct upstream_list *said = taking->said;
	size_t at = 0;
	int result = 0;

	for (size_t i = 0; result == 0 && (i < rows->count || at < said->chosen.count);) {
		const struct listed_row *row = i < rows->count ? &rows->items[i] : NULL;
		const struct upstream_chosen *one =
			at < said->chosen.count ? &said->chosen.items[at] : NULL;
		int order = !row ? 1 : !one ? -1 : strcmp(row->name, one->name);
		if (row && one && order == 0)
			result = listed_keep(tx, taking, row, one, err);
		else if (row && order < 0)
			result = listed_miss(tx, taking, row, err);
		else if (one)
			result = listed_add(tx, taking, one, err);
		i += order <= 0;
		at += order >= 0;
	}
	return result;
}

static char *listed_make_mounts_key(const struct mirror_list *list)
{
	return xasprintf("mirrors.mounts.%s", list->name);
}

static int listed_write_mounts(struct store_tx *tx, const struct listed_taking *taking,
			       struct err *err)
{
	const text_list *mounts = &taking->said->mounts;
	json_auto_t *array = json_texts(mounts->items, mounts->count);
	AUTO_FREE char *key = listed_make_mounts_key(taking->list);
	AUTO_STR struct str text = STR_INIT;

	if (mounts->count == 0)
		return site_value_remove(tx, key, err);
	json_render(array, &text);
	return site_value_set(tx, key, text.data, err);
}

int listed_read_mounts(struct store *store, const struct mirror_list *list,
		       text_list *mounts, struct err *err)
{
	AUTO_FREE char *key = listed_make_mounts_key(list);
	AUTO_STR struct str text = STR_INIT;
	int found = site_value_read(store, key, &text, err);
	json_auto_t *array = found > 0 ? json_loads(text.data, 0, NULL) : NULL;

	text_list_clear(mounts);
	json_add_texts(array, mounts);
	return found < 0 ? -1 : 0;
}

static int listed_write_taken(struct store_tx *tx, void *arg, struct err *err)
{
	struct listed_taking *taking = arg;
	AUTO_LISTED_ROWS listed_rows rows = { 0 };

	*taking->change = (struct listed_change){ 0 };
	if (listed_compare_question(tx, taking, err) != 0 ||
	    listed_read_rows(tx, taking->list->name, &rows, err) != 0 ||
	    listed_merge(tx, taking, &rows, err) != 0 ||
	    listed_write_mounts(tx, taking, err) != 0)
		return -1;
	return query_write(tx, err,
			   "UPDATE mirror_list SET question = ?2, read_at = ?3,"
			   " failed_at = 0, class = NULL, message = NULL, remedy = NULL"
			   " WHERE list = ?1",
			   QUERY_TEXT(taking->list->name), QUERY_TEXT(taking->question),
			   QUERY_INT(taking->now));
}

int listed_take(struct store *store, const struct mirrors *mirrors,
		const struct mirror_list *list, const struct upstream_list *said,
		struct listed_change *change, struct err *err)
{
	AUTO_FREE char *question = mirror_list_question(list);
	struct listed_taking taking = { .mirrors = mirrors,
					.list = list,
					.said = said,
					.question = question,
					.now = clock_wall_ms(),
					.change = change };

	return store_write(store, listed_write_taken, &taking, err);
}

/*
 * How readings ended.
 */

struct listed_failing {
	const char *list;
	const struct err *why;
};

static int listed_write_failure(struct store_tx *tx, void *arg, struct err *err)
{
	const struct listed_failing *failing = arg;
	const struct err *why = failing->why;

	return query_write(tx, err,
			   "UPDATE mirror_list SET failed_at = ?2, class = ?3,"
			   " message = ?4, remedy = ?5 WHERE list = ?1",
			   QUERY_TEXT(failing->list), QUERY_INT(clock_wall_ms()),
			   QUERY_TEXT(err_class_name(why->class)), QUERY_TEXT(why->text),
			   QUERY_TEXT(why->remedy[0] ? why->remedy : NULL));
}

int listed_fail(struct store *store, const struct mirror_list *list,
		const struct err *why, struct err *err)
{
	struct listed_failing failing = { list->name, why };

	return store_write_unsynced(store, listed_write_failure, &failing, err);
}

int listed_forget(struct store *store, const char *name, struct err *err)
{
	return store_run(store, err, "DELETE FROM mirror_listed WHERE name = ?1",
			 QUERY_TEXT(name));
}

void listed_state_clear(struct listed_state *state)
{
	free(state->class);
	free(state->message);
	free(state->remedy);
	*state = (struct listed_state){ 0 };
}

static void listed_take_state(struct query *query, void *arg)
{
	struct listed_state *state = arg;

	*state = (struct listed_state){
		.read_at = query_int(query, 0),
		.failed_at = query_int(query, 1),
		.class = query_copy_text(query, 2),
		.message = query_copy_text(query, 3),
		.remedy = query_copy_text(query, 4),
		.count = query_int(query, 5),
	};
}

int listed_read_state(struct store *store, const struct mirror_list *list,
		      struct listed_state *state, struct err *err)
{
	int found;

	*state = (struct listed_state){ 0 };
	found = store_one(store, listed_take_state, state, err,
			  "SELECT read_at, failed_at, class, message, remedy,"
			  " (SELECT COUNT(*) FROM mirror_listed WHERE list = ?1)"
			  " FROM mirror_list WHERE list = ?1",
			  QUERY_TEXT(list->name));
	return found < 0 ? -1 : 0;
}
