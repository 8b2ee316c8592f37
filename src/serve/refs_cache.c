/*
 * The cache of info/refs.
 *
 * A slot is a repository that was asked for. What it serves, its stand, is a pair that
 * never changes: a look, and a generation that was true at that look or came to be true
 * between it and now. Nothing is ever invalidated. Who asks takes a stand only with a
 * proof that it was true at some moment of his own call, one of these:
 *
 * 1. Check: the stand's look still stands (its directory is where it was, the watch has
 *    seen nothing), asked after the call began. So nothing has changed from the look to
 *    this moment. Only for a minute after the look.
 * 2. Look: a whole look that began after the call did, and that is the same as the
 *    stand's, or came before it (looks of a slot are numbered in the order in which they
 *    begin): the stand was true at that look, or at a later one.
 * 3. Flight: the same two reasons hold for the look from which a flight started; then
 *    what the flight brings, if it lands well, is as good as a stand.
 *
 * Why what a flight brings is true at its look (A). From git: A ended before git began to
 * read; a second look, after git ended, was the same: nothing changed between, so any
 * moment of it gives the same refs. If it is not the same, or says that a write is
 * pending, nothing is kept, and all who follow look again. From the disk: a file there is
 * named by the key and the fingerprint of a look (C) of some process, whose fingerprint
 * was settled, and at which its content was true. If A came later than C, their equal
 * fingerprints prove that nothing changed between. If A came earlier, the content is of
 * C, which is later than A and not later than now, and so after the calls that A is good
 * for began. Should something have changed between A and C unseen by fingerprints, the
 * watch has counted it, and A (whose fingerprint was not settled, or C's would differ)
 * is the same as no later look.
 *
 * What grows. A reader that streams gets git's own bytes as they come. Who has followed
 * by reason 3 knows that nothing changed from A to his own look; so each ref that git
 * read before that look was true at it too, and all others were read after it. If the
 * repository moves meanwhile, he gets all the same what git itself would have answered
 * him; it is kept by nobody.
 *
 * Interleavings:
 * - A flight is replaced by a newer one (the repository has changed): the older goes on
 *   for those who follow it and mostly finds that it has moved. Should it land well, what
 *   it brings is right for them, and its slot takes it unless it serves a later look.
 * - The slot gets the stand, or forgets the flight, before any follower is told: who
 *   comes back finds the outcome or starts anew. Both in one hold of the mutex: who comes
 *   between finds the one or the other.
 * - A stand is dropped for want of memory, or replaced, while it is checked or read:
 *   references keep it. Flights, looks and callers hold their slot, and slots that are
 *   held are not evicted.
 * - Close: its caller promises that no reader is left; flights are told to stop, and the
 *   last of their threads is joined before anything is freed.
 *
 * One mutex for all slots, held for some pointers and never across I/O; a flight has a
 * mutex of its own for its bytes. The two are never held at once.
 */
#include "serve/refs_cache.h"

#include <assert.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "serve/http_service.h"
#include "serve/refs_parts.h"

/*
 * Slots: one for each repository that was asked for lately. Whoever works on a slot holds
 * it (users), and only slots that nobody holds are freed; so what a flight or a look
 * works on cannot go away, while the stand in it can at any time: who serves from a
 * stand has a reference of his own.
 *
 * What is freed is gathered in a struct refs_waste and put away after the mutex was given
 * back, for that takes system calls (watches) and time (generations).
 */

#define SLOTS_LIMIT 4096

/* So long at most a watch alone is believed. */
#define CHECK_AGE_MS 60000

struct refs_observation *refs_observation_ref(struct refs_observation *observation)
{
	atomic_fetch_add(&observation->references, 1);
	return observation;
}

void refs_observation_unref(struct refs_observation *observation)
{
	if (!observation || atomic_fetch_sub(&observation->references, 1) > 1)
		return;
	observation_clear(&observation->look);
	free(observation);
}

static struct refs_stand *refs_stand_ref(struct refs_stand *stand)
{
	atomic_fetch_add(&stand->references, 1);
	return stand;
}

static void refs_stand_unref(struct refs_stand *stand)
{
	if (!stand || atomic_fetch_sub(&stand->references, 1) > 1)
		return;
	refs_observation_unref(stand->observation);
	generation_unref(stand->generation);
	free(stand);
}

static void slot_free(struct refs_slot *slot)
{
	assert(slot->users == 0 && !slot->flight && !slot->is_looking);
	inotify_disarm(slot->watch);
	refs_stand_unref(slot->stand);
	refs_observation_unref(slot->observation);
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
	for (size_t i = 0; i < waste->observations.count; i++)
		refs_observation_unref(waste->observations.items[i]);
	vec_clear(&waste->slots);
	vec_clear(&waste->stands);
	vec_clear(&waste->observations);
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

/* Frees what was not used since `before`, what is beyond the limits, and with INT64_MAX
 * all: then nobody may hold a slot any more. */
static void slots_trim_locked(struct refs_cache *cache, int64_t before,
			      struct refs_waste *waste)
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

static struct refs_slot *slot_acquire_locked(struct refs_cache *cache, const char *name,
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

/* The slot of that name, made if need be, held until it is released. One that holds
 * nothing of worth goes at once, so that names that do not exist take no room. */
static void slot_release_locked(struct refs_slot *slot, struct refs_waste *waste)
{
	assert(slot->users > 0);
	slot->users--;
	if (slot->users == 0 && !slot->stand && !slot->watch)
		evict_locked(slot, waste);
}

/* A reference to the stand, if it may be worth a check. */
static struct refs_stand *slot_checkable_locked(struct refs_slot *slot, int64_t now)
{
	const struct refs_stand *stand = slot->stand;

	if (!stand || !stand->observation->look.is_watched ||
	    now - stand->observation->began_ms > CHECK_AGE_MS)
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

static struct refs_stand *stand_new(struct refs_observation *observation,
				    struct generation *generation)
{
	struct refs_stand *stand = xcalloc(1, sizeof(*stand));

	atomic_init(&stand->references, 1);
	stand->observation = refs_observation_ref(observation);
	stand->generation = generation_ref(generation);
	if (fingerprint_is_settled(&observation->look.fingerprint))
		generation_settle(generation);
	return stand;
}

void slot_renew_locked(struct refs_slot *slot, struct refs_observation *observation,
		       struct refs_waste *waste)
{
	struct generation *generation = slot->stand->generation;

	if (slot->stand->observation->number >= observation->number)
		return;
	vec_add(&waste->stands, slot->stand);
	slot->stand = stand_new(observation, generation);
}

void slot_set_stand_locked(struct refs_slot *slot, struct refs_observation *observation,
			   struct generation *generation, struct refs_waste *waste)
{
	if (slot->stand)
		vec_add(&waste->stands, slot->stand);
	else
		slot->cache->stands++;
	slot->stand = stand_new(observation, generation);
	slot_weigh_locked(slot, waste);
}

/*
 * Whole looks, one at a time for a repository: they arm its watch, which is for one
 * thread. Many who ask at once share few: a look is good for all who came before it
 * began. Who comes while one is under way needs the next, and so do all who come with
 * him: with any number of them, each waits for two looks at most, one that had begun and
 * one that serves him.
 *
 * A look that its own caller has canceled is nobody else's: the next one looks himself.
 */

/* So long a pending write is waited for, as most last some milliseconds. */
#define PENDING_WAIT_MS 250

/* How soon who waits notices that he is to stop. */
#define NOTICE_MS 100

bool refs_observation_is_same(const struct refs_observation *before,
			      const struct refs_observation *after)
{
	return before->result == 0 && after->result == 0 &&
	       look_is_same(&before->look, &after->look);
}

static struct refs_observation *refs_observation_take(struct refs_slot *slot,
						      uint64_t number,
						      const struct stop *stop)
{
	struct refs_observation *observation = xcalloc(1, sizeof(*observation));

	atomic_init(&observation->references, 1);
	observation->number = number;
	observation->began_ms = clock_boot_ms();
	observation->result = look_take(
		&(struct look_request){
			.root = slot->cache->root,
			.name = slot->name,
			.inotify = slot->cache->inotify,
			.watch = &slot->watch,
			.pending_wait_ms = PENDING_WAIT_MS,
			.stop = stop,
		},
		&observation->look, &observation->err);
	if (observation->result == 0 && observation->look.is_closed)
		observation->result =
			http_service_closed(HTTP_SERVICE_READ, &observation->err);
	return observation;
}

static void count_recoveries(unsigned recovered)
{
	metric_add(metric_at(metric_counter(
			   "refrelay_refs_recoveries_total",
			   "Writers found dead, whose files were removed.")),
		   recovered);
}

static bool is_canceled(const struct refs_observation *observation)
{
	return observation->result != 0 && observation->err.class == ERR_CANCELED;
}

/* Waits until `slot->changed`; false: told to stop. */
static bool refs_observation_wait_locked(struct refs_slot *slot, const struct stop *stop)
{
	if (is_stopped(stop))
		return false;
	cond_wait_until(&slot->changed, &slot->cache->mutex, clock_boot_ms() + NOTICE_MS);
	return true;
}

/* Until somebody else's look that is good for us has ended (then a reference to it) or it
 * is for us to look (NULL). */
static int wait_for_look_locked(struct refs_slot *slot, const struct stop *stop,
				struct refs_observation **observation, struct err *err)
{
	uint64_t begun = slot->looks;

	*observation = NULL;
	for (;;) {
		if (slot->observation && slot->observation->number > begun) {
			*observation = refs_observation_ref(slot->observation);
			return 0;
		}
		if (!slot->is_looking)
			return 0;
		if (!refs_observation_wait_locked(slot, stop))
			return err_set(err, ERR_CANCELED, "stopped while waiting");
	}
}

static struct refs_observation *look_now(struct refs_slot *slot, uint64_t number,
					 const struct stop *stop)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	struct refs_cache *cache = slot->cache;
	struct refs_observation *observation = refs_observation_take(slot, number, stop);

	if (observation->look.recovered > 0)
		count_recoveries(observation->look.recovered);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);
	slot->is_looking = false;
	if (!is_canceled(observation)) {
		if (slot->observation)
			vec_add(&waste.observations, slot->observation);
		slot->observation = refs_observation_ref(observation);
	}
	pthread_cond_broadcast(&slot->changed);
	return observation;
}

int slot_look(struct refs_slot *slot, const struct stop *stop,
	      struct refs_observation **observation, struct err *err)
{
	uint64_t number;

	lock(&slot->cache->mutex);
	int result = wait_for_look_locked(slot, stop, observation, err);
	bool is_ours = result == 0 && !*observation;
	if (is_ours) {
		slot->is_looking = true;
		slot->looks++;
	}
	number = slot->looks;
	unlock(&slot->cache->mutex);
	if (result != 0)
		return -1;
	if (is_ours)
		*observation = look_now(slot, number, stop);
	if ((*observation)->result == 0)
		return 0;
	*err = (*observation)->err;
	refs_observation_unref(TAKE(*observation));
	return -1;
}

/*
 * Two have to let go of a flight before its thread can be joined: that thread, and the
 * one that has started it and still names it (loose).
 */

/* So long a generation is waited for before it is read as it grows. */
#define STREAM_AFTER_MS 100

/* How soon who waits notices that he is to stop. */

static struct refs_flight *refs_flight_new_locked(struct refs_slot *slot,
						  struct refs_observation *observation,
						  const struct fair_client *client)
{
	struct refs_flight *flight = xcalloc(1, sizeof(*flight));

	for (size_t i = 0; client && i < FAIR_NAMES; i++)
		if (client->names[i])
			flight->client[i] = xstrdup(client->names[i]);

	atomic_init(&flight->references, 2); /* the thread's and the caller's */
	flight->cache = slot->cache;
	flight->slot = slot;
	flight->observation = refs_observation_ref(observation);
	flight->began_ms = clock_boot_ms();
	flight->grown = (struct str)STR_INIT;
	mutex_init(&flight->mutex);
	cond_init(&flight->changed);
	slot->users++;
	slot->flight = flight;
	slot->cache->flying++;
	return flight;
}

static struct refs_flight *refs_flight_ref(struct refs_flight *flight)
{
	atomic_fetch_add(&flight->references, 1);
	return flight;
}

static void refs_flight_unref(struct refs_flight *flight)
{
	if (!flight || atomic_fetch_sub(&flight->references, 1) > 1)
		return;
	for (size_t i = 0; i < FAIR_NAMES; i++)
		free(flight->client[i]);
	refs_observation_unref(flight->observation);
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

/* Makes the flight from this look the slot's newest, with a reference for the caller, who
 * holds the slot; and starts it, after the mutex was given back. */
static void refs_flight_start(struct refs_flight *flight)
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

/* Waits for its end, or until it may be streamed. WELL: *generation is a reference;
 * FAILED: *err says why, ERR_CANCELED also if the caller was told to stop. */
static enum refs_landing refs_flight_wait(struct refs_flight *flight,
					  const struct refs_request *request,
					  struct generation **generation, struct err *err)
{
	int64_t stream_at =
		request->may_stream ? flight->began_ms + STREAM_AFTER_MS : INT64_MAX;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&flight->mutex);

	while (!flight->has_landed) {
		bool is_time = clock_boot_ms() >= stream_at;
		if (is_time && flight->len > 0)
			return REFS_LANDING_GROWING;
		if (refs_flight_wait_locked(flight, request->stop,
					    is_time ? INT64_MAX : stream_at, err) != 0)
			return REFS_LANDING_FAILED;
	}
	if (flight->landing == REFS_LANDING_FAILED)
		*err = flight->err;
	if (flight->landing == REFS_LANDING_WELL)
		*generation = generation_ref(flight->generation);
	return flight->landing;
}

/* Whether its generation came from the disk; once it has landed well. */
static bool refs_flight_is_from_disk(struct refs_flight *flight)
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

/* So often the refs may have moved while git read them, before git alone must answer. */
#define TRIES 3

/* A slot that nobody asks for so long is freed. */
#define IDLE_MS (10 * 60 * 1000)

static const struct inotify_limits inotify_limits = {
	.directories_each = 1024,
	.directories = 65536,
};

enum request_class {
	CLASS_HIT,
	CLASS_DISK,
	CLASS_MISS,
	CLASS_SHARED,
	CLASS_BYPASS, /* and on: CLASS_BYPASS + enum bypass */
	CLASS_COUNT = (int)CLASS_BYPASS + (int)BYPASS_COUNT,
};

#define BYPASSED(why) ((int)CLASS_BYPASS + (int)(why))

static struct metric_series *refs_cache_find_series(enum refs_kind kind, unsigned class)
{
	static const char *const kinds[] = {
		[REFS_INFO] = "info_refs",
		[REFS_LS] = "ls_refs",
	};
	static const char *const classes[CLASS_COUNT] = {
		[CLASS_HIT] = "hit",
		[CLASS_DISK] = "disk",
		[CLASS_MISS] = "miss",
		[CLASS_SHARED] = "shared",
		[CLASS_BYPASS] = "bypass",
		[BYPASSED(BYPASS_PENDING)] = "bypass_pending",
		[BYPASSED(BYPASS_UNSETTLED)] = "bypass_unsettled",
		[BYPASSED(BYPASS_CONFIG)] = "bypass_config",
		[BYPASSED(BYPASS_UNWRITABLE)] = "bypass_unwritable",
		[BYPASSED(BYPASS_MOVING)] = "bypass_moving",
		[BYPASSED(BYPASS_UNREADABLE)] = "bypass_unreadable",
	};
	struct metric *metric =
		metric_counter("refrelay_refs_requests_total",
			       "Requests for refs, by what answered.", "kind", "class");

	return metric_at(metric, kinds[kind], classes[class]);
}

static void refs_cache_count_request(enum refs_kind kind, unsigned class)
{
	static _Atomic(struct metric_series *) known[REFS_LS + 1][CLASS_COUNT];
	struct metric_series *series = atomic_load(&known[kind][class]);

	if (!series) {
		series = refs_cache_find_series(kind, class);
		atomic_store(&known[kind][class], series);
	}
	metric_add(series, 1);
}

/* So that all are there from the start. */
static void refs_cache_begin_metrics(struct refs_cache *cache)
{
	for (unsigned class = 0; class < CLASS_COUNT; class ++) {
		if (class == CLASS_BYPASS)
			continue; /* there is always a reason */
		refs_cache_find_series(REFS_INFO, class);
		refs_cache_find_series(REFS_LS, class);
	}
	count_recoveries(0);
	refs_count_mismatches(0);
	lock(&cache->mutex);
	show_memory_locked(cache);
	unlock(&cache->mutex);
}

struct refs_cache *refs_cache_open(const struct refs_cache_options *options)
{
	struct refs_cache *cache = xcalloc(1, sizeof(*cache));

	cache->root = xstrdup(options->root);
	cache->inotify = inotify_open(&inotify_limits, ERR_IGNORED);
	cache->disk_cache = disk_cache_open(options->settings->directory,
					    &options->settings->disk_cache);
	cache->capabilities = capabilities_new();
	cache->fills = options->slots;
	cache->memory_limit = options->settings->memory;
	cache->timeout_ms = options->settings->timeout_ms;
	stop_init(&cache->stop);
	mutex_init(&cache->mutex);
	cond_init(&cache->landed);
	TAILQ_INIT(&cache->used);
	TAILQ_INIT(&cache->over);
	refs_cache_begin_metrics(cache);
	return cache;
}

static void free_slots(struct refs_cache *cache)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);

	while (cache->flying > 0)
		cond_wait_until(&cache->landed, &cache->mutex, INT64_MAX);
	slots_trim_locked(cache, INT64_MAX, &waste);
}

void refs_cache_close(struct refs_cache *cache)
{
	if (!cache)
		return;
	stop_request(&cache->stop);
	free_slots(cache);
	refs_flights_reap(cache);
	map_clear(&cache->by_name);
	capabilities_free(cache->capabilities);
	disk_cache_close(cache->disk_cache);
	inotify_close(cache->inotify);
	pthread_cond_destroy(&cache->landed);
	pthread_mutex_destroy(&cache->mutex);
	stop_clear(&cache->stop);
	free(cache->root);
	free(cache);
}

void refs_cache_set(struct refs_cache *cache, const struct serve_settings *settings)
{
	AUTO_WASTE struct refs_waste waste = { 0 };

	disk_cache_set_limits(cache->disk_cache, &settings->disk_cache);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);
	cache->memory_limit = settings->memory;
	cache->timeout_ms = settings->timeout_ms;
	slots_trim_locked(cache, 0, &waste);
}

void refs_cache_sweep(struct refs_cache *cache, const struct stop *stop)
{
	AUTO_WASTE struct refs_waste waste = { 0 };

	refs_flights_reap(cache);
	lock(&cache->mutex);
	slots_trim_locked(cache, clock_boot_ms() - IDLE_MS, &waste);
	unlock(&cache->mutex);
	disk_cache_sweep(cache->disk_cache, stop);
}

static void answer_generation(struct refs_answer *answer, const struct look *look,
			      struct generation *generation)
{
	answer->generation = generation;
	answer->path = xstrdup(look->path);
}

/* Reason 1: a reference to what is served; its path only where it is asked for. If there
 * is nothing, the slot comes back held, for the other two. */
static struct refs_slot *try_check(struct refs_cache *cache, const char *name,
				   struct generation **generation, char **path)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	int64_t now = clock_boot_ms();
	struct refs_slot *slot;
	struct refs_stand *stand;

	lock(&cache->mutex);
	slot = slot_acquire_locked(cache, name, now, &waste);
	stand = slot_checkable_locked(slot, now);
	unlock(&cache->mutex);
	if (!stand)
		return slot;

	bool stands = look_still_stands(&stand->observation->look, slot->watch);
	if (stands)
		*generation = generation_ref(stand->generation);
	if (stands && path)
		*path = xstrdup(stand->observation->look.path);
	refs_stand_unref(stand);
	if (!stands)
		return slot;
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);
	slot_release_locked(slot, &waste);
	return NULL;
}

/* Where a look leads: to a stand, as a reference to its generation, or to a flight. */
struct lead {
	struct generation *generation;
	struct refs_flight *flight;
	bool is_new; /* the flight is the caller's to start */
};

static bool is_good_for(const struct refs_observation *observation,
			const struct refs_observation *mine)
{
	return observation->number >= mine->number ||
	       refs_observation_is_same(observation, mine);
}

static struct lead find_lead(struct refs_slot *slot, struct refs_observation *observation,
			     const struct fair_client *client)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	AUTO_UNLOCK pthread_mutex_t *held = lock(&slot->cache->mutex);
	struct lead lead = { 0 };

	if (slot->stand && is_good_for(slot->stand->observation, observation)) {
		lead.generation = generation_ref(slot->stand->generation);
		slot_renew_locked(slot, observation, &waste);
	} else if (slot->flight && is_good_for(slot->flight->observation, observation)) {
		lead.flight = refs_flight_ref(slot->flight);
	} else {
		lead.flight = refs_flight_new_locked(slot, observation, client);
		lead.is_new = true;
	}
	return lead;
}

static unsigned refs_cache_class_of(const struct lead *lead)
{
	if (!lead->is_new)
		return CLASS_SHARED;
	return refs_flight_is_from_disk(lead->flight) ? CLASS_DISK : CLASS_MISS;
}

static void answer_bypass(const struct refs_request *request, const struct look *look,
			  enum bypass bypass, struct refs_answer *answer)
{
	answer->bypass = bypass;
	answer->path = xstrdup(look->path);
	refs_cache_count_request(request->kind, (unsigned)BYPASSED(bypass));
}

/* 1: there is an answer; 0: the repository has moved; -1: an error. */
static int refs_cache_follow_flight(const struct lead *lead,
				    const struct refs_request *request,
				    struct refs_answer *answer, struct err *err)
{
	const struct look *look = &lead->flight->observation->look;
	struct generation *generation = NULL;

	switch (refs_flight_wait(lead->flight, request, &generation, err)) {
	case REFS_LANDING_MOVED:
		return 0;
	case REFS_LANDING_UNREADABLE:
		answer_bypass(request, look, BYPASS_UNREADABLE, answer);
		return 1;
	case REFS_LANDING_FAILED:
		return -1;
	case REFS_LANDING_GROWING:
		answer->growing = refs_flight_ref(lead->flight);
		answer->path = xstrdup(look->path);
		break;
	case REFS_LANDING_WELL:
		answer_generation(answer, look, generation);
		break;
	}
	refs_cache_count_request(request->kind, refs_cache_class_of(lead));
	return 1;
}

/* Reasons 2 and 3. 1: there is an answer; 0: it has moved; -1: an error. */
static int try_look(struct refs_slot *slot, const struct refs_request *request,
		    bool is_last, struct refs_answer *answer, struct err *err)
{
	AUTO_OBSERVATION struct refs_observation *observation = NULL;
	int result = 1;

	if (slot_look(slot, request->stop, &observation, err) != 0)
		return -1;
	if (observation->look.bypass != BYPASS_NONE) {
		answer_bypass(request, &observation->look, observation->look.bypass,
			      answer);
		return 1;
	}

	struct lead lead = find_lead(slot, observation, request->client);
	if (lead.generation) {
		answer_generation(answer, &observation->look, lead.generation);
		refs_cache_count_request(request->kind, CLASS_HIT);
		return 1;
	}
	if (lead.is_new)
		refs_flight_start(lead.flight);
	result = refs_cache_follow_flight(&lead, request, answer, err);
	refs_flight_unref(lead.flight);
	if (result != 0 || !is_last)
		return result;
	answer_bypass(request, &observation->look, BYPASS_MOVING, answer);
	return 1;
}

struct generation *refs_cache_hit(struct refs_cache *cache, const char *name,
				  enum refs_kind kind)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	struct generation *generation = NULL;
	struct refs_slot *slot = try_check(cache, name, &generation, NULL);

	if (!slot) {
		refs_cache_count_request(kind, CLASS_HIT);
		return generation;
	}
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);
	slot_release_locked(slot, &waste);
	return NULL;
}

int refs_cache_get(struct refs_cache *cache, const struct refs_request *request,
		   struct refs_answer *answer, struct err *err)
{
	AUTO_WASTE struct refs_waste waste = { 0 };
	struct refs_slot *slot;
	int result = 0;

	*answer = (struct refs_answer){ 0 };
	slot = try_check(cache, request->name, &answer->generation, &answer->path);
	if (!slot) {
		refs_cache_count_request(request->kind, CLASS_HIT);
		return 0;
	}
	for (int i = 1; i <= TRIES && result == 0; i++)
		result = try_look(slot, request, i == TRIES, answer, err);
	AUTO_UNLOCK pthread_mutex_t *held = lock(&cache->mutex);
	slot_release_locked(slot, &waste);
	return result < 0 ? -1 : 0;
}

void refs_answer_clear(struct refs_answer *answer)
{
	generation_unref(answer->generation);
	refs_flight_unref(answer->growing);
	free(answer->path);
	*answer = (struct refs_answer){ 0 };
}
