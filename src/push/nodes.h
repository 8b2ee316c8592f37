/*
 * The nodes that share the task store: refrelay/nodes/<sha1 of name> holds the name of
 * each node that ever did, and each holds a lease while it lives. So finding the living
 * nodes does not require reading the leases of all URIs ever used.
 */
#ifndef PUSH_NODES_H
#define PUSH_NODES_H

#include "lease/lease.h"
#include "push/task_store.h"

/* Records a node's name; call it before the node takes its lease. */
int push_nodes_note(struct task_store *store, const char *node, struct err *err);

/* The lease that a node holds while it lives; the caller frees. */
char *push_node_lease(const char *node);

/* Appends the names of the living nodes. */
int push_nodes_living(struct task_store *store, struct lease_manager *leases,
		      text_list *nodes, struct err *err);

/* Whether a lease is held by a process that may live. */
bool push_holder_lives(const struct lease_holder *holder);

/*
 * Hands the store back to Gerrit's plugin, which at its start takes tasks directly in
 * waiting/ and running/, and recomputes a task's name before it moves it. Any thread, any
 * process.
 */

struct handed_back {
	size_t moved;   /* tasks of dead nodes in running/ */
	size_t renamed; /* tasks whose names the plugin would not find */
};

/* Makes all tasks wait under the plugin's names, without files that it cannot read.
 * ERR_BUSY: a node lives, or a URI is in work; some may be done then. */
int push_hand_back(struct task_store *store, struct lease_manager *leases,
		   struct handed_back *done, struct err *err);

#endif
