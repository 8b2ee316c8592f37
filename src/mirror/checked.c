#include "mirror/checked.h"

#include "replicable/name.h"

static int mirror_check_write(struct store_tx *tx, struct mirror_check *check,
			      struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int64_t changed;

	if (query_ask(tx, &query, err,
		      "UPDATE mirror SET checked_at = ?2 WHERE name = ?1 AND (?3 = ''"
		      " OR EXISTS (SELECT 1 FROM registry WHERE kind = ?4"
		      " AND name = ?1 AND checksum = ?3))",
		      QUERY_TEXT(check->name), QUERY_INT(check->at),
		      QUERY_TEXT(check->checksum), QUERY_TEXT(KIND_MIRROR)) != 0 ||
	    query_run(query, &changed, err) != 0)
		return -1;
	check->is_void = changed == 0 && check->checksum[0];
	return 0;
}

static int mirror_checks_write_in(struct store_tx *tx, void *arg, struct err *err)
{
	const mirror_checks *checks = arg;

	for (size_t i = 0; i < checks->count; i++)
		if (mirror_check_write(tx, &checks->items[i], err) != 0)
			return -1;
	return 0;
}

int mirror_checks_write(struct store *store, mirror_checks *checks, struct err *err)
{
	return checks->count == 0
		       ? 0
		       : store_write_unsynced(store, mirror_checks_write_in, checks, err);
}

int mirror_checked_at(struct store *store, const char *name, int64_t *at, struct err *err)
{
	*at = 0;
	return store_one(store, query_take_number, at, err,
			 "SELECT checked_at FROM mirror WHERE name = ?1",
			 QUERY_TEXT(name)) < 0
		       ? -1
		       : 0;
}
