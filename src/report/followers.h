/*
 * At a primary: the expected secondaries, and when each asked last, by the boot clock and
 * in memory: requests before the node's start prove nothing. Any thread.
 */
#ifndef REPORT_FOLLOWERS_H
#define REPORT_FOLLOWERS_H

#include "base/base.h"
#include "base/vec.h"
#include "store/store.h"

struct followers;

struct follower {
	char *site;           /* owned */
	int64_t age_ms;       /* since its last request; -1: never yet */
	int64_t told_age_ms;  /* since its last stored report; -1: none yet */
	bool is_twice;        /* two nodes ask under its name */
	text_list leaves_out; /* the kinds of blobs that it need not copy; owned */
};
typedef VEC(struct follower) follower_list;

struct followers *followers_new(void);
void followers_free(struct followers *followers); /* NULL is allowed */

/* Expects exactly these sites from now on. Data on others are removed, in the database,
 * too. */
int followers_expect(struct followers *followers, struct store *store,
		     const char *const *sites, size_t count, struct err *err);

/* The kinds of blobs that an expected site need not copy, from now on. */
void followers_leave_out(struct followers *followers, const char *site,
			 const text_list *kinds);

/* A site's request arrived, with its report (wire/wire_report.h; NULL: missing). In it a
 * node has a new name after each start (member "node"); if one asks again after another
 * one of the same site has asked, two are running: is_twice from then on, until the other
 * has been silent for ten minutes. */
void followers_seen(struct followers *followers, const char *site, const char *report);

/* Its report was stored: it counts for as long as a request does. */
void followers_told(struct followers *followers, const char *site);

/* Stores the report of a request in the database, so that status can show it without a
 * node: written at most every 5 s per site unless it changed. ERR_CORRUPT: not a
 * report. */
int followers_record(struct store *store, const char *site, uint64_t cursor,
		     const char *report, struct err *err);

/* Appends all expected ones, by name. The caller clears. */
void followers_look(struct followers *followers, follower_list *list);
void follower_list_copy(const follower_list *from, follower_list *to);
void follower_list_clear(follower_list *list);

#endif
