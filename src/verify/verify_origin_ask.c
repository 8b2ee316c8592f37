#include "base/clock.h"
#include "replicable/name.h"
#include "verify/verify_origin.h"

struct asking {
	const char *kind, *name;
	int64_t at_least_ms;
};

static int verify_origin_ask_row(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_ORIGIN_ROW struct origin_row row = { 0 };
	const struct asking *asking = arg;
	int64_t now = clock_wall_ms();
	int found = origin_row_get(tx, asking->kind, asking->name, &row, err);

	if (found == 0)
		return err_set(err, ERR_MISSING, "%s: there is no such %s", asking->name,
			       strcmp(asking->kind, KIND_REPOSITORY) == 0 ? "repository"
									  : "blob");
	if (found < 0)
		return -1;
	if (row.verified_at <= now && now - row.verified_at < asking->at_least_ms)
		return err_set(err, ERR_BUSY, "%s was verified %" PRId64 " s ago",
			       asking->name, (now - row.verified_at) / 1000);
	if (row.verification != VERIFICATION_FAILED) /* until it is found whole */
		row.verification = VERIFICATION_PENDING;
	row.verification_due_at = now;
	return origin_row_update(tx, &row, row.generation, err);
}

int verify_origin_ask(struct store *store, const char *name, int64_t at_least_ms,
		      struct err *err)
{
	return verify_origin_ask_kind(store, KIND_REPOSITORY, name, at_least_ms, err);
}

int verify_origin_ask_kind(struct store *store, const char *kind, const char *name,
			   int64_t at_least_ms, struct err *err)
{
	struct asking asking = { kind, name, at_least_ms };

	return store_write(store, verify_origin_ask_row, &asking, err);
}
