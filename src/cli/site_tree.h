/*
 * Whether this site's node may work on its tree beside others (upkeep/tree_node.h).
 */
#ifndef CLI_SITE_TREE_H
#define CLI_SITE_TREE_H

#include "cli/site.h"
#include "upkeep/tree_node.h"

/* What the node of that site does there: it works on repositories under their leases, if
 * it keeps mirrors or is a primary. */
struct site_tree {
	const struct site *site;
	bool has_mirrors;
	struct lease_manager *leases; /* NULL: those are not asked */
};

/* A primary whose leases are `local` leaves no record: it may be one that writes nothing
 * there. *node is NULL then, and where there is nothing to be told. */
int site_tree_enter(const struct site_tree *tree, struct tree_node **node,
		    struct err *err);

/* As tree_node_check(). */
int site_tree_check(const struct site_tree *tree, tree_node_seen say, void *arg,
		    struct err *err);

#endif
