/*
 * Destinations in the report. Internal to report/.
 */
#ifndef REPORT_REPORT_PUSH_H
#define REPORT_REPORT_PUSH_H

#include "report/report.h"

/* The queue of the cluster, by remotes. That it cannot be read is a finding. */
int report_push_read(const struct report_options *options, struct report *report,
		     struct err *err);
void report_push_clear(struct report *report);

/* Nothing waits, fails, was given up or set aside. */
bool report_push_is_good(const struct report_push *push);

/* What of it belongs into the sentence; nothing if all is well. */
void report_push_sentence(const struct report *report, struct str *out);
void report_push_table(const struct report *report, struct str *out);
void report_push_json(const struct report *report, json_t *object);
void report_push_metrics(const struct report *report);

#endif
