/*
 * A site's node: which threads its role needs, and what they are handed. Wiring only.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "base/conf.h"

struct node;

/* What main() hands to the commands (cli/cli.h). */
extern const struct cli_node node_for_cli;

/* Starts everything the role needs; the site is served when it returns. ERR_BUSY: another
 * node has the data directory. */
int node_start(const struct conf *conf, struct node **node, struct err *err);

/* Takes over what can change while it runs: secrets, capacities, intervals. The rest is
 * named in the log as needing a restart. -1: the new configuration is wrong and nothing
 * was changed. */
int node_reload(struct node *node, const struct conf *conf, struct err *err);

/* Ends it within two seconds: work is done, or pending again. Only pushes to remotes that
 * are to be drained have some more. */
void node_stop(struct node *node);

/*
 * Tells the service manager how far we are: a datagram to $NOTIFY_SOCKET. Without one
 * nothing happens. Source: sd_notify(3), "Notes: standalone implementations".
 */

/* "READY=1", "STOPPING=1", "STATUS=..."; lines. Failures are ignored: nobody listens. */
void notify(const char *state);

/* RELOADING=1 with the time stamp that Type=notify-reload wants. */
void notify_reloading(void);

#endif
