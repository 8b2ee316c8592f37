/*
 * Who works on a tree of repositories. Several nodes may, each with a data directory of
 * its own, if their leases are the same leases: else two of them would work on one
 * repository at once. So each leaves its record in the tree itself,
 * <root>/.refrelay/nodes/<32 digits>: one object of JSON, flocked as long as the node
 * lives, and stamped again every ten seconds. A node whose leases differ from those of
 * one that lives does not start.
 *
 * A node of this boot lives while its record is flocked, however silent it is; any other
 * one, until its record was not stamped for a minute, by the clock of the file system. A
 * record of the same data directory is never another node's.
 *
 * Whether two texts of lease.url or lease.path mean one place is found out by a lease
 * that each node holds as long as it runs, site:tree:<id>: where a neighbour's is not
 * held, its leases are kept elsewhere.
 */
#ifndef UPKEEP_TREE_NODE_H
#define UPKEEP_TREE_NODE_H

#include "base/base.h"
#include "base/json.h"
#include "lease/lease.h"

#define TREE_NODE_BEAT_MS 10000
#define TREE_NODE_SILENT_S 60
#define TREE_NODE_PATIENCE_MS 3000 /* for a neighbour's lease to be seen */

struct tree_node;

/* Of this node; borrowed, and copied where it is kept. */
struct tree_node_self {
	const char *root;              /* site.repositories */
	const char *site;              /* site.name */
	const char *data;              /* site.data, which is there */
	const json_t *leases;          /* lease_settings_json() */
	struct lease_manager *manager; /* those; kept; NULL: there is none to ask */
};

/* Leaves the record, and judges all others that live. ERR_CONFIG: the leases of one of
 * them are not these. What cannot be written is logged, and tried again: a full disk
 * stops no node. */
int tree_node_enter(const struct tree_node_self *self, struct tree_node **node,
		    struct err *err);
void tree_node_leave(struct tree_node *node); /* NULL is allowed */

/* The same judgement without a record, for `check`, for a reload, and for a node that
 * writes nothing there. `say` (may be NULL) hears of each that lives and goes along;
 * *err has what is not certain, or class ERR_NONE. */
typedef void (*tree_node_seen)(void *arg, const char *who, const struct err *doubt);
int tree_node_check(const struct tree_node_self *self, tree_node_seen say, void *arg,
		    struct err *err);

/* Whether two records go along, ours first. 0; 1: it cannot be told, as *err says;
 * -1: ERR_CONFIG, which names both and the setting that differs. */
int tree_node_judge(const json_t *own, const json_t *other, struct err *err);

#endif
