/*
 * When a repository may be deleted at a destination: not before those that were deleted
 * together with it are known, and not if they are too many. Private to push/.
 */
#ifndef PUSH_TRANSFER_PLAN_H
#define PUSH_TRANSFER_PLAN_H

#include "push/push_run.h"

#define DELETION_QUIET_MS 5000

enum deletion {
	DELETION_DUE,
	DELETION_LATER,   /* at *at, by the file server's clock */
	DELETION_HELD,    /* until a person allows it; *err says why */
	DELETION_UNKNOWN, /* that could not be found out, because of *err */
};
enum deletion deletion_judge(struct push_run *run, const struct push_group *group,
			     int64_t *at, struct err *err);

#endif
