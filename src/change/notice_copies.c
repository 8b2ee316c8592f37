/*
 * At a secondary the tree is what pull makes of it. Deletions are decided by its primary
 * and carried out under the brake; what is missing otherwise (a rebuilt copy between two
 * renames, an older disk) is brought again. And a copy of which something is still to be
 * brought may be older than what was seen before: it is compared when it has come.
 */
#include "change/notice_parts.h"
#include "replicable/name.h"
#include "replicable/registry.h"

struct asking {
	const char *name;
	int found; /* 0: there is no row */
	enum registry_state state;
};

static int notice_copies_ask_work(struct store_tx *tx, void *arg, struct err *err)
{
	AUTO_REGISTRY_ROW struct registry_row row = { 0 };
	struct asking *asking = arg;

	asking->found = registry_get_in(tx, KIND_REPOSITORY, asking->name, &row, err);
	asking->state = row.state;
	return asking->found < 0 ? -1 : 0;
}

static int notice_copies_ask(struct notice *notice, struct asking *asking,
			     struct err *err)
{
	return store_read(notice->options.store, notice_copies_ask_work, asking, err);
}

int notice_may_look(struct notice *notice, const char *name, bool *may, struct err *err)
{
	struct asking asking = { .name = name };

	*may = true;
	if (!notice->options.check_copies)
		return 0;
	if (notice_copies_ask(notice, &asking, err) != 0)
		return -1;
	*may = !asking.found || asking.state == REGISTRY_SYNCED;
	return 0;
}

int notice_check_dropped(struct notice *notice, const char *name, struct err *err)
{
	struct asking asking = { .name = name };

	if (!notice->options.check_copies)
		return 0;
	if (notice_copies_ask(notice, &asking, err) != 0)
		return -1;
	if (!asking.found)
		return 0;
	err_set(err, ERR_CONFLICT, "the copy of %s is not there, but it is wanted", name);
	return err_remedy(err,
			  "brought again by itself; else: refrelay repository "
			  "resync %s",
			  name);
}
