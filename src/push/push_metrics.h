/*
 * What the log and the metrics are told of pushes. Any thread.
 */
#ifndef PUSH_PUSH_METRICS_H
#define PUSH_PUSH_METRICS_H

#include "push/push_run.h"

/* A push that ended with results. */
struct push_account {
	const struct push_group *group;
	const char *uri;
	const struct transfer_result *result;
	int64_t took_ms, delay_ms;
	uint64_t retries;
	uint64_t max_refs; /* lines; 0: all */
};
void report_done(const struct push_account *account);
void push_report_failed(const struct push_run *run, int64_t retry_in_ms);
void report_gave_up(const struct push_group *group, const char *uri,
		    const struct err *why);
void report_class(const char *remote, enum err_class class);
/* Gauges. `now`: boot time. */
void push_report_queue(const struct schedule *schedule, int64_t now);
/* Remotes may be gone. */
void report_forget(void);
void push_report_dead_letters(struct task_store *tasks,
			      const struct push_settings *settings);

#endif
