/*
 * The resources this process uses, as metrics under their common names, and its limits.
 * Any thread.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdint.h>

/* Sets process_cpu_seconds_total and the like. Values that the kernel does not provide
 * are NaN. */
void process_set_metrics(void);

/* Bytes of memory: the machine's, or the least limit of the process's control groups
 * (memory.max of version 2, memory.limit_in_bytes of version 1). 0: unknown. */
uint64_t process_memory_limit(void);

/* Only the least limit, of groups as listed in /proc/PID/cgroup, below `mount` (usually
 * /sys/fs/cgroup). UINT64_MAX: unlimited. */
uint64_t process_group_limit(const char *groups, const char *mount);

#endif
