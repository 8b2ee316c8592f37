#include "mirror/heal.h"

#include "base/clock.h"

/* A request is due when it is made. Another node may make it, whose clock is right within
 * a moment. */
static const char *const mirror_heal_sql[] = {
	"UPDATE mirror_request SET next_at = ?1,"
	" asked_at = CASE WHEN asked_at > ?1 THEN ?1 ELSE asked_at END"
	" WHERE state = 0 AND (next_at > ?2 OR asked_at > ?1 + 60000)",
	/* a host may have asked for a rest of a day */
	"UPDATE mirror_lfs SET next_at = ?1 WHERE next_at > ?2 + 86400000",
	"UPDATE mirror_checkout SET due_at = ?1 WHERE due_at > ?2",
};

struct mirror_healing {
	int64_t longest_ms, healed;
};

static int mirror_heal_table(struct store_tx *tx, struct mirror_healing *healing,
			     const char *sql, struct err *err)
{
	AUTO_QUERY struct query *query = NULL;
	const int64_t now = clock_wall_ms();
	int64_t count;

	if (query_ask(tx, &query, err, sql, QUERY_INT(now),
		      QUERY_INT(now + healing->longest_ms)) != 0 ||
	    query_run(query, &count, err) != 0)
		return -1;
	healing->healed += count;
	return 0;
}

static int mirror_heal_tables(struct store_tx *tx, void *arg, struct err *err)
{
	struct mirror_healing *healing = arg;

	healing->healed = 0;
	for (size_t i = 0; i < ARRAY_SIZE(mirror_heal_sql); i++)
		if (mirror_heal_table(tx, healing, mirror_heal_sql[i], err) != 0)
			return -1;
	return 0;
}

int mirror_heal_due(struct store *store, int64_t longest_ms, int64_t *healed,
		    struct err *err)
{
	struct mirror_healing healing = { .longest_ms = longest_ms };

	if (store_write(store, mirror_heal_tables, &healing, err) != 0)
		return -1;
	*healed = healing.healed;
	return 0;
}
