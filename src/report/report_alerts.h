/*
 * The report's part on [alert]s whose messages cannot be delivered
 * (report/report_alerts.c). For alerts themselves see alert/.
 */
#ifndef REPORT_REPORT_ALERTS_H
#define REPORT_REPORT_ALERTS_H

#include "base/base.h"
#include "base/vec.h"

struct report_alert {
	char *name; /* owned */
	int64_t since;
	struct err why;
};

typedef VEC(struct report_alert) report_alerts;

#endif
