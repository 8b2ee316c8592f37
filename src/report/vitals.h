/*
 * A node's own state: whether it can write, when it heard from its primary or its
 * secondaries, how old its comparisons and scans are. All ages are by the boot clock and
 * of this run of the node; they are not taken from the database, since on a full disk
 * that keeps old values. Commands ask the node over its socket (change/hook_socket.h);
 * the state of a node that does not answer is unknown.
 */
#ifndef REPORT_VITALS_H
#define REPORT_VITALS_H

#include "base/base.h"
#include "base/str.h"
#include "change/watch.h"
#include "lease/lease.h"
#include "pull/pull.h"
#include "report/followers.h"
#include "report/verdict.h"
#include "store/store.h"

struct vital_signs {
	enum verdict_node node;
	struct err write_failure; /* ERR_NONE: the last write succeeded */
	int64_t failing_age_ms;   /* since the first failed one; -1 */
	int64_t written_age_ms;   /* -1 here and below: never, or not of this role */
	int64_t heard_age_ms;     /* since the primary's news were all known */
	int64_t news_void;        /* why they are not known (enum news_void) */
	int64_t compared_age_ms, compared_left_ms;
	int64_t unchecked;       /* 1: not every copy was looked at since the start */
	int64_t primary_wait_ms; /* of a request without an answer (primary_wait_ms()) */
	int64_t sized, bytes_to_come, copied; /* of repositories (struct pull_copies) */
	int64_t scan_age_ms, scan_left_ms;
	int64_t leases_away; /* since when the server of the leases is unreachable; wall
				ms; 0: it is reachable */
	struct err leases_failure;
	follower_list followers;
};

/* Of a node that is not running, or does not answer. */
#define VITAL_SIGNS_NONE                                                                 \
	((struct vital_signs){ .failing_age_ms = -1,                                     \
			       .written_age_ms = -1,                                     \
			       .heard_age_ms = -1,                                       \
			       .compared_age_ms = -1,                                    \
			       .compared_left_ms = -1,                                   \
			       .scan_age_ms = -1,                                        \
			       .scan_left_ms = -1 })

void vital_signs_clear(struct vital_signs *signs);

struct vitals;

/* Borrowed while it runs; parts may be NULL. */
struct vitals_parts {
	struct pull *pull;
	struct watch *watch;
	struct watch *blob_watch;
	const struct kinds_here *here;
	struct followers *followers;
	struct lease_manager *leases;
};

struct vitals_options {
	struct store *store;
	const char *data;
	const struct kinds_here *here; /* whose directories it writes to; NULL: does not,
					  e.g. at a primary */
};

/* Starts its thread, which writes every 10 s to the database and to every directory with
 * copies. */
struct vitals *vitals_start(const struct vitals_options *options);

/* Adds further parts to report on: once, after they were started. They must outlive the
 * last vitals_look(). */
void vitals_add(struct vitals *vitals, const struct vitals_parts *parts);
void vitals_stop(struct vitals *vitals); /* records the time; NULL is allowed */

/* In the node: whether the last write failed. Any thread. */
bool vitals_cannot_write(struct vitals *vitals);

/* In the node; any thread. The caller clears. */
void vitals_look(struct vitals *vitals, struct vital_signs *signs);

/* The same as JSON, for the answer to a command. */
void vitals_say(struct vitals *vitals, struct str *out);

/* In a command: asks the node, and waits at most two seconds. Always fills *signs. */
void vitals_ask(const char *data, struct vital_signs *signs);

/* The last sign of life that a node of this site wrote, for people. */
struct vitals_last {
	int64_t at;   /* wall ms; 0: never */
	bool is_stop; /* it ended then; else it lived then, and its end is unknown */
};

/* In store_read(). */
int vitals_last(struct store_tx *tx, struct vitals_last *last, struct err *err);

#endif
