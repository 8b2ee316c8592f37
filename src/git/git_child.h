/*
 * Git children. Each runs under the supervisor with an environment of our own: no
 * configuration but ours and the repository's, no hooks, no prompts, no lazy fetches,
 * no replace refs, messages in English. Safe from any thread.
 */
#ifndef GIT_GIT_CHILD_H
#define GIT_GIT_CHILD_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/deadline.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/thread.h"

/* Under what limits work is done; given by the job's runner, borrowed. */
struct git_work {
	struct deadline *deadline;   /* children are dead by then; may be NULL */
	const struct stop *stop;     /* may be NULL */
	int guard_fd;                /* inherited by children; -1: none */
	int64_t until;               /* the work's end, by clock_boot_ms(); 0: none */
	atomic_uint_fast64_t *bytes; /* grows by what arrives; may be NULL */
};

struct git_call {
	const struct git_work *work;
	const char *repository;  /* its path; the child's directory */
	const char *const *args; /* behind "git", NULL-terminated */
	const struct str *input; /* may be NULL */
	struct str *output;      /* may be NULL */
	size_t output_limit;
};

/* Writes the configuration that children use in place of the user's and the system's to
 * <directory>/gitconfig, and keeps the path for all later calls. Once, before any
 * thread calls git_run. It trusts every repository that we are asked to work on,
 * whoever owns it: naming it to refrelay was the operator's decision. */
int git_setup(const char *directory, struct err *err);

/* Runs git to its end. The classes are proc_run's, and for what git says itself
 * the one that its message stands for; the text is that message. */
int git_run(const struct git_call *call, struct err *err);

/* For the tests: fills *err from the end of git's stderr. */
int git_classify(const char *tail, struct err *err);

#endif
