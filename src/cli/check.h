/*
 * Shared by the parts of `refrelay check`.
 */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "base/json.h"
#include "blob/kinds.h"
#include "cli/cli.h"
#include "cli/site.h"
#include "pull/kinds.h"
#include "pull/leftovers.h"
#include "store/store.h"

enum check_verdict { CHECK_GOOD, CHECK_NOTE, CHECK_WRONG };

struct checking {
	const struct cli_node *node;
	bool is_json;
	size_t wrong;
	json_t *findings;
	const struct conf *conf;
	struct site site;
	bool has_mirrors;
};

/* One finding: a line, or an object of the JSON. `what` is a word. */
void check_report(struct checking *checking, enum check_verdict verdict, const char *what,
		  const struct err *err);
/* The same in words; remedy "": none needed. */
PRINTF_LIKE(5, 6)
void check_say(struct checking *checking, enum check_verdict verdict, const char *what,
	       const char *remedy, const char *fmt, ...);

/* Checks that the directories of blobs exist, that they are the same as before, and that
 * the primary, which has `theirs`, agrees about their kinds (check_blobs.c). */
void check_blobs_directories(struct checking *checking);
void check_blob_roots(struct checking *checking, struct store *store);
void check_blobs_of_primary(struct checking *checking, struct blob_kinds *theirs);

/* At a primary: the kinds that this secondary need not copy (check_blobs.c). */
void check_blobs_left_out(struct checking *checking, const char *site);

/* At a secondary: examines each copy, whether it exists and is as it was left; others are
 * marked, so that the node repairs them (check.c). */
void check_copies(struct checking *checking, struct store *store,
		  const struct kind *kind);

/* Adds a note when little is free at the path (check.c). */
void check_room(struct checking *checking, const char *what, const char *path);

/* Adds a note about entries without a row here (check.c). */
void check_foreign(struct checking *checking, const char *what,
		   const struct leftovers_found *found);

/* Checks the settings of push, if any (check_blobs.c). */
void check_push(struct checking *checking);

/* Checks that credentials of watchers can be read (check_blobs.c). Before check_push(): a
 * site may exist for mirrors only. */
void check_mirrors(struct checking *checking);

/* Checks that alerts can be sent, as far as visible here (check_alerts.c). */
void check_alerts(struct checking *checking);

/* Reports failing working trees of mirrors. */
void check_checkouts(struct checking *checking, struct store *store);

#endif
