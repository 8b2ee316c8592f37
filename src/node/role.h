/*
 * The role in which a data directory was used last. Copies that were originals meanwhile,
 * or the other way round, are not what the database says of them.
 */
#ifndef NODE_ROLE_H
#define NODE_ROLE_H

#include "report/verdict.h"
#include "store/store.h"

/* At the start of a node, before anything is done in its role. Who was a secondary and is
 * a primary gets a new timeline for its events, so that whoever read an older log of its
 * compares everything. Who was a primary and is a secondary has all rows compared and
 * verified anew, and its position in the primary's events forgotten. */
int role_begin(struct store *store, enum site_role role, struct err *err);

#endif
