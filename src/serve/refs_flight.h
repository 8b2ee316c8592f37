/*
 * A flight: one generator of one generation, on a thread of its own, and all who follow
 * it. For serve/refs_*.c only; any thread.
 */
#ifndef SERVE_REFS_FLIGHT_H
#define SERVE_REFS_FLIGHT_H

#include "serve/refs_parts.h"

enum refs_landing {
	REFS_LANDING_WELL,       /* the generation was true at the flight's look */
	REFS_LANDING_MOVED,      /* the repository has changed meanwhile: look again */
	REFS_LANDING_UNREADABLE, /* git has answered, but not what is understood here */
	REFS_LANDING_FAILED,     /* with an error */
	REFS_LANDING_GROWING,    /* not landed yet, and it may be read as it grows */
};

struct refs_flight {
	atomic_uint references;
	struct refs_cache *cache;
	struct refs_slot *slot; /* held until the thread ends */
	struct refs_sight *sight;
	int64_t began_ms;
	pthread_t thread;
	TAILQ_ENTRY(refs_flight) link; /* guarded by cache->mutex */
	unsigned loose;                /* guarded by cache->mutex */

	pthread_mutex_t mutex;
	pthread_cond_t changed;
	/* All below is guarded by mutex. */
	bool has_landed;
	bool is_from_disk;
	bool is_whole; /* `data` has all of it */
	enum refs_landing landing;
	struct err err;                /* if it failed */
	struct generation *generation; /* as soon as it is whole */
	struct str grown;              /* what git has said so far */
	const char *data;              /* that, or the same in the generation */
	size_t len;
};

/* Makes the flight from this look the slot's newest, with a reference for the caller, who
 * holds the slot; and starts it, after the mutex was given back. */
struct refs_flight *refs_flight_new_locked(struct refs_slot *slot,
					   struct refs_sight *sight);
void refs_flight_start(struct refs_flight *flight);

struct refs_sight *refs_flight_sight(const struct refs_flight *flight); /* borrowed */
struct refs_flight *refs_flight_ref(struct refs_flight *flight);
void refs_flight_unref(struct refs_flight *flight); /* NULL is allowed */

struct refs_follow {
	bool may_stream;
	const struct stop *stop;
};

/* Waits for its end, or until it may be streamed. WELL: *generation is a reference;
 * FAILED: *err says why, ERR_CANCELED also if the caller was told to stop. */
enum refs_landing refs_flight_wait(struct refs_flight *flight,
				   const struct refs_follow *follow,
				   struct generation **generation, struct err *err);

/* Whether its generation came from the disk; once it has landed well. */
bool refs_flight_is_from_disk(struct refs_flight *flight);

/* What its thread does. */
void refs_flight_fly(struct refs_flight *flight);

/* Joins the threads of flights that are over. */
void refs_flights_reap(struct refs_cache *cache);

#endif
