/*
 * Whether this site's node may work on its tree next to other nodes (upkeep/tree_node.h).
 */
#ifndef CLI_SITE_TREE_H
#define CLI_SITE_TREE_H

#include "cli/site.h"
#include "upkeep/tree_node.h"

/* The site whose node works on the tree: on repositories under their leases, if it keeps
 * mirrors or is a primary. */
struct site_tree {
	const struct site *site;
	bool has_mirrors;
	struct lease_manager *leases; /* NULL: leases are not queried */
};

/* A primary whose leases are `local` leaves no record: perhaps it never writes there.
 * *node is then NULL, and also where no record is needed. */
int site_tree_enter(const struct site_tree *tree, struct tree_node **node,
		    struct err *err);

/* As tree_node_check(). */
int site_tree_check(const struct site_tree *tree, tree_node_seen say, void *arg,
		    struct err *err);

#endif
