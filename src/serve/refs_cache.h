/*
 * The info/refs cache: the present generation of the refs of each requested repository.
 * Never stale: the result was true at some moment after the call began.
 *
 * One generator per generation, on its own thread, at the speed of the disk: all readers
 * follow it, but cannot slow it down, and may leave at any time. Generations in memory
 * are bounded, least recently used ones are dropped first; on disk see
 * serve/disk_cache.h. Any thread.
 *
 * Source: seed 003.
 */
#ifndef SERVE_REFS_CACHE_H
#define SERVE_REFS_CACHE_H

#include "base/base.h"
#include "base/thread.h"
#include "serve/generation.h"
#include "serve/look.h"
#include "serve/refs_parts.h"
#include "serve/settings.h"
#include "serve/slots.h"

struct refs_cache;

struct refs_cache_options {
	const char *root;                      /* site.repositories; copied */
	const struct serve_settings *settings; /* borrowed for the call */
	struct slots *slots;                   /* for generators; borrowed */
};

struct refs_cache *refs_cache_open(const struct refs_cache_options *options);
void refs_cache_close(struct refs_cache *cache); /* all readers must have left */
void refs_cache_set(struct refs_cache *cache, const struct serve_settings *settings);

enum refs_kind { REFS_INFO, REFS_LS }; /* as counted in metrics */

struct refs_answer {
	/* One of these three: */
	struct generation *generation; /* a reference */
	struct refs_flight *growing; /* a reference; info/refs of protocol 0 or 1 only */
	enum bypass bypass;          /* git itself must answer */
	char *path;                  /* of the repository on disk; owned */
};

struct refs_request {
	const char *name;                 /* of the repository */
	const struct fair_client *client; /* for its share of the generators, which do not
					     borrow it; may be NULL */
	enum refs_kind kind;
	bool may_stream; /* a generation that takes longer than 100 ms may be read while
			    it grows */
	const struct stop *stop;
};

/* ERR_MISSING: repository not found; ERR_BUSY: too many requests now. */
int refs_cache_get(struct refs_cache *cache, const struct refs_request *request,
		   struct refs_answer *answer, struct err *err);

/* A reference to the generation, if it is in memory and can be proven current without
 * examining the repository, thus without waiting for a disk; else NULL. */
struct generation *refs_cache_hit(struct refs_cache *cache, const char *name,
				  enum refs_kind kind);
void refs_answer_clear(struct refs_answer *answer);

/* Bytes of a growing generation from `at` on, without the service line; waits for at
 * least one. 0: its end; -1: it broke off. */
ssize_t refs_flight_read(struct refs_flight *flight, size_t at, void *buffer, size_t size,
			 const struct stop *stop);

/* Frees memory that was not used for a while, and sweeps the disk. Call it
 * periodically. */
void refs_cache_sweep(struct refs_cache *cache, const struct stop *stop);

/*
 * A flight: one generator of one generation, on its own thread, and all its readers. For
 * serve/refs_*.c only; any thread.
 */

enum refs_landing {
	REFS_LANDING_WELL,       /* the generation was true at the flight's look */
	REFS_LANDING_MOVED,      /* the repository has changed meanwhile: try again */
	REFS_LANDING_UNREADABLE, /* git's answer is not understood here */
	REFS_LANDING_FAILED,     /* with an error */
	REFS_LANDING_GROWING,    /* not landed yet; may be read as it grows */
};

struct refs_flight {
	atomic_uint references;
	struct refs_cache *cache;
	struct refs_slot *slot; /* held until the thread ends */
	struct refs_observation *observation;
	char *client[FAIR_NAMES]; /* for which it began; owned, or NULL */
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
	struct str grown;              /* git's output so far */
	const char *data;              /* that, or the same in the generation */
	size_t len;
};

/* The body of its thread. */
void refs_flight_fly(struct refs_flight *flight);

/* Joins the threads of flights that have ended. */
void refs_flights_reap(struct refs_cache *cache);

#endif
