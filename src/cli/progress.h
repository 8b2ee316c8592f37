/*
 * The progress of a run, on a terminal: one line, updated a few times a second.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/thread.h"

struct progress {
	size_t total;
	uint64_t total_bytes; /* instead of total; 0: unknown */
	atomic_size_t done;
	atomic_uint_fast64_t bytes;
	int64_t started_at; /* clock_boot_ms() */
	bool is_shown;
	struct stop stop;
	pthread_t thread;
};

/* total_bytes: counts bytes; 0: counts repositories. Shown on a terminal only. */
void progress_start(struct progress *progress, size_t total, uint64_t total_bytes,
		    bool is_wanted);

/* Counts a finished repository; any thread. The code that transfers bytes counts them. */
void progress_add(struct progress *progress);

/* Clears the line. */
void progress_stop(struct progress *progress);

/* "12.3 MiB". */
void format_bytes(uint64_t bytes, char text[32]);

/* "0.8 s", "3 min 20 s". */
void format_duration(int64_t ms, char text[32]);

#endif
