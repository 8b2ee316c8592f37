/*
 * The lag in each minute of the last day: at a secondary its own, at a primary its
 * secondaries', at any site its remotes'. Kept in the database, with one write per
 * minute, so that it survives a restart.
 */
#ifndef REPORT_LAG_CURVE_H
#define REPORT_LAG_CURVE_H

#include "base/json.h"
#include "report/report.h"
#include "store/store.h"

#define LAG_CURVE_MINUTES 1440

struct lag_curve_options {
	struct store *store; /* borrowed, as arg */
	/* Makes the present report, which is cleared here. Called by the thread; may
	 * block. */
	int (*report)(void *arg, struct report *report, struct err *err);
	void *arg;
};

struct lag_curve;

/* Starts the thread that samples. */
struct lag_curve *lag_curve_start(const struct lag_curve_options *options);
void lag_curve_stop(struct lag_curve *curve); /* NULL is allowed */

/* Writes a minute's values, as the thread does; removes those older than a day. */
int lag_curve_write(struct store *store, const struct report *report, struct err *err);

/* All curves of the last `minutes` minutes until `now` (wall ms). The caller owns it. */
int lag_curve_json(struct store *store, int64_t now, int64_t minutes, json_t **json,
		   struct err *err);

#endif
