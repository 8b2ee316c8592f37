/*
 * Which nodes share the task store: refrelay/nodes/<sha1 of name> holds the name of each
 * that ever did, and each holds a lease while it lives. So asking who lives does not read
 * the leases of all URIs that ever were.
 */
#ifndef PUSH_NODES_H
#define PUSH_NODES_H

#include "lease/lease.h"
#include "push/task_store.h"

/* Notes a node's name; done before it takes its lease. */
int push_nodes_note(struct task_store *store, const char *node, struct err *err);

/* The lease that a node holds while it lives; the caller frees. */
char *push_node_lease(const char *node);

/* Appends the names of the nodes that live. */
int push_nodes_living(struct task_store *store, struct lease_manager *leases,
		      text_list *nodes, struct err *err);

/* Whether a lease is held by somebody who may live. */
bool push_holder_lives(const struct lease_holder *holder);

/*
 * The way back to Gerrit's plugin, which takes up what is flat in waiting/ and running/
 * at its start, and computes a task's name anew before it moves it. Any thread, any
 * process.
 */

struct handed_back {
	size_t moved;   /* tasks that somebody who died had in running/ */
	size_t renamed; /* tasks under a name that the plugin would not find */
};

/* All tasks wait, under the plugin's names, and nothing that it cannot read is among
 * them. ERR_BUSY: a node lives, or somebody works on a URI; some may be done then. */
int push_hand_back(struct task_store *store, struct lease_manager *leases,
		   struct handed_back *done, struct err *err);

#endif
