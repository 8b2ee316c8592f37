/*
 * Shared by the parts of the info/refs cache; refs_cache.c explains how it works and why
 * it is correct. For serve/refs_*.c only.
 */
#ifndef SERVE_REFS_PARTS_H
#define SERVE_REFS_PARTS_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "base/map.h"
#include "base/vec.h"
#include "serve/refs_cache.h"
#include "serve/refs_generate.h"

/* A whole look, shared by requests. Immutable once it is published. */
struct refs_observation {
	atomic_uint references;
	uint64_t number;  /* of its slot's looks, from 1 */
	int64_t began_ms; /* clock_boot_ms() */
	int result;       /* of look_take */
	struct err err;   /* if that is -1 */
	struct look look;
};

/* A generation that was true at a look, or became true between that look and now.
 * Immutable. */
struct refs_stand {
	atomic_uint references;
	struct refs_observation *observation;
	struct generation *generation;
};

void refs_observation_unref(struct refs_observation *observation);
struct refs_observation *refs_observation_ref(struct refs_observation *observation);

static inline void auto_observation(struct refs_observation *const *observation)
{
	refs_observation_unref(*observation);
}
#define AUTO_OBSERVATION __attribute__((cleanup(auto_observation)))

/* Whether a change between two looks is ruled out; both may be of any result. */
bool refs_observation_is_same(const struct refs_observation *before,
			      const struct refs_observation *after);

struct refs_slot {
	struct refs_cache *cache;
	char *name;
	pthread_cond_t changed; /* a look has ended */
	/* Set by the first look, and constant until the slot is freed: so all threads may
	 * use it once there is a stand whose look was watched. */
	struct inotify_watch *watch;
	/* All below is guarded by cache->mutex. */
	TAILQ_ENTRY(refs_slot) link;
	int64_t asked_ms; /* when it was last requested */
	size_t users;     /* its holders: requests and flights */
	bool is_looking;
	uint64_t looks;                       /* that have begun */
	struct refs_observation *observation; /* the last look that has ended */
	struct refs_stand *stand;             /* what is served, or NULL */
	size_t size;                /* of the stand, as counted in cache->memory */
	struct refs_flight *flight; /* the newest running one, or NULL; borrowed */
	char *failure;              /* the last flight's failure, if it was logged */
};

TAILQ_HEAD(refs_slots, refs_slot);
TAILQ_HEAD(refs_flights, refs_flight);

struct refs_cache {
	char *root;
	struct inotify *inotify; /* NULL: not available on this machine */
	struct disk_cache *disk_cache;
	struct capabilities *capabilities;
	struct slots *fills; /* borrowed */
	struct stop stop;    /* of flights */
	pthread_mutex_t mutex;
	pthread_cond_t landed; /* `flying` has decreased */
	struct map by_name;    /* guarded by mutex; all slots */
	struct refs_slots
		used;    /* guarded by mutex; all slots, least recently used first */
	size_t stands;   /* guarded by mutex */
	uint64_t memory; /* guarded by mutex; of all stands */
	uint64_t memory_limit; /* guarded by mutex */
	int64_t timeout_ms;    /* guarded by mutex */
	size_t flying;         /* guarded by mutex; flights not yet in `over` */
	struct refs_flights
		over; /* guarded by mutex; flights whose threads must be joined */
};

/* Objects to be freed after the mutex was released: declare it before the lock. */
struct refs_waste {
	VEC(struct refs_slot *) slots;
	VEC(struct refs_stand *) stands;
	VEC(struct refs_observation *) observations;
};
#define AUTO_WASTE __attribute__((cleanup(refs_waste_clear)))
void refs_waste_clear(struct refs_waste *waste);

/* Serves this from now on, within the memory limit. */
void slot_set_stand_locked(struct refs_slot *slot, struct refs_observation *observation,
			   struct generation *generation, struct refs_waste *waste);

/* The same generation was found true again, later. */
void slot_renew_locked(struct refs_slot *slot, struct refs_observation *observation,
		       struct refs_waste *waste);

/* Recounts the stand's memory. */
void slot_weigh_locked(struct refs_slot *slot, struct refs_waste *waste);

/* A whole look that began after this call, one at a time. -1, *observation NULL: it
 * failed, or was stopped. */
int slot_look(struct refs_slot *slot, const struct stop *stop,
	      struct refs_observation **observation, struct err *err);

/* Counts changes that hooks did not report; also 0, at the start. */
void refs_count_mismatches(unsigned count);

static inline bool is_stopped(const struct stop *stop)
{
	return stop && stop_is_requested(stop);
}

#endif
