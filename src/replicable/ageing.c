#include "replicable/ageing.h"

#include "base/clock.h"
#include "base/str.h"
#include "store/site_value.h"

#define LOOK_MS 60000
#define WHOLE_MS 3600000

bool proofs_are_to_age(int64_t reverify_ms, struct proofs_ageing *proofs)
{
	const int64_t now = clock_boot_ms();
	int64_t before;

	if (reverify_ms <= 0 || now < proofs->next_at)
		return false;
	proofs->next_at = now + LOOK_MS;
	proofs->interval_ms = int64_max(reverify_ms, LOOK_MS);
	before = clock_wall_ms() - proofs->interval_ms;
	proofs->from = proofs->before;
	if (now >= proofs->whole_at || before < proofs->before) { /* the clock was set */
		proofs->whole_at = now + WHOLE_MS;
		proofs->from = 1;
	}
	proofs->before = before;
	return true;
}

void proofs_age_again(struct proofs_ageing *proofs)
{
	proofs->whole_at = 0;
}

struct ageing {
	const struct ageing_table *table;
	const char *kind;
	const struct proofs_ageing *proofs;
	int64_t from, end; /* of a batch: rows due in between */
	int64_t aged;      /* by it */
};

/* Its own, if many are due at one time. */
static int ageing_find_end(struct store_tx *tx, struct ageing *ageing, struct err *err)
{
	ageing->end = ageing->proofs->before;
	if (query_number(tx, &ageing->end, err, ageing->table->end_sql,
			 QUERY_TEXT(ageing->kind), QUERY_INT(ageing->from),
			 QUERY_INT(ageing->end)) != 0)
		return -1;
	ageing->end = int64_max(ageing->end, ageing->from + 1);
	return 0;
}

static int ageing_count(struct store_tx *tx, const struct ageing *ageing, struct err *err)
{
	const struct ageing_table *table = ageing->table;
	AUTO_FREE char *kind = xasprintf("%s%s", table->counters, ageing->kind);

	if ((table->counts_proved &&
	     counter_add(tx, kind, "proved", -ageing->aged, err) != 0) ||
	    counter_add(tx, kind, "verification.2", -ageing->aged, err) != 0)
		return -1;
	return counter_add(tx, kind, "verification.0", ageing->aged, err);
}

static int ageing_run_batch(struct store_tx *tx, void *arg, struct err *err)
{
	struct ageing *ageing = arg;

	if (ageing_find_end(tx, ageing, err) != 0 ||
	    query_write(tx, err, ageing->table->age_sql, QUERY_TEXT(ageing->kind),
			QUERY_INT(ageing->from), QUERY_INT(ageing->end),
			QUERY_INT(ageing->proofs->interval_ms)) != 0 ||
	    query_number(tx, &ageing->aged, err, "SELECT changes()") != 0)
		return -1;
	return ageing->aged > 0 ? ageing_count(tx, ageing, err) : 0;
}

/* A reader looks first: most times there is nothing to write. */
int proofs_age(struct store *store, const struct ageing_table *table, const char *kind,
	       const struct proofs_ageing *proofs, int64_t *aged, struct err *err)
{
	struct ageing ageing = { .table = table, .kind = kind, .proofs = proofs };

	*aged = 0;
	if (store_one(store, query_take_number, &ageing.aged, err, table->any_sql,
		      QUERY_TEXT(kind), QUERY_INT(proofs->from),
		      QUERY_INT(proofs->before)) < 0)
		return -1;
	ageing.from = ageing.aged > 0 ? proofs->from : proofs->before;
	while (ageing.from < proofs->before) {
		if (store_write(store, ageing_run_batch, &ageing, err) != 0)
			return -1;
		*aged += ageing.aged;
		ageing.from = ageing.end;
	}
	return 0;
}
