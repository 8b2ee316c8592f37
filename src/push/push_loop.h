/*
 * Whether a push would ask for another. Any thread.
 */
#ifndef PUSH_LOOP_H
#define PUSH_LOOP_H

#include "push/destination.h"

/* ERR_CONFIG: what is at the destination, here below `root`, is pushed by a remote. */
int destination_check_loop(const struct push_settings *settings, const char *root,
			   const struct destination *destination, struct err *err);

#endif
