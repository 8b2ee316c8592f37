/*
 * What a secondary tells its primary of itself, and what is kept of that there.
 */
#ifndef REPORT_REPORT_EXCHANGE_H
#define REPORT_REPORT_EXCHANGE_H

#include "report/report.h"

/* At a primary: what a secondary said with its request for events. Written at most each 5
 * s for a site unless it changed. */
int report_secondary_seen(struct store *store, const char *site, uint64_t cursor,
			  const char *report_json_text, struct err *err);

/* At a secondary: the text of Refrelay-Report. `node` names this run of the node. */
void report_for_primary(const struct report *report, const char *node, struct str *out);

#endif
