/*
 * What this process takes of its machine, as metrics under the names that all programs
 * give them, and what it may take. Any thread.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdint.h>

/* Sets process_cpu_seconds_total and its like. What the kernel does not tell is NaN. */
void process_set_metrics(void);

/* Bytes of memory: the machine's, or the least limit of the process's control groups
 * (memory.max of version 2, memory.limit_in_bytes of version 1). 0: not known. */
uint64_t process_memory_limit(void);

/* The least limit alone, of groups as /proc/PID/cgroup lists them, below `mount` (usually
 * /sys/fs/cgroup). UINT64_MAX: there is none. */
uint64_t process_group_limit(const char *groups, const char *mount);

#endif
