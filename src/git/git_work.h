/*
 * The limits for some work on a repository, in this process and in git children.
 */
#ifndef GIT_GIT_WORK_H
#define GIT_GIT_WORK_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/deadline.h"
#include "base/thread.h"

/* Given by the job's runner, borrowed. */
struct git_work {
	struct deadline *deadline;   /* children are dead by then; may be NULL */
	const struct stop *stop;     /* may be NULL */
	const struct stop *leaving;  /* ends waits for others; NULL: as stop */
	int guard_fd;                /* inherited by children; -1: none */
	int64_t until;               /* the work's end, by clock_boot_ms(); 0: none */
	atomic_uint_fast64_t *bytes; /* grows by the bytes that arrive; may be NULL */
	atomic_uint_fast64_t *bytes_at_end; /* what these will be; 0: unknown; may be
					       NULL */
};

/* Work that may take so long; 0: any time. */
struct git_work git_work_for(const struct stop *stop, int64_t timeout_ms);

/* ERR_CANCELED, ERR_LOST, ERR_TIMEOUT: the work must end. */
int git_work_check(const struct git_work *work, struct err *err);

/* Waits so long for what others do; the work has a stop. Errors as above, at once. */
int git_work_wait(const struct git_work *work, int64_t ms, struct err *err);

#endif
