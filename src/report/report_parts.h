/*
 * Shared by the files of a report.
 */
#ifndef REPORT_REPORT_PARTS_H
#define REPORT_REPORT_PARTS_H

#include "report/report.h"

/* At a primary or standalone site. */
int report_mirrors_read(struct store_tx *tx, struct report *report, struct err *err);
void report_mirrors_clear(struct report_mirrors *mirrors);

/* Appends a clause; nothing without mirrors. */
void report_mirrors_sentence(const struct report *report, struct str *out);
json_t *report_mirrors_json(const struct report *report);

/* Of a secondary: the causes that are known to delay its waiting work; each as "; ...".
 */
void report_delays_sentence(const struct report *report, struct str *out);
json_t *report_delays_json(const struct report *report);

/* Reads the [alert]s whose messages, or heartbeats, cannot be delivered. */
int report_alerts_read(const struct report_options *options, struct report *report,
		       struct err *err);
void report_alerts_clear(report_alerts *alerts);
void report_alerts_text(const struct report *report, struct str *out);
json_t *report_alerts_json(const report_alerts *alerts);

#endif
