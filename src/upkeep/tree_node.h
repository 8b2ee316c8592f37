/*
 * The nodes that work on a tree of repositories. Several may, each with its own data
 * directory, if they share their leases: else two of them would work on one repository at
 * once. So each leaves its record in the tree itself, <root>/.refrelay/nodes/<32 digits>:
 * one object of JSON, flocked as long as the node lives, and stamped again every ten
 * seconds. A node whose leases differ from those of a living one does not start.
 *
 * A node of this boot counts as living while its record is flocked, even if it is silent;
 * any other one while its record was stamped within the last minute, by the clock of the
 * file system. A record of the same data directory never counts as another node's.
 *
 * A lease that each node holds while it runs, site:tree:<id>, shows whether two texts of
 * lease.url or lease.path mean the same place, and whether one path is the same directory
 * at both: if a neighbour's is not held, its leases are kept elsewhere.
 */
#ifndef UPKEEP_TREE_NODE_H
#define UPKEEP_TREE_NODE_H

#include "base/base.h"
#include "base/json.h"
#include "lease/lease.h"

#define TREE_NODE_BEAT_MS 10000
#define TREE_NODE_SILENT_S 60
#define TREE_NODE_PATIENCE_MS 3000 /* for a neighbour's lease to appear */

struct tree_node;

/* This node's data; borrowed, and copied if kept. */
struct tree_node_self {
	const char *root;              /* site.repositories */
	const char *site;              /* site.name */
	const char *data;              /* site.data, which must exist */
	const json_t *leases;          /* lease_settings_json() */
	struct lease_manager *manager; /* of these leases; kept; NULL: not available */
};

/* Leaves the record, and judges all other living nodes. ERR_CONFIG: the leases of one of
 * them differ. A failure to write is logged, and retried: a full disk does not stop a
 * node. */
int tree_node_enter(const struct tree_node_self *self, struct tree_node **node,
		    struct err *err);
void tree_node_leave(struct tree_node *node); /* NULL is allowed */

/* The same judgement without a record, for `check`, for a reload, and for a node that
 * does not write there. `say` (may be NULL) is called for each living, compatible node;
 * its *doubt says what is uncertain, or has class ERR_NONE. */
typedef void (*tree_node_seen)(void *arg, const char *who, const struct err *doubt);
int tree_node_check(const struct tree_node_self *self, tree_node_seen say, void *arg,
		    struct err *err);

/* Whether two records are compatible, ours first. 0: yes; 1: uncertain, as *err says; -1:
 * ERR_CONFIG, which names both and the setting that differs. */
int tree_node_judge(const json_t *own, const json_t *other, struct err *err);

#endif
