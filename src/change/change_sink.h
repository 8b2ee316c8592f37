/*
 * Who else is to hear of a change, before it is recorded: what a sink has taken is
 * durable, so that nothing is lost if the program ends in between; the same change may
 * come twice. Registered by node/ and cli/ (struct notice_options).
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
	/* Found by a scan, and told by nobody: another node may have been told of it. */
	bool is_scanned;
	const char *checksum;             /* of `after`; NULL: deleted */
	const struct ref_diff *diff;      /* what has changed; NULL: not known */
	const struct ref_snapshot *after; /* NULL: deleted */
};

struct change_sink {
	/* 0: taken. -1: it cannot be now: the name is remembered in the same transaction
	 * as the event (change/owed.h), and told again later as a change of which nothing
	 * is known (`diff` NULL). NULL: no sink. */
	int (*take)(void *arg, const struct change *change, struct err *err);
	void *arg;
};

#endif
