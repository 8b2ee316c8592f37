#include "store/site_value.h"

int site_value_get(struct store_tx *tx, const char *key, struct str *out, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx, "SELECT value FROM site_value WHERE key = ?1", &query, err) !=
	    0)
		return -1;
	query_bind_text(query, 1, key);
	found = query_step(query, err);
	if (found > 0)
		str_add(out, query_text(query, 0));
	return found;
}

int site_value_set(struct store_tx *tx, const char *key, const char *value,
		   struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx,
		       "INSERT INTO site_value (key, value) VALUES (?1, ?2)"
		       " ON CONFLICT (key) DO UPDATE SET value = ?2",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, key);
	query_bind_text(query, 2, value);
	return query_run(query, NULL, err);
}

int site_value_remove(struct store_tx *tx, const char *key, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, "DELETE FROM site_value WHERE key = ?1", &query, err) != 0)
		return -1;
	query_bind_text(query, 1, key);
	return query_run(query, NULL, err);
}

int counter_add(struct store_tx *tx, const char *kind, const char *what, int64_t by,
		struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx,
		       "INSERT INTO counters (kind, what, value) VALUES (?1, ?2, ?3)"
		       " ON CONFLICT (kind, what)"
		       " DO UPDATE SET value = counters.value + ?3",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, kind);
	query_bind_text(query, 2, what);
	query_bind_int(query, 3, by);
	return query_run(query, NULL, err);
}

int counter_remove(struct store_tx *tx, const char *kind, const char *what,
		   struct err *err)
{
	AUTO_QUERY struct query *query = NULL;

	if (query_open(tx, "DELETE FROM counters WHERE kind = ?1 AND what = ?2", &query,
		       err) != 0)
		return -1;
	query_bind_text(query, 1, kind);
	query_bind_text(query, 2, what);
	return query_run(query, NULL, err);
}

int counter_get(struct store_tx *tx, const char *kind, const char *what, int64_t *value,
		struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	*value = 0;
	if (query_open(tx, "SELECT value FROM counters WHERE kind = ?1 AND what = ?2",
		       &query, err) != 0)
		return -1;
	query_bind_text(query, 1, kind);
	query_bind_text(query, 2, what);
	found = query_step(query, err);
	if (found > 0)
		*value = query_int(query, 0);
	return found < 0 ? -1 : 0;
}
