/*
 * The table of kinds: how each is read from the configuration, and the primary's half and
 * the copies' half of each configured kind.
 */
#ifndef PULL_KINDS_H
#define PULL_KINDS_H

#include "replicable/kind.h"

/* Reads all kinds that the configuration names, and checks them. ERR_CONFIG names the
 * key. The caller clears in any case. */
int kinds_read(const struct conf *conf, struct kinds_here *here, struct err *err);
void kinds_clear(struct kinds_here *here);
#define AUTO_KINDS __attribute__((cleanup(kinds_clear)))

/* ERR_CONFIG: the directory of a kind, or site.data, is that of another or below it.
 * Directories need not exist. */
int kinds_check_places(const struct conf *conf, const struct kinds_here *here,
		       struct err *err);

/* As kinds_next(), but only kinds with a half for copies. */
const struct kind *kinds_next_copied(const struct kinds_here *here,
				     const struct kind *before);

/* Fills in some of them without a configuration: those of that root, which may be NULL,
 * and of here->blobs. The caller clears. */
void kinds_fill(struct kinds_here *here, const char *root);

/* Fills in mirrors only, whose rows are stored beside the repositories'. The caller
 * clears. */
void kinds_fill_mirrors(struct kinds_here *here, const char *root);

#endif
