/*
 * Repositories whose change the sink could not accept: recorded in the change's own
 * transaction, so that a full or lost task store does not lose events or tasks.
 */
#ifndef CHANGE_OWED_H
#define CHANGE_OWED_H

#include "base/base.h"
#include "base/thread.h"
#include "change/notice.h"
#include "store/store.h"

/* Inside store_write(). */
int owed_add(struct store_tx *tx, const char *name, const struct err *why,
	     struct err *err);

/* Call after the commit. */
void owed_note(struct notice *notice, const char *name, const struct err *why);

/* At the end of a comparison of a repository. If its change was told to the sink, but not
 * recorded, it may be taken back before it is seen again; then nothing shows it, and what
 * was pushed of it would stay. So the name is kept in memory, and owed as soon as a later
 * comparison ends well. */
struct comparison;
struct comparisons;
void owed_note_told(struct comparison *one, const char *checksum);
void owed_end_comparison(struct notice *notice, const struct comparison *one);

/* Whether a scan has found it, and the sink was not told of a change that is not
 * recorded: only then may the sink leave out what another node may have told. */
bool owed_is_only_scanned(const struct comparisons *all, const struct comparison *one);

struct owed_summary {
	int64_t count, since;
	char example[256]; /* a name */
	struct err why;    /* of it */
};
int owed_look(struct store_tx *tx, struct owed_summary *summary, struct err *err);

/* Passes each to the sink again; removes those that it accepts. Ends at the first that it
 * does not accept (0 all the same), and at stop (may be NULL). *left: how many remain.
 * Without a sink there are none. */
int owed_settle(struct notice *notice, const struct stop *stop, size_t *left,
		struct err *err);

/* Whether there may be some. Cheap. */
bool owed_may_be(struct notice *notice);

#endif
