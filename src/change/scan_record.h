/*
 * The state of a kind's scans at the primary, stored in a site value for `status`, which
 * is another process; and the cost limit of scans. Any thread.
 */
#ifndef CHANGE_SCAN_RECORD_H
#define CHANGE_SCAN_RECORD_H

#include "base/base.h"
#include "change/hook_install.h"
#include "store/store.h"

#define SCAN_EXAMPLE_SIZE 1024

struct scan_record {
	int64_t whole_at;      /* time of the last complete scan; wall ms */
	int64_t failing_since; /* wall ms; 0: the last scan did not fail */
	struct err failure;
	int64_t left_out;                /* below the root, by the last scan */
	char example[SCAN_EXAMPLE_SIZE]; /* one of them, and why */
	bool has_hooks;                  /* hooks were checked: */
	struct hook_counts hooks;        /* of repositories, by the last scan */
};

/* Stores a scan's result. Its whole_at 0: it was not complete; then the previous value
 * stays; of failures in a row, the first one's time stays. A failed scan does not change
 * what is left out. */
int scan_record_keep(struct store *store, const char *kind, const struct scan_record *now,
		     struct err *err);

/* Zeros if not found. Inside store_read(). */
int scan_record_read(struct store_tx *tx, const char *kind, struct scan_record *record,
		     struct err *err);

/* The last stored record; zeros at first. For the scanning thread only, as what
 * follows. */
struct scan_kept {
	struct scan_record record;
	int64_t at; /* boot ms; 0: never */
};

/* Whether it differs, or the last one is old. */
bool scan_record_is_news(const struct scan_kept *kept, const struct scan_record *now);
void scan_record_note_kept(struct scan_kept *kept, const struct scan_record *now);

/* The CPU time that this thread has used so far. */
int64_t scan_cpu_ms(void);

/* How long to wait after a scan that used this CPU time, so that scans stay within their
 * share; at least the interval. */
int64_t scan_pause_ms(int64_t used_ms, int64_t interval_ms);

#endif
