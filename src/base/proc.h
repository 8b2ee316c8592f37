/*
 * Child processes. Each runs under refrelay-run, a supervisor in a separate process group
 * which kills the child with all its descendants when the deadline passes, when this
 * process dies, or on request; even if this process is stopped. Never a shell, never
 * fork() in this process. Safe from any thread.
 */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include "base/base.h"
#include "base/deadline.h"
#include "base/str.h"
#include "base/thread.h"

#define PROC_READS_MAX 64

struct proc_request {
	const char *const *argv; /* NULL-terminated; argv[0] is searched for in PATH */
	const char *const *env;  /* NULL-terminated; NULL: this process's own */
	const char *directory;   /* NULL: this process's own */
	int directory_fd;  /* above 0: this one, whatever `directory` names; borrowed for
			      the start */
	const void *input; /* the child's stdin; NULL: empty */
	size_t input_len;
	bool has_ours;        /* stdin, stdout and stderr are this process's own */
	struct str *output;   /* gets its stdout; NULL: discarded */
	size_t output_limit;  /* more is an error of class corrupt */
	const int *keep_fds;  /* inherited under the same numbers; -1 ends; may be NULL */
	int64_t timeout_ms;   /* 0: none */
	int64_t grace_ms;     /* between SIGTERM and SIGKILL; 0: 2000; at most
				 that of the deadline */
	int64_t silence_ms;   /* all is killed after so long without a byte of `output` or
				 stderr; 0: never; for a proc_stream only the time spent
				 waiting for a byte counts */
	bool yields;          /* the processors, to other work */
	bool leaves_jobs;     /* if it exits with 0, what it has started goes on, without
				 any supervision */
	uint64_t file_most;   /* bytes of each file that it writes; 0: no limit */
	uint64_t memory_most; /* bytes of each of its processes; 0: no limit */
	/* It is confined: it reads its directory, these paths and all below them, and
	 * system files; it cannot write, or reach other processes (except by signals on
	 * older kernels). NULL: not confined; ends in NULL. At most PROC_READS_MAX. */
	const char *const *reads;
	struct deadline *deadline; /* may be NULL */
	const struct stop *stop;   /* may be NULL */
};

struct proc_result {
	int exit_code;   /* -1 if it did not exit by itself */
	int signal;      /* that ended it, or 0 */
	char tail[8192]; /* the end of its stderr, secrets masked, NUL-terminated: longer
			    than the longest line of git's, of 4096 bytes */
};

/* Runs it to its end and reaps every descendant. 0: it exited with 0. Otherwise -1:
 *  ERR_TIMEOUT: killed at timeout_ms, or for its silence;
 *  ERR_LOST: killed at the deadline;
 *  ERR_CANCELED: killed because of stop;  ERR_CONFIG: the program does not exist;
 *  ERR_INTERNAL: it exited with another code or by a signal: see *result (the text
 *  names the program, the code and the last line of its stderr).
 * sys_errno is not 0 where the program had no part in it: ENOMEM for SIGKILL, EINTR for
 * other signals from outside, ENOEXEC if it could not run (EAGAIN, EMFILE and ENFILE stay
 * as they are), else of what failed here.
 * *result is always filled and may be NULL. When it returns, no process of the group is
 * left, unless it leaves_jobs. */
int proc_run(const struct proc_request *request, struct proc_result *result,
	     struct err *err);

/* Whether the kernel can confine a child to files (Landlock); without it only syscalls
 * are restricted. */
bool proc_can_confine(void);

/* Whether it also keeps the child's signals from processes outside (since Linux 6.12). */
bool proc_can_confine_signals(void);

/* How many children this process has started so far. */
uint64_t proc_started(void);

/* The path of refrelay-run: beside this program, or $REFRELAY_RUN. Static. */
const char *proc_supervisor_path(void);

#endif
