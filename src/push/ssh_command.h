/*
 * One command at another machine, by the `ssh` of this one.
 */
#ifndef PUSH_SSH_COMMAND_H
#define PUSH_SSH_COMMAND_H

#include "base/proc.h"
#include "push/target.h"

/* Runs `line` by the login shell at call->destination's host, or by what stands there in
 * its place. `port` is used where the destination has none; 0: ssh's own. 0: it exited
 * with 0. -1: what ssh itself says: auth, network, timeout, config (the host's key); or
 * what the command says, with its exit status in *result, class disk, conflict, config or
 * internal, and the last line of its stderr; or as proc_run. *result is always filled. */
int ssh_run(const struct target_call *call, uint16_t port, const char *line,
	    struct proc_result *result, struct err *err);

#endif
