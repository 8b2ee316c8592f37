#include "cli/site_tree.h"

static bool site_tree_is_worked_on(const struct site_tree *tree)
{
	return tree->site->role == SITE_PRIMARY ||
	       (tree->site->role == SITE_STANDALONE && tree->has_mirrors);
}

static bool site_tree_is_told(const struct site_tree *tree)
{
	return tree->has_mirrors || tree->site->lease.backend != LEASE_LOCAL;
}

static json_t *site_tree_leases(const struct site *site)
{
	return lease_settings_json(
		&site->lease,
		&(struct lease_place){ .site = site->name,
				       .repositories = site->repositories });
}

/* Leases of this machine tell nothing of others'. */
static struct tree_node_self site_tree_self(const struct site_tree *tree,
					    const json_t *leases)
{
	const struct site *site = tree->site;

	return (struct tree_node_self){ .root = site->repositories,
					.site = site->name,
					.data = site->data,
					.leases = leases,
					.manager = site->lease.backend != LEASE_LOCAL
							   ? tree->leases
							   : NULL };
}

int site_tree_enter(const struct site_tree *tree, struct tree_node **node,
		    struct err *err)
{
	json_auto_t *leases = site_tree_leases(tree->site);
	const struct tree_node_self self = site_tree_self(tree, leases);

	*node = NULL;
	if (!site_tree_is_worked_on(tree))
		return 0;
	return site_tree_is_told(tree) ? tree_node_enter(&self, node, err)
				       : tree_node_check(&self, NULL, NULL, err);
}

int site_tree_check(const struct site_tree *tree, tree_node_seen say, void *arg,
		    struct err *err)
{
	json_auto_t *leases = site_tree_leases(tree->site);
	const struct tree_node_self self = site_tree_self(tree, leases);

	return site_tree_is_worked_on(tree) ? tree_node_check(&self, say, arg, err) : 0;
}
