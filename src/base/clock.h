/*
 * The two clocks, told apart by name. Deadlines, leases and waits count boot time, which
 * goes on while the machine sleeps and never jumps. Wall time is for people and file
 * systems only; it is never compared between machines.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/base.h"

/* Milliseconds and microseconds since this boot (CLOCK_BOOTTIME). */
int64_t clock_boot_ms(void);
int64_t clock_boot_us(void);

/* Milliseconds and nanoseconds since 1970. */
int64_t clock_wall_ms(void);
int64_t clock_wall_ns(void);

/* Whether wall time was set back by more than a minute since it last answered yes.
 * *lead_ms is its memory: with INT64_MAX, the past is unknown and the answer is yes. Both
 * times are of one moment. */
bool clock_was_set_back(int64_t *lead_ms, int64_t wall_ms, int64_t boot_ms);

#define CLOCK_TEXT_SIZE 32

/* "2026-11-21T09:14:03.120Z" (ISO 8601, UTC). */
void clock_format(int64_t wall_ms, char text[CLOCK_TEXT_SIZE]);

/* Reads that form, with or without milliseconds; false for any other text. */
bool clock_parse(const char *text, int64_t *wall_ms);

/* Reads what other programs write (RFC 3339), in whole seconds: any zone, or none. */
bool clock_parse_zoned(const char *text, int64_t *wall_ms);

#define CLOCK_HTTP_SIZE 40

/* "Sat, 21 Nov 2026 09:14:03 GMT": RFC 9110, 5.6.7. */
void clock_format_http(int64_t wall_ms, char text[CLOCK_HTTP_SIZE]);

/* Seconds since 1970 when this machine started, by the clock that stamps its files: not
 * by what this process takes for the time. The kernel reckons it from that clock, which
 * may be set. */
int64_t clock_boot_wall_s(void);

/* This boot's identity, 36 characters; the same for every process of this kernel.
 * Static. */
const char *clock_boot_id(void);

/* A file's time in nanoseconds and milliseconds since 1970. */
int64_t clock_ns(const struct timespec *at);
int64_t clock_ms(const struct timespec *at);

bool clock_same_time(const struct timespec *a, const struct timespec *b);

#endif
