/*
 * Push replication's part of a node: its task store, the leases of its tasks, and their
 * workers.
 */
#ifndef NODE_NODE_PUSH_H
#define NODE_NODE_PUSH_H

#include "change/notice.h"
#include "lease/lease.h"
#include "node/settings.h"
#include "push/push.h"
#include "push/push_events.h"
#include "verify/verify_origin.h"

struct node_push {
	struct task_store *tasks; /* NULL, as all of these: push is not configured */
	struct lease_manager *leases;
	struct push_sink *sink;
	struct push_events *events;
	struct push *push;
	char *root, *name;                   /* owned; the node in the cluster */
	struct notice *notice;               /* borrowed; set before node_push_start() */
	struct verify_origin *verify_origin; /* borrowed; gets damage reports, or NULL */
};

/* Opens the parts that accept changes; does not push yet. Without settings of push it
 * does nothing, as all below. ERR_DISK: the task store is away. */
int node_push_open(const struct node_settings *settings, struct node_push *parts,
		   struct err *err);

/* Begins to push, including tasks of other nodes. */
int node_push_start(const struct node_settings *settings, struct node_push *parts,
		    struct err *err);

/* Sets new settings; taken over. The task store stays the initial one. */
void node_push_set(struct node_push *parts, struct push_settings *settings);

/* Call it once everything that may make tasks has ended. */
void node_push_stop(struct node_push *parts, int64_t grace_ms);

#endif
