/*
 * The role in which a data directory was used last. Copies that were originals meanwhile,
 * or the other way round, may differ from their rows in the database.
 */
#ifndef NODE_ROLE_H
#define NODE_ROLE_H

#include "report/verdict.h"
#include "store/store.h"

/* At the start of a node, before it acts in its role. One that became a primary gets a
 * new timeline for its events, so that readers of its older log compare everything. One
 * that became a secondary has all rows compared and verified anew, its cursor in the
 * primary's events reset, and what was still to be deleted forgotten. A standalone site
 * may have been either before. */
int role_begin(struct store *store, enum site_role role, struct err *err);

#endif
