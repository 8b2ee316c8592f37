/*
 * Slots: one for each repository that was asked for lately. Whoever works on a slot holds
 * it (users), and only slots that nobody holds are freed; so what a flight or a look
 * works on cannot go away, while the stand in it can at any time: who serves from a
 * stand has a reference of his own.
 *
 * What is freed is gathered in a struct refs_waste and put away after the mutex was given
 * back, for that takes system calls (watches) and time (generations).
 */
#include <assert.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "serve/refs_parts.h"

#define SLOTS_LIMIT 4096

/* So long at most a watch alone is believed. */
#define CHECK_AGE_MS 60000

struct refs_sight *refs_sight_ref(struct refs_sight *sight)
{
	atomic_fetch_add(&sight->references, 1);
	return sight;
}

void refs_sight_unref(struct refs_sight *sight)
{
	if (!sight || atomic_fetch_sub(&sight->references, 1) > 1)
		return;
	observation_clear(&sight->look);
	free(sight);
}

struct refs_stand *refs_stand_ref(struct refs_stand *stand)
{
	atomic_fetch_add(&stand->references, 1);
	return stand;
}

void refs_stand_unref(struct refs_stand *stand)
{
	if (!stand || atomic_fetch_sub(&stand->references, 1) > 1)
		return;
	refs_sight_unref(stand->sight);
	generation_unref(stand->generation);
	free(stand);
}

static void slot_free(struct refs_slot *slot)
{
	assert(slot->users == 0 && !slot->flight && !slot->is_looking);
	inotify_disarm(slot->watch);
	refs_stand_unref(slot->stand);
	refs_sight_unref(slot->sight);
	pthread_cond_destroy(&slot->changed);
	free(slot->failure);
	free(slot->name);
	free(slot);
}

void refs_waste_clear(struct refs_waste *waste)
{
	for (size_t i = 0; i < waste->slots.count; i++)
		slot_free(waste->slots.items[i]);
	for (size_t i = 0; i < waste->stands.count; i++)
		refs_stand_unref(waste->stands.items[i]);
	for (size_t i = 0; i < waste->sights.count; i++)
		refs_sight_unref(waste->sights.items[i]);
	vec_clear(&waste->slots);
	vec_clear(&waste->stands);
	vec_clear(&waste->sights);
}

static void show_memory_locked(struct refs_cache *cache)
{
	metric_set(metric_at(metric_gauge("refrelay_refs_memory_bytes",
					  "Memory that generations of refs take.")),
		   (double)cache->memory);
	metric_set(metric_at(metric_gauge("refrelay_refs_generations",
					  "Generations of refs in memory.")),
		   (double)cache->stands);
}

static void drop_stand_locked(struct refs_slot *slot, struct refs_waste *waste)
{
	if (!slot->stand)
		return;
	vec_add(&waste->stands, TAKE(slot->stand));
	slot->cache->stands--;
	slot->cache->memory -= slot->size;
	slot->size = 0;
	show_memory_locked(slot->cache);
}

static void evict_locked(struct refs_slot *slot, struct refs_waste *waste)
{
	assert(slot->users == 0);
	drop_stand_locked(slot, waste);
	map_remove(&slot->cache->by_name, slot->name);
	TAILQ_REMOVE(&slot->cache->used, slot, link);
	vec_add(&waste->slots, slot);
}

/* Least recently used go first; where somebody works, only what is served goes. */
static void bound_memory_locked(struct refs_cache *cache, struct refs_waste *waste)
{
	struct refs_slot *slot = TAILQ_FIRST(&cache->used);

	while (slot && cache->memory > cache->memory_limit) {
		struct refs_slot *next = TAILQ_NEXT(slot, link);
		if (slot->stand && slot->users > 0)
			drop_stand_locked(slot, waste);
		else if (slot->stand)
			evict_locked(slot, waste);
		slot = next;
	}
}

static void bound_count_locked(struct refs_cache *cache, struct refs_waste *waste)
{
	struct refs_slot *slot = TAILQ_FIRST(&cache->used);

	while (slot && cache->by_name.count > SLOTS_LIMIT) {
		struct refs_slot *next = TAILQ_NEXT(slot, link);
		if (slot->users == 0)
			evict_locked(slot, waste);
		slot = next;
	}
}

void slots_trim_locked(struct refs_cache *cache, int64_t before, struct refs_waste *waste)
{
	struct refs_slot *slot = TAILQ_FIRST(&cache->used);

	while (slot && slot->asked_ms < before) {
		struct refs_slot *next = TAILQ_NEXT(slot, link);
		if (slot->users == 0)
			evict_locked(slot, waste);
		slot = next;
	}
	bound_memory_locked(cache, waste);
	bound_count_locked(cache, waste);
}

static struct refs_slot *refs_slot_make_locked(struct refs_cache *cache, const char *name)
{
	struct refs_slot *slot = xcalloc(1, sizeof(*slot));

	slot->cache = cache;
	slot->name = xstrdup(name);
	cond_init(&slot->changed);
	map_put(&cache->by_name, name, slot);
	TAILQ_INSERT_TAIL(&cache->used, slot, link);
	return slot;
}

struct refs_slot *slot_acquire_locked(struct refs_cache *cache, const char *name,
				      int64_t now, struct refs_waste *waste)
{
	struct refs_slot *slot = map_get(&cache->by_name, name);

	if (!slot) {
		slot = refs_slot_make_locked(cache, name);
		slot->users++;
		bound_count_locked(cache, waste);
	} else {
		slot->users++;
		TAILQ_REMOVE(&cache->used, slot, link);
		TAILQ_INSERT_TAIL(&cache->used, slot, link);
	}
	slot->asked_ms = now;
	return slot;
}

/* One that holds nothing of worth goes at once, so that names that do not exist take no
 * room. */
void slot_release_locked(struct refs_slot *slot, struct refs_waste *waste)
{
	assert(slot->users > 0);
	slot->users--;
	if (slot->users == 0 && !slot->stand && !slot->watch)
		evict_locked(slot, waste);
}

struct refs_stand *slot_checkable_locked(struct refs_slot *slot, int64_t now)
{
	const struct refs_stand *stand = slot->stand;

	if (!stand || !stand->sight->look.is_watched ||
	    now - stand->sight->began_ms > CHECK_AGE_MS)
		return NULL;
	return refs_stand_ref(slot->stand);
}

void slot_weigh_locked(struct refs_slot *slot, struct refs_waste *waste)
{
	struct refs_cache *cache = slot->cache;
	size_t size = generation_size(slot->stand->generation);

	cache->memory += size - slot->size;
	slot->size = size;
	/* Not all others shall go for one that cannot stay. */
	if (size > cache->memory_limit)
		drop_stand_locked(slot, waste);
	bound_memory_locked(cache, waste);
	show_memory_locked(cache);
}

static struct refs_stand *stand_new(struct refs_sight *sight,
				    struct generation *generation)
{
	struct refs_stand *stand = xcalloc(1, sizeof(*stand));

	atomic_init(&stand->references, 1);
	stand->sight = refs_sight_ref(sight);
	stand->generation = generation_ref(generation);
	return stand;
}

void slot_renew_locked(struct refs_slot *slot, struct refs_sight *sight,
		       struct refs_waste *waste)
{
	struct generation *generation = slot->stand->generation;

	if (slot->stand->sight->number >= sight->number)
		return;
	vec_add(&waste->stands, slot->stand);
	slot->stand = stand_new(sight, generation);
}

void slot_set_stand_locked(struct refs_slot *slot, struct refs_sight *sight,
			   struct generation *generation, struct refs_waste *waste)
{
	if (slot->stand)
		vec_add(&waste->stands, slot->stand);
	else
		slot->cache->stands++;
	slot->stand = stand_new(sight, generation);
	slot_weigh_locked(slot, waste);
}
