/*
 * How far a run is, on a terminal: one line, renewed some times a second.
 */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/thread.h"

struct progress {
	size_t total;
	uint64_t total_bytes; /* instead of total; 0: not known */
	atomic_size_t done;
	atomic_uint_fast64_t bytes;
	int64_t started_at; /* clock_boot_ms() */
	bool is_shown;
	struct stop stop;
	pthread_t thread;
};

/* total_bytes: told by bytes; 0: by repositories. Shown on a terminal only. */
void progress_start(struct progress *progress, size_t total, uint64_t total_bytes,
		    bool is_wanted);

/* One more repository is done; any thread. Bytes are counted by who brings them. */
void progress_add(struct progress *progress);

/* Clears the line. */
void progress_stop(struct progress *progress);

/* "12.3 MiB". */
void format_bytes(uint64_t bytes, char text[32]);

/* "0.8 s", "3 min 20 s". */
void format_duration(int64_t ms, char text[32]);

#endif
