/*
 * The kinds with rows in a table, in byte order.
 */
#ifndef REPLICABLE_KIND_NAMES_H
#define REPLICABLE_KIND_NAMES_H

#include "base/vec.h"
#include "store/store.h"

typedef text_list kind_names;
#define AUTO_KIND_NAMES __attribute__((cleanup(kind_names_clear)))

void kind_names_clear(kind_names *kinds);

/* `next_sql` gives the first kind after ?1. Adds to *kinds. */
int kind_names_read(struct store_tx *tx, const char *next_sql, kind_names *kinds,
		    struct err *err);

#endif
