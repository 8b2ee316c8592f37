/*
 * What the report says of push: of each remote, and of what nobody pushes. Plain data.
 */
#ifndef REPORT_DESTINATIONS_H
#define REPORT_DESTINATIONS_H

#include "base/base.h"
#include "base/vec.h"
#include "change/owed.h"

struct report_remote { /* a destination of push, in the whole cluster */
	char *name;    /* owned */
	size_t waiting, running, failing; /* destinations of a repository */
	size_t given_up;                  /* tasks */
	int64_t lag_ms;                   /* age of the oldest task; 0: none */
	char *example;                    /* one that fails: repository; owned */
	struct err failure;               /* of it */
};

struct report_push {
	bool is_on;      /* this site has remotes */
	bool is_failing; /* the task store cannot be read */
	struct err failure;
	VEC(struct report_remote) remotes;
	size_t orphans; /* no remote takes them any more */
	size_t given_up, unreadable;
	char *example_given_up; /* owned; a repository */
	struct err given_up_why;
	struct owed_summary owed; /* changes of which no task could be made yet */
};

#endif
