/*
 * Open addressing with linear probing. Removal shifts the entries behind it back, so
 * there are no tombstones and a look-up ends at the first free place.
 */
#include "base/map.h"

#include <pthread.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Keys may be names of refs that a stranger has made up: whoever knows the hash finds
 * thousands that fall on one place. */
static unsigned char map_secret[XXH3_SECRET_SIZE_MIN];
static pthread_once_t map_secret_once = PTHREAD_ONCE_INIT;

static void map_make_secret(void)
{
	if (getrandom(map_secret, sizeof(map_secret), 0) != (ssize_t)sizeof(map_secret))
		abort();
}

size_t map_hash(const char *key)
{
	pthread_once(&map_secret_once, map_make_secret);
	return (size_t)XXH3_64bits_withSecret(key, strlen(key), map_secret,
					      sizeof(map_secret));
}

/* The entry with this key, or the free place where it belongs. */
static struct map_entry *map_find_entry(const struct map *map, const char *key)
{
	size_t mask = map->capacity - 1, at = map_hash(key) & mask;

	while (map->entries[at].key && strcmp(map->entries[at].key, key) != 0)
		at = (at + 1) & mask;
	return &map->entries[at];
}

static void map_grow(struct map *map)
{
	struct map bigger = { .capacity = map->capacity ? 2 * map->capacity : 16 };

	bigger.entries = xcalloc(bigger.capacity, sizeof(*bigger.entries));
	bigger.count = map->count;
	for (size_t i = 0; i < map->capacity; i++)
		if (map->entries[i].key)
			*map_find_entry(&bigger, map->entries[i].key) = map->entries[i];
	free(map->entries);
	*map = bigger;
}

void map_clear(struct map *map)
{
	for (size_t i = 0; i < map->capacity; i++)
		free(map->entries[i].key);
	free(map->entries);
	*map = (struct map){ 0 };
}

void map_clear_owned(struct map *map)
{
	for (size_t i = 0; i < map->capacity; i++)
		free(map->entries[i].value);
	map_clear(map);
}

void *map_get(const struct map *map, const char *key)
{
	return map->capacity ? map_find_entry(map, key)->value : NULL;
}

void *map_put(struct map *map, const char *key, void *value)
{
	if (3 * (map->count + 1) > 2 * map->capacity)
		map_grow(map);

	struct map_entry *entry = map_find_entry(map, key);
	void *before = entry->value;
	if (!entry->key) {
		entry->key = xstrdup(key);
		map->count++;
	}
	entry->value = value;
	return before;
}

void *map_remove(struct map *map, const char *key)
{
	if (map->capacity == 0)
		return NULL;

	struct map_entry *entry = map_find_entry(map, key);
	void *value = entry->value;
	if (!entry->key)
		return NULL;
	free(entry->key);
	*entry = (struct map_entry){ 0 };
	map->count--;

	size_t mask = map->capacity - 1, hole = (size_t)(entry - map->entries);
	for (size_t at = (hole + 1) & mask; map->entries[at].key; at = (at + 1) & mask) {
		size_t home = map_hash(map->entries[at].key) & mask;
		if (((at - home) & mask) < ((at - hole) & mask))
			continue; /* it would come before its home */
		map->entries[hole] = map->entries[at];
		map->entries[at] = (struct map_entry){ 0 };
		hole = at;
	}
	return value;
}

const struct map_entry *map_next(const struct map *map, size_t *at)
{
	while (*at < map->capacity) {
		const struct map_entry *entry = &map->entries[(*at)++];
		if (entry->key)
			return entry;
	}
	return NULL;
}
