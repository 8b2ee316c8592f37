/*
 * The protocol between proc.c and refrelay-run, over a SOCK_SEQPACKET pair that
 * refrelay-run inherits:
 *
 *	refrelay-run CONTROL_FD[,FD]... GRACE_MS TIMEOUT_AT NICE[,FILE,MEMORY[,LEAVES]]
 *		[+N PATH...] PROGRAM [ARGUMENT]...
 *
 * The other FDs are for the program. All others except 0, 1 and 2 are closed: libraries
 * may have opened files without O_CLOEXEC. TIMEOUT_AT is by CLOCK_BOOTTIME in ms. With a
 * NICE above 0 the niceness of the program and its session is raised by that, with
 * SCHED_BATCH. FILE and MEMORY, if not 0, limit in bytes each file that it writes and the
 * writable memory of each of its processes. With a LEAVES of 1 what it has started goes
 * on when it exits with 0. N paths follow +N: the program is confined (run/confine.h),
 * and may read these.
 *
 * To the supervisor: an int64_t a message, the deadline by CLOCK_BOOTTIME in ms;
 * INT64_MAX for none, 0 or less for death at once and without grace. Messages already in
 * the socket at its start are obeyed before the program starts. The end of the file means
 * that this process is dead; SIGTERM requests an early end.
 *
 * From the supervisor: one struct proc_report, when all descendants are gone, or may
 * stay. The end of the file without it means that the supervisor itself was killed.
 */
#ifndef BASE_PROC_WIRE_H
#define BASE_PROC_WIRE_H

#include <stdint.h>

#define PROC_FDS_MAX 32 /* in the first argument */
#define PROC_NICE 5     /* of a program that yields */

/* Why it ended: the first cause. */
enum proc_cause {
	PROC_BY_ITSELF,
	PROC_TIMEOUT,  /* at TIMEOUT_AT */
	PROC_DEADLINE, /* at the deadline, perhaps before it started */
	PROC_ASKED,    /* by a signal to the supervisor, or the end of the control file */
	PROC_NO_PROGRAM,   /* exec failed: error */
	PROC_NO_WATCH,     /* the supervisor could not set itself up: error */
	PROC_NOT_CONFINED, /* the kernel refused to confine the program: error */
};

struct proc_report {
	int32_t cause;     /* enum proc_cause */
	int32_t exit_code; /* -1 if it did not exit */
	int32_t signal;    /* that killed it, or 0 */
	int32_t error;     /* an errno, or 0 */
};

#endif
