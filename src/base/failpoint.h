/*
 * Named points at which a test can stop the program for good or for a while, to see that
 * a crash or a pause at any step loses nothing. $REFRELAY_FAILPOINT names one:
 *	NAME=kill	SIGKILL to this process
 *	NAME=stop	SIGSTOP to this process
 *	NAME@N=...	at the N-th time it is passed (from 1)
 * Without the variable a point costs one load of a pointer.
 */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

void failpoint(const char *name);

#endif
