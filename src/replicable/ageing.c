#include "replicable/ageing.h"

#include "base/clock.h"

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

int ageing_find_end(struct store_tx *tx, struct ageing *ageing, const char *sql,
		    struct err *err)
{
	ageing->end = ageing->proofs->before;
	if (query_number(tx, &ageing->end, err, sql, QUERY_TEXT(ageing->kind),
			 QUERY_INT(ageing->from), QUERY_INT(ageing->end)) != 0)
		return -1;
	ageing->end = int64_max(ageing->end, ageing->from + 1); /* all due at one time */
	return 0;
}

static int ageing_find_any(struct store_tx *tx, void *arg, struct err *err)
{
	struct ageing *ageing = arg;

	ageing->aged = 0;
	return query_number(tx, &ageing->aged, err, ageing->any_sql,
			    QUERY_TEXT(ageing->kind), QUERY_INT(ageing->proofs->from),
			    QUERY_INT(ageing->proofs->before));
}

int proofs_age(struct store *store, struct ageing *ageing, int64_t *aged, struct err *err)
{
	*aged = 0;
	if (store_read(store, ageing_find_any, ageing, err) != 0)
		return -1;
	ageing->from = ageing->aged > 0 ? ageing->proofs->from : ageing->proofs->before;
	while (ageing->from < ageing->proofs->before) {
		if (store_write(store, ageing->age, ageing, err) != 0)
			return -1;
		*aged += ageing->aged;
		ageing->from = ageing->end;
	}
	return 0;
}
