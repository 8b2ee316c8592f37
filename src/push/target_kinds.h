/*
 * The ways in which target.c reaches a repository. Each works on call->destination, which
 * is one admin URL's by then; `head` is a valid name below refs/, in create also NULL:
 * whatever git gives a new repository. Errors as in push/target.h.
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

extern const struct target_kind target_local, target_ssh, target_gerrit_ssh,
	target_gerrit_http;

/* For target_ssh, where it is a Gerrit that answers: it takes none but its own commands,
 * and its project's name is the URL's path. */
int target_gerrit_create(const struct target_call *call, const char *head,
			 struct err *err);

/* Whether the Gerrit behind a gerrit+http URL says that it has no such project. */
bool target_gerrit_lacks(const struct target_call *call);

/* How long a command or request there may take, as proc_run wants it: 0 is for ever. */
int64_t target_timeout_ms(const struct target_call *call);

/*
 * One command at another machine, by the `ssh` of this one.
 */

/* Runs `line` by the login shell at call->destination's host, or by what stands there in
 * its place. `port` is used where the destination has none; 0: ssh's own. 0: it exited
 * with 0. -1: what ssh itself says: auth, network, timeout, config (the host's key); or
 * what the command says, with its exit status in *result, class disk, conflict, config or
 * internal, and the last line of its stderr; or as proc_run. *result is always filled. */
int ssh_run(const struct target_call *call, uint16_t port, const char *line,
	    struct proc_result *result, struct err *err);

#endif
