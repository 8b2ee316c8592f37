/*
 * What `push start` and `push wait` asked for, until it is known what became of each:
 * done by whatever node, given up, or discarded.
 */
#ifndef CLI_PUSH_WAIT_H
#define CLI_PUSH_WAIT_H

#include "cli/push.h"
#include "push/destination.h"

/* A destination's `..all..` task, and later perhaps one with what was left of it. */
struct started {
	char key[TASK_KEY_SIZE];
	char uri_key[URI_KEY_SIZE];
	char *project, *uri, *host; /* owned */
	char *ref;                  /* only this is waited for; NULL: all; owned */
	bool is_gone, is_settled, is_ended, has_failed;
	uint64_t gone_fence; /* of the URI's lease when it was first seen gone */
};
typedef VEC(struct started) started_list;
void started_list_clear(started_list *list);

struct waiting {
	struct push_call *call;
	started_list *list;
	int64_t started_at; /* by the store's clock; nothing older counts */
	uri_states before;  /* how the destinations were then */
};

/* Reads what was before; clear it in any case. */
int waiting_begin(struct waiting *waiting, struct err *err);
void waiting_clear(struct waiting *waiting);

/* Exit status, or -1. Says on stdout what became of each. */
int waiting_run(struct waiting *waiting, struct err *err);

#endif
