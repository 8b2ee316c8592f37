/*
 * How a kind's scans fare at the primary, kept in a site value for `status`, which is
 * another process; and what scans may cost. Any thread.
 */
#ifndef CHANGE_SCAN_RECORD_H
#define CHANGE_SCAN_RECORD_H

#include "base/base.h"
#include "change/hook_install.h"
#include "store/store.h"

#define SCAN_EXAMPLE_SIZE 1024

struct scan_record {
	int64_t whole_at;      /* when all was last looked at, nothing hidden; wall ms */
	int64_t failing_since; /* wall ms; 0: the last scan did not fail */
	struct err failure;
	int64_t left_out;                /* below the root, by the last scan */
	char example[SCAN_EXAMPLE_SIZE]; /* one of them, and why */
	bool has_hooks;                  /* hooks were looked at: */
	struct hook_counts hooks;        /* of repositories, by the last scan */
};

/* What a scan found out. Its whole_at 0 means no whole scan: then the one before counts;
 * of failures in a row, the first's time stays. A failed one knows nothing of what is
 * left out. */
int scan_record_keep(struct store *store, const char *kind, const struct scan_record *now,
		     struct err *err);

/* Zeros if there is none. Inside store_read(). */
int scan_record_read(struct store_tx *tx, const char *kind, struct scan_record *record,
		     struct err *err);

/* What was kept last; zeros at first. Of the thread that scans, as what follows. */
struct scan_kept {
	struct scan_record record;
	int64_t at; /* boot ms; 0: never */
};

/* Whether it says something else, or long after. */
bool scan_record_is_news(const struct scan_kept *kept, const struct scan_record *now);
void scan_record_note_kept(struct scan_kept *kept, const struct scan_record *now);

/* What this thread has used of a core until now. */
int64_t scan_cpu_ms(void);

/* How long to wait after a scan that used so much of it, so that scans stay within their
 * share; at least the interval. */
int64_t scan_pause_ms(int64_t used_ms, int64_t interval_ms);

#endif
