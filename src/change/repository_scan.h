/*
 * The scan's share of the operations of repositories (origin_kind_ops). Private to
 * change/.
 */
#ifndef CHANGE_REPOSITORY_SCAN_H
#define CHANGE_REPOSITORY_SCAN_H

#include "change/scan.h"

int repository_scan_open(struct scan *scan, struct err *err);
void repository_scan_close(struct scan *scan);
int repository_scan_has_any(struct scan *scan, bool *has_any, struct err *err);
int repository_scan_walk(struct scan *scan, const char *below, struct err *err);
bool repository_scan_is_as_recorded(struct scan *scan, const struct scan_item *item,
				    const struct origin_row *row);
void repository_scan_note(struct scan *scan, const struct noticed *noticed);
void repository_scan_finish(const struct origin_kind *kind,
			    const struct scan_result *result, int64_t took_ms);

/* Sets the metric refrelay_hooks: numbers of repositories by hook state. */
void repository_scan_show_hooks(const struct hook_counts *counts);

#endif
