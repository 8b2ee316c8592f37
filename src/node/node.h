/*
 * A site's node: the threads its role needs, and their input. Wiring only.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "base/conf.h"

struct node;

/* Passed by main() to the commands (cli/cli.h). */
extern const struct cli_node node_for_cli;

/* Starts everything the role needs; the site is served when it returns. ERR_BUSY: another
 * node uses the data directory. */
int node_start(const struct conf *conf, struct node **node, struct err *err);

/* Takes over the settings that can change while it runs: secrets, capacities, intervals.
 * The log names the others as needing a restart. -1: the new configuration is wrong;
 * nothing was changed. 1: all was taken over but the certificate, which has expired. */
int node_reload(struct node *node, const struct conf *conf, struct err *err);

/* Ends it within two seconds: work is done, or pending again. Only pushes to remotes to
 * be drained get more time. */
void node_stop(struct node *node);

/*
 * Reports our state to the service manager: a datagram to $NOTIFY_SOCKET. Without that
 * variable it does nothing. Source: sd_notify(3), "Notes: standalone implementations".
 */

/* "READY=1", "STOPPING=1", "STATUS=..."; lines. Failures are ignored: then there is no
 * listener. */
void notify(const char *state);

/* RELOADING=1 with the time stamp that Type=notify-reload requires. */
void notify_reloading(void);

#endif
