#include "pull/followed.h"

#include <string.h>

#include "base/str.h"
#include "replicable/name.h"
#include "store/site_value.h"

#define FOLLOWED "pull.followed" /* and ".KIND": "TIMELINE ADDRESS" */

static char *followed_key(const struct followed *now)
{
	return xasprintf(FOLLOWED ".%s", now->kind);
}

static char *followed_text(const struct followed *now)
{
	return xasprintf("%s %s", now->timeline, now->address);
}

int followed_was_another(struct store *store, const struct followed *now, struct err *err)
{
	AUTO_STR struct str before = STR_INIT;
	AUTO_FREE char *key = followed_key(now);
	int found = site_value_read(store, key, &before, err);
	char *address;

	if (found <= 0)
		return found;
	address = strchr(before.data, ' ');
	if (!address)
		return 0;
	*address++ = '\0';
	return strcmp(before.data, now->timeline) != 0 &&
	       strcmp(address, now->address) != 0;
}

int followed_keep(struct store *store, const struct followed *now, struct err *err)
{
	AUTO_STR struct str before = STR_INIT;
	AUTO_FREE char *key = followed_key(now);
	AUTO_FREE char *text = followed_text(now);

	if (site_value_read(store, key, &before, err) < 0)
		return -1;
	return strcmp(before.data, text) == 0 ? 0
					      : site_value_write(store, key, text, err);
}

int followed_forget_in(struct store_tx *tx, struct err *err)
{
	return store_exec(tx,
			  "INSERT OR REPLACE INTO site_value (key, value)"
			  " SELECT DISTINCT '" FOLLOWED ".' || kind, '- -' FROM registry"
			  " WHERE kind <> '" KIND_MIRROR "'",
			  err);
}
