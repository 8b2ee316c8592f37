/*
 * The ways in which target.c reaches a repository. Each works on call->destination, by
 * then that of one admin URL; `head` is a valid name below refs/, for create also NULL:
 * git's default for a new repository. Errors as in push/target.h.
 */
#ifndef PUSH_TARGET_KINDS_H
#define PUSH_TARGET_KINDS_H

#include "base/proc.h"
#include "push/target.h"

struct target_kind {
	int (*create)(const struct target_call *call, const char *head, size_t oid_len,
		      struct err *err);
	int (*set_head)(const struct target_call *call, const char *head,
			struct err *err);
	int (*destroy)(const struct target_call *call, struct err *err);
};

/* target_gerrit_ssh is also for target_ssh, when a Gerrit answers: it accepts only its
 * own commands, and its project's name is the URL's path. */
extern const struct target_kind target_local, target_ssh, target_gerrit_ssh,
	target_gerrit_http;

/* Whether the Gerrit behind a gerrit+http URL says that it lacks the project. */
bool target_gerrit_lacks(const struct target_call *call);

/* How long a command or request there may take, for proc_run: 0: unlimited. */
int64_t target_timeout_ms(const struct target_call *call);

/*
 * One command on another machine, through the local `ssh`.
 */

/* Runs `line` by the login shell at call->destination's host, or by the program there in
 * its place. `port` is used if the destination has none; 0: ssh's default. Returns 0: it
 * exited with 0. -1: an error of ssh itself: auth, network, timeout, config (the host's
 * key); or of the command, with its exit status in *result, class disk, conflict, config
 * or internal, and the last line of its stderr; or as proc_run(). *result is always
 * filled. */
int ssh_run(const struct target_call *call, uint16_t port, const char *line,
	    struct proc_result *result, struct err *err);

#endif
