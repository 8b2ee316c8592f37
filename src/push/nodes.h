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

#endif
