/*
 * The ways in which target.c reaches a repository. Each works on call->destination, which
 * is one admin URL's by then; `head` is a valid name below refs/, in create also NULL:
 * whatever git gives a new repository. Errors as in push/target.h.
 */
#ifndef PUSH_TARGET_KINDS_H
#define PUSH_TARGET_KINDS_H

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

/* How long a command or request there may take, as proc_run wants it: 0 is for ever. */
int64_t target_timeout_ms(const struct target_call *call);

/* target_local's destroy. */
int target_local_delete(const struct target_call *call, struct err *err);

#endif
