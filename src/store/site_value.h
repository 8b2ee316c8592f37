/*
 * Small texts that a site remembers of itself, by name: the event log's timeline, the
 * cursor, when the primary was heard of last. For works inside store_write() or
 * store_read().
 */
#ifndef STORE_SITE_VALUE_H
#define STORE_SITE_VALUE_H

#include "base/base.h"
#include "base/str.h"
#include "store/store.h"

/* Appends it to *out. 1: it is there; 0: not; -1: *err. */
int site_value_get(struct store_tx *tx, const char *key, struct str *out,
		   struct err *err);
int site_value_set(struct store_tx *tx, const char *key, const char *value,
		   struct err *err);
int site_value_set_number(struct store_tx *tx, const char *key, int64_t value,
			  struct err *err);
int site_value_remove(struct store_tx *tx, const char *key, struct err *err);

/* Adds to a counter, and reads it. Kept in the same transaction as what is counted. */
int counter_add(struct store_tx *tx, const char *kind, const char *what, int64_t by,
		struct err *err);
int counter_remove(struct store_tx *tx, const char *kind, const char *what,
		   struct err *err);
int counter_get(struct store_tx *tx, const char *kind, const char *what, int64_t *value,
		struct err *err);

#endif
