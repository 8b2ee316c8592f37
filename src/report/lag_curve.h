/*
 * How far behind everybody was, minute by minute of the last day: of a secondary itself,
 * of a primary its secondaries, of any site its remotes. Kept in the database, one write
 * a minute, so that a restart does not lose what people want to see after it.
 */
#ifndef REPORT_LAG_CURVE_H
#define REPORT_LAG_CURVE_H

#include "base/json.h"
#include "report/report.h"
#include "store/store.h"

#define LAG_CURVE_MINUTES 1440

struct lag_curve_options {
	struct store *store; /* borrowed, as arg */
	/* What status says now; cleared here. From the thread; may take its time. */
	int (*report)(void *arg, struct report *report, struct err *err);
	void *arg;
};

struct lag_curve;

/* Starts the thread that samples. */
struct lag_curve *lag_curve_start(const struct lag_curve_options *options);
void lag_curve_stop(struct lag_curve *curve); /* NULL is allowed */

/* What the thread writes each minute; what is older than a day goes. */
int lag_curve_write(struct store *store, const struct report *report, struct err *err);

/* All curves of the last so many minutes until `now` (wall ms). The caller owns it. */
int lag_curve_json(struct store *store, int64_t now, int64_t minutes, json_t **json,
		   struct err *err);

#endif
