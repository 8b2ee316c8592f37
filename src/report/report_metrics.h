/*
 * The report as gauges.
 */
#ifndef REPORT_REPORT_METRICS_H
#define REPORT_REPORT_METRICS_H

#include "report/report.h"

/* Sets the gauges (refrelay_replicables{kind,state}, refrelay_lag_seconds, ...). */
void report_metrics(const struct report *report);

/* Removes those of a forgotten secondary. */
void report_metrics_forget(const char *site);

#endif
