/*
 * The one hash map: text keys (copied) to pointers (borrowed). For one thread at a time.
 * Zero-initialised is empty.
 */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include "base/base.h"

struct map_entry {
	char *key; /* owned; NULL: free slot */
	void *value;
};

struct map {
	struct map_entry *entries; /* a power of two, at most 2/3 in use */
	size_t count;
	size_t capacity;
};

/* Frees the keys and the table, not the values. */
void map_clear(struct map *map);

/* The same where it owns the values. */
void map_clear_owned(struct map *map);

/* The value, or NULL. NULL values look like absent ones. */
void *map_get(const struct map *map, const char *key);

/* Sets the value and returns the one before, or NULL. */
void *map_put(struct map *map, const char *key, void *value);

/* Removes the key and returns its value, or NULL. */
void *map_remove(struct map *map, const char *key);

/* The hash of a key: another one in each process. Nobody outside can make keys that
 * collide. */
size_t map_hash(const char *key);

/* Walks in arbitrary order: start with *at = 0; NULL at the end. The map must not
 * change. */
const struct map_entry *map_next(const struct map *map, size_t *at);

#endif
