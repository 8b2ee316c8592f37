/*
 * Further receivers of a change, called before it is recorded: a change accepted by a
 * sink is durable, so that it is not lost if the program ends in between; the same change
 * may come twice. Registered by node/ and cli/ (struct notice_options).
 */
#ifndef CHANGE_CHANGE_SINK_H
#define CHANGE_CHANGE_SINK_H

#include "base/base.h"
#include "change/event_log.h"
#include "git/refs.h"

struct change {
	const char *name;
	enum event_what what;
	/* Found by the first scan of a new database: it may have been there for years. */
	bool is_first_observation;
	/* Found by a scan, not reported here: it may have been reported to another
	 * node. */
	bool is_scanned;
	const char *before;               /* checksum that `diff` begins with, or NULL */
	const char *checksum;             /* of `after`; NULL: deleted */
	const struct ref_diff *diff;      /* what has changed; NULL: unknown */
	const struct ref_snapshot *after; /* NULL: deleted */
};

struct change_sink {
	/* 0: accepted. -1: not possible now: the name is recorded in the same transaction
	 * as the event (change/owed.h), and passed again later as a change without
	 * details (`diff` NULL). NULL: no sink. */
	int (*take)(void *arg, const struct change *change, struct err *err);
	void *arg;
};

#endif
