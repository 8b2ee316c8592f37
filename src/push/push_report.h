/*
 * What `git push --porcelain` and those behind it say. Pure; any thread.
 *
 * Source: git-push(1), OUTPUT.
 */
#ifndef PUSH_PUSH_REPORT_H
#define PUSH_PUSH_REPORT_H

#include "base/base.h"
#include "base/str.h"
#include "push/transfer.h"

/* One ref's line: <flag> TAB <from>:<dst> TAB <summary> [SP (<reason>)] */
struct push_line {
	char flag; /* one of " +-*!=" */
	const char *dst;
	const char *summary; /* "[remote rejected]", "1234..5678" */
	const char *reason;  /* or "" */
};

/* Cuts the next one out of *text, and moves it on; other lines are passed over. False at
 * the end. */
bool push_report_next(char **text, struct push_line *line);

enum push_verdict {
	PUSH_SETTLED,     /* *result has all */
	PUSH_NEEDS_FORCE, /* the same, if it may not be forced */
	PUSH_STALE,       /* it has another value than expected: look again */
};

/* `tail`: the end of stderr, for what the other side's hooks said. Fills status, text and
 * how it may go on. */
enum push_verdict push_report_judge(const struct push_line *line, const char *tail,
				    struct ref_result *result);

/* Whether the line says that the pack did not arrive whole, which is no ref's fault. */
bool push_report_is_unpacking(const struct push_line *line);

/* Makes the best of a push, or a look, that failed as a whole: *err has proc_run's or
 * git_run's error and gets the class that what was said stands for. Returns -1. */
int push_report_failure(const char *tail, struct err *err);

/* When the other side could not take the pack: 0 if that is worth another try of each
 * ref; -1 if its disk is to blame. */
int push_report_unpacking(const char *tail, struct err *err);

/* Whether the pack could not be made here; then the reason is REASON_LOCAL_REPOSITORY. */
bool push_report_is_local(const char *tail, struct err *err);

#endif
