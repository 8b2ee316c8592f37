/*
 * From one kind to the next by the index over all names: a table has few kinds, and very
 * many rows of each.
 */
#include "replicable/kind_names.h"

void kind_names_clear(kind_names *kinds)
{
	for (size_t i = 0; i < kinds->count; i++)
		free(kinds->items[i]);
	vec_clear(kinds);
}

static int next_kind(struct store_tx *tx, const char *sql, const char *after, char **kind,
		     struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	int found;

	if (query_open(tx, sql, &query, err) != 0)
		return -1;
	query_bind_text(query, 1, after);
	found = query_step(query, err);
	if (found > 0)
		*kind = query_copy_text(query, 0);
	return found;
}

int kind_names_read(struct store_tx *tx, const char *next_sql, kind_names *kinds,
		    struct err *err)
{
	const char *after = "";
	char *kind;
	int found;

	while ((found = next_kind(tx, next_sql, after, &kind, err)) > 0) {
		vec_add(kinds, kind);
		after = kind;
	}
	return found;
}
