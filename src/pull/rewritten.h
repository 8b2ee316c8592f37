/*
 * Branches of a mirror that its upstream rewrote: what they were is kept for some time,
 * and the log says so. For pull/bring.c.
 */
#ifndef PULL_REWRITTEN_H
#define PULL_REWRITTEN_H

#include "base/base.h"
#include "git/git_child.h"
#include "git/reflog.h"
#include "git/refs.h"
#include "git/repo.h"

struct rewritten_request {
	const struct git_work *work;
	const struct repo *copy; /* has the objects of `to` already */
	const struct ref_snapshot *from, *to;
	const struct ref_diff *diff; /* leads from the one to the other */
};

struct rewritten {
	reflog_moves branches; /* that do not descend from what they were; is_kept: that
				  was kept */
	reflog_moves others;   /* of which that could not be told */
	struct err why;        /* of one of these, if something failed */
	bool are_others_kept;
};
#define AUTO_REWRITTEN __attribute__((cleanup(rewritten_clear)))
void rewritten_clear(struct rewritten *rewritten);

/* Finds them, and makes that git keeps what they were, before they change: durable when
 * it returns. It does not fail because that cannot be written; ERR_CANCELED: it was to
 * stop. A history that is cut short tells nothing: then none is found. Starts no process
 * for branches that went forward by some commits. `from`, `to` and the diff must outlive
 * what is found. */
int rewritten_keep(const struct rewritten_request *request, struct rewritten *rewritten,
		   struct err *err);

/* When the refs are changed. */
void rewritten_report(const struct rewritten *rewritten);

#endif
