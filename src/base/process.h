/*
 * What this process takes of its machine, as metrics under the names that all programs
 * give them. Any thread.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

/* Sets process_cpu_seconds_total and its like. What the kernel does not tell is NaN. */
void process_set_metrics(void);

#endif
