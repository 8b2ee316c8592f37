/*
 * Shared by the parts of base/proc: proc.c starts, waits, ends and judges, proc_stream.c
 * reads meanwhile. For one thread at a time.
 */
#ifndef BASE_PROC_RUN_H
#define BASE_PROC_RUN_H

#include "base/proc.h"
#include "base/proc_wire.h"

#define PROC_TAIL_KEPT 16384 /* of stderr, before secrets are masked */

struct run {
	const struct proc_request *request;
	bool is_streamed;    /* output is left in the pipe for the stream's reader */
	bool is_fed;         /* its stdin is `feed` */
	int input;           /* the child's; -1 once it runs */
	int feed;            /* ours, never blocks; -1: none, or closed */
	const char *offered; /* still to be written to it; borrowed */
	size_t offered_len;
	int output[2];  /* ours to read, the child's to write; -1 once closed */
	int errors[2];  /* likewise */
	int control[2]; /* ours, the supervisor's */
	int directory;  /* O_PATH, or -1 */
	pid_t supervisor;
	int64_t heard_at;     /* by clock_boot_ms(): when it last wrote something */
	int64_t wake_at;      /* run_step returns by then; 0: does not care */
	bool is_silent;       /* it was asked to end for its silence */
	bool is_asked_to_end; /* it was asked to end */
	bool over_limit;      /* of output */
	bool is_over;         /* reported, or died without: all processes are gone,
				but jobs that it may leave */
	bool reported;
	struct proc_report report;
	size_t room;     /* for more output */
	struct str tail; /* the end of stderr, at most 2 * PROC_TAIL_KEPT */
	bool tail_is_cut;
};

void run_init(struct run *run, const struct proc_request *request);
void run_clear(struct run *run);

/* Closes it, unless it is -1 already. */
void run_close(int *fd);

/* Opens and starts it, and lets the deadline reach it. Then run_end is due. */
int run_begin(struct run *run, struct err *err);

/* Asks it to end, once. */
void run_ask_to_end(struct run *run);

/* Writes as much of the offered bytes as it takes. Drops them if it has stopped
 * reading. */
void run_feed(struct run *run);

/* Waits for events, which include a stream's output, and handles them. */
void run_step(struct run *run);

/* Reaps the supervisor of a run that has ended. */
void run_end(struct run *run);

/* Fills *result, and returns the same as proc_run. For a run that has ended. */
int run_judge(struct run *run, struct proc_result *result, struct err *err);

#endif
