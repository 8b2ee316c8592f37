#include "pull/followed.h"

#include <string.h>

#include "base/str.h"
#include "replicable/name.h"
#include "store/site_value.h"

#define FOLLOWED "pull.followed" /* and ".KIND": the log's timeline */
#define FOLLOWED_NONE "-"

int followed_was_another(struct store *store, const char *kind, const char *timeline,
			 struct err *err)
{
	AUTO_STR struct str before = STR_INIT;
	AUTO_FREE char *key = xasprintf(FOLLOWED ".%s", kind);
	int found = site_value_read(store, key, &before, err);

	if (found <= 0)
		return found;
	/* behind a space earlier versions have the address */
	before.data[strcspn(before.data, " ")] = '\0';
	return strcmp(before.data, timeline) != 0;
}

int followed_was_compared(struct store *store, const char *kind, struct err *err)
{
	AUTO_STR struct str before = STR_INIT;
	AUTO_FREE char *key = xasprintf(FOLLOWED ".%s", kind);
	int found = site_value_read(store, key, &before, err);

	return found > 0 ? strcmp(before.data, FOLLOWED_NONE) != 0 : found;
}

int followed_keep(struct store *store, const char *kind, const char *timeline,
		  struct err *err)
{
	AUTO_STR struct str before = STR_INIT;
	AUTO_FREE char *key = xasprintf(FOLLOWED ".%s", kind);

	if (site_value_read(store, key, &before, err) < 0)
		return -1;
	return strcmp(before.data, timeline) == 0
		       ? 0
		       : site_value_write(store, key, timeline, err);
}

int followed_forget_in(struct store_tx *tx, struct err *err)
{
	return store_exec(tx,
			  "INSERT OR REPLACE INTO site_value (key, value)"
			  " SELECT DISTINCT '" FOLLOWED ".' || kind, '" FOLLOWED_NONE
			  "' FROM registry WHERE kind <> '" KIND_MIRROR "'"
			  " UNION SELECT key, '" FOLLOWED_NONE
			  "' FROM site_value WHERE key LIKE '" FOLLOWED ".%'",
			  err);
}
