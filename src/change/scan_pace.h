/*
 * What scans may cost, and how often something is kept of them: for the look-outs,
 * watch.h and blob_watch.h. Each call is of the thread that scans.
 */
#ifndef CHANGE_SCAN_PACE_H
#define CHANGE_SCAN_PACE_H

#include "change/scan_record.h"

/* What this thread has used of a core until now. */
int64_t scan_cpu_ms(void);

/* How long to wait after a scan that used so much of it, so that scans stay within their
 * share; at least the interval. */
int64_t scan_pause_ms(int64_t used_ms, int64_t interval_ms);

/* What was kept last; zeros at first. */
struct scan_kept {
	struct scan_record record;
	int64_t at; /* boot ms; 0: never */
};

/* Whether it says something else, or long after. */
bool scan_is_news(const struct scan_kept *kept, const struct scan_record *now);
void scan_note_kept(struct scan_kept *kept, const struct scan_record *now);

#endif
