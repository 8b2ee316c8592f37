/*
 * Small texts that a site stores about itself, by name: the event log's timeline, the
 * cursor, when the primary was last heard from. Functions that take a transaction are for
 * works inside store_write() or store_read().
 */
#ifndef STORE_SITE_VALUE_H
#define STORE_SITE_VALUE_H

#include "base/base.h"
#include "base/str.h"
#include "store/store.h"

/* Appends it to *out. 1: found; 0: not found; -1: *err. */
int site_value_get(struct store_tx *tx, const char *key, struct str *out,
		   struct err *err);
int site_value_set(struct store_tx *tx, const char *key, const char *value,
		   struct err *err);

/* The same in transactions of their own. */
int site_value_read(struct store *store, const char *key, struct str *out,
		    struct err *err);
int site_value_write(struct store *store, const char *key, const char *value,
		     struct err *err);

int site_value_set_number(struct store_tx *tx, const char *key, int64_t value,
			  struct err *err);
int site_value_remove(struct store_tx *tx, const char *key, struct err *err);

/* Adds to a counter, and reads it. Call it in the same transaction as the counted
 * change. */
int counter_add(struct store_tx *tx, const char *kind, const char *what, int64_t by,
		struct err *err);
int counter_remove(struct store_tx *tx, const char *kind, const char *what,
		   struct err *err);
int counter_get(struct store_tx *tx, const char *kind, const char *what, int64_t *value,
		struct err *err);

#endif
