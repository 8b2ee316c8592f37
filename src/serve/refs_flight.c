/*
 * Two have to let go of a flight before its thread can be joined: that thread, and the
 * one that has started it and still names it (loose).
 */
#include "serve/refs_flight.h"

#include "base/clock.h"
#include "base/log.h"

/* So long a generation is waited for before it is read as it grows. */
#define STREAM_AFTER_MS 100

/* How soon who waits notices that he is to stop. */
#define NOTICE_MS 100

struct refs_flight *refs_flight_new_locked(struct refs_slot *slot,
					   struct refs_sight *sight)
{
	struct refs_flight *flight = xcalloc(1, sizeof(*flight));

	atomic_init(&flight->references, 2); /* the thread's and the caller's */
	flight->cache = slot->cache;
	flight->slot = slot;
	flight->sight = refs_sight_ref(sight);
	flight->began_ms = clock_boot_ms();
	flight->grown = (struct str)STR_INIT;
	mutex_init(&flight->mutex);
	cond_init(&flight->changed);
	slot->users++;
	slot->flight = flight;
	slot->cache->flying++;
	return flight;
}

struct refs_sight *refs_flight_sight(const struct refs_flight *flight)
{
	return flight->sight;
}

struct refs_flight *refs_flight_ref(struct refs_flight *flight)
{
	atomic_fetch_add(&flight->references, 1);
	return flight;
}

void refs_flight_unref(struct refs_flight *flight)
{
	if (!flight || atomic_fetch_sub(&flight->references, 1) > 1)
		return;
	refs_sight_unref(flight->sight);
	generation_unref(flight->generation);
	str_clear(&flight->grown);
	pthread_cond_destroy(&flight->changed);
	pthread_mutex_destroy(&flight->mutex);
	free(flight);
}

/* The second of the two who let go hands it to whoever joins. */
static void let_go_locked(struct refs_flight *flight)
{
	struct refs_cache *cache = flight->cache;

	if (++flight->loose < 2)
		return;
	TAILQ_INSERT_TAIL(&cache->over, flight, link);
	cache->flying--;
	pthread_cond_broadcast(&cache->landed);
}

static void *refs_flight_run_thread(void *arg)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	struct refs_flight *flight = arg;

	log_set_context((struct log_context){ .repo = flight->slot->name });
	refs_flight_fly(flight);
	log_set_context((struct log_context){ 0 });
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flight->cache->mutex);
	slot_release_locked(TAKE(flight->slot), &waste);
	let_go_locked(flight);
	return NULL;
}

void refs_flight_start(struct refs_flight *flight)
{
	struct refs_cache *cache = flight->cache;

	refs_flights_reap(cache);
	thread_start(&flight->thread, "refs", refs_flight_run_thread, flight);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);
	let_go_locked(flight);
}

void refs_flights_reap(struct refs_cache *cache)
{
	struct refs_flights over = TAILQ_HEAD_INITIALIZER(over);
	struct refs_flight *flight;

	lock(&cache->mutex);
	TAILQ_CONCAT(&over, &cache->over, link);
	unlock(&cache->mutex);
	while ((flight = TAILQ_FIRST(&over)) != NULL) {
		TAILQ_REMOVE(&over, flight, link);
		thread_join(flight->thread);
		refs_flight_unref(flight);
	}
}

/* Waits until something changed, but no longer than until `until`. */
static int refs_flight_wait_locked(struct refs_flight *flight, const struct stop *stop,
				   int64_t until, struct err *err)
{
	int64_t notice = clock_boot_ms() + NOTICE_MS;

	if (is_stopped(stop))
		return err_set(err, ERR_CANCELED, "stopped while refs were read");
	cond_wait_until(&flight->changed, &flight->mutex,
			notice < until ? notice : until);
	return 0;
}

enum refs_landing refs_flight_wait(struct refs_flight *flight,
				   const struct refs_follow *follow,
				   struct generation **generation, struct err *err)
{
	int64_t stream_at =
		follow->may_stream ? flight->began_ms + STREAM_AFTER_MS : INT64_MAX;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flight->mutex);

	while (!flight->has_landed) {
		bool is_time = clock_boot_ms() >= stream_at;
		if (is_time && flight->len > 0)
			return REFS_LANDING_GROWING;
		if (refs_flight_wait_locked(flight, follow->stop,
					    is_time ? INT64_MAX : stream_at, err) != 0)
			return REFS_LANDING_FAILED;
	}
	if (flight->landing == REFS_LANDING_FAILED)
		*err = flight->err;
	if (flight->landing == REFS_LANDING_WELL)
		*generation = generation_ref(flight->generation);
	return flight->landing;
}

bool refs_flight_is_from_disk(struct refs_flight *flight)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flight->mutex);

	return flight->is_from_disk;
}

ssize_t refs_flight_read(struct refs_flight *flight, size_t at, void *buffer, size_t size,
			 const struct stop *stop)
{
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flight->mutex);

	while (at >= flight->len && !flight->is_whole) {
		if (flight->has_landed ||
		    refs_flight_wait_locked(flight, stop, INT64_MAX, ERR_IGNORED) != 0)
			return -1;
	}
	if (at >= flight->len)
		return 0;
	if (size > flight->len - at)
		size = flight->len - at;
	memcpy(buffer, flight->data + at, size);
	return (ssize_t)size;
}
