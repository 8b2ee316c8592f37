/*
 * At a primary: which secondaries are to ask, and when each asked last, by the boot clock
 * and in memory: what was heard before the node's start proves nothing. Any thread.
 */
#ifndef REPORT_FOLLOWERS_H
#define REPORT_FOLLOWERS_H

#include "base/base.h"
#include "base/vec.h"
#include "store/store.h"

struct followers;

struct follower {
	char *site;     /* owned */
	int64_t age_ms; /* since its last request; -1: none yet */
	bool is_twice;  /* two nodes ask under its name */
};
typedef VEC(struct follower) follower_list;

struct followers *followers_new(void);
void followers_free(struct followers *followers); /* NULL is allowed */

/* These sites, and no others, are to ask from now on. What is known of others is
 * forgotten, in the database, too. */
int followers_expect(struct followers *followers, struct store *store,
		     const char *const *sites, size_t count, struct err *err);

/* A site's request came, with its report (wire/wire_report.h; NULL: none). A node names
 * itself there anew at each start (member "node"); one that is heard again after another
 * of the same site was is a second one that runs: is_twice from then on, until the other
 * has been silent for ten minutes. */
void followers_seen(struct followers *followers, const char *site, const char *report);

/* What it said with its request, in the database, so that status can say it without a
 * node: written at most each 5 s for a site unless it changed. ERR_CORRUPT: it is no
 * report. */
int followers_record(struct store *store, const char *site, uint64_t cursor,
		     const char *report, struct err *err);

/* Appends all that are expected, by name. The caller clears. */
void followers_look(struct followers *followers, follower_list *list);
void follower_list_clear(follower_list *list);

#endif
