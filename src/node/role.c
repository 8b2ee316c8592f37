#include "node/role.h"

#include "base/log.h"
#include "change/event_log.h"
#include "pull/pull.h"
#include "report/report.h"
#include "store/site_value.h"
#include "upkeep/copies_root.h"

#define ROLE_KEY "site.role"

struct role_change {
	const char *role;
	struct str before;
	struct event_ends ends;
};

/* Databases of before this was kept know no role. */
static int read_before(struct store_tx *tx, void *arg, struct err *err)
{
	struct role_change *change = arg;

	str_reset(&change->before);
	if (site_value_get(tx, ROLE_KEY, &change->before, err) < 0)
		return -1;
	return event_log_ends(tx, &change->ends, err);
}

static int write_role(struct store_tx *tx, void *arg, struct err *err)
{
	const struct role_change *change = arg;

	return site_value_set(tx, ROLE_KEY, change->role, err);
}

static int forget_position(struct store_tx *tx, void *arg, struct err *err)
{
	(void)arg;
	if (site_value_remove(tx, PULL_CURSOR, err) != 0 ||
	    site_value_remove(tx, PULL_COMPARED, err) != 0)
		return -1;
	return copies_root_doubt(tx, err);
}

static int follow_change(struct store *store, const struct role_change *change,
			 enum site_role role, struct err *err)
{
	const char *before = change->before.data;

	if (role == SITE_PRIMARY && strcmp(before, "secondary") == 0 &&
	    change->ends.timeline[0])
		return event_log_renew(store, change->ends.timeline, err);
	if (role == SITE_SECONDARY && strcmp(before, "primary") == 0)
		return store_write(store, forget_position, NULL, err);
	return 0;
}

int role_begin(struct store *store, enum site_role role, struct err *err)
{
	struct role_change change = { .role = site_role_name(role), .before = STR_INIT };
	int result = store_read(store, read_before, &change, err);

	if (result == 0 && strcmp(change.before.data, change.role) != 0) {
		/* What follows may be done twice, but never be left out. */
		result = follow_change(store, &change, role, err);
		if (result == 0)
			result = store_write(store, write_role, &change, err);
		if (result == 0 && change.before.len > 0)
			log_info("node.role_changed",
				 LOG_TEXT("before", change.before.data),
				 LOG_TEXT("role", change.role));
	}
	str_clear(&change.before);
	return result;
}
