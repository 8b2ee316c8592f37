/*
 * A command that runs while its repository counts as being written: for restores, copies
 * and mass edits that no hook sees. For a process without other threads.
 */
#ifndef CLI_STATE_BRACKET_H
#define CLI_STATE_BRACKET_H

#include "base/base.h"

struct bracket_request {
	const char *root; /* site.repositories */
	const char *name; /* of the repository */
	char **argv;      /* the command; NULL-terminated */
};

/* Returns the command's status as a shell gives it: 126, 127, 128 and a signal's number.
 * -1: the repository could not be announced as being written, and the command did not
 * run. What fails after the command is said on stderr; it makes a status of 0 one of 1.
 */
int bracket_run(const struct bracket_request *request, struct err *err);

#endif
