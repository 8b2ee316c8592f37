#include "pull/followed.h"

#include <string.h>

#include "base/str.h"
#include "replicable/name.h"
#include "store/site_value.h"

#define FOLLOWED "pull.followed" /* and ".KIND": the log's timeline */
#define FOLLOWED_NONE "-"
/* What earlier versions have the address for; they take the primary for the same one
 * unless there is another. */
#define FOLLOWED_ANY " -"
#define FOLLOWED_PART " part" /* instead: not all was compared since it is there */

static int followed_read(struct store *store, const char *kind, struct str *timeline,
			 struct err *err)
{
	AUTO_FREE char *key = xasprintf(FOLLOWED ".%s", kind);
	int found = site_value_read(store, key, timeline, err);

	if (found > 0)
		timeline->data[strcspn(timeline->data, " ")] = '\0';
	return found;
}

int followed_was_another(struct store *store, const char *kind, const char *timeline,
			 struct err *err)
{
	AUTO_STR struct str before = STR_INIT;
	int found = followed_read(store, kind, &before, err);

	return found > 0 ? strcmp(before.data, timeline) != 0 : found;
}

int followed_was_compared(struct store *store, const char *kind, struct err *err)
{
	AUTO_STR struct str before = STR_INIT;
	AUTO_FREE char *key = xasprintf(FOLLOWED ".%s", kind);
	int found = site_value_read(store, key, &before, err);

	if (found <= 0)
		return found;
	return !text_ends_with(before.data, FOLLOWED_PART) &&
	       !text_starts_with(before.data, FOLLOWED_NONE);
}

int followed_keep(struct store *store, const char *kind, const char *timeline,
		  bool is_part, struct err *err)
{
	AUTO_STR struct str before = STR_INIT;
	AUTO_FREE char *key = xasprintf(FOLLOWED ".%s", kind);
	AUTO_FREE char *text =
		xasprintf("%s%s", timeline, is_part ? FOLLOWED_PART : FOLLOWED_ANY);
	int found = site_value_read(store, key, &before, err);

	if (found < 0)
		return -1;
	return found > 0 && (is_part || strcmp(before.data, text) == 0)
		       ? 0
		       : site_value_write(store, key, text, err);
}

int followed_forget_in(struct store_tx *tx, struct err *err)
{
	return store_exec(tx,
			  "INSERT OR REPLACE INTO site_value (key, value)"
			  " SELECT DISTINCT '" FOLLOWED
			  ".' || kind, '" FOLLOWED_NONE FOLLOWED_ANY
			  "' FROM registry WHERE kind <> '" KIND_MIRROR "'"
			  " UNION SELECT key, '" FOLLOWED_NONE FOLLOWED_ANY
			  "' FROM site_value WHERE key LIKE '" FOLLOWED ".%'",
			  err);
}
